"""How a subcommand of `ol2r` is declared: `@command(argument(..), ..)` above the `main` of its module."""

from __future__ import annotations

import argparse
import errno
import os
import re
import shlex
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ol2r_cli.run import BAD_CONFIGURATION, DONE, FAILED
from ol2r_cli.text.formatting import nearest, printable
from ol2r_cli.text.program import as_called

_SHOWN = 60  # characters of a name that is too long
_NARROWEST = 40  # columns of help; a terminal that has fewer breaks its lines

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
            lines += [line] if len(line) <= self._width else self._wrapped(line)
        return "\n".join([*lines, ""])

    def _wrapped(self, line: str) -> list[str]:
        """Return the lines of one that is too long: of `name  what it does`, what it does stands below the name."""
        margin = " " * (len(line) - len(line.lstrip()) + 2)
        name, *said = re.split(r"(?<=\S) {2,}", line, maxsplit=1)
        lines = textwrap.wrap(name, self._width, subsequent_indent=margin, break_on_hyphens=False)
        for text in said:
            below = textwrap.wrap(text, self._width - len(margin) - 2)
            lines += [f"{margin}  {part}" for part in below]
        return lines


_DASHES = (
    "\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{FIGURE DASH}\N{EN DASH}\N{EM DASH}\N{HORIZONTAL BAR}\N{MINUS SIGN}\ufe63\uff0d"
)


class Listed(argparse.Action):
    """An option of several words, which leaves others to the arguments: `--metric test_ndcg_1 outputs click=per`.

    Those of NAME=VALUE have `=`, and names have none. Files and folders are arguments.
    """

    def __call__(self, parser: Any, given: Any, values: Any, option: Any = None) -> None:
        setattr(given, self.dest, values)

    def has(self, word: str) -> bool:
        """Return whether a word behind the option is one of its own."""
        if self.type is int:
            return word.isdecimal()
        if word in (self.choices or ()):
            return True
        return "=" in str(self.metavar) if "=" in word else not os.path.exists(word)


def with_hyphens(word: str) -> str:
    """Return an option whose hyphens are others of typography, as in text that was copied, as it is typed; others
    unchanged."""
    name, equals, value = word.partition("=")
    if name[:1] not in ("-", *_DASHES) or not set(name) & set(_DASHES):
        return word
    plain = re.sub(f"[{_DASHES}]", "-", name).lstrip("-")
    return f"{'-' if len(plain) == 1 else '--'}{plain}{equals}{value}"


class Parser(argparse.ArgumentParser):
    """Raises ValueError, of one line, in place of ending the process. `words` are those that are parsed."""

    words: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Raise ValueError."""
        raise ValueError(message)

    def hint(self, option: str, given: argparse.Namespace) -> str:
        """Return what may be meant by an option that does not exist."""
        return nearest(option, [name for action in self._actions for name in action.option_strings])

    def in_order(self, words: Sequence[str]) -> list[str]:
        """Return words in which those come first that stand behind an option of several words and are not its own."""
        first: list[str] = []
        others: list[str] = []
        option: argparse.Action | None = None
        for number, word in enumerate(words):
            if word == "--":
                return [*first, *others, *words[number:]]
            if word.startswith("-"):
                option = self._option_string_actions.get(word)
            is_own = word.startswith("-") or not isinstance(option, Listed) or option.has(word)
            (others if is_own else first).append(word)
        return [*first, *others]


@dataclass
class Subcommand:
    """A subcommand, called with the words that follow its name; returns the exit code.

    Its help is the docstring of its module: a description, behind what is typed, and after an empty line the epilog, to
    which `more` adds.
    Where parsing or the action raises one of `errors`, the message is printed as one line and the exit code is 2. An
    error of the user's own code is told with its place.
    """

    action: Action
    arguments: Sequence[Argument]
    make: type[Parser]
    errors: tuple[type[Exception], ...]
    more: Callable[[], str]
    name: str
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        self.name = self.name or self.action.__module__.rpartition(".")[2]

    def parser(self) -> Parser:
        """Return the parser of its words."""
        about = sys.modules[self.action.__module__].__doc__ or ""
        description, _, epilog = about.partition(": ")[2].partition("\n\n")
        settings = {"description": " ".join(description.split()), "epilog": epilog + self.more(), **self.settings}
        parser = self.make(f"ol2r {self.name}", formatter_class=HelpFormatter, **settings)
        for add in self.arguments:
            add(parser)
        return parser

    def __call__(self, words: Sequence[str]) -> int:
        try:
            return self.action(self._parsed(words)) or DONE
        except BrokenPipeError:  # of stdout, an OSError as those of files
            raise
        except Exception as error:
            from ol2r_cli.run.own_code import explained, is_own  # for which --help need not wait

            own = is_own(error)  # the user's class; a command may leave out what `ol2r run` says of it
            too_long = "" if own else _too_long(error)
            if not own and not too_long and not isinstance(error, self.errors):
                raise
            if not isinstance(error, (*self.errors, OSError)):
                traceback.print_exception(error)
            told = explained(error) if own else too_long or str(error)
            print(f"ol2r {self.name}: {printable(as_called(told))}", file=sys.stderr)
            return BAD_CONFIGURATION if isinstance(error, (*self.errors, OSError)) else FAILED

    def _parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the arguments that the words give; ValueError for words that are no arguments."""
        parser = self.parser()
        parser.words = words
        if {"-h", "--help"} & set(words):  # also where other words are wrong
            parser.parse_args(["--help"])
        for word in words:
            if word != with_hyphens(word):
                raise ValueError(f"{word} has a hyphen of typography: type {shlex.quote(with_hyphens(word))}")
        namespace = argparse.Namespace(typed=list(words))
        given, unknown = parser.parse_known_intermixed_args(parser.in_order(words), namespace)
        if unknown:
            hint = parser.hint(unknown[0], given) or f": see `ol2r {self.name} --help`"
            kind = "option" if unknown[0].startswith("-") else "place for"
            raise ValueError(f"there is no {kind} {unknown[0]}{hint}")
        return given


def _too_long(error: Exception) -> str:
    """Return the message for a name that no file can have; empty for any other error."""
    if not isinstance(error, OSError) or error.errno != errno.ENAMETOOLONG:
        return ""
    return f"{str(error.filename)[:_SHOWN]}.. is too long for the name of a file: type a shorter one"


def argument(*names: str, offers: Callable[[], Iterable[str]] | None = None, **settings: Any) -> Argument:
    """Return an argument; names and settings are those of `ArgumentParser.add_argument`.

    offers: returns words that may stand for it, which a shell completes.
    """

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(*names, **settings).offers = offers  # type: ignore[attr-defined]

    return add


def command(
    *arguments: Argument,
    make: type[Parser] = Parser,
    errors: tuple[type[Exception], ...] = (ValueError,),
    more: Callable[[], str] = str,
    name: str = "",
    **settings: Any,
) -> Callable[[Action], Subcommand]:
    """Declare a function as the subcommand of this name, or with that of its module.

    It receives the arguments, and as `typed` the words. `settings` are those of `ArgumentParser`.
    """
    return lambda action: Subcommand(action, arguments, make, errors, more, name, settings)
