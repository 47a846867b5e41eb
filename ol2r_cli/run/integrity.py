"""Whether the files of a run are complete, and those that it has written.

Parquet as polars writes it has no checksums, and a flipped bit in a table mostly gives other numbers without an error.
So a table carries a seal: the id of its run and the crc32 of the file, in the metadata at its end. It is verified
before the table is parsed. A finished run records the hashes of its files in `run.json`, and that of `run.json` itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ol2r_cli.run.directory import INTERACTIONS, SUMMARY, RunDirectory
from ol2r_cli.untrusted_file import open_file

if TYPE_CHECKING:
    import polars as pl

TRACE = "trace.parquet"
# The files that decide what is reported of a run.
RESULTS = (TRACE, "evaluation.parquet", "blocks.parquet", INTERACTIONS, SUMMARY, "ranker.pt", "config.yaml")
REMOVABLE = (INTERACTIONS,)  # what `ol2r clean` may remove from a finished run
_READ_ALWAYS = (SUMMARY, "config.yaml")  # small files, whose contents are compared at every look at a finished run

ROW_GROUP = 2**15  # rows; so few that a seed can be read without the others
_SEAL = re.compile(rb"ol2r run (\S*) crc32 ([0-9a-f]{8})")
_OPEN = "00000000"  # in place of the checksum while it is computed
_END = 65_536  # bytes at the end of a file among which its seal is
_BLOCK = 2**20  # bytes that are read at once


class DamagedTable(ValueError):
    """A table of a run was changed after it was written, or is not a table."""


def write_table(stream: BinaryIO, rows: pl.DataFrame | pl.LazyFrame, run: str) -> None:
    """Write a table with its seal. `run` is the id of the run. Rows of a LazyFrame never are all in memory.

    OSError where the file cannot be written, also on a full disk, which polars reports as an error of its own.
    """
    import polars as pl

    seal = f"ol2r run {run} crc32 {_OPEN}".encode()
    settings: Any = {"compression": "zstd", "row_group_size": ROW_GROUP, "metadata": {"ol2r": seal.decode()}}
    target = _Target(stream)
    try:
        if isinstance(rows, pl.LazyFrame):
            rows.sink_parquet(target, **settings)  # type: ignore[call-overload]
        else:
            rows.write_parquet(target, **settings)  # type: ignore[arg-type]
    except pl.exceptions.PolarsError:
        if target.error is not None:
            raise target.error from None
        raise
    end = max(0, stream.tell() - _END)
    stream.seek(end)
    stream.seek(end + stream.read().rindex(seal) + len(seal) - len(_OPEN))
    stream.write(f"{target.crc32:08x}".encode())


class _Target:
    """A file to which polars writes: the checksum of what was written, and the error that polars would hide."""

    def __init__(self, stream: BinaryIO):
        self.stream, self.crc32 = stream, 0
        self.error: OSError | None = None

    def write(self, content: bytes) -> int:
        self.crc32 = zlib.crc32(content, self.crc32)
        try:
            return self.stream.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError as error:
            self.error = error
            raise


def read_table(file: Path, columns: Sequence[str] | None = None, run: str = "") -> pl.DataFrame:
    """The table in a file, or some of its columns; those that it does not have are left out.

    DamagedTable unless its seal is intact and, if `run` is given, that of this run. A table of version 0.1 has none.
    """
    import polars as pl

    with open_file(file) as stream:
        content = io.BytesIO(stream.read())  # at once, because a run may replace the file
    _check_seal(content, file.name, run)
    try:
        names = pl.read_parquet_schema(content)
        wanted = None if columns is None else [name for name in columns if name in names]
        return pl.read_parquet(content, columns=wanted)
    except pl.exceptions.PolarsError as error:
        raise _unreadable(file, error) from None


def scan_table(file: Path, run: str = "") -> pl.LazyFrame:
    """The table in a file, which nobody else may replace, for reading it in pieces. DamagedTable as `read_table`."""
    with open_file(file) as stream:
        _check_seal(stream, file.name, run)
    row_count(file)
    return scan(file)


def scan(file: Path) -> pl.LazyFrame:
    """A parquet file. polars would take its path for a pattern (`b[1]`, `*`), or for that of a user (`~name`)."""
    import polars as pl

    return pl.scan_parquet(file.absolute(), glob=False)


def row_count(file: Path) -> int:
    """The number of rows of a table, from the end of the file. DamagedTable for something else than a table."""
    import polars as pl

    try:
        return int(scan(file).select(pl.len()).collect().item())
    except pl.exceptions.PolarsError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: Exception) -> DamagedTable:
    return DamagedTable(f"{file.name} cannot be read ({str(error).splitlines()[0]})")


def _check_seal(stream: BinaryIO, name: str, run: str) -> None:
    """DamagedTable unless the seal of a table, if it has one, is intact and that of `run`, if this is not empty."""
    length = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, length - _END))
    end = stream.read()
    if seals := list(_SEAL.finditer(end)):
        owner, crc32 = seals[-1].groups()
        start, actual = length - len(end) + seals[-1].start(2), 0
        stream.seek(0)
        for size, replacement in ((start, b""), (len(_OPEN), _OPEN.encode()), (length, b"")):
            while size and (block := stream.read(min(size, _BLOCK))):
                actual = zlib.crc32(replacement or block, actual)
                size -= len(block)
        if f"{actual:08x}".encode() != crc32:
            raise DamagedTable(f"{name} was changed after it was written")
        if run and owner != run.encode():
            raise DamagedTable(f"{name} is of the run {owner.decode()}")
    stream.seek(0)


def file_records(directory: RunDirectory) -> dict[str, dict[str, Any]]:
    """Size and sha256 of the files with results that a directory has, for the manifest of a finished run."""
    paths = [directory / name for name in RESULTS if (directory / name).is_file()]
    return {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal digits."""
    with open_file(path) as file:
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
        files = [file for file in (*directory.parts(name), directory / name) if file.is_file()]
        try:
            for file in files:
                scan_table(file)  # verifies its seal
            count = sum(map(row_count, files))
        except DamagedTable as error:
            return str(error)
        if count != rows:
            return f"{name} has {count:,} rows, and {rows:,} were written"
    return ""
