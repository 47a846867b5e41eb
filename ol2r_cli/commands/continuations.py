"""What may come next on a command line that begins with `ol2r`, from the YAML files alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ol2r_cli.catalogue import Catalogue
from ol2r_cli.cli import COMMANDS
from ol2r_cli.complaint import OPTIONS
from ol2r_cli.compose import own_folders
from ol2r_cli.reproduce.book import names

_AFTER = {  # what an option expects
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
    "--select": ("validation",),
    "--compare": ("all",),
    "--test": ("t", "permutation"),
    "--format": ("md", "csv", "parquet", "latex", "html", "png", "svg", "pdf"),
    "--to": ("per-query", "trec", "tensorboard", "mlflow", "wandb"),
    "--split": ("test", "validation"),
    "--scale": ("quick", "paper"),
    "--state": ("failed", "interrupted", "killed", "damaged"),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}
_OPTIONS = {
    "report": (
        *("--metric", "--select", "--keep", "--overrides", "--baseline", "--compare", "--test", "--differences"),
        *("--figure", "--option", "--format", "--out"),
    ),
    "search": (
        *("--trials", "--minutes", "--metric", "--prune", "--no-prune", "--seed", "--jobs", "--name"),
        "--config-dir",
    ),
    "export": ("--to", "--out", "--split", "--data", "--points"),
    "diff": ("--metric", "--exit-code"),
    "reproduce": ("--scale", "--dry-run", "--out"),
    "clean": (
        "--state",
        "--checkpoints",
        "--interactions",
        "--logs",
        "--cache",
        "--cache-dir",
        "--older-than",
        "--yes",
    ),
}
_FOLDERS = ("path", "output_dir", "data_dir", "cache_dir")  # settings that name one, whatever group they are of


def continuations(line: str) -> list[str]:
    """The words that the last word of `line` (none after a blank) may become, in the order they are best listed.

    A finished word ends with a blank; what can go on (`ranker=`, `ranker.`, a folder) does not.
    """
    typed = re.findall(r"(?:\\.|'[^']*'?|\"[^\"]*\"?|[^\s\\'\"])+", line)
    words, last = [re.sub(r"[\\'\"]", "", word) for word in typed], ""
    if words and not re.search(r"(?<!\\)\s$", line):
        last = words.pop()
    last = re.sub(r"(?<==)~(?=/|$)", lambda _: os.path.expanduser("~"), last, count=1)  # Hydra refuses ~ in a value
    return [word for word in dict.fromkeys(_next(words[1:], last)) if word.startswith(last)]


def _next(words: Sequence[str], last: str) -> Iterator[str]:
    if not words:
        yield from _finished([*COMMANDS, "--help", "--version"])
        return
    command, *rest = words
    before = words[-1]
    if before in ("--config-dir", "-cd", "--data"):
        yield from _folders(last)
    elif before in _AFTER:
        yield from _finished(_AFTER[before])
    elif command == "run" and last.startswith("-"):
        yield from _finished(("-m", *OPTIONS))
    elif command == "report" and "--figure" in rest and (kinds := _kinds(before)):
        yield from _finished(kinds)
    elif command in _OPTIONS and last.startswith("-"):
        yield from _finished(_OPTIONS[command])
    elif command == "score" and last.startswith("-"):
        yield from _finished(("--seed", "--output", "--data"))
    elif command == "score" and rest:  # the file, and that for the scores
        yield from _folders(last, files=True)
    elif command == "completion":
        yield from _finished(("bash", "zsh") if not rest else ())
    elif command == "list":
        yield from _of_list(own_folders(rest)[0], _catalogue(rest))
    elif command == "data" and not rest:
        yield from _finished(("info", "prepare", "check"))
    elif command == "bench" and "=" not in last:
        yield from _finished(_catalogue(rest).choices["ranker"])
    elif command == "reproduce" and not rest:
        yield from _finished(names())
    elif command in ("run", "search", "data", "doctor", "reproduce"):
        yield from _overrides(rest, last)
    else:
        yield from _folders(last)


def _kinds(before: str) -> Sequence[str]:
    """The kinds of figures, where another may come: behind --figure, and behind a kind."""
    from ol2r_cli.report.figures import KINDS

    return tuple(KINDS) if before == "--figure" or before in KINDS else ()


def _catalogue(words: Sequence[str]) -> Catalogue:
    """With the user's own choices, where the line names a folder that exists."""
    return Catalogue([folder for folder in own_folders(list(words))[1] if folder.is_dir()])


def _finished(words: Iterator[str] | Sequence[str] | Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{word} " for word in words)


def _of_list(words: Sequence[str], catalogue: Catalogue) -> Iterator[str]:
    if not words:
        yield from _finished(catalogue.groups)
    elif len(words) == 1:
        yield from _finished(catalogue.choices.get(words[0], {}))
    yield "--config-dir "


def _overrides(words: Sequence[str], last: str) -> Iterator[str]:
    """Groups, settings and their values; `+`, `++` and `~` before a name are kept."""
    sign, name, value = re.fullmatch(r"(\+{0,2}|~)([^=]*)(=?.*)", last, re.DOTALL).groups()  # type: ignore[union-attr]
    catalogue = _catalogue(words)
    tree = catalogue.tree(words)
    if not value:
        chosen = catalogue.chosen(words)
        for group in catalogue.choices:
            if group in chosen or group not in catalogue.parts:
                yield f"{sign}{group}="
        for setting in _names(tree, name):
            yield f"{sign}{setting}"
        return
    listed, comma, _ = value[1:].rpartition(",")
    before = f"{sign}{name}={listed}{comma}"  # of a sweep's list only the last value is completed
    if name in catalogue.choices:
        several = comma or "-m" in words or "--multirun" in words
        yield from (f"{before}{choice}{'' if several else ' '}" for choice in catalogue.choices[name])
    elif name.rpartition(".")[2] in _FOLDERS:
        yield from (f"{sign}{name}={folder}" for folder in _folders(value[1:]))
    else:
        yield from (f"{before}{value}" for value in _values(tree, name))


def _names(tree: Mapping[Any, Any], typed: str) -> Iterator[str]:
    """Settings on the level that has been typed: `ranker.` and, once that is typed, `ranker.l2=`."""
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
    """true and false for a switch, the default of another setting."""
    value: Any = tree
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        yield from ("true ", "false ")
    elif isinstance(value, int | float) or (isinstance(value, str) and re.fullmatch(r"\w+", value)):
        yield f"{value} "


def _folders(typed: str, files: bool = False) -> Iterator[str]:
    """Folders whose path begins like this; `~` and `$HOME`, which the shell expands, are kept as they were typed.

    files: files as well, behind the folders.
    """
    head, slash, _ = typed.rpartition("/")
    parent = Path(os.path.expanduser(re.sub(r"^\$HOME(?=/)", "~", head + slash)) or ".")
    try:
        shown = sorted(entry for entry in parent.iterdir() if not entry.name.startswith("."))
        folders = [entry.name for entry in shown if entry.is_dir()]
    except OSError:
        return
    yield from (f"{head}{slash}{name}/" for name in folders)
    if files:
        yield from (f"{head}{slash}{entry.name} " for entry in shown if entry.name not in folders)
