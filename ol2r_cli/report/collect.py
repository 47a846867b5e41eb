"""The finished runs below some folders, as far as a report needs them: settings, seeds and the summary."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.report.settings import FOLD, counts, read_settings
from ol2r_cli.report.statistics import Estimate
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.survey import RunState, find_runs, read_state


@dataclass(frozen=True)
class Run:
    """One finished run.

    `settings` are those that can change results, by dotted name (`dataset.queries.train`), but for seed, replicas and
    dataset.fold; `typed` are the names that its command line set; `metrics` is what summary.json says; `by_seed` has
    the values of each seed, in the order of its "seed", and is empty where an earlier version wrote the summary.
    """

    path: Path
    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    fold: Any
    fingerprint: str  # of the dataset
    seeds: tuple[int, ...]
    metrics: Mapping[str, Estimate]
    typed: frozenset[str] = frozenset()
    by_seed: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    id: str = ""


@dataclass
class Collection:
    """What was found: finished runs, how many others below each folder, and what is damaged and how."""

    runs: list[Run] = field(default_factory=list)
    unfinished: dict[Path, int] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


def collect(folders: Sequence[Path]) -> Collection:
    """All runs below `folders`, each once. ValueError for a folder that does not exist."""
    found, seen = Collection(), set()
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"DIR must be a folder with runs, got {folder}, which does not exist")
        for path in find_runs(folder):
            place = os.path.realpath(path)
            state = None if place in seen else read_state(path)
            seen.add(place)
            if state is None:
                continue
            if state.state not in ("finished", "unreadable"):
                found.unfinished[folder] = found.unfinished.get(folder, 0) + 1
                continue
            try:
                found.runs.append(_read(state))
            except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
                found.damaged.append(f"{path} ({' '.join(f'{type(error).__name__}: {error}'.split())})")
    return found


def _read(state: RunState) -> Run:
    if state.state == "unreadable":
        raise ValueError(state.error)
    directory, manifest = RunDirectory(state.path), state.manifest
    settings = read_settings(directory / "config.yaml")
    fold = settings.get(FOLD)
    settings = {name: value for name, value in settings.items() if counts(name)}
    settings["results_version"] = manifest["results_version"]
    summary = directory.read_json("summary.json")
    choices = {part: str(manifest["choices"][part]) for part in ("dataset", "click", "ranker")} | manifest["choices"]
    return Run(
        path=state.path,
        choices=choices,
        settings=settings,
        fold=fold,
        fingerprint=manifest["dataset"]["fingerprint"],
        seeds=tuple(manifest["seeds"]),
        metrics={
            name: Estimate(values["mean"], values["sd"], values["n"]) for name, values in summary["metrics"].items()
        },
        typed=_typed(manifest["command"]),
        by_seed=summary.get("by_seed", {}),
        id=manifest["id"],
    )


def _typed(command: str) -> frozenset[str]:
    words = command.split()
    if not {"'", '"', "\\"}.isdisjoint(command):  # shlex takes a millisecond
        with suppress(ValueError):  # a quote without its fellow
            words = shlex.split(command)
    return frozenset(word.partition("=")[0].lstrip("+~") for word in words)
