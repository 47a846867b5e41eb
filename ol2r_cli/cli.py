"""The `ol2r` command: how subcommands are declared, with `command`, and how they are found by the name of their module.

Nothing heavy is imported before a subcommand is.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

from ol2r_cli.formatting import nearest, printable
from ol2r_cli.program import COMMANDS, as_called
from ol2r_cli.run import BAD_CONFIGURATION, DONE, INTERRUPTED, exits_when_interrupted
from ol2r_cli.terminal import printing

_MEANT = {"compare": "ol2r report --compare all", "plot": "ol2r report --figure", "sweep": "ol2r run -m"}  # no commands
_NARROWEST = 40  # columns of help; a terminal that has fewer breaks its lines
_ON_DISK = ("run", "recommend", "search", "benchmark", "reproduce")  # what they compute is not what they print

EPILOG = """examples:
  ol2r run                                            PairRank, generated data
  ol2r run click=navigational rounds=2000 replicas=5  five seeds at once
  ol2r run dataset=mq2008 dataset.path=$HOME/MQ2008   real data, LETOR folders
  ol2r run -m ranker.l2=0.1,0.01 click=per,nav,inf    a sweep
  ol2r COMMAND --help                                 more about one command
exit codes: 0 done, 1 a run failed, 2 bad configuration or data,
  3 a sweep with failed jobs, 130 interrupted
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `ol2r` itself; subcommands parse what follows their name."""
    lines = [f"  {name:11} {what}" for name, what in COMMANDS.items()]
    lines[6:6] = ["\nother commands:"]
    top = argparse.ArgumentParser(
        prog="ol2r",
        usage="ol2r COMMAND [ARGUMENT ...]",
        description="\n".join(["Online learning to rank from simulated clicks.\n", "commands to begin with:", *lines]),
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="show the version, and the commit of a checkout")
    top.add_argument("command", help=argparse.SUPPRESS, metavar="COMMAND")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    code = DONE
    with printing() as stdout_error:
        try:
            try:
                code = _command(words)
            finally:  # also after SystemExit, by which argparse ends after --help
                sys.stdout.flush()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            exec("")  # if it passed an exec() of text, as in a dataclass, Python would end with SIGINT, not this code
            code = INTERRUPTED
        except BrokenPipeError:  # `ol2r list | head`
            pass
        except SystemExit:
            if stdout_error() is None:
                raise
        if error := stdout_error():
            code = _unprinted(words, code, error)
    return code


def _unprinted(words: list[str], code: int, error: OSError) -> int:
    """Say that what a command has printed is lost, and return the exit code: of work that is on disk that of the
    work."""
    name = words[0] if words and words[0] in _ON_DISK else ""
    what = f"what it prints cannot be written ({error.strerror})"
    if name and code == DONE:
        print(f"ol2r {name}: finished, but {what}", file=sys.stderr)
    else:
        print(f"{' '.join(['ol2r', *words[:1]])}: {what}", file=sys.stderr)
    return code if name or code != DONE else BAD_CONFIGURATION


def _command(arguments: list[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:  # a shell asks, by the script of `ol2r completion`
        import_module("ol2r_cli.commands.completion").answer(parser())
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        parser().print_help()
        return 0
    name, *rest = arguments
    if name == "--version":
        from ol2r_cli.run.identity import version_line

        print(f"ol2r {version_line()}")
        return 0
    if name not in COMMANDS:
        near = nearest(name, [*COMMANDS, "--help", "--version"], "ol2r ")
        meant = f": type {_MEANT[name]}" if name in _MEANT else near
        advice = as_called(meant) or f": choose from {', '.join(COMMANDS)}"
        print(f"ol2r: no command '{name}'{advice}", file=sys.stderr)
        return 2
    if name == "completion" and find_spec("argcomplete") is None:
        print("ol2r completion: needs argcomplete: type pip install 'ol2r[completion]'", file=sys.stderr)
        return 2
    with exits_when_interrupted():
        module = import_module(f"ol2r_cli.commands.{name}")
    return module.main(rest)


Action = Callable[[argparse.Namespace], int | None]  # an exit code, or nothing for 0
Argument = Callable[[argparse.ArgumentParser], object]  # adds itself to a parser


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Lines as they are written; of those that the terminal is too narrow for, each part has lines of its own."""

    def __init__(self, prog: str):
        width = max(_NARROWEST, shutil.get_terminal_size().columns - 2)
        super().__init__(prog, max_help_position=28, width=width)

    def format_help(self) -> str:
        """Return the help, of which no line is longer than the terminal."""
        lines: list[str] = []
        for line in as_called(super().format_help()).splitlines():
            margin = " " * (len(line) - len(line.lstrip()) + 2)
            parts = [line] if len(line) <= self._width else re.split(r"(?<=\S) {2,}", line, maxsplit=1)
            lines += textwrap.wrap(parts[0], self._width, subsequent_indent=margin, break_on_hyphens=False) or [""]
            lines += [
                f"{margin}  {said}" for part in parts[1:] for said in textwrap.wrap(part, self._width - len(margin) - 2)
            ]
        return "\n".join([*lines, ""])


class Parser(argparse.ArgumentParser):
    """Raises ValueError, of one line, in place of ending the process. `words` are those that are parsed."""

    words: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Raise ValueError; for a long option with one hyphen, such as -json, it names the one with two."""
        options = [name for action in self._actions for name in action.option_strings]
        for word in self.words:
            if re.match(r"-\w{2}", word) and f"-{word.partition('=')[0]}" in options and word not in options:
                message = f"there is no option {word}: type -{word}"
        raise ValueError(message)

    def hint(self, option: str, given: argparse.Namespace) -> str:
        """Return what may be meant by an option that does not exist."""
        return nearest(option, [name for action in self._actions for name in action.option_strings])


@dataclass
class Command:
    """A subcommand, called with the words that follow its name; returns the exit code.

    Its help is the docstring of its module: a description, behind what is typed, and after an empty line the epilog.
    Where parsing or the action raises one of `errors`, the message is printed as one line and the exit code is 2.
    """

    action: Action
    arguments: Sequence[Argument]
    make: type[Parser]
    errors: tuple[type[Exception], ...]
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        self.name = self.action.__module__.rpartition(".")[2]

    def parser(self) -> Parser:
        """Return the parser of its words."""
        about = sys.modules[self.action.__module__].__doc__ or ""
        description, _, epilog = about.partition(": ")[2].partition("\n\n")
        settings = {"description": " ".join(description.split()), "epilog": epilog, **self.settings}
        parser = self.make(f"ol2r {self.name}", formatter_class=HelpFormatter, **settings)
        for add in self.arguments:
            add(parser)
        return parser

    def __call__(self, words: Sequence[str]) -> int:
        try:
            parser = self.parser()
            parser.words = words
            if {"-h", "--help"} & set(words):  # also where other words are wrong
                parser.parse_args(["--help"])
            given, unknown = parser.parse_known_intermixed_args(words, argparse.Namespace(typed=list(words)))
            if unknown:
                hint = parser.hint(unknown[0], given) or f": see `ol2r {self.name} --help`"
                kind = "option" if unknown[0].startswith("-") else "place for"
                raise ValueError(f"there is no {kind} {unknown[0]}{hint}")
            return self.action(given) or DONE
        except self.errors as error:
            print(f"ol2r {self.name}: {printable(as_called(error))}", file=sys.stderr)
            return BAD_CONFIGURATION


def argument(*names: str, **settings: Any) -> Argument:
    """Return an argument; names and settings are those of `ArgumentParser.add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)


def command(
    *arguments: Argument,
    make: type[Parser] = Parser,
    errors: tuple[type[Exception], ...] = (ValueError,),
    **settings: Any,
) -> Callable[[Action], Command]:
    """Declare a function as the subcommand with the name of its module.

    It receives the arguments, and as `typed` the words. `settings` are those of `ArgumentParser`.
    """
    return lambda action: Command(action, arguments, make, errors, settings)
