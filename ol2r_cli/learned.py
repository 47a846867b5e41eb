"""What a finished run has learned: a ranker for every seed, ready to score the documents of another file."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from omegaconf import OmegaConf
from torch import Tensor

from ol2r_cli.compose import build
from ol2r_cli.dataset.unseen import unseen
from ol2r_cli.interfaces import Ranker
from ol2r_cli.results.survey import read_state
from ol2r_cli.shapes import Float


class Learned:
    """The ranker of the run in a directory.

    ValueError, which says what to type, when the run is not finished, its `ranker.pt` is missing or damaged, or its
    ranker has nothing to say about queries that it has not served.
    """

    deployed: Float[Tensor, "B P"]

    def __init__(self, path: Path):
        state = read_state(path)
        if state is None or not state.manifest:
            raise ValueError(f"RUN must be a finished run, got {path} ({state.error if state else 'no run'})")
        self.path, self.manifest = path, state.manifest
        again = self.manifest["command"]
        if state.state != "finished":
            advice = "wait for it" if state.state == "running" else f"type {again}"
            raise ValueError(f"RUN must be a finished run, got {path}, which is {state.state}: {advice}")
        try:
            kept = torch.load(path / "ranker.pt", map_location="cpu", weights_only=True)
            self.deployed, self.seeds, self.features = kept["deployed"], list(kept["seeds"]), int(kept["features"])
            settings = kept["ranker"]
        except FileNotFoundError:
            raise ValueError(f"{path} has no ranker.pt: type {again} force=true") from None
        except (OSError, RuntimeError, EOFError, LookupError, TypeError, pickle.UnpicklingError) as error:
            raise ValueError(f"{path}/ranker.pt is damaged ({type(error).__name__}): type {again} force=true") from None
        self.ranker: Ranker = build(OmegaConf.create({"ranker": settings}).ranker)
        nothing = self.ranker.needs_labels and not self.deployed.shape[1]
        if not self.ranker.generalises or nothing:
            name = self.manifest["choices"]["ranker"]
            raise ValueError(f"RUN must be of a ranker that can score new queries, got {path}: ranker={name} cannot")

    def scores(self, file: Path, seed: int | None = None, data: Path | None = None) -> Float[Tensor, "N"]:
        """The scores of all documents of a LETOR file, in its order, by the replica of a seed (None: the first).

        `data` is where the data of the run are, if not where they were: they are needed where normalisation depends on
        the training split. Raises ValueError for another seed, and as `unseen` does.
        """
        if seed is not None and seed not in self.seeds:
            raise ValueError(f"--seed must be one of {', '.join(map(str, self.seeds))}, got {seed}")
        replica = 0 if seed is None else self.seeds.index(seed)
        config = OmegaConf.load(self.path / "config.yaml")
        if data is not None:
            config.dataset.path = str(data)
        dataset = unseen(file, build(config.dataset), self.features, self.manifest["dataset"]["fingerprint"])
        split = dataset.split("test", dtype=self.deployed.dtype)
        chosen = self.deployed[replica : replica + 1]
        # One query at a time: nothing is padded, and documents stay in order.
        served = (split.serve(torch.tensor([query]))[0] for query in range(len(split)))
        return torch.cat([self.ranker.score(chosen, candidates)[0, 0] for candidates in served])
