"""Finished runs below some folders, and groups of them: runs that repeat the same experiment.

Runs of one group differ in seed, replicas and fold only. A row of a table and a curve of a figure show one group.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.formatting import error_line
from ol2r_cli.report.estimates import Estimate, over_folds
from ol2r_cli.report.finished_run import (
    FinishedRun,
    by_seed,
    read_run,
)
from ol2r_cli.run.code_versions import earlier_lines, earlier_versions, versioned
from ol2r_cli.run.run_state import RunState, find_runs, read_state

FINGERPRINT = "dataset.fingerprint"  # added to the settings where they do not identify the data


@dataclass
class Collection:
    """Finished runs, the number of unfinished runs below each folder, and one line for each damaged run.

    earlier: a line for each choice of which runs of an earlier version of its code are left out.
    """

    runs: list[FinishedRun] = field(default_factory=list)
    unfinished: dict[Path, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)


def collect(folders: Sequence[Path], verify: bool = False, all_versions: bool = False) -> Collection:
    """All runs below `folders`, each once; with `verify`, only those that `ol2r verify` finds intact.

    A folder may also be a file of published results, whose runs have no tables. Runs of an earlier version of their
    code are left out, unless `all_versions` or named themselves. ValueError for a folder that does not exist.
    """
    collection, seen = Collection(), set()
    manifests: list[tuple[Mapping[str, Any], float]] = []
    for folder in folders:
        if folder.is_file():
            from ol2r_cli.report.results_file import read_results

            collection.runs += (published := [run for run, _ in read_results(folder)])
            manifests += [({}, 0.0)] * len(published)
            continue
        if not folder.is_dir():
            raise ValueError(f"DIR must be a folder with runs, got {folder}, which does not exist")
        for path in find_runs(folder):
            real_path = os.path.realpath(path)
            state = None if real_path in seen else read_state(path)
            seen.add(real_path)
            if state is None:
                continue
            if state.state not in ("finished", "damaged", "unreadable"):
                collection.unfinished[folder] = collection.unfinished.get(folder, 0) + 1
                continue
            try:
                run = read_run(state)
                if verify:
                    _verify(state)
                collection.runs.append(run)
                manifests.append(versioned(state))
            except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
                collection.damaged.append(f"{path} ({error_line(error)})")
    named = {os.path.realpath(folder) for folder in folders}  # a run that is named itself is wanted
    earlier = {} if all_versions else earlier_versions(manifests)
    if earlier := {p: each for p, each in earlier.items() if os.path.realpath(collection.runs[p].path) not in named}:
        collection.earlier = [f"{line}, left out" for line in earlier_lines(earlier)]
        collection.runs = [run for place, run in enumerate(collection.runs) if place not in earlier]
    return collection


def nothing_below(places: Sequence[Path]) -> str:
    """The message where no finished run was found; it names files of published results that could have been meant."""
    from ol2r_cli.report.results_file import results_files

    files = [str(file) for place in places for file in results_files(place)]
    meant = f" (published results: {', '.join(files)})" if files else ""
    return f"there are no finished runs below {' or '.join(map(str, places))}{meant}"


def _verify(state: RunState) -> None:
    """ValueError with the first thing that is wrong with a run."""
    from ol2r_cli.run.verification import differences

    if wrong := next(differences(state), None):
        raise ValueError(wrong)


@dataclass(frozen=True, eq=False)
class Group:
    """Runs with the same choices and settings. A metric has one value for each (fold, seed)."""

    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    runs: Sequence[FinishedRun]

    @cached_property
    def seeds(self) -> dict[Any, set[int]]:
        """The seeds of each fold."""
        seeds: dict[Any, set[int]] = {}
        for run in self.runs:
            seeds.setdefault(run.fold, set()).update(run.seeds)
        return seeds

    @property
    def n(self) -> int:
        """The number of (fold, seed)."""
        return sum(map(len, self.seeds.values()))

    @property
    def note(self) -> str:
        """The notes of the runs, each once."""
        return ", ".join(dict.fromkeys(run.note for run in self.runs if run.note))

    @cached_property
    def metrics(self) -> list[str]:
        """Names in the summaries of the runs."""
        return list(dict.fromkeys(name for run in self.runs for name in run.metrics))

    @cached_property
    def new_seeds(self) -> list[tuple[FinishedRun, set[int]]]:
        """Runs, each with the seeds that no earlier run of its fold has: every (fold, seed) once.

        A seed has the same values in every run, alone or as a replica. Runs with many seeds come first, so that most
        runs contribute all of their seeds or none.
        """
        new_seeds = []
        seen: set[tuple[Any, int]] = set()
        for run in sorted(self.runs, key=lambda run: (-len(run.seeds), run.seeds, str(run.path))):
            if new := {seed for seed in run.seeds if (run.fold, seed) not in seen}:
                new_seeds.append((run, new))
                seen |= {(run.fold, seed) for seed in new}
        return new_seeds

    def estimate(self, metric: str) -> Estimate | None:
        """A metric of summary.json over all (fold, seed); None where it does not apply."""
        if metric not in self._estimates:
            of_folds = {
                fold: [part[metric] for part in parts if metric in part] for fold, parts in self._summaries.items()
            }
            self._estimates[metric] = over_folds(of_folds)
        return self._estimates[metric]

    def values(self, metric: str) -> dict[tuple[Any, int], float]:
        """A metric by (fold, seed), where it applies. ValueError for damaged tables."""
        return {pair: value for pair, row in self._rows.items() if (value := row.get(metric)) is not None}

    @cached_property
    def _summaries(self) -> dict[Any, list[Mapping[str, Estimate]]]:
        """Estimates for each fold that together cover every seed once.

        The summary of a run serves where all of its seeds are new. Only runs that overlap in part are read seed by
        seed.
        """
        summaries: dict[Any, list[Mapping[str, Estimate]]] = {fold: [] for fold in self.seeds}
        for run, seeds in self.new_seeds:
            summaries[run.fold] += [run.metrics] if len(seeds) == len(run.seeds) else _summaries_of_seeds(run, seeds)
        return summaries

    @cached_property
    def _rows(self) -> dict[tuple[Any, int], Mapping[str, float | None]]:
        return {
            (run.fold, seed): row for run, new in self.new_seeds for seed, row in by_seed(run).items() if seed in new
        }

    @cached_property
    def _estimates(self) -> dict[str, Estimate | None]:
        return {}


def group_runs(runs: Iterable[FinishedRun]) -> list[Group]:
    """The groups, in the order of their first runs."""
    members: dict[str, list[FinishedRun]] = {}
    for run in _with_settings_of_the_data(list(runs)):
        members.setdefault(_key(run.choices, run.settings), []).append(run)
    return [Group(same[0].choices, same[0].settings, same) for same in members.values()]


def _with_settings_of_the_data(runs: list[FinishedRun]) -> list[FinishedRun]:
    """The runs, with equal dataset settings where the data are equal, and with a fingerprint where they are not.

    Different dataset settings (paths of the files) become equal when one fold has the same fingerprint under both.
    Runs of one fold with the same settings but different fingerprints (replaced files, another version of the
    generator) get the fingerprint as a setting.
    """
    leader: dict[str, str] = {}  # union-find: dataset settings -> settings of the same data, or themselves
    first: dict[tuple[str, str], str] = {}  # (choice, fingerprint) -> its first settings

    def lead(key: str) -> str:
        while leader[key] != key:
            key = leader[key]
        return key

    keys = [_key(run.choices["dataset"], _dataset_settings(run)) for run in runs]
    for key, run in zip(keys, runs, strict=True):
        leader.setdefault(key, key)
        low, high = sorted([lead(key), lead(first.setdefault((run.choices["dataset"], run.fingerprint), key))])
        leader[high] = low
    representative = {key: _dataset_settings(run) for key, run in zip(keys, runs, strict=True)}
    fingerprints: dict[str, dict[Any, set[str]]] = {}
    for key, run in zip(keys, runs, strict=True):
        fingerprints.setdefault(lead(key), {}).setdefault(run.fold, set()).add(run.fingerprint)
    changed = []
    for key, run in zip(keys, runs, strict=True):
        ambiguous = any(len(several) > 1 for several in fingerprints[lead(key)].values())
        dataset = representative[lead(key)] | ({FINGERPRINT: run.fingerprint[:8]} if ambiguous else {})
        others = {name: value for name, value in run.settings.items() if not name.startswith("dataset.")}
        changed.append(replace(run, settings=dataset | others))
    return changed


def _dataset_settings(run: FinishedRun) -> dict[str, Any]:
    return {name: value for name, value in run.settings.items() if name.startswith("dataset.")}


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, default=str)


def _summaries_of_seeds(run: FinishedRun, seeds: set[int]) -> list[dict[str, Estimate]]:
    """For each seed, the metrics that a summary of this seed alone would have."""
    rows = by_seed(run)
    return [
        {
            name: Estimate(value, None, 1)
            for name, value in rows[seed].items()
            if value is not None and name in run.metrics
        }
        for seed in sorted(seeds)
    ]
