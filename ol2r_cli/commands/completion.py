"""`ol2r completion SHELL`: writes the script that completes the words of `ol2r` in a shell, by argcomplete.

put one of these into your shell's start-up file:
  eval "$(ol2r completion bash)"     # ~/.bashrc
  eval "$(ol2r completion zsh)"      # ~/.zshrc
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import escape, glob
from importlib import import_module
from typing import Any

from argcomplete import CompletionFinder, shellcode
from argcomplete.lexers import split_line

from ol2r_cli.cli import COMMANDS, argument, command
from ol2r_cli.commands.new import GROUPS
from ol2r_cli.config.catalogue import MEASURE, Catalogue, choice_folders, dotted
from ol2r_cli.config.overrides import split_search_path
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
    name = words[0] if words else ""
    if name in COMMANDS:
        top = import_module(f"ol2r_cli.commands.{name}").main.parser()
        os.environ["_ARGCOMPLETE"] = "2"  # the arguments begin behind the second word
    try:
        catalogue = Catalogue([folder.path for folder in choice_folders(split_search_path(words)[1])])
    except ValueError:  # a folder does not exist, or the project file is bad; `ol2r run` says so
        catalogue = Catalogue()
    for action in top._actions:
        if action.choices is None:
            action.completer = _completer(name, action, words[1:], catalogue)  # type: ignore[attr-defined]
    _Finder()(top, always_complete_options=False, **settings)


def _completer(
    name: str, action: argparse.Action, words: Sequence[str], catalogue: Catalogue
) -> Callable[..., Iterable[str]]:
    """Return the function that gives the values of an argument of a command, behind `words`."""
    metavar = str(action.metavar or "")
    match name, action.dest:
        case "", "command":
            return lambda **_: COMMANDS
        case "reproduce" | "benchmark", "name":
            return lambda **_: recipe_names(name)
        case "new", "group":
            return lambda **_: GROUPS
        case "list", "group":
            return lambda **_: catalogue.groups
        case "list", "choice":
            return lambda **_: catalogue.choices.get("".join(words[:1]), {})
        case "report", "figure":
            from ol2r_cli.report.figures.drawing import KINDS

            return lambda **_: KINDS
    files = _paths if metavar.startswith(_FILES) else lambda prefix, **_: ()
    if action.dest not in _OVERRIDES:
        return files
    rankers = catalogue.choices["ranker"] if metavar.startswith("RANKER") else ()
    return lambda prefix, **_: [*rankers, *files(prefix), *_overrides(prefix, name, words, catalogue)]


def _paths(prefix: str, **_: Any) -> Iterator[str]:
    """Yield the paths that begin so; a `~` stays as typed."""
    typed = os.path.expanduser(prefix)
    for path in sorted(glob(f"{escape(typed)}*")):
        yield f"{prefix}{path[len(typed) :]}{'/' * os.path.isdir(path)}"


def _overrides(prefix: str, name: str, words: Sequence[str], catalogue: Catalogue) -> Iterator[str]:
    """Yield groups, settings and their values; `+`, `++` and `~` before a name are kept. Measures are in a list."""
    settings = dict(dotted(catalogue.tree(words)))
    sign, setting, equals, value = re.fullmatch(r"(\+{0,2}|~)([^=]*)(=?)(.*)", prefix, re.DOTALL).groups()  # type: ignore[union-attr]
    if not equals:
        chosen = catalogue.chosen(words)
        parts = [part for part in catalogue.parts if part not in chosen]
        groups = [group for group in catalogue.choices if group not in parts and (group != MEASURE or name == "check")]
        near = [each for each in settings if each.count(".") <= 1 + setting.count(".")]
        yield from (f"{sign}{each}=" for each in [*groups, *near])
        return
    listed, comma, _ = value.rpartition(",")
    before = f"{sign}{setting}={listed}{comma}"  # in a list, the last value is completed
    if setting == "measures":
        yield from (f"{before}{'' if comma else '['}{choice}" for choice in catalogue.choices[MEASURE])
    elif setting in catalogue.choices:
        yield from (f"{before}{choice}" for choice in catalogue.choices[setting])
    elif setting.rpartition(".")[2] in _FOLDERS:
        yield from (f"{sign}{setting}={path}" for path in _paths(value))
    elif isinstance(default := settings.get(setting), bool):
        yield from (f"{before}true", f"{before}false")
    elif isinstance(default, int | float | str):
        yield f"{before}{default}"
