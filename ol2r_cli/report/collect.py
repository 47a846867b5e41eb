"""The finished runs below some folders, as far as a report needs them: settings, seeds and the summary."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.report.statistics import Estimate
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.identity import NOT_HASHED
from ol2r_cli.results.survey import RunState, find_runs, read_state

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FOLD = "dataset.fold"
# The dataset itself does count: not by the place of its files, but see `groups`.
NEVER_COUNT = (NOT_HASHED - {"dataset"}) | {"seed", "replicas", _FOLD}


@dataclass(frozen=True)
class Run:
    """One finished run.

    `settings` are those that can change results, by dotted name (`dataset.queries.train`), but for seed, replicas and
    dataset.fold; `typed` are the names that its command line set; `metrics` is what summary.json says.
    """

    path: Path
    choices: Mapping[str, str]
    settings: Mapping[str, Any]
    fold: Any
    fingerprint: str  # of the dataset
    seeds: tuple[int, ...]
    metrics: Mapping[str, Estimate]
    typed: frozenset[str] = frozenset()


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
            state = None if path.resolve() in seen else read_state(path)
            seen.add(path.resolve())
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
    settings = dict(_dotted(yaml.load((directory / "config.yaml").read_bytes(), _Loader)))
    fold = settings.get(_FOLD)
    settings = {name: value for name, value in settings.items() if _counts(name)}
    settings["results_version"] = manifest["results_version"]
    metrics = directory.read_json("summary.json")["metrics"]
    choices = {part: str(manifest["choices"][part]) for part in ("dataset", "click", "ranker")} | manifest["choices"]
    return Run(
        path=state.path,
        choices=choices,
        settings=settings,
        fold=fold,
        fingerprint=manifest["dataset"]["fingerprint"],
        seeds=tuple(manifest["seeds"]),
        metrics={name: Estimate(values["mean"], values["sd"], values["n"]) for name, values in metrics.items()},
        typed=_typed(manifest["command"]),
    )


def _dotted(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves by their name on the command line; whole numbers are the same written 1 or 1.0, as in the run's id."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", int(value) if isinstance(value, float) and value.is_integer() else value


def _counts(name: str) -> bool:
    """Whether a setting tells groups apart; the dataset's own copies of data_dir and cache_dir no more than these."""
    parts = name.split(".")
    above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return not above & NEVER_COUNT and not (parts[0] == "dataset" and parts[-1] in NOT_HASHED)


def _typed(command: str) -> frozenset[str]:
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its fellow
        words = command.split()
    return frozenset(word.partition("=")[0].lstrip("+~") for word in words)
