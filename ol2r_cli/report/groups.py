"""Runs that differ in nothing but seed, replicas and fold are one group: the same experiment, repeated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ol2r_cli.report.collect import Run
from ol2r_cli.report.statistics import Estimate, pool
from ol2r_cli.results.directory import RunDirectory

FINGERPRINT = "dataset.fingerprint"  # stands among the settings where they alone do not say which data it was
Part = Mapping[str, Estimate]  # metric -> of some of the values


@dataclass(frozen=True, eq=False)
class Group:
    """Runs with the same choices and settings. A value of a metric belongs to one (fold, seed)."""

    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    runs: Sequence[Run]

    @cached_property
    def seeds(self) -> dict[Any, set[int]]:
        """The seeds of each fold."""
        seeds: dict[Any, set[int]] = {}
        for run in self.runs:
            seeds.setdefault(run.fold, set()).update(run.seeds)
        return seeds

    @property
    def n(self) -> int:
        """How many (fold, seed) there are."""
        return sum(map(len, self.seeds.values()))

    @cached_property
    def parts(self) -> list[Part]:
        """The estimates of parts that together have every (fold, seed) once.

        A seed that several runs have, alone and as a replica, has the same values in all of them. Runs with many seeds
        come first, so that the tables themselves are read only where runs overlap in part.
        """
        parts: list[Part] = []
        seen: set[tuple[Any, int]] = set()
        for run in sorted(self.runs, key=lambda run: (-len(run.seeds), run.seeds, str(run.path))):
            own = {(run.fold, seed) for seed in run.seeds}
            new = own - seen
            if new == own:
                parts.append(run.metrics)
            elif new:
                parts += _one_by_one(run, {seed for _, seed in new})
            seen |= new
        return parts

    def estimate(self, metric: str) -> Estimate | None:
        """A metric of summary.json over all (fold, seed); None where it does not apply."""
        return pool(part[metric] for part in self.parts if metric in part)


def groups(runs: Iterable[Run]) -> list[Group]:
    """The groups, in the order in which their first runs come."""
    members: dict[str, list[Run]] = {}
    for run in _by_data(list(runs)):
        members.setdefault(_key(run.choices, run.settings), []).append(run)
    return [Group(same[0].choices, same[0].settings, same) for same in members.values()]


def _one_by_one(run: Run, seeds: set[int]) -> list[Part]:
    from polars.exceptions import PolarsError

    from ol2r_cli.results.summary import by_seed

    try:
        rows = [row for row in by_seed(RunDirectory(run.path)).to_dicts() if row["seed"] in seeds]
    except (OSError, PolarsError) as error:
        raise ValueError(f"the tables of {run.path} cannot be read ({error}): force=true runs it again") from error
    if len(rows) < len(seeds):
        raise ValueError(f"the tables of {run.path} must have its seeds {sorted(seeds)}: force=true runs it again")
    return [{name: Estimate(row[name], None, 1) for name in run.metrics if row.get(name) is not None} for row in rows]


def _by_data(runs: list[Run]) -> list[Run]:
    """The runs, with dataset settings that led to the same data made the same, and unlike data told apart.

    Settings that a dataset was reached by (the path of its files) count only while nothing shows that the data are the
    same: two sets of them are one when they share a fingerprint. One fold with several fingerprints under the same
    settings (files that were replaced, another version of the generator) is several datasets.
    """
    leader: dict[str, str] = {}  # dataset settings -> settings with the same data, or themselves
    first: dict[tuple[str, str], str] = {}  # (choice, fingerprint) -> the settings that it was met with first

    def lead(key: str) -> str:
        while leader[key] != key:
            key = leader[key]
        return key

    own = [_key(run.choices["dataset"], _of_dataset(run)) for run in runs]
    for key, run in zip(own, runs, strict=True):
        leader.setdefault(key, key)
        low, high = sorted([lead(key), lead(first.setdefault((run.choices["dataset"], run.fingerprint), key))])
        leader[high] = low
    representative = {key: _of_dataset(run) for key, run in zip(own, runs, strict=True)}
    prints: dict[str, dict[Any, set[str]]] = {}
    for key, run in zip(own, runs, strict=True):
        prints.setdefault(lead(key), {}).setdefault(run.fold, set()).add(run.fingerprint)
    mended = []
    for key, run in zip(own, runs, strict=True):
        ambiguous = any(len(several) > 1 for several in prints[lead(key)].values())
        dataset = representative[lead(key)] | ({FINGERPRINT: run.fingerprint[:8]} if ambiguous else {})
        others = {name: value for name, value in run.settings.items() if not name.startswith("dataset.")}
        mended.append(replace(run, settings=dataset | others))
    return mended


def _of_dataset(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.settings.items() if name.startswith("dataset.")}


def _key(*what: Any) -> str:
    return json.dumps(what, sort_keys=True, default=str)
