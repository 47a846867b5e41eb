"""The documents of a run's dataset on two discriminant axes: of their features, and of what a network has learned.

Linear discriminant analysis of the labelled documents, as for figure 3 of olRankNet (Jia and Wang, 2022).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.run.run import Run
from ol2r_cli.run.trained_ranker import TrainedRanker, dataset_source
from ol2r_cli.tensor.shapes import Float, Int

_MOST_FITTED = 100_000  # documents that the axes are computed from
_SHRINKAGE = 1e-4  # of the covariance, so that constant features and copies of features do no harm
_AT_ONCE = 8192  # documents that a network is given together


@dataclass(frozen=True, eq=False)
class Projection:
    """Grades of n documents, and their coordinates by features and by the last hidden layer of a network."""

    grades: Int[np.ndarray, "n"]
    features: Float[np.ndarray, "n 2"]
    network: Float[np.ndarray, "n 2"]


def project(path: Path, documents: int, seed: int | None = None, own_targets: Collection[str] = ()) -> Projection:
    """The documents of the run in `path`, at most `documents` of every grade, evenly spaced over the dataset.

    The network is that of a seed (None: the first), and of several members the first. The axes are computed from the
    documents of all splits, evenly thinned to 100,000. `own_targets` are those of `TrainedRanker`. Raises ValueError
    for a run without a network, for a seed that the run does not have, for other data than the run's, and for fewer
    than three grades.
    """
    trained = Run.read_finished(path).read_ranker(own_targets)
    model = getattr(trained.ranker, "model", None)
    if model is None or model.linear:
        raise ValueError(f"lda needs a ranker with a network, got {path}: run one, such as ranker=olranknet")
    replica = trained.replica(seed, "seed")
    dataset = _dataset(trained)
    fitted = _evenly_spaced(torch.arange(len(dataset.labels)), _MOST_FITTED)
    grades = dataset.labels[fitted].numpy()
    if len(np.unique(grades)) < 3:
        raise ValueError(f"lda needs documents of three grades or more, got {len(np.unique(grades))} in {dataset.name}")
    by_grade = [torch.nonzero(dataset.labels[fitted] == grade)[:, 0] for grade in range(dataset.grades)]
    shown = torch.cat([_evenly_spaced(rows, documents) for rows in by_grade]).numpy()
    features = dataset.features[fitted]
    parameters = trained.deployed[replica, : model.size(features.shape[1])]  # of the first member
    hidden = _last_hidden_layer(model, parameters, features)
    return Projection(grades[shown], _discriminants(features, grades)[shown], _discriminants(hidden, grades)[shown])


def _dataset(trained: TrainedRanker) -> Dataset:
    dataset = dataset_source(trained.dataset_settings()).load()
    if dataset.fingerprint != trained.run.fingerprint:
        command = trained.run.command
        raise ValueError(
            f"lda needs the data of the run {trained.run.path}, which are no longer there: type {command} force=true"
        )
    return dataset


def _evenly_spaced(rows: Tensor, most: int) -> Tensor:
    """At most `most` of the rows, at equal distances."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most, dtype=torch.float64).round().long()]


def _last_hidden_layer(
    model: Any, parameters: Float[Tensor, "P"], features: Float[Tensor, "n F"]
) -> Float[Tensor, "n m"]:
    member = parameters[None, None]
    parts = (part.to(member.dtype)[None] for part in features.split(_AT_ONCE))
    return torch.cat([model.forward(member, part).layers[-1][0, 0] for part in parts])


def _discriminants(values: Float[Tensor, "n d"], grades: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n 2"]:
    """Coordinates on the first two discriminant axes, each signed so that grades grow along it.

    So the panels of two networks can be compared.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    exact = values.double().numpy()
    deviation = exact.std(0)
    scaled = (exact - exact.mean(0)) / np.where(deviation > 0, deviation, 1)
    fit = LinearDiscriminantAnalysis(solver="eigen", shrinkage=_SHRINKAGE, n_components=2).fit(scaled, grades)
    coordinates = np.asarray(scaled @ fit.scalings_[:, :2])
    return coordinates * np.where((grades - grades.mean()) @ coordinates < 0, -1, 1)
