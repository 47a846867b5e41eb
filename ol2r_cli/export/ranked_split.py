"""How the trained rankers of a finished run order the queries of its own data."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build, check_stored
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Measure
from ol2r_cli.metrics.evaluation import Evaluator, Lists
from ol2r_cli.run.code import check_unchanged
from ol2r_cli.run.run import Run
from ol2r_cli.run.trained_ranker import TrainedRanker, dataset_source


class RankedSplit:
    """A split of a run's data, ordered by the rankers of all its seeds after the last round, without exploration.

    `split` is test or validation. `data` is the folder where the data of the run are now, None where they were.
    `own_targets` are those of `TrainedRanker`. Raises ValueError, which says what to type, as `TrainedRanker` does, and
    when the data are not found, have changed, or have no such split.
    """

    def __init__(self, path: Path, split: str, data: Path | None = None, own_targets: Collection[str] = ()):
        run, self.split = Run.read_finished(path), split
        self.trained = run.read_ranker(own_targets)
        self.manifest, self.settings, self.seeds = run.manifest, run.settings, self.trained.seeds
        if "intent" in self.manifest["choices"]:
            raise ValueError(
                f"{path} has users whose intent changes, so that its documents have no lasting labels: export a run "
                "with intent=none, or read its evaluation.parquet"
            )
        self.dataset = _dataset(self.trained, data)
        self.skips = self.settings["no_relevant"] == "skip"  # queries without a relevant document are not evaluated
        self.query_ids = [self.dataset.query_ids[number] for number in self.dataset.splits[split].tolist()]
        seeds, dtype = torch.tensor(self.seeds), self.trained.deployed.dtype
        self._evaluator = Evaluator(self.dataset, split, seeds, self.settings["no_relevant"], dtype, {})
        self.measures = _measures(self.settings.get("measure") or {}, path, own_targets)
        check_unchanged(path, self.manifest, {"measure": self.settings.get("measure")})

    def lists(self) -> Iterator[Lists]:
        """Return the queries of the split in groups of similar length, replicas in the order of `seeds`.

        Equal scores are broken as in the offline evaluation of the run.
        """
        return self._evaluator.lists(self.trained.ranker, self.trained.deployed)


def _measures(nodes: dict[str, Any], path: Path, own_targets: Collection[str]) -> dict[str, Measure]:
    """Return `ndcg` and `err`, and the measures of the run that have columns of the offline evaluation."""
    check_stored(nodes, "measure", path / "config.yaml", own_targets)
    usual = {name: Catalogue().choices["measure"][name].content | nodes.get(name, {}) for name in ("ndcg", "err")}
    nodes = usual | nodes | usual  # these first, and whole: earlier versions wrote no settings of ndcg
    measures = {name: build(node) for name, node in OmegaConf.create({"measure": nodes}).measure.items()}
    return {str(name): measure for name, measure in measures.items() if measure.evaluation}


def _dataset(trained: TrainedRanker, data: Path | None) -> Dataset:
    path, settings = trained.run.path, trained.dataset_settings(data)
    try:
        dataset = _load(OmegaConf.to_yaml(OmegaConf.create(settings)))
    except ValueError as error:
        if "path" not in settings or data is not None:
            raise
        raise ValueError(f"the data of {path} cannot be read: type --data FOLDER ({error})") from error
    if dataset.fingerprint != trained.run.fingerprint:
        folder = settings.get("path") or settings.get("data_dir")
        if folder is None:  # generated
            raise ValueError(f"{path} is of data that this version generates in another way: run it again")
        raise ValueError(f"--data must be the data of {path}, got {folder}, which has other data")
    return dataset


@lru_cache(maxsize=1)
def _load(settings: str) -> Dataset:
    """Return the dataset, shared by consecutive runs on the same data."""
    plain: Any = OmegaConf.to_container(OmegaConf.create(settings))
    return dataset_source(plain).load()
