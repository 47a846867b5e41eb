"""`ol2r completion bash|zsh`: a script for the shell; it asks this module which words may come next.

Options and their values are read from the argparse parser of each command, groups, choices and settings from the YAML
files of configs/. Nothing is composed, so that an answer takes about a tenth of a second.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ol2r_cli.cli import COMMANDS
from ol2r_cli.config.catalogue import MEASURE, Catalogue
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import ROLES, choice_folders
from ol2r_cli.formatting import HelpFormatter
from ol2r_cli.recipes.recipe import recipe_names
from ol2r_cli.run.exit_status import DONE

_FOLDER_SETTINGS = ("path", "output_dir", "data_dir", "cache_dir")  # in any group
_OVERRIDES = ("override", "overrides", "words")  # names of the positional arguments that are overrides
_FILES = ("FILE", "PATH")  # metavars of arguments that may be files

# Bash replaces only what follows the last `=` or `:`, which it passes as $2; zsh replaces the whole word, and -U lets
# the answer begin in another way: /home/me/ for ~/.
SCRIPTS = {
    "bash": r"""# completion for ol2r: put  eval "$(ol2r completion bash)"  into ~/.bashrc
_ol2r() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <("${1/#\~/$HOME}" completion --query "${COMP_LINE:0:COMP_POINT}" --replaces "$2" 2>/dev/null)
}
complete -o nospace -F _ol2r ol2r
""",
    "zsh": r"""# completion for ol2r: put  eval "$(ol2r completion zsh)"  into ~/.zshrc
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_ol2r() {
    local -a candidates
    candidates=("${(@f)$(${~words[1]} completion --query "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    [[ -n "$candidates" ]] && compadd -QU -S '' -- "${candidates[@]}"
}
compdef _ol2r ol2r
""",
}
EPILOG = """put one of these into your shell's start-up file:
  eval "$(ol2r completion bash)"     # ~/.bashrc
  eval "$(ol2r completion zsh)"      # ~/.zshrc
"""


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r completion`."""
    options = argparse.ArgumentParser(
        "ol2r completion",
        usage="ol2r completion bash|zsh",
        description="Writes the script that completes the words of `ol2r` in a shell.",
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    options.add_argument("shell", choices=SCRIPTS, nargs="?", help="the shell to write for")
    options.add_argument("--query", metavar="LINE", help=argparse.SUPPRESS)  # used by the scripts
    options.add_argument("--replaces", metavar="END", help=argparse.SUPPRESS)
    return options


def main(arguments: list[str]) -> int:
    """Print the script of a shell, or the completions of a line; return the exit code 0."""
    options = parser()
    given = options.parse_args(arguments)
    if given.query is not None:
        for word in quoted_completions(given.query, given.replaces):
            print(word)
    elif given.shell:
        sys.stdout.write(SCRIPTS[given.shell])
    else:
        options.error(f"SHELL must be one of {', '.join(SCRIPTS)}, got none")
    return DONE


def quoted_completions(line: str, replaces: str | None = None) -> list[str]:
    """The completions of the last word of `line`, quoted for the shell.

    `replaces` is the end of that word which the shell replaces, where it is not the whole word; the answer then leaves
    out what comes before it.
    """
    last = re.search(r"(?:\\.|[^\s\\])*$", line)[0]  # type: ignore[index]
    kept = "" if replaces is None else re.sub("['\"]", "", last.removesuffix(replaces))
    inside_quotes = last.count("'") % 2 or last.count('"') % 2
    words = [word.rstrip(" ") if inside_quotes else _quoted(word) for word in completions(line)]
    return [word[len(kept) :] for word in words if word.startswith(kept) and word.isprintable()]


def _quoted(word: str) -> str:
    r"""A word with a backslash before special characters of the shell, except for the blank that ends a complete word.

    `$HOME/` at the start of a path is left to the shell.
    """
    return re.sub(r"(?!(?:^|(?<==))\$HOME/)(?=[ '\"\\()&;|<>$`!*?\[\]{}#])(?!.$)", r"\\", word)


def completions(line: str) -> list[str]:
    """The words that the last word of `line` (empty after a blank) may become, best first.

    A complete word ends with a blank; one that can be continued (`ranker=`, `ranker.`, a folder) does not.
    """
    typed = re.findall(r"(?:\\.|'[^']*'?|\"[^\"]*\"?|[^\s\\'\"])+", line)
    words, last = [re.sub(r"[\\'\"]", "", word) for word in typed], ""
    if words and not re.search(r"(?<!\\)\s$", line):
        last = words.pop()
    last = re.sub(r"(?<==)~(?=/|$)", lambda _: os.path.expanduser("~"), last, count=1)  # Hydra refuses ~ in a value
    return [word for word in dict.fromkeys(_candidates(words[1:], last)) if word.startswith(last)]


def _candidates(words: Sequence[str], last: str) -> Iterator[str]:
    """The words that may follow `words`, the command and its arguments, where `last` has been typed so far."""
    if not words:
        yield from _complete([*COMMANDS, "--help", "--version"])
    elif words[-1] in ("--config-dir", "-cd"):
        yield from _paths(last)
    elif words[0] in COMMANDS:
        try:
            arguments, folders = split_search_path(words[1:])
        except ValueError:  # a package that is not there; `ol2r run` says so
            arguments, folders = list(words[1:]), []
        options = import_module(COMMANDS[words[0]][0]).parser()
        action = _next_argument(options, arguments)
        if last.startswith("-") and (action is None or not action.option_strings):
            visible = [each for each in options._actions if each.help is not argparse.SUPPRESS]
            yield from _complete([option for each in visible for option in each.option_strings])
        elif action is not None:
            yield from _values_of(action, words[0], arguments, last, _catalogue(folders))


def _catalogue(named: Sequence[Path]) -> Catalogue:
    """All choices; those of ol2r alone where a folder does not exist or the project file is bad: `ol2r run` says so."""
    try:
        return Catalogue([folder.path for folder in choice_folders(named)])
    except ValueError:
        return Catalogue()


def _next_argument(options: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Action | None:
    """The argument that the word after `words` is a value of, as argparse reads it: of an option, or positional."""
    by_name = {name: action for action in options._actions for name in action.option_strings}
    positional = [action for action in options._actions if not action.option_strings]
    option, room, count = None, 0.0, 0
    for word in words:
        if word.startswith("-"):
            option = by_name.get(word)
            room = _max_values(option) if option else 0
        elif room:
            room -= 1
        else:
            count += 1
    if option is not None and room:
        return option
    for action in positional:
        count -= int(min(count + 1, _max_values(action)))
        if count < 0:
            return action
    return None


def _max_values(action: argparse.Action) -> float:
    """The number of words that an argument takes at most."""
    if isinstance(action.nargs, int):
        return action.nargs
    return math.inf if action.nargs in ("+", "*") else 1


def _values_of(
    action: argparse.Action, command: str, words: Sequence[str], last: str, catalogue: Catalogue
) -> Iterator[str]:
    """The values of an argument, by its choices, name, type or metavar; none for a number or free text."""
    metavar = str(action.metavar or "")
    if action.choices is not None:
        yield from _complete(action.choices)
    elif metavar == "KIND":
        from ol2r_cli.report.figures.kinds import KINDS

        yield from _complete(KINDS)
    elif (command, action.dest) == ("reproduce", "name"):
        yield from _complete(recipe_names("reproduce"))
    elif (command, action.dest) == ("benchmark", "name"):
        yield from _complete(recipe_names("benchmark"))
    elif (command, action.dest) == ("list", "group"):
        yield from _complete(catalogue.groups)
    elif (command, action.dest) == ("new", "group"):
        yield from _complete(ROLES)
    elif (command, action.dest) == ("list", "choice"):
        yield from _complete(catalogue.choices.get(words[0], {}))
    elif action.dest in _OVERRIDES:
        if metavar.startswith("RANKER") and "=" not in last:
            yield from _complete(catalogue.choices["ranker"])
        yield from _overrides(command, words, last, catalogue)
    elif action.type is Path or metavar.startswith(("RUN", "DIR")):
        yield from _paths(last, files=metavar in _FILES)


def _complete(words: Iterable[str]) -> Iterator[str]:
    yield from (f"{word} " for word in words)


def _overrides(command: str, words: Sequence[str], last: str, catalogue: Catalogue) -> Iterator[str]:
    """Groups, settings and their values; `+`, `++` and `~` before a name are kept. Measures are in a list."""
    sign, name, value = re.fullmatch(r"(\+{0,2}|~)([^=]*)(=?.*)", last, re.DOTALL).groups()  # type: ignore[union-attr]
    tree = catalogue.tree(words)
    if not value:
        chosen = catalogue.chosen(words)
        for group in catalogue.choices:
            if (group in chosen or group not in catalogue.parts) and (group != MEASURE or command == "check"):
                yield f"{sign}{group}="
        for setting in _names(tree, name):
            yield f"{sign}{setting}"
        return
    listed, comma, _ = value[1:].rpartition(",")
    before = f"{sign}{name}={listed}{comma}"  # in the list of a sweep, the last value is completed
    if name == "measures":
        yield from (f"{before}{'' if comma else '['}{choice}" for choice in catalogue.choices[MEASURE])
    elif name in catalogue.choices:
        several = comma or "-m" in words or "--multirun" in words
        yield from (f"{before}{choice}{'' if several else ' '}" for choice in catalogue.choices[name])
    elif name.rpartition(".")[2] in _FOLDER_SETTINGS:
        yield from (f"{sign}{name}={folder}" for folder in _paths(value[1:]))
    else:
        yield from (f"{before}{value}" for value in _values(tree, name))


def _names(tree: Mapping[Any, Any], typed: str) -> Iterator[str]:
    """Settings on the level that was typed: `ranker.` and, after it, `ranker.l2=`."""
    level: Any = tree
    path = ""
    for part in typed.split(".")[:-1]:
        level = level.get(part, level.get(int(part)) if part.isdigit() else None)
        if not isinstance(level, Mapping):
            return
        path += f"{part}."
    for key, value in level.items():
        if not isinstance(value, Mapping):
            yield f"{path}{key}="
        elif value:
            yield f"{path}{key}."


def _values(tree: Mapping[Any, Any], name: str) -> Iterator[str]:
    """The values of a setting: true and false for a switch, otherwise the default."""
    value: Any = tree
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        yield from ("true ", "false ")
    elif isinstance(value, int | float) or (isinstance(value, str) and re.fullmatch(r"\w+", value)):
        yield f"{value} "


def _paths(typed: str, files: bool = False) -> Iterator[str]:
    """Folders whose path begins with `typed`, and with `files` the files after them.

    `~` and `$HOME`, which the shell expands, stay as typed.
    """
    head, slash, _ = typed.rpartition("/")
    parent = Path(os.path.expanduser(re.sub(r"^\$HOME(?=/)", "~", head + slash)) or ".")
    try:
        entries = sorted(entry for entry in parent.iterdir() if not entry.name.startswith("."))
        folders = [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return
    yield from (f"{head}{slash}{name}/" for name in folders)
    if files:
        yield from (f"{head}{slash}{entry.name} " for entry in entries if entry.name not in folders)
