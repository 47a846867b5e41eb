"""What a finished run has trained and was trained on: its rankers, one for every seed, and its dataset.

Both are built from files of the run, which may come from others: only classes that are trusted are built
(`config/instantiate.py`), and what a run names is read and never written to.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build, check_stored
from ol2r_cli.dataset.letor import inference_data
from ol2r_cli.dataset.table import DatasetSource
from ol2r_cli.interfaces import Candidates, Ranker
from ol2r_cli.run import CONFIG, RANKER
from ol2r_cli.run.identity import check_unchanged
from ol2r_cli.tensor.shapes import Float

if TYPE_CHECKING:
    from ol2r_cli.run.run import Run


class TrainedRanker:
    """The ranker of a finished run.

    `deployed` is what `Ranker.deploy` returned after the last round, replicas in the order of `seeds`; `features` is
    the number of features that the ranker sees. `own_targets` are classes of the user that the run may name, besides
    those of ol2r and of plug-ins. Raises ValueError, which says what to type, when `ranker.pt` is missing, damaged or
    names another class, and when the ranker cannot score queries that it has not served.
    """

    deployed: Float[Tensor, "B P"]

    def __init__(self, run: Run, own_targets: Collection[str] = ()):
        self.run, self.own_targets = run, own_targets
        file, again = run.path / RANKER, f"type {run.command} force=true"
        try:
            content = torch.load(io.BytesIO(run.content(RANKER)), map_location="cpu", weights_only=True)
            self.deployed, self.seeds = content["deployed"], [int(seed) for seed in content["seeds"]]
            self.features, settings = int(content["features"]), dict(content["ranker"])
            numbers = self.deployed.layout == torch.strided and self.deployed.is_floating_point()
            if not numbers or self.deployed.shape != (len(self.seeds), self.deployed.shape[1]):
                raise ValueError("its parameters are not numbers for every seed")
        except FileNotFoundError:
            raise ValueError(f"{run.path} has no {RANKER}: {again}") from None
        except Exception as error:  # torch.load has no end of them
            raise ValueError(f"{file} is damaged ({type(error).__name__}): {again}") from None
        check_stored(settings, "ranker", file, own_targets)
        self.ranker: Ranker = build(OmegaConf.create({"ranker": settings}).ranker)
        if not isinstance(self.ranker, Ranker):
            raise ValueError(f"ranker._target_ in {file} must be a ranker, got {settings['_target_']}")
        check_unchanged(run.path, run.manifest, {"ranker": settings})
        sorts_by_label = self.ranker.needs_labels and not self.deployed.shape[1]
        if not self.ranker.generalises or sorts_by_label:
            what = f"ranker={run.choices['ranker']} cannot"
            raise ValueError(f"RUN must be of a ranker that can score new queries, got {run.path}: {what}")
        one, features = torch.zeros(1, 1, dtype=torch.int64), self.deployed.new_zeros(1, 1, self.features)
        try:  # whether the parameters fit the ranker
            self.ranker.score(self.deployed, Candidates(one[0], one, features, one == 0))
        except (RuntimeError, LookupError, ValueError, TypeError) as error:
            raise ValueError(f"{file} is damaged ({type(error).__name__}): {again}") from None

    def scores(self, file: Path, seed: int | None = None, data: Path | None = None) -> Float[Tensor, "N"]:
        """The scores of all documents of a LETOR file, in its order, by the replica of a seed (None: the first).

        `data` is the folder where the run's data are now, None where they were: they are needed when normalisation
        depends on the training split. Raises ValueError for a seed that the run does not have, and as `inference_data`
        does.
        """
        replica = self.replica(seed, "--seed")
        source = dataset_source(self.dataset_settings(data))
        dataset = inference_data(file, source, self.features, self.run.fingerprint)
        split = dataset.split("test", dtype=self.deployed.dtype)
        deployed = self.deployed[replica : replica + 1]
        # One query at a time: nothing is padded, and documents stay in order.
        candidates = (split.serve(torch.tensor([query]))[0] for query in range(len(split)))
        return torch.cat([self.ranker.score(deployed, of_query)[0, 0] for of_query in candidates])

    def dataset_settings(self, data: Path | None = None) -> dict[str, Any]:
        """The settings of the run's dataset, see `dataset_settings`."""
        return dataset_settings(self.run, self.own_targets, data)

    def replica(self, seed: int | None, name: str) -> int:
        """The replica of a seed, 0 for None; ValueError, in which `name` is how the seed is typed, for another seed."""
        if seed is not None and seed not in self.seeds:
            raise ValueError(f"{name} must be one of {', '.join(map(str, self.seeds))}, got {seed}")
        return 0 if seed is None else self.seeds.index(seed)


def dataset_settings(run: Run, own_targets: Collection[str] = (), data: Path | None = None) -> dict[str, Any]:
    """The settings of the dataset of a run, checked, with its data in the folder `data` (None: where they were).

    The cache is that of this machine. Raises ValueError for a damaged config.yaml, for a class that is not trusted
    (`own_targets` are those of `check_stored`), and for `data` of a run that generates its own.
    """
    dataset = run.settings.get("dataset")
    if not isinstance(dataset, dict):
        raise ValueError(f"{run.path / CONFIG} is damaged (it has no dataset): type {run.command} force=true")
    check_stored(dataset, "dataset", run.path / CONFIG, own_targets)
    if data is not None and "path" not in dataset:
        raise ValueError(f"--data is for data that lie in files, got {data}: {run.path} generates its own")
    here = {"cache_dir": Catalogue().root.values["cache_dir"]} if "cache_dir" in dataset else {}
    resolved: Any = OmegaConf.to_container(OmegaConf.create(here), resolve=True)
    return {**dataset, **resolved, **({} if data is None else {"path": str(data)})}


def dataset_source(settings: Mapping[str, Any]) -> DatasetSource:
    """What loads a dataset with these settings; ValueError for the class of something else."""
    source = build(OmegaConf.create({"dataset": settings}).dataset)
    if not isinstance(source, DatasetSource):
        raise ValueError(f"dataset._target_ must be a dataset, got {settings['_target_']}")
    return source
