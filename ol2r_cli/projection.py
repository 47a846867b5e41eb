"""The documents of a run's dataset on two axes that tell their grades best: of features, and of what a network learned.

Linear discriminant analysis of the labelled documents, as for figure 3 of olRankNet (Jia and Wang, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from torch import Tensor

from ol2r_cli.compose import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.learned import Learned
from ol2r_cli.shapes import Float, Int

_FITTED = 100_000  # documents, at most, that the axes are computed from
_SHRINKAGE = 1e-4  # of the covariance, so that features which never vary or repeat others do no harm
_AT_ONCE = 8192  # documents


@dataclass(frozen=True, eq=False)
class Projection:
    """Some documents: their grades, and their places by features and by the last hidden layer of a network."""

    grades: Int[np.ndarray, "n"]
    features: Float[np.ndarray, "n 2"]
    network: Float[np.ndarray, "n 2"]


def project(path: Path, documents: int, seed: int | None = None) -> Projection:
    """Of the run in `path`: so many documents of every grade, evenly from first to last, by the network of a seed.

    Of several members it is the first. The axes come from all documents of the dataset, evenly thinned to 100,000.
    ValueError for a run without a network, another seed, other data than the run's, and fewer than three grades.
    """
    learned = Learned(path)
    model = getattr(learned.ranker, "model", None)
    if model is None or model.linear:
        raise ValueError(f"lda needs a ranker with a network, got {path}: run one, such as ranker=olranknet")
    if seed is not None and seed not in learned.seeds:
        raise ValueError(f"seed must be one of {', '.join(map(str, learned.seeds))}, got {seed}")
    dataset = _dataset(path, learned)
    fitted = _evenly(torch.arange(len(dataset.labels)), _FITTED)
    grades = dataset.labels[fitted].numpy()
    if len(np.unique(grades)) < 3:
        raise ValueError(f"lda needs documents of three grades or more, got {len(np.unique(grades))} in {dataset.name}")
    rows = [torch.nonzero(dataset.labels[fitted] == grade)[:, 0] for grade in range(dataset.grades)]
    shown = torch.cat([_evenly(own, documents) for own in rows]).numpy()
    features = dataset.features[fitted]
    parameters = learned.deployed[0 if seed is None else learned.seeds.index(seed)]
    hidden = _last_layer(model, parameters[: model.size(features.shape[1])], features)
    return Projection(grades[shown], _discriminants(features, grades)[shown], _discriminants(hidden, grades)[shown])


def _dataset(path: Path, learned: Learned) -> Dataset:
    dataset: Dataset = build(OmegaConf.load(path / "config.yaml").dataset).load()
    if dataset.fingerprint != learned.manifest["dataset"]["fingerprint"]:
        again = learned.manifest["command"]
        raise ValueError(f"lda needs the data of the run {path}, which are no longer there: type {again} force=true")
    return dataset


def _evenly(rows: Tensor, most: int) -> Tensor:
    """At most so many of the rows, at equal distances."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most, dtype=torch.float64).round().long()]


def _last_layer(model: Any, parameters: Float[Tensor, "P"], features: Float[Tensor, "n F"]) -> Float[Tensor, "n m"]:
    own = parameters[None, None]
    parts = features.split(_AT_ONCE)
    return torch.cat([model.forward(own, part.to(own.dtype)[None]).layers[-1][0, 0] for part in parts])


def _discriminants(values: Float[Tensor, "n d"], grades: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n 2"]:
    """Places on the two axes, each turned so that grades grow along it: panels can be compared."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    whole = values.double().numpy()
    spread = whole.std(0)
    scaled = (whole - whole.mean(0)) / np.where(spread > 0, spread, 1)
    fit = LinearDiscriminantAnalysis(solver="eigen", shrinkage=_SHRINKAGE, n_components=2).fit(scaled, grades)
    places = np.asarray(scaled @ fit.scalings_[:, :2])
    return places * np.where((grades - grades.mean()) @ places < 0, -1, 1)
