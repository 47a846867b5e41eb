"""Compares the files of a data set with what is known about it: numbers of queries, documents, features; checksums."""

from __future__ import annotations

from dataclasses import dataclass

from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.locate import SPLITS


@dataclass(frozen=True)
class Finding:
    """One comparison; `found` and `expected` are texts for a table."""

    what: str
    found: str
    expected: str

    @property
    def agrees(self) -> bool:
        return self.found == self.expected


def check(dataset: Letor) -> list[Finding]:
    """Every comparison that can be made for the selected fold; parses it where the cache does not have it.

    Counts are of the whole fold, whatever choice of queries the settings make. Checksums are of its files, and of those
    only the known ones.
    """
    location = dataset.locate()
    table = dataset.parse(location)
    counts = {"queries": len(table.query_ids), "documents": len(table.labels), "features": table.largest_id}
    findings = [Finding(what, f"{counts[what]:,}", f"{number:,}") for what, number in dataset.expected.items()]
    missing = [split for split in SPLITS if dataset.files.get(split) and split not in location.files]
    if dataset.expected:
        findings += [Finding(f"{split} file", "none", " or ".join(dataset.files[split])) for split in missing]
    for file in location.files.values():
        name = file.relative_to(location.root).as_posix()
        known = dataset.checksums.get(name)
        if known is not None:
            findings.append(Finding(f"sha256 of {name}", dataset.cache.sha256(file), known))
    return findings
