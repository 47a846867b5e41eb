"""Finished runs below some folders: which there are, which of them words choose, and which are left out."""

from __future__ import annotations

import json
import os
import shlex
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.config.overrides import split_words
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import plugins
from ol2r_cli.report.finished_run import FOLD, FinishedRun, read_run, start_setting
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.run.run_filter import RunFilter, part_of_outputs
from ol2r_cli.text.formatting import error_line, plural, printable

if TYPE_CHECKING:
    from ol2r_cli.run import recomputed
else:
    recomputed = lazy("ol2r_cli.run.recomputed")

_RECIPES = ("reproduce", "benchmark")  # those whose runs choose settings with other seeds than those that are reported


@dataclass
class Collection:
    """Finished runs, the number of unfinished runs below each folder, and one line for each damaged run.

    elsewhere: the number of runs below folders of `PARTS_OF_OUTPUTS`, which are left out unless they, or folders in
    them, are named. copies: the number of runs below each folder that are copies of other runs, which count once.
    choosing: the runs below each folder by which a recipe chose settings, with other seeds than those
    that it reports, beside which they are left out.
    """

    runs: list[FinishedRun] = field(default_factory=list)
    unfinished: Counter[Path] = field(default_factory=Counter)
    damaged: list[str] = field(default_factory=list)
    elsewhere: Counter[Path] = field(default_factory=Counter)
    copies: Counter[Path] = field(default_factory=Counter)
    choosing: dict[Path, list[FinishedRun]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set, init=False)  # id, time and files of the runs that are there

    @property
    def left_out(self) -> list[str]:
        """Lines about the runs that are not in the report."""
        lines = [f"{plural(n, 'run')} not finished: {_line('status', path)}" for path, n in self.unfinished.items()]
        for path, n in self.copies.items():
            lines.append(f"{plural(n, 'run')} below {path} left out, copies of others in this report")
        for path, n in self.elsewhere.items():
            lines.append(f"{plural(n, 'run')} of {path.name} left out: {_line('report', path)}")
        for path, runs in self.choosing.items():
            for seed, n in Counter(run.seeds[0] for run in runs).items():
                place = _line("report", path, f"seed={seed}")
                lines.append(f"{plural(n, 'run')} of model selection left out, which has other seeds: {place}")
        if self.damaged:
            first = f"the first is {self.damaged[0]}" if len(self.damaged) > 1 else self.damaged[0]
            lines.append(f"{plural(len(self.damaged), 'run')} damaged: {first}")
        return list(map(printable, lines))


def _line(command: str, folder: Path, *words: str) -> str:
    return shlex.join(["ol2r", command, str(folder), *words])


def collect(folders: Sequence[Path], verify: bool = False, words: Sequence[str] = ()) -> Collection:
    """Return all runs below `folders`, each once; with `verify`, only those that `ol2r verify` finds intact.

    A folder may also be a file of a `Source`, whose runs have no tables. `words` choose among them: see
    `RunFilter`. Runs by which a recipe chose settings are left out, unless there are no others: their seeds are not
    those that count. ValueError for a folder that does not exist and for a word that no run has.
    """
    collection, chosen = Collection(), RunFilter(words)
    seen: set[str] = set()  # real paths
    elsewhere: list[tuple[Path, str]] = []
    for folder in folders:
        if not folder.exists():
            raise ValueError(f"DIR must be a folder with runs, got {folder}, which does not exist")
        if folder.is_file():
            collection.runs += [run for run in _runs_of_file(folder) if chosen.has(_published_settings(run))]
            continue
        for path in find_runs(folder):
            real_path, part = os.path.realpath(path), part_of_outputs(path, folder)
            if part is not None:
                elsewhere.append((part, real_path))
                continue
            run = None if real_path in seen else Run.read(path)
            seen.add(real_path)
            if run is not None and _is_chosen(run, chosen):
                _add(run, path, folder, verify, collection)
    chosen.check()
    collection.elsewhere.update(part for part, real_path in elsewhere if real_path not in seen)
    if not collection.runs:
        collection.runs, collection.choosing = [*chain(*collection.choosing.values())], {}
    return collection


def _runs_of_file(file: Path) -> Sequence[FinishedRun]:
    """Return the runs that a plug-in reads from a file; ValueError where none does."""
    sources = {source.ending: source for plugin in plugins() for source in plugin.sources}
    if file.suffix not in sources:
        others = "".join(f", or a file {ending}" for ending in sources)
        raise ValueError(f"DIR must be a folder with runs{others}, got {file}")
    return sources[file.suffix].runs(file)


def _is_chosen(run: Run, chosen: RunFilter) -> bool:
    """Return whether words choose a run, whose start has the name that it has in tables."""
    start: dict[str, str] = {}
    if chosen.wanted:
        with suppress(OSError, ValueError):
            start = start_setting(run)
    return chosen.run(run, start)


def _chooses(run: Run, path: Path) -> bool:
    """Return whether a recipe chose settings by a finished run: such runs are not evaluated on test queries."""
    of_recipe = Path(os.path.realpath(path)).parents[1].name in _RECIPES
    return of_recipe and "test" not in run.flat_settings.get("evaluate_on", ["test"])


def _published_settings(run: FinishedRun) -> dict[str, Any]:
    """Return the settings and choices of a published run that words may name."""
    return {**run.settings, FOLD: run.fold, "seed": run.seeds[0], "replicas": len(run.seeds), **run.choices}


def _add(run: Run, path: Path, folder: Path, verify: bool, collection: Collection) -> None:
    """Add a run on disk to the finished runs, or to what is left out."""
    if run.state not in ("finished", "damaged", "unreadable"):
        collection.unfinished[folder] += 1
        return
    try:
        finished = read_run(run)
        wrong = next(recomputed.differences(run), None) if verify else None
        if wrong:
            raise ValueError(wrong)
        runs = collection.choosing.setdefault(folder, []) if _chooses(run, path) else collection.runs
        # A run that was played twice has begun twice, and a copy that was changed has other files.
        told = json.dumps([finished.id, *map(run.manifest.get, ("started", "files"))], sort_keys=True)
        if told in collection._told:
            collection.copies[folder] += 1
        else:
            collection._told.add(told)
            runs.append(finished)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        collection.damaged.append(f"{path} ({error_line(error)})")


def chosen_runs(places: Iterable[str | os.PathLike[str]], verify: bool = False, warn: bool = True) -> Collection:
    """Return the runs that folders (default: output_dir of the project file) and words name.

    warn: warn of runs that are left out. ValueError where there are none.
    """
    folders, words = split_words(places)
    folders = folders or [default_output_dir()]
    collection = collect(folders, verify, words)
    if not collection.runs:
        others = "".join(f" ({reason})" for reason in collection.left_out)
        below = " or ".join(map(str, folders))
        raise ValueError(f"there are no finished runs below {below}{others}: start one with `ol2r run`")
    if warn:
        for line in collection.left_out:
            warnings.warn(line, stacklevel=3)
    return collection
