"""Finished runs as a report reads them from their directories, and the defaults of their settings."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ol2r_cli.columns import RunColumns
from ol2r_cli.config.catalogue import Catalogue, dotted
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.lazy import pl
from ol2r_cli.plugins import RunKind, kind_of
from ol2r_cli.report.measures import declare
from ol2r_cli.report.parts import NAMED_PARTS, RECORDING, TASK_PARTS, part_of
from ol2r_cli.report.units import SEEDS, Units
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import DamagedFile, Run, find_run
from ol2r_cli.text.formatting import one_line, printable

FOLD = "dataset.fold"
# Settings that never distinguish groups. The dataset does, by its data instead of the path of its files: `group_runs`.
IGNORED = NOT_HASHED | {"seed", "replicas", FOLD}
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,[^{}]*)?\}")  # ${ranker.l2}, ${oc.select:ranker.l2,1.0}
_OF_MEASURE = re.compile(r"measure\.(\w+)(?:@\d+)?\.(\w+)")


@dataclass(frozen=True)
class FinishedRun:
    """One finished run, of a directory (`read_run`) or of a file that publishes runs (`plugins.Source`).

    manifest: what its run.json has, or as much of this as was published: id, choices, dataset, columns and typed.
    settings: those that can change results, by dotted name (`dataset.queries.train`), without seed, replicas and
    dataset.fold, and the hashes of its own code, as `ranker.own_code`, and of files, as `ranker.scores.sha256`.
    values: the metrics of each seed, or of what `units` has in place of seeds, None where one does not apply.
    """

    path: Path
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    fold: Any
    values: Mapping[int, Mapping[str, float | None]]

    def __post_init__(self) -> None:
        """Make text, which may be of others, printable; ValueError for what is no number."""
        for name in ("manifest", "settings", "fold"):
            vars(self)[name] = _printable(getattr(self, name))
        declare(self.columns)
        metrics = [value for of_seed in self.values.values() for value in of_seed.values()]
        if not {*map(type, metrics)} <= {int, float, type(None)} or {*map(type, self.values)} != {int}:
            raise ValueError("it must have a number or null of every metric for each seed")

    @property
    def id(self) -> str:
        return self.manifest["id"]

    @property
    def choices(self) -> Mapping[str, str]:
        return self.manifest["choices"]

    @property
    def fingerprint(self) -> str:
        """That of the dataset."""
        return self.manifest["dataset"]["fingerprint"]

    @cached_property
    def columns(self) -> RunColumns:
        """Those of its tables."""
        return RunColumns.of(self.manifest)

    @cached_property
    def typed(self) -> frozenset[str]:
        """Names of choices and settings on its command line."""
        return frozenset(self.manifest["typed"])

    @property
    def cpu_seconds(self) -> float | None:
        return self.manifest.get("cpu_seconds")

    @property
    def peak_memory_gb(self) -> float | None:
        return self.manifest.get("peak_memory_gb")

    @property
    def note(self) -> str:
        return self.manifest.get("note") or ""

    @property
    def start_seeds(self) -> tuple[int, ...]:
        """For each seed that of the run that it started from, if any."""
        return tuple((self.manifest.get("start") or {}).get("seeds", ()))

    @cached_property
    def run_kind(self) -> RunKind:
        """Its kind of run."""
        return kind_of(self.choices)

    @cached_property
    def units(self) -> Units:
        """What its values are of."""
        return _units(self.run_kind)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.values)

    @property
    def metrics(self) -> Iterable[str]:
        """The names of its metrics."""
        return next(iter(self.values.values()), {}).keys()


def _units(kind: RunKind) -> Units:
    return kind.units() if kind.units else SEEDS


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_printable(name): _printable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(_printable, value))
    return printable(value) if isinstance(value, str) else value


def read_run(run: Run) -> FinishedRun:
    """Return a run as a report reads it; ValueError, OSError or LookupError where its files cannot be read."""
    if run.state in ("damaged", "unreadable"):
        raise ValueError(run.error)
    choices, kind = {"intent": "none"} | dict(run.choices), kind_of(run.choices)
    flat = run.flat_settings
    settings = {_usual_name(name): flat[name] for name in flat if name != kind.fold and distinguishes(name)}
    settings |= {"results_version": run.manifest["results_version"]} | run.code_settings | start_setting(run)
    settings = {kind.as_shown(name): value for name, value in settings.items()}
    settings.setdefault("rounds", run.rounds)
    manifest = run.manifest | {"choices": choices, "typed": sorted(run.typed), "start": _start_of(run)}
    return FinishedRun(run.path, manifest, settings, flat.get(kind.fold), _units(kind).read(run))


def start_setting(run: Run) -> dict[str, str]:
    """Return `start.run` of a run as it is called, empty for a run without it.

    That is the ranker of the run that it started from with its other choices and settings, as in --baseline: those of
    the ranker that are not its defaults, and the others that are not those of the started run. So a start has the same
    name in every fold, seed and folder, and start.run finds it by this name.
    """
    start = _start_of(run)
    ours = {"choices": run.choices, "settings": run.flat_settings, "fingerprint": run.fingerprint}
    return {"start.run": _name_of_start(start, ours)} if start else {}


def _name_of_start(start: Mapping[str, Any], started: Mapping[str, Any]) -> str:
    """Return what a start is called. Both are as `Run.as_start` returns them."""
    choices, settings, ours = start["choices"], start["settings"], {"intent": "none"} | dict(started["choices"])
    usual, defaults = default_parts(choices["ranker"]), default_settings(choices, settings)
    words = [choices["ranker"]]
    words += [f"{part}={choices[part]}" for part in NAMED_PARTS if choices.get(part) not in (None, usual.get(part))]
    words += [f"{part}={choices[part]}" for part in TASK_PARTS if choices.get(part, ours[part]) != ours[part]]
    for name, value in settings.items():
        same_for_both = part_of(name) in (*TASK_PARTS, "") and not name.startswith("start.")
        expected = (started["settings"] if same_for_both else defaults).get(name, ...)
        if _names_a_start(name) and value != expected:
            words.append(f"{name}={as_typed(value)}")
    if start.get("start"):
        words.append(f"start.run={as_typed(_name_of_start(start['start'], start))}")
    if start["fingerprint"] != started["fingerprint"] and choices["dataset"] == ours["dataset"]:
        fold = settings.get(FOLD)
        is_other_fold = fold != started["settings"].get(FOLD)
        words.append(f"{FOLD}={fold}" if is_other_fold else f"dataset.fingerprint={start['fingerprint'][:8]}")
    return " ".join(words)


def _names_a_start(name: str) -> bool:
    """Return whether a setting of the run that another started from is in its name, where it is not the usual one.

    Not that of a class, which its choice says, and not what did not decide its parameters.
    """
    is_of_other = name.startswith(("measure.", "dataset.", "start.run")) or name.endswith("._target_")
    return distinguishes(name) and name not in RECORDING and not is_of_other


def _start_of(run: Run) -> Mapping[str, Any]:
    """Return what run.json says of the run that a run started from; as it is on disk, where an earlier version wrote
    run.json; empty without such a run."""
    recorded, typed = run.manifest.get("start"), run.flat_settings.get("start.run")
    if recorded or not isinstance(typed, str):
        return recorded or {}
    try:
        source = Run.read_finished(find_run(os.path.expanduser(typed), run.path.parents[1]))
        seeds = source.seeds * len(run.seeds) if len(source.seeds) == 1 else run.seeds
        return source.as_start() | {"seeds": seeds}
    except (OSError, ValueError):
        return {}


@cache
def distinguishes(setting: str) -> bool:
    """Return whether different values of a setting can make different groups.

    False for the dataset's data_dir and cache_dir, and for what the columns of a measure say: its class and cutoff.
    """
    words = setting.split(".")
    prefixes = {".".join(words[:length]) for length in range(1, len(words) + 1)}
    never = {"dataset": NOT_HASHED, "measure": {"_target_", "cutoff"}}.get(words[0], ())
    return not prefixes & IGNORED and words[-1] not in never


@cache
def _usual_name(setting: str) -> str:
    """Return the name of a setting, without the cutoff that its measure has in any case: `ndcg@10` is `ndcg`."""
    of_measure = re.fullmatch(r"measure\.(\w+)@(\d+)\.(\w+)", setting)
    choice = _catalogue().choices["measure"].get(of_measure[1]) if of_measure else None
    if of_measure and choice and str(choice.values.get("cutoff")) == of_measure[2]:
        return f"measure.{of_measure[1]}.{of_measure[3]}"
    return setting


@cache
def _catalogue() -> Catalogue:
    return Catalogue(root="run")


@cache
def _defaults(choices: tuple[tuple[str, str], ...]) -> list[tuple[str, Any]]:
    return list(dotted(_catalogue().tree([f"{group}={choice}" for group, choice in choices])))


def default_settings(choices: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the chosen files of ol2r beside these settings, without those that depend on the machine.

    A default that follows another setting, as exploration.l2 follows ranker.l2, is that setting's value.
    """
    defaults = dict(_defaults(tuple(choices.items()))) | _defaults_of_measures(settings)
    resolved = {}
    for name, value in defaults.items():
        reference = _REFERENCE.fullmatch(str(value))
        if reference:
            value = settings.get(reference[1], value)
        if "${" not in str(value):
            resolved[name] = value
    return resolved


def _defaults_of_measures(settings: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of those of these settings that are of measures, which are no choices of a run."""
    defaults = {}
    for name in settings:
        setting = _OF_MEASURE.fullmatch(name)
        choice = _catalogue().choices["measure"].get(setting[1]) if setting else None
        if setting and choice and setting[2] in choice.values:
            defaults[name] = choice.values[setting[2]]
    return defaults


@cache
def default_parts(ranker: str) -> dict[str, str]:
    """Return the exploration, the fairness and, if it has one, the model that come with `ol2r run ranker=..`, by group.

    Of a ranker that does not come with ol2r only the fairness is known.
    """
    catalogue = _catalogue()
    known = ("ranker/model", "exploration", "fairness") if ranker in catalogue.choices["ranker"] else ("fairness",)
    chosen = catalogue.chosen([f"ranker={ranker}"])
    return {part: choice for part in known if (choice := chosen.get(part)) is not None}


def read_tables(path: Path, read: Callable[[Run], pl.DataFrame]) -> pl.DataFrame:
    """Return what `read` makes of the run in a directory; ValueError where its tables are damaged."""
    try:
        run = Run.read(path)
        if run is None or not run.manifest:
            raise DamagedFile(run.error if run else "there is no run")
        return read(run)
    except (OSError, DamagedFile, pl.exceptions.PolarsError) as error:
        reason = one_line(error)
        raise ValueError(f"the tables of {path} cannot be read ({reason}): force=true runs it again") from error
