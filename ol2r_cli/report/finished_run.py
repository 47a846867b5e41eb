"""Finished runs as a report reads them: from their directories, or from one parquet file of published results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ol2r_cli.columns import RunColumns
from ol2r_cli.config.catalogue import Catalogue, dotted
from ol2r_cli.files import invalid_fields, plain
from ol2r_cli.formatting import error_line, one_line, printable
from ol2r_cli.kinds import RunKind, kind_of
from ol2r_cli.lazy import pl
from ol2r_cli.report.measures import declare, described
from ol2r_cli.report.units import SEEDS, Units
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import DamagedFile, Run, scan

FOLD = "dataset.fold"
CODE = "own_code"  # added to the settings, as `ranker.own_code`: the hash of the user's code
# Settings that never distinguish groups. The dataset does, by its data instead of the path of its files: `group_runs`.
IGNORED = NOT_HASHED | {"seed", "replicas", FOLD}
# Settings of what is recorded of an experiment. They do not change what happens in it.
RECORDING = {
    *("evaluate_every", "evaluate_rounds", "evaluate_on", "measures", "trace_cosine"),
    *("block_rounds", "save_interactions"),
}
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,[^{}]*)?\}")  # ${ranker.l2}, ${oc.select:ranker.l2,1.0}
_TYPED = re.compile(r"(?<!\S)['\"]*[+~]*([^\s'\"=]+)=")  # the name of a setting in a command


@dataclass(frozen=True)
class FinishedRun:
    """One finished run.

    settings: those that can change results, by dotted name (`dataset.queries.train`), without seed, replicas and
    dataset.fold, and the hashes of its own code, as `ranker.own_code`. fingerprint: that of the dataset. values: the
    metrics of each seed, or of what `units` has in place of seeds, None where one does not apply. typed: names of
    settings on the command line. columns: those of its tables. cpu_seconds, peak_memory_gb, note: as in run.json; None
    or empty where an earlier version wrote it.
    """

    path: Path
    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    fold: Any
    fingerprint: str
    values: Mapping[int, Mapping[str, float | None]]
    typed: frozenset[str] = frozenset()
    id: str = ""
    columns: RunColumns = field(default_factory=RunColumns)
    cpu_seconds: float | None = None
    peak_memory_gb: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Make text, which may be of others, printable; ValueError for unknown metrics and for what is no number."""
        for name in ("choices", "settings", "fold", "fingerprint", "typed", "id", "note"):
            vars(self)[name] = _printable(getattr(self, name))
        declare(self.columns)
        for name in self.metrics:
            described(name)
        types = {kind for of_seed in self.values.values() for kind in map(type, of_seed.values())}
        if not types <= {int, float, type(None)} or {*map(type, self.values)} != {int}:
            raise ValueError("it must have a number or null of every metric for each seed")

    @cached_property
    def kind(self) -> RunKind:
        """Its kind of run."""
        return kind_of(self.choices)

    @cached_property
    def units(self) -> Units:
        """What its values are of."""
        return self.kind.units() if self.kind.units else SEEDS

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.values)

    @property
    def metrics(self) -> Iterable[str]:
        """The names of its metrics."""
        return next(iter(self.values.values()), {}).keys()


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_printable(name): _printable(inner) for name, inner in value.items()}
    if isinstance(value, list | frozenset):
        return type(value)(map(_printable, value))
    return printable(value) if isinstance(value, str) else value


def read_run(run: Run) -> FinishedRun:
    """A run as a report reads it; ValueError, OSError or LookupError where its files cannot be read."""
    if run.state in ("damaged", "unreadable"):
        raise ValueError(run.error)
    choices, kind = {"intent": "none"} | dict(run.choices), kind_of(run.choices)
    flat = run.flat_settings
    settings = {name: value for name, value in flat.items() if name != kind.fold and distinguishes(name)}
    settings |= {"results_version": run.manifest["results_version"]} | code_settings(run.manifest)
    settings = {kind.as_shown(name): value for name, value in settings.items()}
    settings.setdefault("rounds", run.rounds)
    units = kind.units() if kind.units else SEEDS
    return FinishedRun(
        path=run.path,
        choices=choices,
        settings=settings,
        fold=flat.get(kind.fold),
        fingerprint=run.fingerprint,
        values=units.read(run),
        typed=frozenset(_TYPED.findall(run.command)),
        id=run.id,
        columns=run.columns,
        cpu_seconds=run.manifest.get("cpu_seconds"),
        peak_memory_gb=run.manifest.get("peak_memory_gb"),
        note=run.manifest.get("note") or "",
    )


@lru_cache(maxsize=4096)
def distinguishes(setting: str) -> bool:
    """Whether different values of a setting can make different groups.

    False for the dataset's data_dir and cache_dir, and for what the columns of a measure say: its class and cutoff.
    """
    parts = setting.split(".")
    prefixes = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    never = {"dataset": NOT_HASHED, "measure": {"_target_", "cutoff"}}.get(parts[0], ())
    return not prefixes & IGNORED and parts[-1] not in never


@lru_cache(maxsize=2)
def _catalogue(root: str = "run") -> Catalogue:
    return Catalogue(root=root)


@lru_cache(maxsize=4096)
def _defaults(choices: tuple[tuple[str, str], ...]) -> list[tuple[str, Any]]:
    return list(dotted(_catalogue().tree([f"{group}={choice}" for group, choice in choices])))


def default_settings(choices: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of the chosen files of ol2r beside these settings, without those that depend on the machine.

    A default that follows another setting, as exploration.l2 follows ranker.l2, is that setting's value.
    """
    defaults = dict(_defaults(tuple(choices.items())))
    for name in settings:
        if found := re.fullmatch(r"measure\.(\w+)(?:@\d+)?\.(\w+)", name):  # measures are no choices of a run
            choice = _catalogue().choices["measure"].get(found[1])
            defaults |= {name: choice.values[found[2]]} if choice and found[2] in choice.values else {}
    for name, value in defaults.items():
        if isinstance(value, str) and (reference := _REFERENCE.fullmatch(value)):
            defaults[name] = settings.get(reference[1], value)
    return {name: value for name, value in defaults.items() if not (isinstance(value, str) and "${" in value)}


@lru_cache(maxsize=4096)
def default_parts(ranker: str) -> dict[str, str]:
    """The exploration, the fairness and, if it has one, the model that come with `ol2r run ranker=..`, by group.

    Of a ranker that does not come with ol2r only the fairness is known.
    """
    catalogue = _catalogue()
    known = ("ranker/model", "exploration", "fairness") if ranker in catalogue.choices["ranker"] else ("fairness",)
    chosen = catalogue.chosen([f"ranker={ranker}"])
    return {part: choice for part in known if (choice := chosen.get(part)) is not None}


def code_settings(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of its own code: {"ranker.own_code": "3f2a99c10b7d"}."""
    return {f"{part}.{CODE}": str(hash) for part, hash in (manifest.get("code") or {}).items()}


def read_tables(path: Path, read: Callable[[Run], pl.DataFrame]) -> pl.DataFrame:
    """What `read` makes of the run in a directory; ValueError, which names the run, where its tables are damaged."""
    try:
        if (run := Run.read(path)) is None or not run.manifest:
            raise DamagedFile(run.error if run else "there is no run")
        return read(run)
    except (OSError, DamagedFile, pl.exceptions.PolarsError) as error:
        reason = one_line(error)
        raise ValueError(f"the tables of {path} cannot be read ({reason}): force=true runs it again") from error


# Columns of a file of results that are the same for all seeds of a run; those of `_JSON` have JSON.
_COST = ("cpu_seconds", "peak_memory_gb")
_JSON = ("choices", "settings", "typed", "columns", "about")
_OF_RUN = ("run", "rows", "dataset", "fold", "click", "ranker", "fingerprint", *_COST, *_JSON)
_SCHEMA: dict[Any, Any] = {
    **dict.fromkeys(("run", "fingerprint"), str),
    **dict.fromkeys(_COST, (int, float, None)),
    **{"choices": {...: str}, "settings": dict, "typed": ([str], list), "columns": dict},
}


def results_frame(
    runs: Sequence[FinishedRun], about: Sequence[Mapping[str, Any]] = (), rows: Sequence[Sequence[str]] = ()
) -> pl.DataFrame:
    """A row for each run and seed: what identifies the run, its costs and settings, and all metrics.

    about: what else to keep of each run. rows: what tables call each run; a run may have several names. ValueError for
    a run whose tables cannot be read.
    """
    values: list[dict[str, Any]] = []
    for run, note, names in zip(runs, about or [{}] * len(runs), rows or [()] * len(runs), strict=True):
        content = (dict(run.choices), dict(run.settings), sorted(run.typed), run.columns.declared(), dict(note))
        texts = map(json.dumps, content)
        of_run = (run.id, list(names), run.choices["dataset"], run.fold, run.choices["click"], run.choices["ranker"])
        row = dict(zip(_OF_RUN, (*of_run, run.fingerprint, run.cpu_seconds, run.peak_memory_gb, *texts), strict=True))
        values += [row | {"seed": seed} | dict(metrics) for seed, metrics in run.values.items()]
    text = {"rows": pl.List(pl.String)}
    return pl.from_dicts(values, schema_overrides=text, infer_schema_length=None, strict=False)


def read_results(file: Path) -> list[tuple[FinishedRun, dict[str, Any]]]:
    """The runs of a file that has the rows of `results_frame`, each with its `about`.

    The path of a run is that of the file and its id: it has no tables. ValueError for another file.
    """
    try:
        rows = scan(file).collect().to_dicts()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{file} cannot be read: {one_line(error)}") from None
    if missing := [name for name in (*_OF_RUN, "seed") if rows and name not in rows[0]]:
        raise ValueError(f"{file} must have the results of runs, got a table without {', '.join(missing)}")
    found = []
    try:
        for _, group in groupby(rows, key=itemgetter(*_OF_RUN)):
            first, *others = group
            content = first | {name: plain(json.loads(first[name])) for name in _JSON}
            if wrong := invalid_fields(content, _SCHEMA):
                raise ValueError(f"no valid {', '.join(wrong)}")
            of_run = [first, *others]
            names = [n for n in first if n not in (*_OF_RUN, "seed") and any(row[n] is not None for row in of_run)]
            run = FinishedRun(
                path=file / content["run"],
                typed=frozenset(content["typed"]),
                id=content["run"],
                columns=RunColumns.of(content),
                values={row["seed"]: {n: None if row[n] != row[n] else row[n] for n in names} for row in of_run},
                **{name: content[name] for name in ("choices", "settings", "fold", "fingerprint", *_COST)},
            )
            found.append((run, content["about"]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} must have the results of runs, got a damaged row ({error_line(error)})") from None
    return found
