"""Finished runs below some folders, and groups of them: runs that repeat the same experiment.

Runs of one group differ in seed, replicas, fold and in what is recorded only. A row of a table and a curve of a figure
show one group.
"""

from __future__ import annotations

import json
import os
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.config.overrides import as_typed, split_words, translate
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.formatting import error_line, nearest, plural, printable
from ol2r_cli.kinds import RunKind
from ol2r_cli.lazy import lazy
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.finished_run import (
    FOLD,
    RECORDING,
    FinishedRun,
    code_settings,
    read_results,
    read_run,
)
from ol2r_cli.report.units import Units
from ol2r_cli.run.run import Run, find_runs

if TYPE_CHECKING:
    from ol2r_cli.config import grammar
    from ol2r_cli.run import recomputed
else:
    grammar, recomputed = lazy("ol2r_cli.config.grammar"), lazy("ol2r_cli.run.recomputed")

FINGERPRINT = "dataset.fingerprint"  # added to the settings where they do not identify the data
PARTS_OF_OUTPUTS = ("reproduce", "benchmark", "search")  # folders of output_dir with the runs of these commands


class RunFilter:
    """Runs with one of the values of every word. `check` is called after all runs."""

    def __init__(self, words: Sequence[str]):
        self.wanted: dict[str, list[str]] = {}
        for word in translate(words) if words else ():
            for name, _, value in (each.partition("=") for each in grammar.expand(word)):
                self.wanted.setdefault(name, []).append(value)
        if (preset := self.wanted.get("experiment")) is not None:
            shows = f"what `ol2r list experiment {preset[0]}` shows of it"
            raise ValueError(f"experiment must be left out, a run does not record its preset: type {shows}")
        self._known: dict[str, dict[str, Any]] = {}  # the values that runs have, by name and as typed
        self._chosen = False

    def run(self, run: Run) -> bool:
        """Whether a run on disk is chosen, as far as its files can be read."""
        if not self.wanted or not run.manifest:
            return True
        choices, settings = {"intent": "none"} | dict(run.choices), {}
        with suppress(OSError, ValueError):
            settings = run.flat_settings
        return self.has(settings | code_settings(run.manifest) | choices)

    def has(self, values: Mapping[str, Any]) -> bool:
        """Whether a run with these settings and choices is chosen."""
        for name, value in values.items():
            self._known.setdefault(name, {})[as_typed(value)] = value
        chosen = all(
            name in values and any(is_typed(values[name], typed) for typed in wanted)
            for name, wanted in self.wanted.items()
        )
        self._chosen |= chosen
        return chosen

    def check(self) -> None:
        """ValueError for a word that no run has, with the values that there are, and where no run has all of them."""
        for name, wanted in self.wanted.items() if self._known else ():
            if name not in self._known:
                raise ValueError(f"no run has a setting or group {name!r}{nearest(name, self._known)}")
            values = self._known[name]
            for typed in wanted:
                if not any(is_typed(value, typed) for value in values.values()):
                    raise ValueError(f"{name} must be one of {', '.join(values)}, got {typed}")
        if self._known and not self._chosen:
            words = " and ".join(f"{name}={','.join(wanted)}" for name, wanted in self.wanted.items())
            raise ValueError(f"no run has {words} together")


def is_typed(value: Any, typed: str) -> bool:
    """Whether a setting has the value that was typed; numbers may be written differently."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(ValueError):
            return float(typed) == value
        return False
    return typed in (as_typed(value), value)


@dataclass
class Collection:
    """Finished runs, the number of unfinished runs below each folder, and one line for each damaged run.

    elsewhere: the number of runs below folders of `PARTS_OF_OUTPUTS`, which are left out unless they, or folders in
    them, are named.
    """

    runs: list[FinishedRun] = field(default_factory=list)
    unfinished: Counter[Path] = field(default_factory=Counter)
    damaged: list[str] = field(default_factory=list)
    elsewhere: Counter[Path] = field(default_factory=Counter)

    @property
    def left_out(self) -> list[str]:
        """Lines about the runs that are not in the report."""
        lines = [f"{plural(n, 'run')} not finished: {_line('status', path)}" for path, n in self.unfinished.items()]
        for path, n in self.elsewhere.items():
            lines.append(f"{plural(n, 'run')} of {path.name} left out: {_line('report', path)}")
        if count := len(self.damaged):
            lines.append(f"{plural(count, 'run')} damaged: {'the first is ' * (count > 1)}{self.damaged[0]}")
        return list(map(printable, lines))


def _line(command: str, folder: Path) -> str:
    return shlex.join(["ol2r", command, str(folder)])


def collect(folders: Sequence[Path], verify: bool = False, words: Sequence[str] = ()) -> Collection:
    """All runs below `folders`, each once; with `verify`, only those that `ol2r verify` finds intact.

    A folder may also be a file of published results, whose runs have no tables. `words` choose among them: see
    `RunFilter`. ValueError for a folder that does not exist and for a word that no run has.
    """
    collection, seen, chosen = Collection(), set(), RunFilter(words)
    for folder in folders:
        for run, _ in read_results(folder) if folder.is_file() else ():
            own = {FOLD: run.fold, "seed": run.seeds[0], "replicas": len(run.seeds)}
            if chosen.has({**run.settings, **own, **run.choices}):
                collection.runs.append(run)
        if not folder.exists():
            raise ValueError(f"DIR must be a folder with runs, got {folder}, which does not exist")
        for path in find_runs(folder):
            inner = path.relative_to(folder).parts[:-2]
            if part := next((place for place, name in enumerate(inner, 1) if name in PARTS_OF_OUTPUTS), None):
                collection.elsewhere[folder.joinpath(*inner[:part])] += 1
                continue
            state = None if (real_path := os.path.realpath(path)) in seen else Run.read(path)
            seen.add(real_path)
            if state is None or not chosen.run(state):
                continue
            if state.state not in ("finished", "damaged", "unreadable"):
                collection.unfinished[folder] += 1
                continue
            try:
                read = read_run(state)
                if verify and (wrong := next(recomputed.differences(state), None)):
                    raise ValueError(wrong)
                collection.runs.append(read)
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                collection.damaged.append(f"{path} ({error_line(error)})")
    chosen.check()
    return collection


def chosen_runs(
    places: Iterable[str | os.PathLike[str]], verify: bool = False, warn: bool = True, stacklevel: int = 3
) -> Collection:
    """The runs that folders (default: output_dir of the project file) and words name; with `warn`, warns of others.

    ValueError where there are none.
    """
    folders, words = split_words(places)
    folders = folders or [default_output_dir()]
    collection = collect(folders, verify, words)
    if not collection.runs:
        published = ", ".join(str(file) for folder in folders for file in sorted(folder.glob("*.parquet")))
        reasons = collection.left_out or ([f"published results: {published}"] if published else [])
        others = "".join(f" ({reason})" for reason in reasons)
        below = " or ".join(map(str, folders))
        raise ValueError(f"there are no finished runs below {below}{others}: start one with `ol2r run`")
    if warn:
        lines = [f"left out, damaged: {damaged}" for damaged in collection.damaged]
        for line in (*lines, *(f"{n} runs left out: name {path}" for path, n in collection.elsewhere.items())):
            warnings.warn(line, stacklevel=stacklevel)
    return collection


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
    def kind(self) -> RunKind:
        """The kind of its runs."""
        return self.runs[0].kind

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

    def values(self, metric: str) -> dict[tuple[Any, int], float]:
        """A metric by (fold, seed), or by another key, where it applies.

        In the order of these keys, not in that of runs, whose ids differ from group to group.
        """
        values = self.units.values(self, metric)
        return {key: values[key] for key in sorted(values, key=lambda key: (str(key[0]), key[1]))}

    def estimate(self, metric: str) -> Estimate | None:
        """A metric over all (fold, seed); None where it does not apply."""
        if metric not in self._estimates:
            self._estimates[metric] = of_values(self.values(metric), self.units.independent)
        return self._estimates[metric]


def group_runs(runs: Iterable[FinishedRun]) -> list[Group]:
    """The groups, in the order of their first runs. Their settings are those that make groups."""
    runs = _with_settings_of_the_data(list(runs))
    of_measures = {(name, _key(run.settings[name])) for run in runs for name in run.settings if name[:8] == "measure."}
    values = Counter(name for name, _ in of_measures)  # runs that do not take a measure lack its settings
    ignored = RECORDING | {name for name in values if values[name] == 1}
    members: dict[str, Group] = {}
    for run in runs:
        settings = {name: value for name, value in run.settings.items() if name not in ignored}
        members.setdefault(_key(run.choices, settings), Group(run.choices, settings, [])).runs.append(run)
    return list(members.values())


def _with_settings_of_the_data(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """The runs, with equal dataset settings where the data are equal, and with a fingerprint where they are not.

    Different dataset settings (paths of the files) become equal when one fold has the same fingerprint under both.
    Runs of one fold with the same settings but different fingerprints (replaced files, another version of the
    generator) get the fingerprint as a setting.
    """
    parts = [{name: value for name, value in run.settings.items() if name.startswith("dataset.")} for run in runs]
    keys = [_key(run.choices["dataset"], part) for run, part in zip(runs, parts, strict=True)]
    settings = dict(zip(keys, parts, strict=True))
    lead = {key: key for key in keys}  # of dataset settings, the first ones of the same data
    first: dict[tuple[str, str], str] = {}  # (choice, fingerprint) -> its first settings
    for key, run in zip(keys, runs, strict=True):
        one, other = sorted((lead[key], lead[first.setdefault((run.choices["dataset"], run.fingerprint), key)]))
        lead = {each: one if leading == other else leading for each, leading in lead.items()}
    fingerprints: dict[tuple[str, Any], set[str]] = {}
    for key, run in zip(keys, runs, strict=True):
        fingerprints.setdefault((lead[key], run.fold), set()).add(run.fingerprint)
    ambiguous = {leading for (leading, _), several in fingerprints.items() if len(several) > 1}
    changed = []
    for key, run, part in zip(keys, runs, parts, strict=True):
        others = {name: value for name, value in run.settings.items() if name not in part}
        of_data = {FINGERPRINT: run.fingerprint[:8]} if lead[key] in ambiguous else {}
        changed.append(replace(run, settings=settings[lead[key]] | of_data | others))
    return changed


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, default=str)
