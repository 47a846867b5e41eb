"""Runs that differ in nothing but seed, replicas and fold are one group: the same experiment, repeated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ol2r_cli.report.collect import Run
from ol2r_cli.report.seeds import by_seed, one_by_one
from ol2r_cli.report.statistics import Estimate, over_folds

FINGERPRINT = "dataset.fingerprint"  # stands among the settings where they alone do not say which data it was


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
    def parts(self) -> dict[Any, list[Mapping[str, Estimate]]]:
        """For each fold the estimates of parts that together have every seed once.

        A seed that several runs have, alone and as a replica, has the same values in all of them. Runs with many seeds
        come first, so that the values of single seeds are asked for only where runs overlap in part.
        """
        parts: dict[Any, list[Mapping[str, Estimate]]] = {fold: [] for fold in self.seeds}
        for run, seeds in self.owners:
            parts[run.fold] += [run.metrics] if len(seeds) == len(run.seeds) else one_by_one(run, seeds)
        return parts

    @cached_property
    def metrics(self) -> list[str]:
        """Names in the summaries of its runs."""
        return list(dict.fromkeys(name for run in self.runs for name in run.metrics))

    def estimate(self, metric: str) -> Estimate | None:
        """A metric of summary.json over all (fold, seed); None where it does not apply."""
        if metric not in self._estimates:
            own = {fold: [part[metric] for part in parts if metric in part] for fold, parts in self.parts.items()}
            self._estimates[metric] = over_folds(own)
        return self._estimates[metric]

    def values(self, metric: str) -> dict[tuple[Any, int], float]:
        """A metric by (fold, seed), without those that it does not apply to. ValueError for damaged tables."""
        return {pair: value for pair, row in self._values.items() if (value := row.get(metric)) is not None}

    @cached_property
    def owners(self) -> list[tuple[Run, set[int]]]:
        """Runs, each with those of its seeds that no run before it has: every (fold, seed) once."""
        owners = []
        seen: set[tuple[Any, int]] = set()
        for run in sorted(self.runs, key=lambda run: (-len(run.seeds), run.seeds, str(run.path))):
            if new := {seed for seed in run.seeds if (run.fold, seed) not in seen}:
                owners.append((run, new))
                seen |= {(run.fold, seed) for seed in new}
        return owners

    @cached_property
    def _values(self) -> dict[tuple[Any, int], Mapping[str, float | None]]:
        return {(run.fold, seed): row for run, new in self.owners for seed, row in by_seed(run).items() if seed in new}

    @cached_property
    def _estimates(self) -> dict[str, Estimate | None]:
        return {}


def groups(runs: Iterable[Run]) -> list[Group]:
    """The groups, in the order in which their first runs come."""
    members: dict[str, list[Run]] = {}
    for run in _by_data(list(runs)):
        members.setdefault(_key(run.choices, run.settings), []).append(run)
    return [Group(same[0].choices, same[0].settings, same) for same in members.values()]


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
