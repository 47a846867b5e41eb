"""Whether the files of a run are complete, and those that it has written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ol2r_cli.run.directory import INTERACTIONS, SUMMARY, RunDirectory

TRACE = "trace.parquet"
RESULTS = (TRACE, "evaluation.parquet", "blocks.parquet", INTERACTIONS, SUMMARY, "ranker.pt")  # files with results
REMOVABLE = (INTERACTIONS,)  # what `ol2r clean` may remove from a finished run


def file_records(directory: RunDirectory) -> dict[str, dict[str, Any]]:
    """Size and sha256 of the files with results that a directory has, for the manifest of a finished run."""
    paths = [directory / name for name in RESULTS if (directory / name).is_file()]
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(path: Path, manifest: Mapping[str, Any]) -> str:
    """Which file of a finished run is missing or has another size than when it finished; empty if none has.

    Of a run of a version that did not record its files, only the summary is looked for. Contents are compared by
    `ol2r verify` only.
    """
    files = manifest.get("files")
    if files is None:
        return "" if (path / SUMMARY).is_file() else f"{SUMMARY} is missing"
    for name, record in files.items():
        try:
            size = (path / name).stat().st_size
        except FileNotFoundError:
            if name not in REMOVABLE:
                return f"{name} is missing"
            continue
        if size != record["bytes"]:
            return f"{name} has {size:,} bytes, and had {record['bytes']:,} when the run finished"
    return ""


def row_count(path: Path) -> int:
    """The number of rows of a table; 0 without a file. PolarsError for a damaged one."""
    import polars as pl

    return pl.scan_parquet(path).select(pl.len()).collect().item() if path.is_file() else 0


def missing_rows(directory: RunDirectory, expected: Mapping[str, int]) -> str:
    """Which table does not have the rows that are `expected` in it, by its file; empty if all have them."""
    from polars.exceptions import PolarsError

    for name, rows in expected.items():
        try:
            count = row_count(directory / name)
        except PolarsError as error:
            return f"{name} cannot be read ({str(error).splitlines()[0]})"
        if count != rows:
            return f"{name} has {count:,} rows, and {rows:,} were written"
    return ""
