"""One finished run as a report reads it: choices, settings that can change results, and metrics."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ol2r_cli.columns import RunColumns
from ol2r_cli.config.catalogue import Catalogue, dotted
from ol2r_cli.formatting import one_line, printable
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.report.measures import declare, described
from ol2r_cli.run.identity import ADDED, NOT_HASHED
from ol2r_cli.run.run import DamagedFile, Run

FOLD = "dataset.fold"
CODE = "own_code"  # added to the settings, as `ranker.own_code`: the hash of the user's code
# Settings that never distinguish groups. The dataset does, by its data instead of the path of its files: `group_runs`.
IGNORED = (NOT_HASHED - {"dataset", "measures"}) | {"seed", "replicas", FOLD}
# Settings of what is recorded of an experiment. They do not change what happens in it.
RECORDING = {
    *("evaluate_every", "evaluate_rounds", "evaluate_on", "measures", "trace_blocks", "trace_regret", "trace_cosine"),
    *("block_rounds", "save_interactions"),
}
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,[^{}]*)?\}")  # ${ranker.l2}, ${oc.select:ranker.l2,1.0}


@dataclass(frozen=True)
class FinishedRun:
    """One finished run.

    settings: those that can change results, by dotted name (`dataset.queries.train`), without seed, replicas and
    dataset.fold, and the hashes of its own code, as `ranker.own_code`. fingerprint: that of the dataset. metrics: mean,
    sd and n of summary.json. typed: names of settings on the command line. by_seed: the values of each metric, in the
    order of its entry "seed". columns: those of its tables.
    cpu_seconds, peak_memory_gb, note: as in run.json; None or empty where an earlier version wrote it.
    """

    path: Path
    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    fold: Any
    fingerprint: str
    seeds: tuple[int, ...]
    metrics: Mapping[str, Estimate]
    typed: frozenset[str] = frozenset()
    by_seed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    id: str = ""
    columns: RunColumns = field(default_factory=RunColumns)
    cpu_seconds: float | None = None
    peak_memory_gb: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Make text, which may be of others, printable; ValueError for unknown metrics and a wrong number of values."""
        vars(self).update(_printable(vars(self)))
        for name in self.metrics:
            described(name)
        seeds = self.by_seed.get("seed", ())
        if not (set(self.seeds) <= {*seeds} and {*map(len, self.by_seed.values())} == {len(seeds)}):
            raise ValueError("by_seed must have a value of every metric for each seed")


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_printable(name): _printable(each) for name, each in value.items()}
    if isinstance(value, list | frozenset):
        return type(value)(map(_printable, value))
    return printable(value) if isinstance(value, str) else value


def read_run(run: Run) -> FinishedRun:
    """A run as a report reads it; ValueError, OSError or LookupError where its files cannot be read."""
    if run.state in ("damaged", "unreadable"):
        raise ValueError(run.error)
    settings = {name: value for name, value in run.flat_settings.items() if distinguishes(name)}
    settings["results_version"] = run.manifest["results_version"]
    settings |= code_settings(run.manifest)
    declare(run.columns)
    choices = {part: str(run.choices[part]) for part in ("dataset", "click", "ranker")} | dict(run.choices)
    choices.setdefault("intent", "none")
    settings = added_settings(choices) | settings
    return FinishedRun(
        path=run.path,
        choices=choices,
        settings=settings,
        fold=run.flat_settings.get(FOLD),
        fingerprint=run.fingerprint,
        seeds=tuple(run.seeds),
        metrics={name: Estimate(values["mean"], values["sd"], values["n"]) for name, values in run.summary.items()},
        typed=_typed(run.command),
        by_seed=run.summary_file["by_seed"],
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


@lru_cache(maxsize=1)
def _catalogue() -> Catalogue:
    return Catalogue()


def default_settings(choices: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of the chosen files of ol2r beside these settings, without those that depend on the machine.

    A default that follows another setting, as exploration.l2 follows ranker.l2, is that setting's value.
    """
    defaults = {}
    for name, value in _defaults(tuple(choices.items())):
        reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if reference and reference[1] in settings:
            value = settings[reference[1]]
        if not (isinstance(value, str) and "${" in value):
            defaults[name] = value
    for name in settings:
        if found := re.fullmatch(r"measure\.(\w+)(?:@\d+)?\.(\w+)", name):  # measures are no choices of a run
            choice = _catalogue().choices["measure"].get(found[1])
            defaults |= {name: choice.values[found[2]]} if choice and found[2] in choice.values else {}
    return defaults


@lru_cache(maxsize=4096)
def _defaults(choices: tuple[tuple[str, str], ...]) -> list[tuple[str, Any]]:
    return list(dotted(_catalogue().tree([f"{group}={choice}" for group, choice in choices])))


def added_settings(choices: Mapping[str, str]) -> dict[str, Any]:
    """Settings that an earlier version did not write for these choices, with the values that do as it did."""
    added: dict[str, Any] = {}
    for name, value in ADDED.items():
        group, _, key = name.partition(".")
        choice = _catalogue().choices.get(group, {}).get(choices.get(group, ""))
        if choice is not None and (not key or key in choice.content):
            added |= dict(dotted({name: int(value) if isinstance(value, float) and value.is_integer() else value}))
    return added


def code_settings(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of its own code: {"ranker.own_code": "3f2a99c10b7d"}."""
    return {f"{part}.{CODE}": str(hash) for part, hash in (manifest.get("code") or {}).items()}


def _typed(command: str) -> frozenset[str]:
    words = command.split()
    if not {"'", '"', "\\"}.isdisjoint(command):  # shlex takes a millisecond
        with suppress(ValueError):  # an unbalanced quote
            words = shlex.split(command)
    return frozenset(word.partition("=")[0].lstrip("+~") for word in words)


def by_seed(run: FinishedRun) -> dict[int, dict[str, float | None]]:
    """The metrics of each seed."""
    rows = [dict(zip(run.by_seed, row, strict=True)) for row in zip(*run.by_seed.values(), strict=True)]
    return {int(row.pop("seed")): row for row in rows}


@contextmanager
def tables_of(path: Path) -> Iterator[Run]:
    """The run in a directory, for reading its tables; ValueError, which names the run, where that fails."""
    from polars.exceptions import PolarsError

    try:
        if (run := Run.read(path)) is None or not run.manifest:
            raise DamagedFile(run.error if run else "there is no run")
        yield run
    except (OSError, DamagedFile, PolarsError) as error:
        raise ValueError(
            f"the tables of {path} cannot be read ({one_line(error)}): force=true runs it again"
        ) from error
