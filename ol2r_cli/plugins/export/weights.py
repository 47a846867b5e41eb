"""The trained weights of a linear ranker, with all that is needed to serve its scores without ol2r."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ol2r_cli.dataset.prepare import Transformation, inverse
from ol2r_cli.interfaces import Candidates
from ol2r_cli.run.recomputed import TrainedRanker
from ol2r_cli.run.run import Run

_TRIED = 64  # documents whose scores have to be the products with the weights
_CLOSE = 1e-4  # relative difference of two scores that is a matter of rounding


def weights(path: Path, data: Path | None = None, own_targets: Collection[str] = ()) -> dict[str, Any]:
    """Return the weights of the finished run in `path`, as docs/how-to/export.md describes them.

    Those of features that rankers do not see are 0, so that a score is the product with all features of the data, once
    they are normalised. `data` and `own_targets` are those of `TrainedRanker`. ValueError for a ranker whose score is
    not such a product, for a class of datasets of which it is not known how it makes features, and as of
    `TrainedRanker`.
    """
    trained = TrainedRanker(Run.read_finished(path), own_targets)
    run = trained.run
    rows = _linear(trained)
    if rows is None:
        raise ValueError(
            f"--to weights is for a linear ranker, got {path} with ranker={run.choices['ranker']}"
            f"{' and a network' if 'ranker/model' in run.choices else ''}: type ol2r score, or Run.score in Python"
        )
    source = trained.feature_source(data)
    made = source.transform
    if not isinstance(made, Transformation) or source.warnings:
        name = type(source.source).__name__
        raise ValueError(f"--to weights needs features that are normalised by a setting, not by the class {name}")
    every = np.zeros((len(rows), len(made.columns)))
    every[:, made.columns] = rows
    if made.zeroed is not None:
        every[:, made.zeroed - 1] = 0
    is_global = made.method == "global_zscore"
    return {
        "run": run.id,
        "ranker": run.choices["ranker"],
        "dataset": run.choices["dataset"],
        "rounds": run.rounds,
        "normalise": made.method,
        "mean": np.asarray(made.mean).tolist() if is_global else None,
        "sd": inverse(np.asarray(made.scale)).tolist() if is_global else None,
        "features": source.names(),
        "weights": {str(seed): row for seed, row in zip(trained.seeds, every.tolist(), strict=True)},
    }


def _linear(trained: TrainedRanker) -> np.ndarray | None:
    """Return the weights [B, G] by which a ranker scores, None where its scores are not such products.

    Where several members are deployed, they score by the mean.
    """
    deployed, width = trained.deployed.double(), trained.features
    if not deployed.shape[1] or deployed.shape[1] % width:
        return None
    rows = deployed.unflatten(1, (-1, width)).mean(1)
    random = torch.Generator().manual_seed(0)
    documents = torch.rand(1, _TRIED, width, dtype=trained.deployed.dtype, generator=random)
    place = torch.arange(_TRIED)[None]
    scores = trained.ranker.score(trained.deployed, Candidates(place[:, 0], place, documents, place >= 0))[
        :, 0
    ].double()
    products = rows @ documents[0].double().T
    size = rows.abs().sum(1, keepdim=True)
    return rows.numpy() if ((scores - products).abs() <= _CLOSE * size).all() else None
