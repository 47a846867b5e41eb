"""Groups of finished runs: runs that repeat the same experiment.

Runs of one group differ in seed, replicas, fold and in what is recorded only. A row of a table and a curve of a figure
show one group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ol2r_cli.plugins import RunKind
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.parts import RECORDING
from ol2r_cli.report.units import Units
from ol2r_cli.run.run import CONTENT

START_SEED = "start.seed"  # added to the settings where one seed was started from several
FINGERPRINT = "dataset.fingerprint"  # added to the settings where they do not identify the data


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of the same experiment, whatever is recorded of it. A metric has one value for each (fold, seed).

    settings: without those in `RECORDING`, and without those of measures in which no two runs differ.
    """

    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    runs: list[FinishedRun]
    _estimates: dict[str, Estimate | None] = field(default_factory=dict, init=False)

    @cached_property
    def seeds(self) -> dict[Any, set[int]]:
        """The seeds of each fold."""
        seeds: dict[Any, set[int]] = {}
        for run in self.runs:
            seeds.setdefault(run.fold, set()).update(run.seeds)
        return seeds

    @property
    def run_kind(self) -> RunKind:
        """The kind of its runs."""
        return self.runs[0].run_kind

    @property
    def units(self) -> Units:
        """What its values are of."""
        return self.runs[0].units

    @property
    def n(self) -> int:
        """The number of its values: of (fold, seed), or of other units."""
        return self.units.count(self)

    @property
    def note(self) -> str:
        """The notes of the runs, each once."""
        return ", ".join(dict.fromkeys(run.note for run in self.runs if run.note))

    @property
    def cpu_seconds(self) -> float | None:
        """The CPU seconds of all runs; None where some have not recorded them."""
        seconds = [run.cpu_seconds for run in self.runs]
        return None if None in seconds else sum(filter(None, seconds))

    @cached_property
    def metrics(self) -> list[str]:
        """Names in the summaries of the runs."""
        return list(dict.fromkeys(name for run in self.runs for name in run.metrics))

    def new_seeds(
        self, records: Callable[[FinishedRun], bool], most: Callable[[FinishedRun], int] = lambda _: 0
    ) -> Iterator[tuple[FinishedRun, set[int]]]:
        """Yield runs that record something, each with the seeds that no earlier one of its fold has.

        So every (fold, seed) is there once. A seed has the same values in every run, alone or as a replica. Runs with
        most of something come first, then those with many seeds, so that most runs contribute all of their seeds or
        none.
        """
        seen: set[tuple[Any, int]] = set()
        for run in sorted(self.runs, key=lambda run: (-most(run), -len(run.seeds), run.seeds, str(run.path))):
            new = {seed for seed in run.seeds if (run.fold, seed) not in seen}
            if new and records(run):
                seen |= {(run.fold, seed) for seed in new}
                yield run, new

    def values(self, metric: str) -> dict[tuple[Any, int], float]:
        """Return a metric by (fold, seed), or by another key, where it applies.

        In the order of these keys, not in that of runs, whose ids differ from group to group.
        """
        values = self.units.values(self, metric)
        return {key: values[key] for key in sorted(values, key=lambda key: (str(key[0]), key[1]))}

    def estimate(self, metric: str) -> Estimate | None:
        """Return a metric over all (fold, seed); None where it does not apply."""
        if metric not in self._estimates:
            self._estimates[metric] = of_values(self.values(metric), self.units.independent)
        return self._estimates[metric]


def group_runs(runs: Iterable[FinishedRun]) -> list[Group]:
    """Return the groups, in the order of their first runs. Their settings are those that make groups."""
    runs = _with_settings_of_the_data(list(runs))
    ignored = RECORDING | _settings_of_equal_measures(runs)
    groups: dict[str, Group] = {}
    settings = [{name: value for name, value in run.settings.items() if name not in ignored} for run in runs]
    of_contents = _with_changed_contents(runs, settings)
    for run, of_run in _with_seeds_of_starts(runs, of_contents):
        groups.setdefault(_key(run.choices, of_run), Group(run.choices, of_run, [])).runs.append(run)
    return list(groups.values())


def _with_changed_contents(
    runs: Sequence[FinishedRun], settings: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Return the settings of each run, in which a file has one path, the first by alphabet, wherever it was, and its
    hash only where a fold has runs of several contents under this path: it was written anew."""
    paths: dict[tuple[str, Any], str] = {}  # by setting and hash
    for of_run in settings:
        for setting, hash in _contents(of_run):
            paths[setting, hash] = min(paths.get((setting, hash), of_run[setting]), of_run[setting])
    placed = [{**of_run, **{name: paths[name, hash] for name, hash in _contents(of_run)}} for of_run in settings]
    without = [{name: of_run[name] for name in of_run if not name.endswith(f".{CONTENT}")} for of_run in placed]
    keys = [(_key(run.choices, of_run), run.fold) for run, of_run in zip(runs, without, strict=True)]
    contents: dict[tuple[str, Any], set[str]] = {}
    for key, of_run in zip(keys, settings, strict=True):
        contents.setdefault(key, set()).add(_key([*_contents(of_run)]))
    return [of_run if len(contents[key]) > 1 else less for key, of_run, less in zip(keys, placed, without, strict=True)]


def _contents(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the settings that are paths of files, each with the hash of its file."""
    for name, value in settings.items():
        if name.endswith(f".{CONTENT}"):
            yield name.removesuffix(f".{CONTENT}"), value


def _with_seeds_of_starts(
    runs: Sequence[FinishedRun], settings: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[FinishedRun, Mapping[str, Any]]]:
    """Yield each run with its settings, and with the seed that it started from where one (fold, seed) started from
    several.

    So a start of all seeds from one run is another row than a start of each seed from its own. The run of that one seed
    is of both rows.
    """
    keys = [_key(run.choices, of_run) for run, of_run in zip(runs, settings, strict=True)]
    seeds: dict[tuple[str, Any, int], set[int]] = {}
    shared: dict[str, set[int]] = {}  # seeds from which others started too
    for key, run in zip(keys, runs, strict=True):
        for seed, started_from in zip(run.seeds, run.start_seeds, strict=False):
            seeds.setdefault((key, run.fold, seed), set()).add(started_from)
            if seed != started_from:
                shared.setdefault(key, set()).add(started_from)
    ambiguous = {key for (key, _, _), of_seed in seeds.items() if len(of_seed) > 1}
    for key, run, of_run in zip(keys, runs, settings, strict=True):
        if key not in ambiguous:
            yield run, of_run
            continue
        own = run.start_seeds == run.seeds
        if own:
            yield run, {**of_run, START_SEED: "own"}
        if not own or (len(run.seeds) == 1 and run.seeds[0] in shared.get(key, ())):
            yield run, {**of_run, START_SEED: run.start_seeds[0]}


def _settings_of_equal_measures(runs: Iterable[FinishedRun]) -> set[str]:
    """Return the settings of measures that have one value in all runs: those that do not take a measure lack them."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.settings.items():
            if name.startswith("measure."):
                values.setdefault(name, set()).add(_key(value))
    return {name for name, different in values.items() if len(different) == 1}


def _with_settings_of_the_data(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Return the runs, with equal dataset settings where the data are equal, and a fingerprint where they are not.

    Different dataset settings (paths of the files) become equal where the data of the folds that both have are equal.
    Runs of one fold with the same settings but different fingerprints (replaced files, another version of the
    generator) get the fingerprint as a setting.
    """
    settings = [{name: value for name, value in run.settings.items() if name.startswith("dataset.")} for run in runs]
    keys = [_key(run.choices["dataset"], of_data) for run, of_data in zip(runs, settings, strict=True)]
    settings_of = dict(zip(keys, settings, strict=True))
    leads = _keys_of_the_data(runs, keys)
    ambiguous = _folds_of_several_data(runs, [leads[key] for key in keys])
    return [
        _with_dataset_settings(run, settings_of[leads[key]], (leads[key], run.fold) in ambiguous)
        for run, key in zip(runs, keys, strict=True)
    ]


Folds = dict[tuple[str, Any], set[str]]  # the fingerprints of data by choice and fold


def _keys_of_the_data(runs: Sequence[FinishedRun], keys: Sequence[str]) -> dict[str, str]:
    """Return for each key of dataset settings the first key, by alphabet, of settings with the same data."""
    folds: dict[str, Folds] = {}
    for run, key in zip(runs, keys, strict=True):
        folds.setdefault(key, {}).setdefault((run.choices["dataset"], run.fold), set()).add(run.fingerprint)
    same: list[tuple[list[str], Folds]] = []  # keys with the same data
    for key, of_key in sorted(folds.items()):
        members, data = [key], of_key
        for others in [*same]:
            if _are_same(others[1], data):
                same.remove(others)
                members, data = [*others[0], *members], others[1] | data
        same.append((members, data))
    return {key: min(members) for members, _ in same for key in members}


def _are_same(one: Folds, other: Folds) -> bool:
    """Return whether two sets of data have a fold in common, and the same data in each of these."""
    common = one.keys() & other.keys()
    return bool(common) and all(one[fold] == other[fold] for fold in common)


def _folds_of_several_data(runs: Sequence[FinishedRun], keys: Sequence[str]) -> set[tuple[str, Any]]:
    """Return the keys with the folds that have several fingerprints under them."""
    fingerprints: dict[tuple[str, Any], set[str]] = {}
    for run, key in zip(runs, keys, strict=True):
        fingerprints.setdefault((key, run.fold), set()).add(run.fingerprint)
    return {place for place, different in fingerprints.items() if len(different) > 1}


def _with_dataset_settings(run: FinishedRun, settings: Mapping[str, Any], is_ambiguous: bool) -> FinishedRun:
    """Return a run with other settings of its dataset, and with the fingerprint where they do not identify the data."""
    fingerprint = {FINGERPRINT: run.fingerprint[:8]} if is_ambiguous else {}
    others = {name: value for name, value in run.settings.items() if not name.startswith("dataset.")}
    return replace(run, settings={**settings, **fingerprint, **others})


def _key(*values: Any) -> str:
    return json.dumps(values, sort_keys=True, default=str)
