"""Documents by grade on two discriminant axes: of their features, and of the last hidden layer of a network.

Figure 3 of olRankNet (Jia and Wang, 2022) shows the features; the panel beside it shows what a network has learned.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ol2r_cli.plugins.figures.look import Integer, NothingToDraw, Shown, integer
from ol2r_cli.plugins.figures.panels import Panels, shades
from ol2r_cli.report.names import Legend, dataset_name
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.styles import SOLID, Style
from ol2r_cli.run.own_code import trusted_targets
from ol2r_cli.run.recomputed import TrainedRanker, dataset_settings, dataset_source
from ol2r_cli.run.run import Run
from ol2r_cli.tensor.shapes import Float, Int

MOST_NETWORKS = 6
_MARKERS = ("o", "s", "^", "D", "X", "P", "v", "h", "p")
_MOST_FITTED = 100_000  # documents that the axes are computed from
_SHRINKAGE = 1e-4  # of the covariance, so that constant features and copies of features do no harm


class Projection(NamedTuple):
    """Documents of a run: their grades, and coordinates by features and by the last hidden layer of its network."""

    grades: Int[np.ndarray, "n"]
    by_features: Float[np.ndarray, "n 2"]
    by_network: Float[np.ndarray, "n 2"]


def lda(
    shown: Shown, documents: Integer = 300, seed: Integer | None = None, config_dir: str | Path | None = None
) -> Figure:
    """Draw a row for each network: the documents of its dataset by features, and by its last hidden layer.

    Rare grades are drawn over frequent ones; axes span 98 % of the drawn documents.
    """
    documents = integer("documents", documents, 100_000)
    seed = None if seed is None else integer("seed", seed, 2**63 - 1, least=0)
    legend = Legend(_networks(shown.groups), shown.labels)
    networks = list(chain.from_iterable(legend.panels.values()))
    own_targets = trusted_targets([] if config_dir is None else [Path(config_dir)])
    projections = [project(group.runs[0].path, documents, seed, own_targets) for group in networks]
    panels = Panels([_titles(group, legend) for group in networks], shown.look, share=False, height=0.8)
    styles = _grade_styles(max(int(projection.grades.max()) for projection in projections) + 1)
    for (features_axes, network_axes), projection in zip(panels.rows, projections, strict=True):
        _draw_documents(features_axes, projection.by_features, projection.grades, styles)
        _draw_documents(network_axes, projection.by_network, projection.grades, styles)
    panels.label("first discriminant", "second discriminant")
    panels.legend({f"grade {grade}": style for grade, style in enumerate(styles)}, lines=False)
    return panels.figure


def _networks(groups: Sequence[Group]) -> list[Group]:
    """Return the groups whose ranker is a network that is there; NothingToDraw without any."""
    networks = [
        group
        for group in groups
        if group.choices.get("ranker/model", "linear") != "linear" and (group.runs[0].path / "ranker.pt").exists()
    ]
    if not networks:
        raise NothingToDraw
    if len(networks) > MOST_NETWORKS:
        raise ValueError(f"lda must have at most {MOST_NETWORKS} networks, got {len(networks)}: name fewer folders")
    return networks


def _titles(group: Group, legend: Legend) -> list[str]:
    """Return the titles of the two panels of a network."""
    return [
        f"{dataset_name(group.choices['dataset'])}, features",
        f"{legend.names[group]}, {group.choices['click']}, last hidden layer",
    ]


def _grade_styles(grades: int) -> list[Style]:
    """Return the style of each grade: irrelevant documents are light, perfect ones dark."""
    colours = shades(grades, 0.92, 0.0)
    return [Style(colour, SOLID, _MARKERS[grade % len(_MARKERS)]) for grade, colour in enumerate(colours)]


def _draw_documents(
    axes: Axes, places: Float[np.ndarray, "n 2"], grades: Int[np.ndarray, "n"], styles: Sequence[Style]
) -> None:
    """Draw documents by grade, those of frequent grades first."""
    values, counts = np.unique(grades, return_counts=True)
    for _, grade in sorted(zip(-counts, values, strict=True)):
        style = styles[grade]
        x, y = places[grades == grade].T
        axes.plot(x, y, style.marker, color=style.colour, markersize=2.2, markeredgewidth=0, alpha=0.75)
    low, high = np.quantile(places, (0.01, 0.99), axis=0)
    spare = 0.15 * (high - low)
    (left, bottom), (right, top) = low - spare, high + spare
    axes.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])  # discriminants have no unit


def project(path: Path, documents: int, seed: int | None = None, own_targets: Collection[str] = ()) -> Projection:
    """Return documents of the run in `path` on discriminant axes.

    At most `documents` of every grade, evenly spaced over the dataset. The network is that of a seed (None: the first),
    and of several members the first. The axes are computed from the documents of all splits, evenly thinned to 100,000.
    `own_targets` are those of `TrainedRanker`. ValueError for a run without a network, for a seed that the run does not
    have, for other data than the run's, and for fewer than three grades.
    """
    trained = TrainedRanker(Run.read_finished(path), own_targets)
    model = getattr(trained.ranker, "model", None)
    if model is None or model.linear:
        raise ValueError(f"lda needs a ranker with a network, got {path}: run one, such as ranker=olranknet")
    replica = trained.replica(seed, "seed")
    dataset = dataset_source(dataset_settings(trained.run, own_targets)).load()
    if dataset.fingerprint != trained.run.fingerprint:
        command = trained.run.command
        raise ValueError(f"lda needs the data of the run {path}, which are no longer there: type {command} force=true")
    fitted = _evenly_spaced(torch.arange(len(dataset.labels)), _MOST_FITTED)
    labels, features = dataset.labels[fitted], dataset.features[fitted]
    grades = labels.numpy()
    if len(np.unique(grades)) < 3:
        raise ValueError(f"lda needs documents of three grades or more, got {len(np.unique(grades))} in {dataset.name}")
    by_grade = [torch.nonzero(labels == grade)[:, 0] for grade in range(dataset.grades)]
    shown = torch.cat([_evenly_spaced(rows, documents) for rows in by_grade]).numpy()
    first_member = trained.deployed[replica, : model.size(features.shape[1])][None, None]
    hidden = model.forward(first_member, features.to(first_member.dtype)[None]).layers[-1][0, 0]
    return Projection(grades[shown], _discriminants(features, grades)[shown], _discriminants(hidden, grades)[shown])


def _evenly_spaced(rows: Tensor, most: int) -> Tensor:
    """Return at most so many of the rows, from the first to the last."""
    if len(rows) <= most:
        return rows
    return rows[torch.linspace(0, len(rows) - 1, most, dtype=torch.float64).round().long()]


def _discriminants(values: Float[Tensor, "n d"], grades: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n 2"]:
    """Return coordinates on the first two discriminant axes, each signed so that grades grow along it.

    So the panels of two networks can be compared.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit_transform(values.double().numpy())
    axes = LinearDiscriminantAnalysis(solver="eigen", shrinkage=_SHRINKAGE, n_components=2)
    coordinates = np.asarray(axes.fit_transform(scaled, grades))
    return coordinates * np.where((grades - grades.mean()) @ coordinates < 0, -1, 1)
