"""Finished runs below some folders, and groups of them: runs that repeat the same experiment.

Runs of one group differ in seed, replicas, fold and in what is recorded only. A row of a table and a curve of a figure
show one group.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ol2r_cli.config.overrides import split_words
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.formatting import error_line
from ol2r_cli.report.estimates import Estimate, over_folds
from ol2r_cli.report.finished_run import RECORDING, FinishedRun, by_seed, read_run
from ol2r_cli.report.run_filter import RunFilter
from ol2r_cli.run.run import Run, find_runs

FINGERPRINT = "dataset.fingerprint"  # added to the settings where they do not identify the data
PARTS_OF_OUTPUTS = ("reproduce", "benchmark", "search")  # folders of output_dir with the runs of these commands


@dataclass
class Collection:
    """Finished runs, the number of unfinished runs below each folder, and one line for each damaged run.

    elsewhere: the number of runs below folders of `PARTS_OF_OUTPUTS`, which are left out unless they, or folders in
    them, are named.
    """

    runs: list[FinishedRun] = field(default_factory=list)
    unfinished: dict[Path, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    elsewhere: dict[Path, int] = field(default_factory=dict)


def collect(folders: Sequence[Path], verify: bool = False, words: Sequence[str] = ()) -> Collection:
    """All runs below `folders`, each once; with `verify`, only those that `ol2r verify` finds intact.

    A folder may also be a file of published results, whose runs have no tables. `words` choose among them: see
    `RunFilter`. ValueError for a folder that does not exist and for a word that no run has.
    """
    collection, seen, chosen = Collection(), set(), RunFilter(words)
    for folder in folders:
        if folder.is_file():
            from ol2r_cli.report.results_file import read_results

            collection.runs += [run for run, _ in read_results(folder) if chosen.run(run)]
            continue
        if not folder.is_dir():
            raise ValueError(f"DIR must be a folder with runs, got {folder}, which does not exist")
        for path in find_runs(folder):
            real_path = os.path.realpath(path)
            if part := part_of_outputs(path, folder):
                collection.elsewhere[part] = collection.elsewhere.get(part, 0) + 1
                continue
            state = None if real_path in seen else Run.read(path)
            seen.add(real_path)
            if state is None or not chosen.state(state):
                continue
            if state.state not in ("finished", "damaged", "unreadable"):
                collection.unfinished[folder] = collection.unfinished.get(folder, 0) + 1
                continue
            try:
                run = read_run(state)
                if verify:
                    _verify(state)
                collection.runs.append(run)
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                collection.damaged.append(f"{path} ({error_line(error)})")
    chosen.check()
    return collection


def chosen_runs(places: Iterable[str | os.PathLike[str]], stacklevel: int = 3) -> Collection:
    """The runs that a Python program names, by folders and words; warns of those that are left out.

    ValueError where there are none.
    """
    folders, words = split_words(places)
    folders = folders or [default_output_dir()]
    collection = collect(folders, words=words)
    lines = [f"left out, damaged: {damaged}" for damaged in collection.damaged]
    lines += [f"{count} runs left out: name {folder}" for folder, count in collection.elsewhere.items()]
    for line in lines:
        warnings.warn(line, stacklevel=stacklevel)
    if not collection.runs:
        raise ValueError(nothing_below(folders))
    return collection


def part_of_outputs(path: Path, folder: Path) -> Path | None:
    """The folder of a command, such as outputs/reproduce, in which a run below `folder` is."""
    parts = path.relative_to(folder).parts[:-2]
    place = next((number for number, part in enumerate(parts) if part in PARTS_OF_OUTPUTS), None)
    return None if place is None else folder.joinpath(*parts[: place + 1])


def nothing_below(places: Sequence[Path]) -> str:
    """The message where no finished run was found; it names files of published results that could have been meant."""
    from ol2r_cli.report.results_file import results_files

    files = [str(file) for place in places for file in results_files(place)]
    meant = f" (published results: {', '.join(files)})" if files else ""
    return f"there are no finished runs below {' or '.join(map(str, places))}{meant}"


def _verify(run: Run) -> None:
    """ValueError with the first thing that is wrong with a run."""
    from ol2r_cli.run.verification import differences

    if wrong := next(differences(run), None):
        raise ValueError(wrong)


@dataclass(frozen=True, eq=False)
class Group:
    """Runs of the same experiment, whatever is recorded of it. A metric has one value for each (fold, seed).

    settings: without those in `RECORDING`, and without those of measures in which no two runs differ.
    """

    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    runs: Sequence[FinishedRun]
    _read: dict[int, dict[int, dict[str, float | None]]] = field(default_factory=dict)

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

    def units(self, units: str | None = None) -> int:
        """How many seeds or folds there are; None: folds where there are several, otherwise seeds."""
        return self.n if units == "seeds" or (units is None and len(self.seeds) == 1) else len(self.seeds)

    @property
    def note(self) -> str:
        """The notes of the runs, each once."""
        return ", ".join(dict.fromkeys(run.note for run in self.runs if run.note))

    @cached_property
    def metrics(self) -> list[str]:
        """Names in the summaries of the runs."""
        return list(dict.fromkeys(name for run in self.runs for name in run.metrics))

    def new_seeds(self, records: Callable[[FinishedRun], bool]) -> Iterator[tuple[FinishedRun, set[int]]]:
        """Runs that record something, each with the seeds that no earlier one of its fold has: every (fold, seed) once.

        A seed has the same values in every run, alone or as a replica. Runs with many seeds come first, so that most
        runs contribute all of their seeds or none.
        """
        seen: set[tuple[Any, int]] = set()
        for run in sorted(self.runs, key=lambda run: (-len(run.seeds), run.seeds, str(run.path))):
            if (new := {seed for seed in run.seeds if (run.fold, seed) not in seen}) and records(run):
                seen |= {(run.fold, seed) for seed in new}
                yield run, new

    def estimate(self, metric: str) -> Estimate | None:
        """A metric of summary.json over all (fold, seed); None where it does not apply.

        The summary of a run serves where all of its seeds are new. Only runs that overlap in part are read seed by
        seed.
        """
        if metric not in self._estimates:
            parts: dict[Any, list[Estimate]] = {fold: [] for fold in self.seeds}
            for run, seeds in self.new_seeds(lambda run: metric in run.metrics):
                known = [self._rows(run)[seed].get(metric) for seed in seeds] if len(seeds) < len(run.seeds) else None
                of_seeds = [Estimate(value, None, 1) for value in known or () if value is not None]
                parts[run.fold] += [run.metrics[metric]] if known is None else of_seeds
            self._estimates[metric] = over_folds(parts)
        return self._estimates[metric]

    def values(self, metric: str) -> dict[tuple[Any, int], float]:
        """A metric by (fold, seed), where it applies. ValueError for damaged tables."""
        new_seeds = self.new_seeds(lambda run: metric in run.metrics)
        rows = {(run.fold, seed): self._rows(run)[seed] for run, seeds in new_seeds for seed in seeds}
        return {pair: value for pair, row in rows.items() if (value := row.get(metric)) is not None}

    def _rows(self, run: FinishedRun) -> dict[int, dict[str, float | None]]:
        if id(run) not in self._read:
            self._read[id(run)] = by_seed(run)
        return self._read[id(run)]

    @cached_property
    def _estimates(self) -> dict[str, Estimate | None]:
        return {}


def group_runs(runs: Iterable[FinishedRun]) -> list[Group]:
    """The groups, in the order of their first runs. Their settings are those that make groups."""
    runs = _with_settings_of_the_data(list(runs))
    of_measures = {(name, _key(run.settings[name])) for run in runs for name in run.settings if name[:8] == "measure."}
    values = Counter(name for name, _ in of_measures)  # runs that do not take a measure lack its settings
    ignored = RECORDING | {name for name in values if values[name] == 1}
    members: dict[str, tuple[dict[str, Any], list[FinishedRun]]] = {}
    for run in runs:
        settings = {name: value for name, value in run.settings.items() if name not in ignored}
        members.setdefault(_key(run.choices, settings), (settings, []))[1].append(run)
    return [Group(same[0].choices, settings, same) for settings, same in members.values()]


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
