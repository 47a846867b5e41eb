from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ol2r_cli import __version__
from ol2r_cli.cli import main
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.run.run import find_runs
from ol2r_cli.text.program import as_called, commands
from tests import cases
from tests.finished import printed, refused
from tests.program import ROOT, python
from tests.report.runs import make

HEAVY = {"torch", "sklearn", "scipy", "polars", "numpy"}


def imported(*arguments: str, cwd: Path) -> tuple[set[str], str]:
    """The modules that `ol2r ARGUMENTS` imports, and what it prints on a terminal of 80 columns."""
    done = python("-X", "importtime", "-m", "ol2r_cli", *arguments, folder=cwd, COLUMNS="80")
    assert done.returncode == 0, done.stderr[-2000:]
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}, done.stdout


def test_help_imports_nothing_heavy(tmp_path, capsys):
    modules, out = imported("--help", cwd=tmp_path)
    assert main(["help"]) == 0
    assert capsys.readouterr().out.split() == out.split()
    texts = []
    for words in ["run", "--help"], ["help", "run"]:
        with pytest.raises(SystemExit):
            main(words)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "ol2r_cli.cli" in modules
    assert not modules & (HEAVY | {"hydra", "omegaconf", "rich", "yaml"})
    for command in commands():
        assert f"\n  {command} " in out
    assert out.index("\n  report ") < out.index("\nother commands:") < out.index("\n  search ")
    assert max(map(len, out.splitlines())) <= 80


def test_the_first_screen_says_what_to_type(capsys, on_terminal):
    """On 24 lines of 80 columns: for whom it is, every command, and words that ol2r takes."""
    on_terminal(80)
    assert main([]) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert len(shown.splitlines()) <= 24
    assert max(map(len, shown.splitlines())) <= 80
    words = re.split(r"[\s,]+", shown)
    assert all(part in words for command in commands() for part in command.split())
    first = shown.partition("what to type first:\n")[2].partition("\n\n")[0].splitlines()
    typed = [re.split(r"\s{2,}", line.strip())[0].partition("ol2r ")[2].split() for line in first]
    assert len(typed) >= 5
    for command, *arguments in typed:
        assert command in commands()
        if command == "run" and "FOLDER" not in " ".join(arguments):
            assert main(["run", *arguments, "--dry-run", "output_dir=nowhere"]) == 0


@pytest.mark.parametrize(
    ("command", "told", "needed"),
    [
        ("list click", "click=perfect", set()),
        ("status", "3 finished", set()),
        ("report", "3 runs", {"numpy", "scipy"}),
        ("run --help", "rounds=", set()),
        ("run --cfg job click=nav", "ranker:\n  _target_: ol2r_cli.ranker.pairrank.PairwiseRanker", {"hydra"}),
    ],
)
def test_what_is_read_imports_neither_torch_nor_tables(outputs, command, told, needed):
    modules, out = imported(*command.split(), cwd=outputs.parent)
    assert modules & (HEAVY | {"hydra", "rich", "scipy.stats"}) <= needed
    assert told in out
    assert list(outputs.parent.iterdir()) == [outputs], "nothing is written"


@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("list fairness", ""),
        ("list", ""),
        ("benchmark claims PairRank", "claims.yaml"),
        ("clean", "--help)"),
        ("data info dataset=synthetic dataset.features=90", ""),
    ],
)
def test_sentences_are_wrapped_between_words_on_a_terminal(tmp_path, capsys, monkeypatch, on_terminal, command, last):
    monkeypatch.chdir(tmp_path)
    on_terminal(80)
    (tmp_path / "outputs").mkdir()
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed(capsys, *command.split()))
    assert max(len(line) for line in text.splitlines() if "claims.yaml" not in line) <= 80
    assert text.rstrip().endswith(last)


def test_the_help_of_run_names_every_choice_and_true_defaults(tmp_path, capsys, monkeypatch):
    """And is short."""
    shown = {}
    for columns in 82, 122:  # of which argparse leaves two free
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit):
            main(["run", "--help"])
        shown[columns] = capsys.readouterr().out
        assert max(map(len, shown[columns].splitlines())) <= columns - 2
    out, catalogue = shown[122], Catalogue()
    assert len(out.splitlines()) <= 55
    for group in catalogue.groups:
        (told,) = re.findall(rf"^{group}: ((?:.|\n  )*)", out, re.MULTILINE)  # a long line goes on, indented
        assert re.split(r",\s+", told) == sorted(catalogue.choices[group])
    (told,) = [line for line in out.splitlines() if line.strip().startswith("rounds=")]
    pairs = dict(word.split("=") for word in told.split() if "=" in word)
    written = {setting.name: setting.default for setting in catalogue.root.settings}
    assert pairs == {name: written[name] for name in pairs}


@pytest.mark.parametrize(
    ("git", "told"),
    [
        (None, ""),
        ({"commit": "0123456789", "dirty": False}, " (commit 0123456)"),
        ({"commit": "0123456789", "dirty": True}, " (commit 0123456, modified)"),
    ],
    ids=["no checkout", "checkout", "modified checkout"],
)
def test_the_version_has_the_commit_of_a_checkout(capsys, monkeypatch, git, told):
    monkeypatch.setattr("ol2r_cli.run.versions.checkout", lambda: git)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ol2r {__version__}{told}\n"


UNKNOWN = f"""
xyz | choose from {", ".join(commands())}; or its plug-in is not installed
statsu | did you mean ol2r status?
--verson | did you mean ol2r --version?
compare | type ol2r report --compare all
resume | type the command of the run again, which goes on from its checkpoint: `ol2r status` shows it
–version | it has a hyphen of typography, type --version
"""


@pytest.mark.parametrize(("word", "advice"), cases.lines(UNKNOWN))
def test_an_unknown_command_is_one_line_and_2(capsys, word, advice):
    assert main([word]) == 2
    assert capsys.readouterr() == ("", f"ol2r: no command '{word}': {advice}\n")


CALLED = """
.venv/bin/ol2r |  | .venv/bin/ol2r
HERE/.venv/bin/ol2r | other | .venv/bin/ol2r
HERE/.venv/bin/ol2r | .venv/bin | ol2r
HERE/.venv/bin/ol2r | linked | ol2r
../my env/ol2r |  | '../my env/ol2r'
removed/ol2r | .venv/bin | removed/ol2r
/usr/lib/python3/ipykernel_launcher.py |  | ol2r
ol2r_cli/__main__.py |  | ol2r
"""


@pytest.mark.parametrize(("called", "path", "typed"), cases.lines(CALLED))
def test_commands_begin_with_the_program_as_it_was_called(tmp_path, capsys, monkeypatch, called, path, typed):
    """After `make run` no environment is active: a shell has no `ol2r`, or that of another one."""
    for folder in (".venv/bin", "other"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "ol2r").touch(0o755)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "ol2r").symlink_to(tmp_path / ".venv/bin/ol2r")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [called.replace("HERE", str(tmp_path))])
    monkeypatch.setenv("PATH", str(tmp_path / path) if path else "")
    assert refused(capsys, "status").endswith(f"which does not exist: start a run with `{typed} run`")
    assert f"  {typed} run dataset=mq2008 dataset.path=$HOME/MQ2008" in printed(capsys, "help")
    assert as_called("an ol2r of `ol2r list`, my-ol2r list") == f"an ol2r of `{typed} list`, my-ol2r list"


@pytest.mark.parametrize("command", commands())
def test_every_command_has_help_and_answers_a_slip_in_one_line(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"ol2r {command}" in capsys.readouterr().out
    refused(capsys, command, "--nonsense")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    """A folder with three runs."""
    folder = tmp_path_factory.mktemp("runs") / "outputs"
    for number in range(3):
        make(folder, test={number: 0.5})
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "report --metric test_ndcg_10 OUTPUTS",
        "report --metric test_ndcg_10 OUTPUTS ranker=pairrank",
        "report OUTPUTS --metric test_ndcg_10 ranker=pairrank --json",
        "report --select validation --keep ranker.l2 OUTPUTS",
        "report --name pairrank=ours OUTPUTS",
        "diff --metric test_ndcg_10 RUN OTHER",
        "clean --state failed OUTPUTS",
    ],
)
def test_words_behind_an_option_are_not_taken_for_names(outputs, capsys, words):
    """Folders and settings of runs that stand behind the names of an option."""
    run, other, *_ = find_runs(outputs)
    places = {"OUTPUTS": outputs, "RUN": run, "OTHER": other}
    assert printed(capsys, *(places.get(word, word) for word in words.split()))


MISTYPED = """
report OUTPUTS --metric test_ndgc_10 | --metric test_ndgc_10: did you mean test_ndcg_10?
report OUTPUTS --metric ranker=pdgd test_ndcg_10 | ranker
report --figure learning_curve --option ranker=pdgd | settings of runs stand before --option
clean --state faild | invalid choice: 'faild'
bench --replicas x | --replicas
report —metric test_ndcg_10 | —metric has a hyphen of typography: type --metric
"""


@pytest.mark.parametrize(("words", "told"), cases.lines(MISTYPED))
def test_a_mistyped_word_behind_an_option_is_named(outputs, capsys, words, told):
    assert told in refused(capsys, *words.replace("OUTPUTS", str(outputs)).split())


def test_windows_is_answered_by_one_line_that_says_wsl(tmp_path):
    """In a process that has none of the modules which only Unix has."""
    script = (
        "import sys; sys.modules.update(dict.fromkeys(('fcntl', 'grp', 'pty', 'pwd', 'resource', 'termios', 'tty')));"
        "from ol2r_cli.cli import main; print(main([]), main(['--version']), main(['run', 'rounds=5']))"
    )
    done = python("-c", script, folder=tmp_path)
    assert done.stdout == "2 2 2\n", done.stderr
    line = "ol2r runs on Linux and macOS; on Windows type wsl --install, and install it inside WSL\n"
    assert done.stderr == 3 * line


@pytest.mark.parametrize("words", ["list", "run rounds=5", "status", "help", ""])
def test_a_removed_working_folder_is_one_line(tmp_path, capsys, monkeypatch, words):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"ol2r: there is no working folder \(.*\): type cd FOLDER first\n", err)


@pytest.mark.parametrize(
    "words",
    [
        *("status NAME", "report NAME", "report --metric NAME", "new ranker NAME", "run --config-dir NAME"),
        *("data check dataset=letor dataset.path=NAME", "verify NAME", "clean NAME"),
    ],
)
def test_a_name_that_no_file_can_have_is_one_line(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    assert not refused(capsys, *words.replace("NAME", 300 * "a").split()).startswith("ol2r"), "another command"


@pytest.mark.parametrize("columns", ["1", "2", "3"])
def test_a_terminal_of_a_column_is_no_error(outputs, capsys, monkeypatch, columns):
    """Help is for forty columns or more; the terminal breaks its lines."""
    monkeypatch.setenv("COLUMNS", columns)
    for words in ["status", outputs], ["report", outputs], ["list", "ranker", "pdgd"]:
        assert printed(capsys, *words), words
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    told = capsys.readouterr().out + printed(capsys, "help")
    assert "one experiment" in told
    assert max(map(len, told.splitlines())) <= 40


@pytest.mark.parametrize(
    ("arguments", "buffered", "code"),
    [
        *(("list", "", 141), ("list", "1", 141), ("run --cfg job", "", 141), ("run --help", "", 141)),
        *(("new ranker mine", "", 141), ("verify no", "1", 2)),  # commands that say what is wrong with files
    ],
)
def test_nobody_reads_along(tmp_path, arguments, buffered, code):
    """Python notices it when it writes, or at the end. The code is that of a program which SIGPIPE ends."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": buffered}
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "ol2r_cli", *arguments.split()]
    pipes = {"stdout": writing, "stderr": subprocess.PIPE, "text": True}
    done = subprocess.run(command, env=env, cwd=tmp_path, timeout=60, **pipes)
    os.close(writing)
    assert (done.stderr.count("\n"), done.returncode) == (1 if code == 2 else 0, code), done.stderr
    assert (tmp_path / "choices" / "mine.py").is_file() == arguments.startswith("new")


def interruptible():
    """Let a process notice Ctrl-C also if the tests run in the background, where it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_while_modules_are_imported_is_one_line():
    """As an exception it could become another one, or abort the process, depending on the import that it meets."""
    code = """
import os, signal
from ol2r_cli.run import exits_when_interrupted
with exits_when_interrupted():
    pass
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("as before", flush=True)
with exits_when_interrupted():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:
        raise RuntimeError("in a class body") from error
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, preexec_fn=interruptible
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "as before\n", "interrupted\n")


def test_ctrl_c_in_executed_text_has_the_same_code(tmp_path):
    """As while a dataclass is made: CPython remembers such an interruption, and would end the process with SIGINT."""
    code = """
import sys, types
from ol2r_cli import cli
command = types.SimpleNamespace(main=lambda: lambda _: exec("raise KeyboardInterrupt"), packages={})
cli.commands = lambda: {"run": command}
sys.exit(cli.main(["run"]))
"""
    (tmp_path / "interrupted.py").write_text(code)  # python -c would end in another way
    ended = python("-m", "interrupted", folder=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0])
def test_ctrl_c_at_any_moment_is_one_line(tmp_path, pause):
    command = [sys.executable, "-m", "ol2r_cli", "run", "experiment=smoke", "rounds=100000", f"output_dir={tmp_path}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, preexec_fn=interruptible, **pipes) as process:
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors[:11], errors.count("\n")) == (130, "interrupted", 1), errors
