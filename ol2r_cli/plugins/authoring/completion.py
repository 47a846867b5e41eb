"""`ol2r completion SHELL`: writes the script that completes the words of `ol2r` in a shell, by argcomplete.

put one of these into your shell's start-up file:
  eval "$(ol2r completion bash)"     # ~/.bashrc
  eval "$(ol2r completion zsh)"      # ~/.zshrc
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import escape, glob
from typing import Any

from argcomplete import CompletionFinder, shellcode
from argcomplete.lexers import split_line

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.catalogue import MEASURE, Catalogue, dotted
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import choice_folders
from ol2r_cli.text.program import commands

_OVERRIDES = ("override", "overrides", "words", "folders", "directory")  # arguments that are or may be overrides
_FILES = ("RUN", "DIR", "FILE", "PATH")  # how metavars of files and folders begin


@command(argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish", "tcsh"), help="bash, zsh, fish or tcsh"))
def main(given: argparse.Namespace) -> None:
    print(shellcode(["ol2r"], shell=given.shell))


class _Finder(CompletionFinder):
    """Offers overrides also behind options, where `parse_known_intermixed_args` takes them, and quotes `#` and `~`."""

    typed = ""

    def collect_completions(self, active_parsers: list[Any], parsed_args: Any, cword_prefix: str) -> list[str]:
        parser, self.typed = active_parsers[-1], cword_prefix
        if not parser.active_actions:
            parser.active_actions = [action for action in parser._actions if action.dest in _OVERRIDES]
        return super().collect_completions(active_parsers, parsed_args, cword_prefix)

    def quote_completions(
        self, completions: list[str], cword_prequote: str, last_wordbreak_pos: int | None
    ) -> list[str]:
        """Leave out what cannot be printed; quote what begins a comment or a home folder, unless it was typed."""
        shown = [word for word in completions if word.isprintable()]
        quoted = super().quote_completions(shown, cword_prequote, last_wordbreak_pos)
        if cword_prequote or self.typed or os.environ.get("_ARGCOMPLETE_SHELL") not in ("bash", "zsh"):
            return quoted
        return [f"\\{word}" if word.startswith(("#", "~")) else word for word in quoted]


def answer(top: argparse.ArgumentParser, **settings: Any) -> None:
    """Tell the shell which words may come next, and end the process; the line is in the environment.

    Choices and settings are read from their YAML files. Nothing is composed, so that it is fast.
    """
    typed = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3][1:]
    name, words = (typed[0], typed[1:]) if typed else ("", [])
    if words and f"{name} {words[0]}" in commands():
        name, words = f"{name} {words[0]}", words[1:]
    if name in commands():
        top = commands()[name].main().parser()
        os.environ["_ARGCOMPLETE"] = str(len(f"ol2r {name}".split()))  # the arguments begin behind these words
    line = Line(name, words, _catalogue(words))
    for action in top._actions:
        if action.choices is None:
            action.completer = line.offered  # type: ignore[attr-defined]
    _Finder()(top, always_complete_options=False, **settings)


def _catalogue(words: Sequence[str]) -> Catalogue:
    """Return the choices of ol2r and of the folders that words and the project file name, where these are good."""
    try:
        return Catalogue([folder.path for folder in choice_folders(split_search_path(words)[1])])
    except ValueError:  # a folder does not exist, or the project file is bad; `ol2r run` says so
        return Catalogue()


@dataclass(frozen=True)
class Line:
    """The line that is completed: the command, empty while it is typed, and the words behind it."""

    command: str
    words: Sequence[str]
    catalogue: Catalogue

    def offered(self, prefix: str, action: argparse.Action, **_: Any) -> Iterable[str]:
        """Return what may stand for an argument of the command, at which `prefix` is typed."""
        names = self._names(action)
        if names is not None:
            return names
        metavar = str(action.metavar or "")
        offered = _paths(prefix) if metavar.startswith(_FILES) else []
        if action.dest in _OVERRIDES and metavar.startswith("RANKER"):
            offered += self.catalogue.choices["ranker"]
        if action.dest in _OVERRIDES:
            offered += self._overrides(prefix)
        return offered

    def _names(self, action: argparse.Action) -> Iterable[str] | None:
        """Return the names that may stand for an argument; None for one that takes other words."""
        offers = getattr(action, "offers", None)
        if offers is not None:
            return offers()
        match self.command, action.dest:
            case "", "command":
                return [name for name in commands() if " " not in name]
            case "list", "group":
                return self.catalogue.groups
            case "list", "choice":
                return self.catalogue.choices.get("".join(self.words[:1]), {})
        return None

    def _overrides(self, prefix: str) -> list[str]:
        """Return overrides that begin so: names of settings, and behind `=` and commas those of choices.

        `+`, `++` and `~` before a name are kept.
        """
        setting, equals, value = prefix.lstrip("+~").partition("=")
        sign = prefix[: len(prefix) - len(prefix.lstrip("+~"))]
        if not equals:
            return [f"{sign}{name}=" for name in self._groups_and_settings(setting)]
        before, comma, _ = value.rpartition(",")
        if setting == "measures":
            names, before = self.catalogue.choices.get(MEASURE, ()), f"{before}{comma or '['}"
        else:
            names, before = self.catalogue.choices.get(setting, ()), f"{before}{comma}"
        return [f"{sign}{setting}={before}{name}" for name in names]

    def _groups_and_settings(self, typed: str) -> list[str]:
        """Return the names of groups, and of settings as deep as the one that is typed or one deeper.

        Measures are chosen by a list, except by `ol2r check`.
        """
        hidden = {*self.catalogue.parts} - self.catalogue.chosen(self.words).keys()
        if self.command != "check":
            hidden.add(MEASURE)
        groups = [group for group in self.catalogue.choices if group not in hidden]
        deepest = 1 + typed.count(".")
        settings = [name for name, _ in dotted(self.catalogue.tree(self.words)) if name.count(".") <= deepest]
        return [*groups, *settings]


def _paths(prefix: str) -> list[str]:
    """Return the paths that begin so; a `~` stays as typed."""
    typed = os.path.expanduser(prefix)
    paths = sorted(glob(f"{escape(typed)}*"))
    ends = [f"{path}/" if os.path.isdir(path) else path for path in paths]
    return [f"{prefix}{end[len(typed) :]}" for end in ends]
