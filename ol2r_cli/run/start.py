"""Warm starts: the parameters from which a ranker begins (`start` of configs/run.yaml), of a finished run or of an
offline fit to some of the labels. The model of the score and the number of features must be those of the ranker."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.config.catalogue import Catalogue, targets
from ol2r_cli.config.instantiate import build, import_target
from ol2r_cli.config.ranges import PositiveShare, Share, check_settings
from ol2r_cli.config.trusted import trusted_targets
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Oracle, Ranker, RunContext
from ol2r_cli.run import RANKER
from ol2r_cli.run.recomputed import TrainedRanker
from ol2r_cli.run.run import Run, find_run
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Random, Streams

L2 = 0.01  # of the offline fit of a linear score: more than that of the skyline, as few labels need (docs/algorithms)


@dataclass(frozen=True)
class StartSettings:
    """What `start` of configs/run.yaml may have."""

    run: str | None
    labels: PositiveShare | None
    noise: Share


class WarmStart:
    """What a ranker starts from, with the settings of an experiment. ValueError, which says what to type, for settings
    that do not go together, a ranker that cannot be started, and a run that is not finished."""

    def __init__(self, settings: Mapping[str, Any], ranker: Ranker):
        check_settings(StartSettings, settings["start"], "start")
        self.start, self.ranker = StartSettings(**settings["start"]), ranker
        self.settings = settings
        self.trained: TrainedRanker | None = None
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
        if run is not None:
            trusted = trusted_targets() | set(targets(settings["ranker"]))
            try:
                path = find_run(os.path.expanduser(run), settings["output_dir"])
                self.trained = TrainedRanker(Run.read_finished(path), trusted)
            except ValueError as error:
                raise ValueError(str(error).replace("RUN must", "start.run must")) from None

    def decisive(self) -> dict[str, Any]:
        """Return what of it decides the results, for the id of a run: of another run its id and the hash of its
        ranker."""
        run = self.trained and self.trained.run
        return {**vars(self.start), "run": run and [run.id, run.manifest["files"][RANKER]["sha256"]]}

    def __call__(self, context: RunContext, dataset: Dataset, seeds: Sequence[int]) -> Float[Tensor, "B P"]:
        """Return the parameters of every replica; ValueError where they are not of the ranker's shape."""
        if self.trained is None:
            return torch.stack([self._fitted(context, dataset, seed) for seed in seeds])
        trained, features = self.trained, context.features
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
        if len(trained.seeds) == 1:
            return trained.deployed.expand(len(seeds), -1)
        return torch.stack([trained.deployed[trained.replica(seed, "seed, with this start.run,")] for seed in seeds])

    def _fitted(self, context: RunContext, dataset: Dataset, seed: int) -> Float[Tensor, "P"]:
        assert self.start.labels is not None
        random = Streams(torch.tensor([seed]), ahead=1).at("start", 0)
        oracle = some_labels(dataset.oracle(), self.start.labels, self.start.noise, dataset.grades, random)
        cache = {"cache_dir": self.settings["cache_dir"]}
        if self.ranker.linear:
            return fit_offline("offline_ranknet", {"l2": L2, **cache}, context, dataset, oracle)
        settings = {"model": self.settings["ranker"]["model"], **cache}
        return fit_offline("offline_network", settings, context, dataset, oracle)


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


def fit_offline(
    choice: str, settings: Mapping[str, Any], context: RunContext, dataset: Dataset, oracle: Oracle
) -> Float[Tensor, "P"]:
    """Return the parameters of a skyline, with its default settings but for these, fitted to the labels of `oracle`."""
    content = Catalogue().choices["ranker"][choice].content
    usual = {name: value for name, value in content.items() if name != "defaults"}
    offline: Ranker = build({**usual, **settings}, "ranker")
    offline.setup(replace(context, replicas=1), dataset.features, oracle)
    return offline.deploy()[0]


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
