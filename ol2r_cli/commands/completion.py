"""`ol2r completion SHELL`: writes the script that completes the words of `ol2r` in a shell, by argcomplete.

put one of these into your shell's start-up file:
  eval "$(ol2r completion bash)"     # ~/.bashrc
  eval "$(ol2r completion zsh)"      # ~/.zshrc
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from glob import escape, glob
from importlib import import_module
from typing import Any

from argcomplete import CompletionFinder, shellcode
from argcomplete.lexers import split_line

from ol2r_cli.command import argument, command
from ol2r_cli.commands.new import GROUPS
from ol2r_cli.config.catalogue import MEASURE, Catalogue, dotted
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import choice_folders
from ol2r_cli.program import COMMANDS
from ol2r_cli.recipes.recipe import recipe_names

_OVERRIDES = ("override", "overrides", "words", "folders", "directory")  # arguments that are or may be overrides
_FILES = ("RUN", "DIR", "FILE", "PATH")  # how metavars of files and folders begin
_FOLDERS = ("path", "output_dir", "data_dir", "cache_dir")  # settings, in any group


@command(argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish", "tcsh"), help="bash, zsh, fish or tcsh"))
def main(given: argparse.Namespace) -> None:
    print(shellcode(["ol2r"], shell=given.shell))


class _Finder(CompletionFinder):
    """Offers overrides also behind options, where `parse_known_intermixed_args` takes them, and quotes `#` and `~`."""

    typed = ""

    def collect_completions(self, active_parsers: list[Any], parsed_args: Any, cword_prefix: str) -> list[str]:
        parser, self.typed = active_parsers[-1], cword_prefix.rpartition("=")[2]
        if not parser.active_actions:
            parser.active_actions = [action for action in parser._actions if action.dest in _OVERRIDES]
        return super().collect_completions(active_parsers, parsed_args, cword_prefix)

    def quote_completions(
        self, completions: list[str], cword_prequote: str, last_wordbreak_pos: int | None
    ) -> list[str]:
        """Leave out what cannot be printed; quote what begins a comment or a home folder, unless it was typed."""
        shown = [each for each in completions if each.isprintable()]
        quoted = super().quote_completions(shown, cword_prequote, last_wordbreak_pos)
        if cword_prequote or self.typed or os.environ.get("_ARGCOMPLETE_SHELL") not in ("bash", "zsh"):
            return quoted
        return [f"\\{each}" if each.startswith(("#", "~")) else each for each in quoted]


def answer(top: argparse.ArgumentParser, **settings: Any) -> None:
    """Tell the shell which words may come next, and end the process; the line is in the environment.

    Choices and settings are read from their YAML files. Nothing is composed, so that it is fast.
    """
    words = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3][1:]
    name, words = words[0] if words else "", words[1:]
    if name in COMMANDS:
        top = import_module(f"ol2r_cli.commands.{name}").main.parser()
        os.environ["_ARGCOMPLETE"] = "2"  # the arguments begin behind the second word
    try:
        catalogue = Catalogue([folder.path for folder in choice_folders(split_search_path(words)[1])])
    except ValueError:  # a folder does not exist, or the project file is bad; `ol2r run` says so
        catalogue = Catalogue()

    def values(prefix: str, action: argparse.Action, **_: Any) -> Iterable[str]:
        """Return what may stand for an argument of the command."""
        match name, action.dest:
            case "", "command":
                return COMMANDS
            case "reproduce" | "benchmark", "name":
                return recipe_names(name)
            case "new", "group":
                return GROUPS
            case "list", "group":
                return catalogue.groups
            case "list", "choice":
                return catalogue.choices.get("".join(words[:1]), {})
            case "report", "figure":
                from ol2r_cli.report.figures.kinds import KINDS

                return KINDS
        metavar = str(action.metavar or "")
        found = _paths(prefix) if metavar.startswith(_FILES) else []
        if action.dest in _OVERRIDES:
            found += catalogue.choices["ranker"] if metavar.startswith("RANKER") else ()
            found += _overrides(prefix, name == "check", words, catalogue)
        return found

    for action in top._actions:
        if action.choices is None:
            action.completer = values  # type: ignore[attr-defined]
    _Finder()(top, always_complete_options=False, **settings)


def _paths(prefix: str, before: str = "") -> list[str]:
    """Return the paths that begin so; a `~` stays as typed."""
    typed = os.path.expanduser(prefix)
    paths = sorted(glob(f"{escape(typed)}*"))
    return [f"{before}{prefix}{path[len(typed) :]}{'/' * os.path.isdir(path)}" for path in paths]


def _overrides(prefix: str, checked: bool, words: Sequence[str], catalogue: Catalogue) -> list[str]:
    """Return groups, settings and choices; `+`, `++` and `~` before a name are kept. Measures are in a list."""
    setting, equals, value = prefix.lstrip("+~").partition("=")
    sign = prefix[: len(prefix) - len(prefix.lstrip("+~"))]
    if not equals:
        hidden = {*catalogue.parts} - catalogue.chosen(words).keys() | ({MEASURE} if not checked else set())
        deepest = 1 + setting.count(".")
        settings = [each for each, _ in dotted(catalogue.tree(words)) if each.count(".") <= deepest]
        return [
            f"{sign}{each}=" for each in [*(group for group in catalogue.choices if group not in hidden), *settings]
        ]
    if setting.rpartition(".")[2] in _FOLDERS:
        return _paths(value, f"{sign}{setting}=")
    listed, comma, _ = value.rpartition(",")  # in a list, the last value is completed
    bracket = "[" if setting == "measures" and not comma else ""
    choices = catalogue.choices.get(MEASURE if setting == "measures" else setting, ())
    return [f"{sign}{setting}={listed}{comma}{bracket}{choice}" for choice in choices]
