"""What a command prints where stdout or stderr is closed, on a full disk, without a reader, or of ASCII only."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ol2r_cli.text import terminal
from tests.worlds import TINY

ROOT = Path(__file__).parents[2]
FULL = Path("/dev/full")
COMMAND = """
import sys, types
from ol2r_cli import cli

def main(words):
    print("mean ± 0.1 · ü", flush="unbuffered" in words)
    print("a line for the log: ü", file=sys.stderr)
    open("beside", "w").write("kept")
    return int(words[0])

cli.commands = lambda: dict.fromkeys(("run", "search", "list"), types.SimpleNamespace(main=lambda: main, packages={}))
sys.exit(cli.main())
"""
LOG = "a line for the log: ü"


def command(tmp_path: Path, *words: str, closed: tuple[int, ...] = (), **settings: object) -> tuple[int, str, str]:
    """The exit code of a command that prints a line on both streams and returns a number, and what they received."""
    variables = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **settings.pop("env", {})}  # type: ignore[arg-type]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}

    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    script = tmp_path / "command.py"
    script.write_text(COMMAND, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), *words], cwd=tmp_path, env=os.environ | variables, preexec_fn=close, **pipes
    )
    assert (tmp_path / "beside").read_text() == "kept", "no text of a stream whose descriptor it had"
    return done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode()


no_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")


@pytest.mark.parametrize(
    ("closed", "target", "reason"),
    [((1,), os.devnull, "Bad file descriptor"), pytest.param((), FULL, "No space left on device", marks=no_full)],
    ids=["closed", "full"],
)
@pytest.mark.parametrize(
    ("words", "code"), [("run 0", 2), ("run 0 unbuffered", 2), ("search 3", 3), ("list 0", 2)], ids=str
)
def test_what_cannot_be_printed_is_no_success(tmp_path, closed, target, reason, words, code):
    """The code is not 0, and that of a command that has failed before is its own."""
    with open(target, "w") as stdout:
        found = command(tmp_path, *words.split(), closed=closed, stdout=stdout)
    assert found == (code, "", f"{LOG}\nol2r {words.split()[0]}: what it prints cannot be written ({reason})\n")


@pytest.fixture
def unread():
    """A pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_ends_as_usual_where_nobody_reads_stderr(tmp_path, code, unread):
    usual = code, "mean ± 0.1 · ü\n", ""
    assert command(tmp_path, "run", str(code), closed=(2,)) == usual
    assert command(tmp_path, "run", str(code), stderr=unread) == usual
    assert command(tmp_path, "run", str(code), closed=(0, 1, 2)) == (code or 2, "", "")
    if FULL.exists():
        with FULL.open("w") as full:
            assert command(tmp_path, "run", str(code), stderr=full) == usual


@pytest.mark.parametrize(("unbuffered", "stream"), [("", "stderr"), ("1", "stderr"), ("1", "stdout")])
def test_lines_come_at_once_in_an_unbuffered_process(tmp_path, unbuffered, stream):
    """As without PYTHONUNBUFFERED, a line on stderr is there before the process goes on; here it is killed."""
    code = (
        "import os, sys; from ol2r_cli.text.terminal import printing\nwith printing():\n"
        f"    print('a line', file=sys.{stream})\n    os._exit(0)"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout + done.stderr == "a line\n"


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["by Python's variable", "by the locale"],
)
def test_characters_that_a_stream_lacks_are_printed_in_others(tmp_path, variables):
    found = command(tmp_path, "run", "0", env=variables)
    assert found == (0, "mean +- 0.1 - \\xfc\n", "a line for the log: \\xfc\n")


@no_full
def test_a_run_whose_summary_cannot_be_printed_is_finished(tmp_path):
    words = ["run", *TINY, "rounds=2", "output_dir=outputs"]
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ol2r_cli", *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.endswith("ol2r run: what it prints cannot be written (No space left on device)\n")
    (manifest,) = tmp_path.glob("outputs/*/*/run.json")
    assert json.loads(manifest.read_text())["status"] == "finished"


class Terminal(io.StringIO):
    """A stream that is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_long_task_shows_how_much_of_it_is_done(monkeypatch, stream):
    """On a terminal in one line, after a second; elsewhere in a line every 30 seconds; and nothing of a short task."""
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", stderr := stream())
    with terminal.share_shown("parsing", 200) as show:
        for second in range(1, 91):
            now[0] += 0.9 if second == 1 else 1
            show(second)
        show(200)
    written = stderr.getvalue()
    if stream is Terminal:
        assert written.count("\r") == 89 + 1
        assert written.startswith("\rparsing: 1 %\x1b[K\rparsing: 1 %\x1b[K\rparsing: 2 %")
        assert written.endswith("\rparsing: 45 %\x1b[K\r\x1b[K"), "the line goes when the task ends"
    else:
        assert written == "parsing: 15 %\nparsing: 30 %\n"
    with terminal.share_shown("short", 200) as show:
        show(100)
    assert stderr.getvalue() == written
