"""The references of choices and of ol2r itself as BibTeX, from `references.bib` beside this file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ol2r_cli import __version__

_FILE = Path(__file__).with_name("references.bib")
_BLOCK = re.compile(r"% (?P<choices>\S.*)\n(?P<entry>@\w+\{(?:.+\n)+)")
_WITHOUT = "none", "linear"  # choices that are the absence of one


class Reference(NamedTuple):
    """A BibTeX entry, and the choices (group, name) that it is for; of ol2r none."""

    choices: frozenset[tuple[str, str]]
    entry: str


@cache
def references() -> tuple[Reference, ...]:
    """Return all references in the order of the file, which begins with ol2r."""
    found = []
    for block in _BLOCK.finditer(_FILE.read_text(encoding="utf-8").replace("VERSION", __version__)):
        words = [word.partition("=") for word in block["choices"].split() if "=" in word]
        choices = {(group, name) for group, _, names in words for name in names.split(",")}
        found.append(Reference(frozenset(choices), block["entry"]))
    return tuple(found)


def bibtex(runs: Iterable[Mapping[str, str]]) -> tuple[str, list[str]]:
    """Return the entries for ol2r and the choices of runs, and the choices that have none, as they are typed."""
    chosen = {choice for choices in runs for choice in choices.items() if choice[1] not in _WITHOUT}
    cited = [each for each in references() if not each.choices or each.choices & chosen]
    missing = chosen - {choice for reference in cited for choice in reference.choices}
    return "\n".join(reference.entry for reference in cited), sorted(f"{group}={name}" for group, name in missing)
