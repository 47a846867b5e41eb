"""Reads the directory of a run, finished or not. No other module parses what a run has written.

Every file of a finished run is compared with its sha256 in `run.json` when it is read, and every table of an unfinished
one with that in its checkpoint. A run may come from others: its files are read as plain values, within limits
(`ol2r_cli/files.py`), and no class that it names is built before it is checked.

The columns of its tables are public and frozen by tests. Measures may add more, which `run.json` records.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
import re
import shlex
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from ol2r_cli.columns import EVALUATION_COLUMNS, TRACE_COLUMNS, Column, RunColumns
from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.overrides import names_of
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.config.ranges import with_whole_numbers
from ol2r_cli.files import invalid_fields, is_held, open_file, parse_json, parse_yaml, read_json, text_of
from ol2r_cli.lazy import pl, torch
from ol2r_cli.run import CHECKPOINT, CONFIG, LOCK, MANIFEST, REMOVABLE, SUMMARY
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.text.formatting import error_line

STATES = ("running", "finished", "interrupted", "killed", "failed", "damaged", "unreadable")
# Ends of the names under which hashes of the user's code, and of files that settings name, stand beside settings.
CODE, CONTENT = "own_code", "sha256"
RENEWED = 120.0  # seconds; a process renews its manifest every two, if rounds are not longer
_READ_ALWAYS = (SUMMARY, CONFIG)  # small files, whose contents are compared at every look at a finished run
_FILES: dict[Any, Any] = {...: {"bytes": int, "sha256": str}}
_MANIFEST: dict[Any, Any] = {  # what a run.json has; with None, what is not known at first
    **{"id": str, "command": str, "choices": {...: str}, "dataset": {"fingerprint": str}, "seeds": [int]},
    **{"progress": {"round": int, "rounds": int}, "results_version": int, "sittings": (int, None)},
    **dict.fromkeys(("note", "error", "checksum", "device", "host"), (str, None)),
    **dict.fromkeys(("seconds", "startup_seconds", "cpu_seconds"), (int, float, None)),
    **dict.fromkeys(("peak_memory_gb", "rounds_per_second"), (int, float, None)),
    "typed": ([str], None),
    "ran": ([{"after": int}], None),
    "files": (_FILES, None),
    "versions": ({...: (str, None)}, None),
    "git": ({"commit": str, "dirty": bool}, None),
    "code": (dict, None),
    "inputs": ({...: str}, None),
    "start": ({"seeds": [int], "choices": {...: str}, "settings": dict, "fingerprint": str}, None),
    "columns": ({"trace": (list, None), "evaluation": (list, None)}, None),
}
_CHECKPOINT: dict[Any, Any] = {"results_version": int, "fingerprint": str, "files": _FILES, "state": dict}
# The errors that zipfile and torch raise for a damaged file, and for a file that is not a checkpoint.
_DAMAGE = (BadZipFile, OSError, EOFError, RuntimeError, LookupError, ValueError, TypeError, pickle.UnpicklingError)
_SUMMARY: dict[Any, Any] = {
    "metrics": {...: {"mean": (int, float), "sd": (int, float, None), "n": int}},
    "by_seed": {"seed": [int]},
}

Files = Mapping[str, Mapping[str, Any]]  # size and sha256 of files by name


class DamagedFile(ValueError):
    """A file of a run is missing, was changed after it was written, or is not what it should be."""


@dataclass(frozen=True, eq=False)
class Table:
    """A parquet file with one row per `key`, sorted by it. `columns` maps names of columns to names of polars types."""

    file: str
    key: tuple[str, ...]
    columns: Mapping[str, str]

    @property
    def schema(self) -> dict[str, Any]:
        """Return the columns with their types of polars."""
        return {name: getattr(pl, dtype) for name, dtype in self.columns.items()}

    def with_columns(self, measured: Mapping[str, Column]) -> Table:
        """Return the table of a run whose measures have these columns, which are added where it does not have them."""
        types = {name: column.type for name, column in measured.items()}
        return replace(self, columns={**self.columns, **types})


_BY_ROUND = {"seed": "Int64", "round": "Int64"}
TRACE = Table(  # rounds are from 1
    "trace.parquet", ("seed", "round"), _BY_ROUND | {name: column.type for name, column in TRACE_COLUMNS.items()}
)
EVALUATION = Table(  # round 0 is the untrained ranker; split is validation or test
    "evaluation.parquet",
    ("seed", "round", "split"),
    _BY_ROUND | {"split": "String"} | {name: column.type for name, column in EVALUATION_COLUMNS.items()},
)
BLOCKS = Table(  # `rank` is from 1, over all documents of the query; `block_size` is of the block with this rank
    "blocks.parquet", ("seed", "round", "rank"), _BY_ROUND | {"rank": "Int32", "block_size": "Int32"}
)
INTERACTIONS = Table(
    "interactions.parquet",
    ("seed", "round", "rank"),
    # `rank` is from 1, in the shown list; `query` is its number within the training split; `document` is its row in the
    # dataset's document table
    _BY_ROUND | {"rank": "Int32", "query": "Int64", "document": "Int64", "click": "Boolean"},
)

VALIDATION_CLICKS = Table(
    "validation_clicks.parquet",
    ("seed", "query", "rank", "last_click"),
    # `query` is its number within the validation split; `last_click` is the rank of the last click above, 0 for none
    {
        **{"seed": "Int64", "query": "Int64", "document": "Int64", "rank": "Int32", "last_click": "Int32"},
        **{"shown": "Int64", "clicked": "Int64"},
    },
)


def parts(names: Iterable[str], table: Table) -> list[str]:
    """Return those of the named files that have rows of a table, earlier rounds first."""
    files = (name for name in names if name == table.file or is_part(name, table.file))
    return sorted(files, key=lambda name: (len(name), name))  # a number has five digits or more


def is_part(name: str, table: str = r"(trace|evaluation|blocks|interactions).parquet") -> bool:
    """Return whether a file of this name has some rows of a table of an unfinished run: `trace.part00001.parquet`."""
    return re.fullmatch(table.replace(".", r"\.part\d{5,}\."), name) is not None


def scan(file: Path) -> pl.LazyFrame:
    """Return a parquet file, whose path polars would take for a pattern (`b[1]`, `*`) or for that of a user (`~me`)."""
    return pl.scan_parquet(file.absolute(), glob=False)


def _complete(table: Table, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows of a file with all columns of a table: one that they lack is null, and one that only they have
    stays."""
    schema, present = table.schema, rows.collect_schema()
    for name, dtype in present.items():
        wanted = schema.get(name, pl.Float64 if dtype != pl.Boolean else dtype)
        like = dtype.is_integer() if wanted.is_integer() else wanted.is_float() and dtype.is_numeric()
        if dtype != wanted and not like:
            raise ValueError(f"{table.file} must have {wanted} as {name}, got {dtype}")
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in present]
    return rows.with_columns(missing).select(*schema, pl.exclude(*schema)) if missing else rows


def _rows(table: Table) -> cached_property[pl.DataFrame]:
    return cached_property(lambda run: run.table(table))


class Metrics(dict[str, dict[str, Any]]):
    """The metrics of a summary.json; what else the file has is found by the names that it has there.

    So `["metrics"]["test_ndcg_10"]`, as in the file, and `["test_ndcg_10"]` are the same.
    """

    def __init__(self, content: Mapping[str, Any]):
        super().__init__(content["metrics"])
        self._content = content

    def __missing__(self, name: str) -> Any:
        return self._content[name]


class Run:
    """The run in a directory, as it was when it was read.

    `state` is one of `STATES`. running: a process holds the lock, or one on another machine, whose lock may not be seen
    here, has renewed the manifest in the last `RENEWED` seconds. killed: the manifest says running, but neither is so.
    damaged: it was finished, and a file of its results is missing or was changed. unreadable: its manifest is damaged,
    and `manifest` is empty. `error` says why it failed or what is damaged.

    Of the manifest: `id`, 10 hexadecimal digits, `command`, which runs it again, `choices` by group, `seeds` of the
    replicas, the `fingerprint` of the dataset, `round`, the last one completed, of `rounds`, `kept`, the one from which
    an unfinished run goes on, and the `columns` of the tables. The constructor's `files` are those that the tables are
    read from; None: those that `run.json` or the checkpoint records.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        manifest: Mapping[str, Any],
        state: str = "running",
        error: str | None = None,
        files: Files | None = None,
    ):
        self.path, self.manifest, self.state, self.error = Path(path), dict(manifest), state, error
        self.id: str = manifest.get("id", "")
        self.command: str = manifest.get("command", "")
        self.choices: Mapping[str, str] = manifest.get("choices", {})
        self.seeds: list[int] = list(manifest.get("seeds", ()))
        self.fingerprint: str = manifest.get("dataset", {}).get("fingerprint", "")
        progress = manifest.get("progress", {})
        self.round, self.rounds = (max(0, progress.get(name, 0)) for name in ("round", "rounds"))
        self.kept: int = min(self.round, max(0, progress.get("checkpoint", self.round)))
        if files is not None:
            self.files = files

    @classmethod
    def read(cls, path: str | os.PathLike[str], thorough: bool = False) -> Run | None:
        """Return the run in a directory; None if there is none. `thorough` compares the contents of all files of a
        finished run with their hashes, not only of those that are small."""
        path = Path(path)
        try:
            manifest = read_manifest(path)
            was_left = manifest is not None and manifest["status"] == "running" and not _is_running(path, manifest)
            if was_left:
                manifest = read_manifest(path)  # the run may have ended after the first reading
        except (OSError, ValueError) as error:
            return Run(path, {}, "unreadable", str(error))
        if manifest is None:
            return None
        state = manifest["status"]
        if state == "running" and was_left:
            state = "killed"
        damage = _damage_of(path, manifest, thorough) if state == "finished" else None
        if damage:
            return Run(path, manifest, "damaged", damage)
        return Run(path, manifest, state, manifest.get("error"))

    @classmethod
    def read_finished(cls, path: Path) -> Run:
        """Return the finished run in a directory; ValueError, which says what to type, for any other directory."""
        run = cls.read(path)
        if run is None or not run.manifest:
            raise ValueError(f"RUN must be a finished run, got {path} ({run.error if run else 'no run'})")
        if run.state == "damaged":
            raise ValueError(f"{path} is damaged ({run.error}): type {run.command}")
        if run.state != "finished":
            advice = "wait for it" if run.state == "running" else f"type {run.command}"
            raise ValueError(f"RUN must be a finished run, got {path}, which is {run.state}: {advice}")
        return run

    @property
    def remaining(self) -> float | None:
        """Seconds left at the present speed; None unless the run is running and its speed is known."""
        speed = self.manifest.get("rounds_per_second")
        return (self.rounds - self.round) / speed if self.state == "running" and speed and speed > 1e-9 else None

    @cached_property
    def columns(self) -> RunColumns:
        return RunColumns.of(self.manifest)

    @cached_property
    def files(self) -> Files:
        """The recorded files: the results of a finished run, or the parts of tables that the checkpoint goes with."""
        if self.manifest.get("status") == "finished":
            return self.manifest["files"]
        saved = read_checkpoint(self.path)
        return {} if saved is None else saved["files"]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings, nested as in config.yaml: settings["ranker"]["l2"]. Nothing in them has been checked.

        ValueError for a damaged file.
        """
        try:
            return parse_settings(text_of(self.content(CONFIG)))
        except (OSError, ValueError) as error:
            command = f"type {self.command} force=true"
            raise DamagedFile(f"{self.path / CONFIG} is damaged ({error_line(error)}): {command}") from None

    @cached_property
    def flat_settings(self) -> dict[str, Any]:
        """All settings by dotted name; whole numbers are equal written 1 or 1.0, as in the id of a run."""
        return with_whole_numbers(dict(dotted(self.settings)))

    @cached_property
    def typed(self) -> frozenset[str]:
        """The names of the choices and settings of its command line, which an earlier version recorded by the command
        alone."""
        recorded = self.manifest.get("typed")
        if recorded is None:
            try:
                recorded = names_of(shlex.split(self.command))
            except ValueError:  # a quote without an end
                recorded = names_of(self.command.split())
        return frozenset(recorded)

    @property
    def code_settings(self) -> dict[str, str]:
        """The hashes of its own code and of the files that its settings name: {"ranker.own_code": "3f2a99c10b7d",
        "ranker.scores.sha256": "90ab3c5d1e77"}."""
        code = {f"{part}.{CODE}": str(hash) for part, hash in (self.manifest.get("code") or {}).items()}
        inputs = self.manifest.get("inputs") or {}
        return code | {f"{setting}.{CONTENT}": hash[:12] for setting, hash in inputs.items()}

    def as_start(self) -> dict[str, Any]:
        """Return what the run.json of a run that starts from this one says of it: choices, settings by dotted name,
        fingerprint, note, and what it started from itself."""
        settings = {name: value for name, value in self.flat_settings.items() if name not in NOT_HASHED}
        return {
            "choices": dict(self.choices),
            "settings": settings | self.code_settings,
            "fingerprint": self.fingerprint,
            "note": self.manifest.get("note") or "",
            "start": self.manifest.get("start"),
        }

    @cached_property
    def summary_file(self) -> dict[str, Any]:
        """The content of summary.json, see `run/summary.py`. ValueError for a damaged file."""
        content = parse_json(text_of(self.content(SUMMARY)))
        if wrong := invalid_fields(content, _SUMMARY):
            raise DamagedFile(f"{SUMMARY} has no valid {', '.join(wrong)}")
        return content

    @cached_property
    def summary(self) -> Metrics:
        """Final values: metric -> mean, sd (over seeds, n - 1) and n."""
        return Metrics(self.summary_file)

    @cached_property
    def per_seed(self) -> pl.DataFrame:
        """The values behind `summary`: a row per seed, a column per metric that applies to the run."""
        return pl.DataFrame(self.summary_file["by_seed"])

    trace = _rows(TRACE)  # a row per seed and round
    evaluation = _rows(EVALUATION)  # a row per seed, evaluated round and split
    blocks = _rows(BLOCKS)  # block size at every rank; empty without `block_rounds`, or without blocks
    interactions = _rows(INTERACTIONS)  # documents shown and clicked; empty without `save_interactions=true`
    validation_clicks = _rows(VALIDATION_CLICKS)  # counts of its validation sessions; empty without any

    def table(self, table: Table, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of a table, sorted by its key; an empty frame if there are none.

        A column that the files lack is null, and one that only the files have stays; of `columns`, if given, those that
        there are. DamagedFile for a file that was changed or cannot be read.
        """
        names = self.parts(table)
        for name in names:
            check_file(self.path / name, self.files[name])
        try:
            frames = [_complete(table, scan(self.path / name)) for name in names]
            rows = pl.concat(frames or [pl.LazyFrame(schema=table.schema)], how="diagonal_relaxed")
            if len(frames) > 1:
                rows = rows.sort(table.key)
            if columns is not None:
                rows = rows.select(pl.selectors.by_name(*columns, require_all=False))
            return rows.collect()
        except (pl.exceptions.PolarsError, ValueError) as error:
            raise DamagedFile(f"{table.file} cannot be read ({error_line(error)})") from None

    def parts(self, table: Table) -> list[str]:
        """Return the files with rows of a table, earlier rounds first, without one that somebody has removed."""
        is_removed = table.file in REMOVABLE and not (self.path / table.file).exists()
        return [name for name in parts(self.files, table) if name != table.file or not is_removed]

    def content(self, name: str) -> bytes:
        """Return the bytes of a file that is not a table. OSError; DamagedFile unless they are those recorded.

        What an unfinished run does not record, such as its settings, is read as it is.
        """
        record = (self.manifest.get("files") or {}).get(name)
        with open_file(self.path / name) as stream:
            if record is None and self.manifest.get("status") == "finished":
                raise DamagedFile(f"{name} is not among the files of run.json")
            content = stream.read()
        if record is not None and hashlib.sha256(content).hexdigest() != record["sha256"]:
            raise DamagedFile(f"{name} has another content than when it was written")
        return content


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the content of run.json in the directory `path`; None without it, ValueError for a damaged one."""
    try:
        manifest = read_json(Path(path) / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    status = manifest.get("status") if isinstance(manifest, dict) else None
    if status not in ("running", "finished", "interrupted", "failed"):
        raise ValueError(f"its status is {status}")
    wrong = invalid_fields(manifest, _MANIFEST | ({"files": _FILES} if status == "finished" else {}))
    if not wrong and not {"dataset", "click", "ranker"} <= manifest["choices"].keys():
        wrong = ["choices"]
    if wrong:
        raise ValueError(f"{MANIFEST} has no valid {', '.join(wrong)}")
    return manifest


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return the content of checkpoint.pt in the directory `path`, with its tensors on the CPU: results_version,
    fingerprint (the id of its run), files and state. None without it, ValueError for a damaged one. Executes no code
    from it."""
    try:
        with open_file(path / CHECKPOINT) as stream:
            with ZipFile(stream) as archive:  # torch does not verify the checksums of its own format
                damaged = archive.testzip()
                if damaged is not None:
                    raise BadZipFile(f"wrong checksum of {damaged}")
            stream.seek(0)
            content = torch.load(stream, map_location="cpu", weights_only=True)
        if wrong := invalid_fields(content, _CHECKPOINT):
            raise ValueError(f"it has no valid {', '.join(wrong)}")
        return content
    except FileNotFoundError:
        return None
    except _DAMAGE as error:
        raise ValueError(f"{path / CHECKPOINT} cannot be read ({error_line(error)[:200]})") from None


def checksum(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest, which it has as `checksum` when the run has finished: no other file has its
    hash."""
    content = {name: value for name, value in manifest.items() if name != "checksum"}
    return f"{zlib.crc32(json.dumps(content).encode()):08x}"


def check_file(path: Path, record: Mapping[str, Any], content: bool = True) -> None:
    """Raise DamagedFile unless a file has the recorded size and, with `content`, the recorded sha256."""
    try:
        size = path.stat().st_size
        if size != record["bytes"]:
            raise DamagedFile(f"{path.name} has {size:,} bytes, and had {record['bytes']:,} when it was written")
        if content and sha256(path) != record["sha256"]:
            raise DamagedFile(f"{path.name} has another content than when it was written")
    except FileNotFoundError:
        raise DamagedFile(f"{path.name} is missing") from None


def sha256(path: Path) -> str:
    """Return the hash of a file, in hexadecimal digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged_files(path: Path, files: Files, thorough: bool = True) -> Iterator[str]:
    """Yield which of the recorded files are missing or are not as they were written. Unless it is `thorough`, only the
    sizes of large files are compared: their contents are when they are read."""
    for name, record in files.items():
        try:
            check_file(path / name, record, thorough or name in _READ_ALWAYS)
        except (ValueError, OSError) as error:  # ValueError: also of a name with a null byte
            if name not in REMOVABLE or (path / name).exists():
                yield str(error)


def _damage_of(path: Path, manifest: Mapping[str, Any], thorough: bool) -> str | None:
    """Return what is wrong with the files of a finished run; None if nothing is."""
    if manifest.get("checksum", "") not in ("", checksum(manifest)):
        return f"{MANIFEST} was changed after the run had finished"
    return next(damaged_files(path, manifest["files"], thorough), None)


def _is_running(path: Path, manifest: Mapping[str, Any]) -> bool:
    is_elsewhere = manifest.get("host") not in (None, platform.node())
    is_recent = abs(time.time() - (path / MANIFEST).stat().st_mtime) < RENEWED
    return is_held(path / LOCK) or (is_elsewhere and is_recent)


def parse_settings(text: str) -> dict[str, Any]:
    """Return the content of a `config.yaml`; ValueError for content that is not a mapping.

    Parsing YAML takes milliseconds, which adds up over a thousand runs, and the runs of a sweep share most of their
    text. So the text is split where an entry of the outermost mapping begins (`ranker:`, `rounds: 500`), and each
    distinct piece is parsed once. If a piece is not a mapping by itself, the text is parsed as a whole.
    """
    pieces = [piece for piece in re.split(r"^(?=\w+:)", text, flags=re.MULTILINE) if piece] or [text]
    try:
        return {name: value for piece in pieces for name, value in _parsed(piece).items()}
    except ValueError:
        return dict(_parsed(text))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> dict[str, Any]:
    content = parse_yaml(text)
    if not isinstance(content, dict):
        raise ValueError(f"it must be a mapping, got {type(content).__name__}")
    return content


def find_runs(root: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the run directories below `root`, which may be one itself, in alphabetical order. Runs do not nest."""
    for folder, subfolders, files in walk(root):
        if MANIFEST in files:
            subfolders.clear()
            yield folder


def walk(root: str | os.PathLike[str]) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield folders as `os.walk` does, in alphabetical order, without those below hidden ones."""
    for folder, subfolders, files in os.walk(root):
        yield Path(folder), subfolders, files
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))


def find_run(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """Return the run directory with the path `name` or, below `root`, with the id `name`; ValueError if there is none.

    Without `root`, the folder is output_dir of the project file, or outputs; FOLDER/ID names another one. A directory
    that was moved is found below `root` by the id in its name.
    """
    path = Path(name)
    if (path / MANIFEST).is_file():
        return path
    id = re.search("(?:^|-)([0-9a-f]{10})$", path.name)
    if id is not None and id[1] == path.name and len(path.parts) > 1:
        root = path.parent
    root = default_output_dir() if root is None else root
    if id is not None and not path.is_dir():
        for run in find_runs(root):
            if run.name.endswith(f"-{id[1]}"):
                return run
    missing = "in which there is no run" if path.is_dir() else "which is neither"
    raise ValueError(
        f"RUN must be the directory of a run or an id below {root}, got {name}, {missing}: see `ol2r status`"
    )


def named_runs(name: str) -> list[Path]:
    """Return the runs that an argument RUN|DIR names: those below a folder, or one by its directory or id."""
    return list(find_runs(name)) or [find_run(name)]
