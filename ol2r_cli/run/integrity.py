"""Whether the files of a run are complete, and those that it has written.

Parquet as polars writes it has no checksums, and a flipped bit in a table mostly gives other numbers without an error.
So a table carries a seal: the id of its run and the crc32 of the file, in the metadata at its end. It is verified
before the table is parsed. A finished run records the hashes of its files in `run.json`, and that of `run.json` itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.run.directory import INTERACTIONS, SUMMARY, RunDirectory

if TYPE_CHECKING:
    import polars as pl

TRACE = "trace.parquet"
# The files that decide what is reported of a run.
RESULTS = (TRACE, "evaluation.parquet", "blocks.parquet", INTERACTIONS, SUMMARY, "ranker.pt", "config.yaml")
REMOVABLE = (INTERACTIONS,)  # what `ol2r clean` may remove from a finished run
_READ_ALWAYS = (SUMMARY, "config.yaml")  # small files, whose contents are compared at every look at a finished run

_SEAL = re.compile(rb"ol2r run (\S*) crc32 ([0-9a-f]{8})")
_OPEN = "00000000"  # in place of the checksum while it is computed


class DamagedTable(ValueError):
    """A table of a run was changed after it was written, or is not a table."""


def write_table(file: Path, frame: pl.DataFrame, run: str) -> None:
    """Write a table with its seal. `run` is the id of the run."""
    content = io.BytesIO()
    seal = f"ol2r run {run} crc32 {_OPEN}".encode()
    frame.write_parquet(content, compression="zstd", metadata={"ol2r": seal.decode()})
    table = bytearray(content.getbuffer())
    end = table.rindex(seal) + len(seal)
    table[end - len(_OPEN) : end] = f"{zlib.crc32(table):08x}".encode()
    file.write_bytes(table)


def read_table(file: Path, columns: Sequence[str] | None = None, run: str = "") -> pl.DataFrame:
    """The table in a file, or some of its columns; those that it does not have are left out.

    DamagedTable unless its seal is intact and, if `run` is given, that of this run. A table of version 0.1 has none.
    """
    import polars as pl

    content = file.read_bytes()
    seals = list(_SEAL.finditer(content, max(0, len(content) - 65_536)))
    if seals:
        owner, crc32 = seals[-1].groups()
        start, end = seals[-1].span(2)
        view = memoryview(content)
        actual = zlib.crc32(view[end:], zlib.crc32(_OPEN.encode(), zlib.crc32(view[:start])))
        if f"{actual:08x}".encode() != crc32:
            raise DamagedTable(f"{file.name} was changed after it was written")
        if run and owner != run.encode():
            raise DamagedTable(f"{file.name} is of the run {owner.decode()}")
    try:
        names = pl.read_parquet_schema(io.BytesIO(content))
        wanted = None if columns is None else [name for name in columns if name in names]
        return pl.read_parquet(io.BytesIO(content), columns=wanted)
    except pl.exceptions.PolarsError as error:
        raise DamagedTable(f"{file.name} cannot be read ({str(error).splitlines()[0]})") from None


def file_records(directory: RunDirectory) -> dict[str, dict[str, Any]]:
    """Size and sha256 of the files with results that a directory has, for the manifest of a finished run."""
    paths = [directory / name for name in RESULTS if (directory / name).is_file()]
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum(manifest: Mapping[str, Any]) -> str:
    """The checksum of a manifest, which it has as `checksum` when the run has finished."""
    content = {name: value for name, value in manifest.items() if name != "checksum"}
    return f"{zlib.crc32(json.dumps(content).encode()):08x}"


def damage(path: Path, manifest: Mapping[str, Any], thorough: bool = False) -> str:
    """Which file of a finished run is missing or is not as it was when the run finished; empty if none is.

    Unless it is `thorough`, only the sizes of large files are compared: tables are verified when they are read
    (`read_table`). Of a run of a version that did not record its files, only the summary is looked for.
    """
    if manifest.get("checksum", "") not in ("", checksum(manifest)):
        return "run.json was changed after the run had finished"
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
        if (thorough or name in _READ_ALWAYS) and sha256(path / name) != record["sha256"]:
            return f"{name} has another content than when the run finished"
    return ""


def missing_rows(directory: RunDirectory, expected: Mapping[str, int]) -> str:
    """Which table does not have the rows that are `expected` in it, by its file; empty if all have them."""
    for name, rows in expected.items():
        try:
            count = len(read_table(directory / name)) if (directory / name).is_file() else 0
        except DamagedTable as error:
            return str(error)
        if count != rows:
            return f"{name} has {count:,} rows, and {rows:,} were written"
    return ""
