"""Commands that Markdown pages print, typed as printed: in one shell for each page, in a folder of its own.

What a page may have:

- `    $ COMMAND` and below it what COMMAND prints, in a block that is indented by four blanks. It is executed, and its
  output compared. Without output below it, it only has to end with exit code 0. Output that begins with `ol2r ` is
  that of a command that fails. A line `..` stands for any number of lines, and ` ..` at the end of a line for the rest
  of it. A command goes on after a backslash or a `|` at the end of its line. Variables and folders last to the end of
  the page: `export OL2R_DATA=$HOME/data`.
- Other indented blocks: nothing is executed. `ol2r run` is composed (`--dry-run`), so that it cannot name what an
  `ol2r new` of the page writes; of other commands the options have to exist, and the targets of `make` and the extras
  of `pip install`. A command with `..`, `[`, `|` or a name in capitals, such as FOLDER, is a synopsis, of which only
  the command has to exist.
- `<!-- file: PATH -->` above a block or a fence: the block is what the reader writes into this file.
- `<!-- needs: MQ2008 -->` above a block: it is left out where `$HOME/data` has no MQ2008; likewise of other data.
- `<!-- not run: REASON -->` above a block: nothing is done with it.
- `<!-- slow: MINUTES -->`: from here to the end of the page, commands with `$` are executed among the long tests
  (`make test-all`) only. Commands that take more than ten seconds stand below it.

The other comments stand above one block, with at most a blank line in between. In output, times, speeds, sizes and
dates may differ, and numbers with a decimal point by 5 % or .02, because processors round otherwise. All else is equal,
ids too. Stdout is a terminal of 120 columns; stderr is compared where a command fails.

`python -m tests.pages PAGE ..` prints what the commands of pages print here; with `--write` it replaces the outputs
that differ and have no `..`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ol2r_cli.commands.command import Subcommand
from ol2r_cli.text.program import commands

ROOT = Path(__file__).parents[1]
COLUMNS = 120
_COMMENT = re.compile(r"<!-- (file|needs|not run|slow): (.*?) -->")
_STYLE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")  # of a terminal, such as bold
_END = "\x1e"  # before the exit code of each command
_VARIES = [  # what may differ between two runs of a command
    (re.compile(r", (\d+m )?[\d.]+ ?\w+ to start"), ""),  # of a slow start
    (re.compile(r"\d[\d,.]* rounds/s|\d[\d,]*\.\d(?= +\d[\d.]* ?(?:ms|s|min|h)\b)"), "SPEED"),
    (re.compile(r"(?:\d+ ?(?:d|h|m|min),? )*\d[\d,.]* ?(?:ms|s|m|min|h|seconds|minutes|hours)\b"), "TIME"),
    (re.compile(r"\d[\d,.]* [kMGT]?B\b"), "SIZE"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?"), "DATE"),
]
_DECIMAL = re.compile(r"[-+]?(?:\d[\d,]*)?\.\d+(?:e[-+]?\d+)?")
_PLACEHOLDER = re.compile(r"\.\.|[\[|]|(?<!\$)\b[A-Z]{3,}\b(?![\w=])")


@dataclass
class Typed:
    """A command of a page with a `$`: its text, the lines shown below it, and the number of the first of these."""

    command: str
    shown: list[str]
    number: int


@dataclass
class Block:
    """Lines of code of a page, the number of the first, and the comments above them by their kind."""

    number: int
    lines: list[str]
    comments: dict[str, str] = field(default_factory=dict)
    is_slow: bool = False

    def typed(self) -> list[Typed]:
        """Return its commands with a `$`."""
        found: list[Typed] = []
        goes_on = False
        for number, line in enumerate(self.lines, self.number):
            if goes_on:
                found[-1].command += f"\n{line}"
                found[-1].number = number + 1
            elif line.startswith("$ "):
                found.append(Typed(line[2:], [], number + 1))
            elif found:
                found[-1].shown.append(line)
            goes_on = (goes_on or line.startswith("$ ")) and line.rstrip().endswith(("\\", "|"))
        for typed in found:
            while typed.shown and not typed.shown[-1].strip():
                typed.shown.pop()
        return found

    def plain(self) -> list[str]:
        """Return its commands, if it has none with a `$`."""
        text = "\n".join(self.lines)
        if "$ " in (line[:2] for line in self.lines):
            return []
        return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@dataclass
class Printed:
    """What a command printed, and its exit code."""

    lines: list[str]
    code: int


class Page:
    """A Markdown file: its blocks of code."""

    def __init__(self, path: Path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.blocks = list(_blocks(self.text))
        slow = [number for number, line in enumerate(self.text.splitlines(), 1) if line.startswith("<!-- slow: ")]
        for block in self.blocks:
            block.is_slow = bool(slow) and block.number > slow[0]

    def __str__(self) -> str:
        return self.path.relative_to(ROOT).as_posix() if self.path.is_relative_to(ROOT) else self.path.name

    def steps(self, data: Path | None, slow: bool = True) -> list[tuple[str, Typed | None]]:
        """Return what a reader does, as lines of a shell; commands with a `$` come with what is shown.

        Without `slow`, that is all above the comment which says that commands below it are.
        """
        steps: list[tuple[str, Typed | None]] = []
        for block in self.blocks:
            if block.is_slow and not slow:
                break
            comments = dict(block.comments)
            needs = comments.pop("needs", "")
            if "not run" in comments or (needs and not (data and (data / needs).exists())):
                continue
            if "file" in comments:
                steps.append((_writes(comments["file"], block.lines), None))
            elif any(line.startswith("$ ") for line in block.lines):
                steps += [(typed.command, typed) for typed in block.typed()]
        return steps

    def executed(self, folder: Path, data: Path | None, slow: bool = True) -> Iterator[tuple[Typed, Printed]]:
        """Do what the page shows, in a folder, and return its commands with what they print."""
        steps = self.steps(data, slow)
        printed = _run([text for text, _ in steps], folder, data)
        for (_, typed), output in zip(steps, printed, strict=True):
            if typed is not None:
                yield typed, output
            else:
                assert output.code == 0, output.lines

    def not_understood(self, folder: Path) -> list[str]:
        """Return the messages about its plain commands, which are not executed; files of the page are written first."""
        wrong = []
        for block in self.blocks:
            if path := block.comments.get("file"):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text("\n".join([*block.lines, ""]), encoding="utf-8")
        for block in self.blocks:
            if {"file", "not run"} & set(block.comments):
                continue
            found = [(line, _misunderstood(line)) for line in block.plain()]
            wrong += [f"{self}:{block.number}: {line}\n  {message}" for line, message in found if message]
        return wrong


def pages() -> list[Page]:
    """Return the pages whose commands a reader types."""
    folders = [ROOT / "docs" / "tutorials", ROOT / "docs" / "how-to"]
    return [Page(path) for path in [ROOT / "README.md", *(file for at in folders for file in sorted(at.glob("*.md")))]]


def data_folder() -> Path | None:
    """Return the folder that has MQ2008, OL2R_DATA or the one beside the repository, or None."""
    folder = Path(os.environ.get("OL2R_DATA", ROOT.parent / "shared" / "data")).resolve()
    return folder if (folder / "MQ2008").is_dir() else None


def difference(typed: Typed, printed: Printed) -> str:
    """Return how what is printed differs from what is shown; "" where it does not."""
    fails = bool(typed.shown) and typed.shown[0].startswith("ol2r ")
    if fails == (printed.code == 0):
        return "\n".join([f"exit code {printed.code}", *printed.lines])
    if not typed.shown or _match(_said(typed.shown), _said(printed.lines)):
        return ""
    return "\n".join(["shown:", *typed.shown, "printed:", *printed.lines])


def _blocks(text: str) -> Iterator[Block]:
    """Yield blocks of indented lines and of fences."""
    comments: dict[str, str] = {}
    block: Block | None = None
    fence = ""
    for number, line in enumerate([*text.splitlines(), "end"], 1):
        if fence:
            assert block is not None
            if line.strip() == fence:
                fence = ""
                if "file" in comments:
                    yield Block(block.number, block.lines, comments)
                block, comments = None, {}
            else:
                block.lines.append(line)
            continue
        if line.startswith("    ") or (block is not None and not line.strip()):
            block = block or Block(number, [], comments)
            block.lines.append(line[4:])
            continue
        if block is not None:
            yield block
            block, comments = None, {}
        if line.startswith("```"):
            fence, block = re.match(r"`+", line)[0], Block(number + 1, [])
        elif found := _COMMENT.findall(line):
            comments |= dict(found)
        elif line.strip():
            comments = {}


def _writes(path: str, lines: Sequence[str]) -> str:
    """Return the line of a shell that writes a file."""
    content = "\n".join(lines).rstrip("\n")
    return (
        f"mkdir -p {shlex.quote(str(Path(path).parent))} && printf '%s\\n' {shlex.quote(content)} > {shlex.quote(path)}"
    )


def _run(commands: Sequence[str], folder: Path, data: Path | None) -> list[Printed]:
    """Type commands into one shell, whose stdout is a terminal, and return what each prints."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    if data is not None:
        (home / "data").symlink_to(data)
    lines = []
    for command in commands:
        lines += [command, f"code=$?; printf '\\n{_END}%s\\n' $code; printf '\\n{_END}\\n' >&2"]
    script, errors = folder / "script.sh", folder / "errors"
    script.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with errors.open("wb") as stderr:
        outputs = _in_terminal(["bash", str(script)], work, _environment(home), stderr)
    written = outputs.split(f"\n{_END}"), errors.read_text(encoding="utf-8").split(f"\n{_END}")
    assert [len(parts) for parts in written] == [len(commands) + 1] * 2, "\n".join(written[1])
    printed: list[Printed] = []
    before = ""
    for output, error in zip(
        *written, strict=True
    ):  # the marks stand behind each command, so that the first part has no code
        code, _, rest = output.partition("\n")
        if printed:
            printed[-1].code = int(code)
            printed[-1].lines += before.splitlines() if printed[-1].code else []
        text = rest if printed else output
        printed.append(Printed(_lines(_named(text, home, work)), 0))
        before = _named(error, home, work).removeprefix("\n")
    del printed[len(commands) :]
    return printed


def _environment(home: Path) -> dict[str, str]:
    """Return the environment of a reader who has activated the environment of these tests."""
    cache = Path.home() / ".cache"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OL2R_", "PYTEST", "COLUMNS"))}
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    kept.setdefault("XDG_CACHE_HOME", str(cache))  # of matplotlib
    kept["OL2R_CACHE"] = os.environ.get("OL2R_CACHE", str(cache / "ol2r" / "parsed"))
    return {**kept, "HOME": str(home), "TERM": "xterm", "OMP_NUM_THREADS": "1"}


def _in_terminal(command: Sequence[str], folder: Path, environment: Mapping[str, str], stderr) -> str:
    """Run a command whose stdout is a terminal, end what it leaves running, and return what it prints."""
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=stderr,
        start_new_session=True,
    )
    os.close(writing)
    output = b""
    deadline = time.monotonic() + 580
    while select.select([reading], [], [], 0.2)[0] or process.poll() is None:
        assert time.monotonic() < deadline, output.decode(errors="replace")
        if not select.select([reading], [], [], 0)[0]:
            continue
        try:
            output += os.read(reading, 1 << 16)
        except OSError:  # all ends of the terminal are closed
            break
    process.wait()
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    return _STYLE.sub("", output.decode("utf-8")).replace("\r\n", "\n")


def _named(text: str, home: Path, work: Path) -> str:
    return text.replace(str(work), "/home/me/work").replace(str(home), "/home/me")


def _lines(text: str) -> list[str]:
    """Return the lines that a terminal shows: behind the last return to the beginning of a line, without blanks."""
    return [line.rpartition("\r")[2].rstrip() for line in text.removesuffix("\n").split("\n")]


def _said(lines: Sequence[str]) -> list[str]:
    """Return lines that are compared: without blank ones, with one blank in place of many."""
    found = []
    for line in lines:
        for pattern, name in _VARIES:
            line = pattern.sub(name, line)
        if line.strip():
            found.append(" ".join(line.split()))
    return found


def _match(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether lines are those that are shown, where `..` is any number of lines."""
    if not shown:
        return not printed
    if shown[0] == "..":
        return any(_match(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and _equal(shown[0], printed[0]) and _match(shown[1:], printed[1:])


def _equal(shown: str, printed: str) -> bool:
    """Whether a line is the one that is shown, up to a `..` at its end, but for the last digits of numbers."""
    if shown.endswith(" .."):
        shown = shown.removesuffix(" ..")
        printed = " ".join(printed.split()[: len(shown.split())])
    if _DECIMAL.sub("NUMBER", shown) != _DECIMAL.sub("NUMBER", printed):
        return False
    numbers = ([float(number.replace(",", "")) for number in _DECIMAL.findall(line)] for line in (shown, printed))
    return all(abs(one - other) <= max(0.05 * abs(one), 0.02) for one, other in zip(*numbers, strict=True))


def _misunderstood(line: str) -> str:
    """Return what is wrong with a plain command of a page, or ""."""
    words = (
        shlex.split(line.partition(" | ")[0], comments=True) if re.match(r"(\w+=\S+ )*(ol2r|make|pip) ", line) else []
    )
    while words and re.match(r"\w+=", words[0]):
        del words[0]
    match words:
        case ["make", *targets]:
            there = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            missing = [word for word in targets if "=" not in word and word not in there]
            return f"no target {missing}" if missing else ""
        case ["pip", "install", *packages]:
            there = re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
            named = [extra for package in packages for extra in re.findall(r"(?:\.|ol2r)\[(.*)\]", package)]
            missing = [extra for extra in ",".join(named).split(",") if extra and extra not in there]
            return f"no extra {missing}" if missing else ""
        case ["ol2r", "--help" | "--version"] | []:
            return ""
        case ["ol2r", name, *_] if name not in commands():
            return f"no command {name}"
        case ["ol2r", *words]:
            action = " ".join(words[:2])  # as `data fit-clicks`
            name, rest = (action, words[2:]) if action in commands() else (words[0], words[1:])
            return "" if _PLACEHOLDER.search(line.partition("  #")[0]) else _refused(name, rest)
    return ""


def _refused(name: str, words: list[str]) -> str:
    """Return the message of a command whose words are no arguments, or of a run that cannot be composed, or ""."""
    main = commands()[name].main()
    if name == "run" and not {"--cfg", "--help"} & set(words):
        messages = io.StringIO()
        with contextlib.redirect_stdout(messages), contextlib.redirect_stderr(messages):
            code = main([*(os.path.expandvars(word) for word in words), "--dry-run"])
        said = messages.getvalue()
        elsewhere = "must be a folder with", "must be a file", "login node"  # data and clusters
        return "" if code == 0 or any(words in said for words in elsewhere) else said.strip()
    if isinstance(main, Subcommand) and not {"--help", "--cfg"} & set(words):
        try:
            main._parsed(words)
        except ValueError as error:
            return str(error)
    return ""


def _main() -> None:
    """Print what the commands of pages print, or write it into the pages."""
    parser = argparse.ArgumentParser(description=_main.__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for path in given.pages:
        page = Page(path.resolve())
        lines = page.text.splitlines()
        with tempfile.TemporaryDirectory() as folder:
            done = list(page.executed(Path(folder), data_folder()))
        for typed, printed in reversed(done):
            if given.write and difference(typed, printed) and ".." not in (line.strip() for line in typed.shown):
                start = typed.number - 1
                lines[start : start + len(typed.shown)] = [f"    {line}".rstrip() for line in printed.lines]
        if given.write:
            path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        for typed, printed in [] if given.write else done:
            print("\n".join([f"$ {typed.command}", *printed.lines]))
        for typed, printed in done:
            if found := difference(typed, printed):
                print(f"DIFFERS $ {typed.command}\n{found}", file=sys.stderr)


if __name__ == "__main__":
    _main()
