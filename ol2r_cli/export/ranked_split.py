"""How the trained rankers of a finished run order the queries of its own data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.formatting import error_line
from ol2r_cli.metrics.evaluation import Evaluator, Lists
from ol2r_cli.run.trained_ranker import TrainedRanker


class RankedSplit:
    """A split of a run's data, ordered by the rankers of all its seeds after the last round, without exploration.

    `split` is test or validation. `data` is the folder where the data of the run are now, None where they were. Raises
    ValueError, which says what to type, as `TrainedRanker` does, and when the data are not found, have changed, or
    have no such split.
    """

    def __init__(self, path: Path, split: str, data: Path | None = None):
        self.trained, self.split = TrainedRanker(path), split
        self.manifest, self.seeds = self.trained.manifest, self.trained.seeds
        self.settings = _settings(path, self.manifest["command"])
        self.dataset = _dataset(path, self.settings["dataset"], self.manifest["dataset"]["fingerprint"], data)
        self.skips = self.settings["no_relevant"] == "skip"  # queries without a relevant document are not evaluated
        self.query_ids = [self.dataset.query_ids[number] for number in self.dataset.splits[split].tolist()]
        seeds, dtype = torch.tensor(self.seeds), self.trained.deployed.dtype
        self._evaluator = Evaluator(self.dataset, split, seeds, self.settings["no_relevant"], dtype)

    def lists(self) -> Iterator[Lists]:
        """The queries of the split in groups of similar length, replicas in the order of `seeds`.

        Equal scores are broken as in the offline evaluation of the run.
        """
        return self._evaluator.lists(self.trained.ranker, self.trained.deployed)


def _settings(path: Path, command: str) -> dict[str, Any]:
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path / "config.yaml"))
        return {**content, "dataset": dict(content["dataset"])}
    except (OSError, LookupError, TypeError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise ValueError(f"{path}/config.yaml is damaged ({error_line(error)}): type {command} force=true") from error


def _dataset(path: Path, settings: dict[str, Any], fingerprint: str, data: Path | None) -> Dataset:
    if data is not None:
        if "path" not in settings:
            raise ValueError(f"--data is for data that lie in files, got {data}: {path} generates its own")
        settings = {**settings, "path": str(data)}
    try:
        dataset = _load(OmegaConf.to_yaml(OmegaConf.create(settings)))
    except ValueError as error:
        if "path" not in settings or data is not None:
            raise
        raise ValueError(f"the data of {path} cannot be read: type --data FOLDER ({error})") from error
    if dataset.fingerprint != fingerprint:
        folder = settings.get("path") or settings.get("data_dir")
        if folder is None:  # generated
            raise ValueError(f"{path} is of data that this version generates in another way: run it again")
        raise ValueError(f"--data must be the data of {path}, got {folder}, which has other data")
    return dataset


@lru_cache(maxsize=1)
def _load(settings: str) -> Dataset:
    """The dataset, shared by consecutive runs on the same data."""
    return build(OmegaConf.create({"dataset": OmegaConf.create(settings)}).dataset).load()
