"""Warm starts: the parameters from which a ranker begins (`start` of `ol2r run`), of a finished run or of an
offline fit to some of the labels. The model of the score and the number of features must be those of the ranker."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.config.catalogue import Catalogue, targets
from ol2r_cli.config.instantiate import import_target
from ol2r_cli.config.overrides import as_typed, split_words
from ol2r_cli.config.ranges import PositiveShare, Share, allowed_by, check_settings, check_value
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Oracle, Ranker, RunContext
from ol2r_cli.plugins import kind_of
from ol2r_cli.run import RANKER
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.own_code import trusted_targets
from ol2r_cli.run.recomputed import TrainedRanker
from ol2r_cli.run.run import Run, find_run, find_runs
from ol2r_cli.run.run_filter import RunFilter, part_of_outputs
from ol2r_cli.run.skyline import fit_offline
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Random, Streams

_RANKER = re.compile(r"(?![0-9a-f]{10}$)[A-Za-z_]\w*")
L2 = 0.01  # of the offline fit of a linear score: more than that of the skyline, as few labels need (docs/algorithms)


@dataclass(frozen=True)
class StartSettings:
    """What `start` may have."""

    run: str | None
    labels: PositiveShare | None
    noise: Share


class WarmStart:
    """What a ranker starts from, with the settings of an experiment; `find` reads the runs that `start.run` names.

    ValueError, which says what to type, for settings that do not go together, a ranker that cannot be started, and a
    run that is not finished. sources: the ranker that each seed starts from.
    """

    def __init__(self, settings: Mapping[str, Any], ranker: Ranker):
        check_value("start", settings["start"], allowed_by(Mapping[str, Any]))
        check_settings(StartSettings, settings["start"], "start")
        self.start, self.ranker = StartSettings(**settings["start"]), ranker
        self.settings = settings
        self.sources: dict[int, TrainedRanker] = {}
        run, labelled, noise = self.start.run, self.start.labels is not None, self.start.noise
        if run is not None and labelled:
            raise ValueError(f"start.run must be null with start.labels, got {run}: type one of them")
        if noise and not labelled:
            raise ValueError(f"start.noise must be 0 without start.labels, got {noise}: type start.labels=SHARE")
        self.given = run is not None or labelled
        if self.given and not ranker.starts:
            raise ValueError(
                f"start.run and start.labels must be null with {type(ranker).__name__} and its settings, which cannot "
                f"be started: type ranker={', '.join(startable())}"
            )

    def find(self, dataset: Dataset, seeds: Sequence[int]) -> None:
        """Read the rankers of the runs that `start.run` names."""
        if self.start.run is None:
            return
        trusted = trusted_targets() | {target for _, target in targets(self.settings["ranker"])}
        try:
            paths = named_runs(self.start.run, self.settings["output_dir"], dataset, seeds)
            rankers = {path: TrainedRanker(Run.read_finished(path), trusted) for path in dict.fromkeys(paths)}
        except ValueError as error:
            raise ValueError(str(error).replace("RUN must", "start.run must")) from None
        self.sources = {seed: rankers[path] for seed, path in zip(seeds, paths, strict=True)}

    def decisive(self) -> dict[str, Any]:
        """Return what of it decides the results, for the id of a run: of another run its id and the hash of its
        ranker, of several a list of these."""
        runs = {trained.run.id: trained.run for trained in self.sources.values()}
        decisive: list[Any] = [[run.id, run.manifest["files"][RANKER]["sha256"]] for run in runs.values()]
        return {**vars(self.start), "run": decisive[0] if len(decisive) == 1 else decisive or None}

    def record(self) -> dict[str, Any] | None:
        """Return what run.json says of the runs that it starts from, with the seed from which each seed starts."""
        if not self.sources:
            return None
        seeds = [_seed_of(trained, seed) for seed, trained in self.sources.items()]
        return next(iter(self.sources.values())).run.as_start() | {"seeds": seeds}

    def __call__(self, context: RunContext, dataset: Dataset, seeds: Sequence[int]) -> Float[Tensor, "B P"]:
        """Return the parameters of every replica; ValueError where they are not of the ranker's shape."""
        if not self.sources:
            return torch.stack([self._fitted(context, dataset, seed) for seed in seeds])
        for trained in dict.fromkeys(self.sources.values()):
            self._check(trained, context, dataset)
        deployed = []
        for seed in seeds:
            trained = self.sources[seed]
            place = trained.replica(_seed_of(trained, seed), "seed, with this start.run,")
            deployed.append(trained.deployed[place])
        return torch.stack(deployed)

    def _check(self, trained: TrainedRanker, context: RunContext, dataset: Dataset) -> None:
        """Raise ValueError where the parameters of a ranker are not for these features and this model."""
        features = context.features
        if trained.features != features:
            must = f"start.run must be of a ranker of {features} features, as {dataset.name} has"
            raise ValueError(f"{must}, got {trained.run.path} of {trained.features}")
        ours = self.settings["dataset"].get("normalise")
        theirs = trained.run.settings["dataset"].get("normalise")
        if theirs != ours:
            must = f"start.run must be of a run with dataset.normalise={ours}"
            raise ValueError(f"{must}, got {trained.run.path} with {theirs}")
        theirs, ours = _model(trained.ranker, features), _model(self.ranker, features)
        sizes = {context.parameters, context.parameters * getattr(self.ranker, "members", 1)}
        if theirs != ours or trained.deployed.shape[1] not in sizes:
            must = f"start.run must be of a ranker with the same model ({ours})"
            raise ValueError(f"{must}, got {trained.run.path} ({theirs}, {trained.deployed.shape[1]} parameters)")

    def _fitted(self, context: RunContext, dataset: Dataset, seed: int) -> Float[Tensor, "P"]:
        assert self.start.labels is not None
        random = Streams(torch.tensor([seed]), ahead=1).at("start", 0)
        oracle = some_labels(dataset.oracle(), self.start.labels, self.start.noise, dataset.grades, random)
        cache = {"cache_dir": self.settings["cache_dir"]}
        if self.ranker.linear:
            return fit_offline("offline_ranknet", {"l2": L2, **cache}, context, dataset, oracle)
        settings = {"model": self.settings["ranker"]["model"], **cache}
        return fit_offline("offline_network", settings, context, dataset, oracle)


def _seed_of(trained: TrainedRanker, seed: int) -> int:
    """Return the seed of a run from which a seed starts: the same, or the only one."""
    return trained.seeds[0] if len(trained.seeds) == 1 else seed


def named_runs(name: str, output_dir: str, dataset: Dataset, seeds: Sequence[int]) -> list[Path]:
    """Return the run that each seed starts from.

    name: a run by its directory or id, for all seeds; or folders (default: `output_dir`), a ranker, choices and
    settings, which must fit one finished run of these data for each seed. ValueError in one line where none fits, or
    several do. Runs that were started themselves are meant only where words name their start.
    """
    try:
        return [find_run(os.path.expanduser(name), output_dir)] * len(seeds)
    except ValueError as error:
        described = _folders_and_words(name)
        if described is None:
            raise error from None
    folders, words = described
    chosen = RunFilter(words)
    found = chain(*map(_finished_runs, folders or [Path(os.path.expanduser(output_dir))]))
    runs = [run for run in found if chosen.run(run)]
    try:
        chosen.check()
    except ValueError as error:
        raise ValueError(f"start.run={name} fits no run: {error}") from None
    fitting = [run for run in runs if run.fingerprint == dataset.fingerprint]
    if not any(wanted.startswith("start.") for wanted in chosen.wanted):
        fitting = [run for run in fitting if not _was_started(run)]
    return [_run_of_seed(seed, fitting, name, dataset).path for seed in seeds]


def _folders_and_words(name: str) -> tuple[list[Path], list[str]] | None:
    """Return the folders and the choices and settings that describe a run; None where `name` is no description."""
    named = [name] if Path(os.path.expanduser(name)).is_dir() else shlex.split(name)
    places, words = split_words(map(os.path.expanduser, named))
    folders = [place for place in places if place.is_dir()]
    rankers = [str(place) for place in places if place not in folders]
    if len(rankers) > 1 or not all(map(_RANKER.fullmatch, rankers)):
        return None
    return folders, [*(f"ranker={ranker}" for ranker in rankers), *words]


def _finished_runs(folder: Path) -> Iterator[Run]:
    """Yield the finished runs of `ol2r run` below a folder, but for those of benchmarks, recipes and searches."""
    for path in find_runs(folder):
        if part_of_outputs(path, folder) is None:
            run = Run.read(path)
            if run is not None and run.state == "finished" and kind_of(run.choices).name == "run":
                yield run


def _was_started(run: Run) -> bool:
    return any(run.flat_settings.get(f"start.{name}") is not None for name in ("run", "labels"))


def _run_of_seed(seed: int, runs: Sequence[Run], name: str, dataset: Dataset) -> Run:
    """Return the run with a seed; ValueError where none of `runs`, which are of the same data, has it, and where they
    are of several experiments."""
    of_seed = [run for run in runs if seed in run.seeds]
    if not of_seed:
        known = sorted({seed for run in runs for seed in run.seeds})
        there = f"their seeds are {', '.join(map(str, known))}" if runs else "there is none of these data"
        raise ValueError(
            f"RUN must fit a finished run of the data of {dataset.name} with seed {seed}, got {name}: {there}"
        )
    first = of_seed[0]
    for other in runs:
        differing = _difference(first, other)
        if differing:
            raise ValueError(
                f"RUN must fit runs of one experiment, got {name}, which fits {first.path.name} and {other.path.name}: "
                f"type \"start.run='{name} {differing}'\""
            )
    return first


def _difference(run: Run, other: Run) -> str:
    """Return a word that a run has and the other has not, NAME=VALUE; empty where they are of one experiment."""
    values, others = ({**one.flat_settings, **one.code_settings, **one.choices} for one in (run, other))
    for name in (*run.choices, *values):
        never = name in NOT_HASHED or name in ("seed", "replicas") or name.startswith("dataset.")
        if not never and values[name] != others.get(name):
            return f"{name}={as_typed(values[name])}"
    return ""


def some_labels(oracle: Oracle, share: float, noise: float, grades: int, random: Random) -> Oracle:
    """Return a random share of the training queries, at least one, and labels of which each is replaced with the
    probability `noise` by a grade drawn uniformly."""
    number = max(1, round(share * len(oracle.start)))
    chosen = random.uniform(len(oracle.start), "queries")[0].argsort(stable=True)[:number].sort().values
    labels: Int[Tensor, "N"] = oracle.labels
    if noise:
        drawn = (random.uniform(len(labels), "grade")[0] * grades).to(labels.dtype)
        labels = torch.where(random.uniform(len(labels), "replaced")[0] < noise, drawn, labels)
    return replace(oracle, labels=labels, start=oracle.start[chosen], length=oracle.length[chosen], validation=None)


def startable() -> list[str]:
    """Return the rankers that can be started with their default settings."""
    found = []
    for name, choice in Catalogue().choices["ranker"].items():
        with suppress(ImportError):  # of an optional package
            if getattr(import_target(choice.content["_target_"]), "starts", False):
                found.append(name)
    return found


def _model(ranker: Ranker, features: int) -> str:
    """Return a linear score, or the class of a network and its number of parameters."""
    return "linear" if ranker.linear else f"{type(getattr(ranker, 'model', ranker)).__name__}, {ranker.size(features)}"
