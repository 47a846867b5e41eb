"""How the rankers of a finished run order the queries of its own data, ties broken as in its offline evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from ol2r_cli.compose import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.evaluation import Evaluator, Lists
from ol2r_cli.learned import Learned

SPLITS = ("test", "validation")


class Ranked:
    """A finished run on one split of its data: the rankers of all its seeds after the last round, without exploration.

    `data` is where the data of the run are, if not where they were. ValueError, which says what to type, as `Learned`
    has it, and when the data are not found, are others, or have no such split.
    """

    def __init__(self, path: Path, split: str, data: Path | None = None):
        self.learned, self.split = Learned(path), split
        self.manifest, self.seeds = self.learned.manifest, self.learned.seeds
        self.settings = _settings(path, self.manifest["command"])
        self.dataset = _dataset(path, self.settings["dataset"], self.manifest["dataset"]["fingerprint"], data)
        self.skip = self.settings["no_relevant"] == "skip"
        seeds, dtype = torch.tensor(self.seeds), self.learned.deployed.dtype
        self._evaluator = Evaluator(self.dataset, split, seeds, self.settings["no_relevant"], dtype)
        self.query_ids = [self.dataset.query_ids[number] for number in self.dataset.splits[split].tolist()]

    def lists(self) -> Iterator[Lists]:
        """All queries of the split in groups of similar length; replicas are in the order of `seeds`."""
        return self._evaluator.lists(self.learned.ranker, self.learned.deployed)


def _settings(path: Path, again: str) -> dict[str, Any]:
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path / "config.yaml"))
        return {**content, "dataset": dict(content["dataset"])}
    except (OSError, LookupError, TypeError, ValueError, YAMLError, OmegaConfBaseException) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{path}/config.yaml is damaged ({reason}): type {again} force=true") from error


def _dataset(path: Path, settings: dict[str, Any], fingerprint: str, data: Path | None) -> Dataset:
    if data is not None:
        if "path" not in settings:
            raise ValueError(f"--data is for data that lie in files, got {data}: {path} generates its own")
        settings = {**settings, "path": str(data)}
    try:
        dataset = _load(OmegaConf.to_yaml(OmegaConf.create(settings)))
    except ValueError as problem:
        if "path" not in settings or data is not None:
            raise
        raise ValueError(f"the data of {path} cannot be read: type --data FOLDER ({problem})") from problem
    if dataset.fingerprint != fingerprint:
        where = settings.get("path") or settings.get("data_dir")
        if where is None:  # generated
            raise ValueError(f"{path} is of data that this version generates in another way: run it again")
        raise ValueError(f"--data must be the data of {path}, got {where}, where something else is")
    return dataset


@lru_cache(maxsize=1)
def _load(settings: str) -> Dataset:
    """Runs on the same data, which lie together, share them."""
    return build(OmegaConf.create({"dataset": OmegaConf.create(settings)}).dataset).load()
