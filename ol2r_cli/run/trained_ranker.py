"""The rankers that a finished run has trained, one for every seed, ready to score the documents of another file."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from ol2r_cli.config.instantiate import build, check_stored
from ol2r_cli.dataset.inference_data import inference_data
from ol2r_cli.interfaces import Candidates, Ranker
from ol2r_cli.run.code import check_unchanged
from ol2r_cli.run.integrity import sha256
from ol2r_cli.run.run_state import finished_manifest
from ol2r_cli.run.stored_dataset import dataset_source, stored_dataset_settings, stored_settings
from ol2r_cli.tensor.shapes import Float


class TrainedRanker:
    """The ranker of the run in a directory.

    `deployed` is what `Ranker.deploy` returned after the last round, replicas in the order of `seeds`; `features` is
    the number of features that the ranker sees. `own_targets` are classes of the user that the run may name, besides
    those of ol2r and of plug-ins (`config/instantiate.py`). Raises ValueError, which says what to type, when the run
    is not finished, when its `ranker.pt` is missing, damaged or names another class, and when its ranker cannot score
    queries that it has not served.
    """

    deployed: Float[Tensor, "B P"]

    def __init__(self, path: Path, own_targets: Collection[str] = ()):
        self.path, self.manifest, self._own_targets = path, finished_manifest(path), own_targets
        command = self.manifest["command"]
        record = (self.manifest.get("files") or {}).get("ranker.pt")
        try:
            if record is not None and sha256(path / "ranker.pt") != record["sha256"]:
                raise ValueError("its content was changed")
            content = torch.load(path / "ranker.pt", map_location="cpu", weights_only=True)
            self.deployed, self.seeds = content["deployed"], [int(seed) for seed in content["seeds"]]
            self.features, settings = int(content["features"]), dict(content["ranker"])
            shape = (len(self.seeds), self.deployed.shape[1])
            numbers = self.deployed.layout == torch.strided and self.deployed.is_floating_point()
            if not numbers or self.deployed.shape != shape:
                raise ValueError("its parameters are not numbers for every seed")
        except FileNotFoundError:
            raise ValueError(f"{path} has no ranker.pt: type {command} force=true") from None
        except Exception as error:  # torch.load has no end of them
            raise self._damaged(error) from None
        check_stored(settings, "ranker", path / "ranker.pt", own_targets)
        self.ranker: Ranker = build(OmegaConf.create({"ranker": settings}).ranker)
        if not isinstance(self.ranker, Ranker):
            raise ValueError(f"ranker._target_ in {path}/ranker.pt must be a ranker, got {settings['_target_']}")
        check_unchanged(path, self.manifest, {"ranker": settings})
        sorts_by_label = self.ranker.needs_labels and not self.deployed.shape[1]
        if not self.ranker.generalises or sorts_by_label:
            name = self.manifest["choices"]["ranker"]
            raise ValueError(f"RUN must be of a ranker that can score new queries, got {path}: ranker={name} cannot")
        one, features = torch.zeros(1, 1, dtype=torch.int64), self.deployed.new_zeros(1, 1, self.features)
        try:  # whether the parameters fit the ranker
            self.ranker.score(self.deployed, Candidates(one[0], one, features, one == 0))
        except (RuntimeError, LookupError, ValueError, TypeError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> ValueError:
        what = f"{self.path}/ranker.pt is damaged ({type(error).__name__})"
        return ValueError(f"{what}: type {self.manifest['command']} force=true")

    def scores(self, file: Path, seed: int | None = None, data: Path | None = None) -> Float[Tensor, "N"]:
        """The scores of all documents of a LETOR file, in its order, by the replica of a seed (None: the first).

        `data` is the folder where the run's data are now, None where they were: they are needed when normalisation
        depends on the training split. Raises ValueError for a seed that the run does not have, and as `inference_data`
        does.
        """
        replica = self.replica(seed, "--seed")
        source = dataset_source(self.dataset_settings(data))
        dataset = inference_data(file, source, self.features, self.manifest["dataset"]["fingerprint"])
        split = dataset.split("test", dtype=self.deployed.dtype)
        deployed = self.deployed[replica : replica + 1]
        # One query at a time: nothing is padded, and documents stay in order.
        candidates = (split.serve(torch.tensor([query]))[0] for query in range(len(split)))
        return torch.cat([self.ranker.score(deployed, of_query)[0, 0] for of_query in candidates])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings of the run, as `config.yaml` has them; nothing in them has been checked."""
        return stored_settings(self.path, self.manifest)

    def dataset_settings(self, data: Path | None = None) -> dict[str, Any]:
        """The settings of the run's dataset, see `stored_dataset_settings`."""
        return stored_dataset_settings(self.path, self.settings, self._own_targets, data)

    def replica(self, seed: int | None, name: str) -> int:
        """The replica of a seed, 0 for None; ValueError, in which `name` is how the seed is typed, for another seed."""
        if seed is not None and seed not in self.seeds:
            raise ValueError(f"{name} must be one of {', '.join(map(str, self.seeds))}, got {seed}")
        return 0 if seed is None else self.seeds.index(seed)
