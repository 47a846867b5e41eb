"""The references of choices and of ol2r itself as BibTeX, from `references.bib` here and those of kinds of runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ol2r_cli import __version__
from ol2r_cli.plugins import other_kinds

_NAME = "references.bib"
_BLOCK = re.compile(r"% (?P<choices>\S.*)\n(?P<entry>@\w+\{(?:.+\n)+)")
_WITHOUT = "none", "linear"  # choices that are the absence of one


class Reference(NamedTuple):
    """A BibTeX entry, and the choices (group, name) that it is for; of ol2r, and of what is not of one alone, none."""

    choices: frozenset[tuple[str, str]]
    entry: str


@cache
def references() -> tuple[Reference, ...]:
    """Return all references, that of ol2r first; an entry that several files have is for the choices of all."""
    files = [Path(__file__).with_name(_NAME), *(kind.references for kind in other_kinds() if kind.references)]
    choices: dict[str, set[tuple[str, str]]] = {}  # by entry
    for file in files:
        for block in _BLOCK.finditer(file.read_text(encoding="utf-8").replace("VERSION", __version__)):
            words = [word.partition("=") for word in block["choices"].split() if "=" in word]
            named = {(group, name) for group, _, names in words for name in names.split(",")}
            choices.setdefault(block["entry"], set()).update(named)
    return tuple(Reference(frozenset(named), entry) for entry, named in choices.items())


def bibtex(runs: Iterable[Mapping[str, str]]) -> tuple[str, list[str]]:
    """Return the entries for ol2r and the choices of runs, and the choices that have none, as they are typed."""
    chosen = {choice for choices in runs for choice in choices.items() if choice[1] not in _WITHOUT}
    of_program, *others = references()
    cited = [of_program, *(reference for reference in others if reference.choices & chosen)]
    missing = chosen - {choice for reference in cited for choice in reference.choices}
    return "\n".join(reference.entry for reference in cited), sorted(f"{group}={name}" for group, name in missing)
