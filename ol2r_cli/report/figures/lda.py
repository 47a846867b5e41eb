"""Documents by grade on two discriminant axes: of their features, and of the last hidden layer of a network.

Figure 3 of olRankNet (Jia and Wang, 2022) shows the features; the panel beside it shows what a network has learned.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ol2r_cli.config.instantiate import trusted_targets
from ol2r_cli.report.figures.drawing import NothingToDraw, Shown, integer
from ol2r_cli.report.figures.panels import Panels, shades
from ol2r_cli.report.legend import Legend, dataset_name
from ol2r_cli.report.styles import SOLID, Style
from ol2r_cli.run.recomputed import TrainedRanker, dataset_settings, dataset_source
from ol2r_cli.run.run import Run
from ol2r_cli.tensor.shapes import Float, Int

MOST_NETWORKS = 6
_MARKERS = ("o", "s", "^", "D", "X", "P", "v", "h", "p")
_MOST_FITTED = 100_000  # documents that the axes are computed from
_SHRINKAGE = 1e-4  # of the covariance, so that constant features and copies of features do no harm
_AT_ONCE = 8192  # documents that a network is given together


def lda(
    shown: Shown, documents: int | str = 300, seed: int | str | None = None, config_dir: str | Path | None = None
) -> Figure:
    """A row for each network: the documents of its dataset by features, and by its last hidden layer.

    Rare grades are drawn over frequent ones; axes span 98 % of the drawn documents.
    """
    documents = integer("documents", documents, 100_000)
    seed = None if seed is None else integer("seed", seed, 2**63 - 1, least=0)
    networks = [group for group in shown.groups if group.choices.get("ranker/model", "linear") != "linear"]
    networks = [group for group in networks if (group.runs[0].path / "ranker.pt").exists()]
    if not networks:
        raise NothingToDraw
    if len(networks) > MOST_NETWORKS:
        raise ValueError(f"lda must have at most {MOST_NETWORKS} networks, got {len(networks)}: name fewer folders")
    legend = Legend(networks, shown.labels)
    networks = [group for members in legend.panels.values() for group in members]
    own_targets = trusted_targets([] if config_dir is None else [Path(config_dir)])
    projections = [project(group.runs[0].path, documents, seed, own_targets) for group in networks]
    rows = [
        [
            f"{dataset_name(group.choices['dataset'])}, features",
            f"{legend.names[group]}, {group.choices['click']}, last hidden layer",
        ]
        for group in networks
    ]
    panels = Panels(rows, shown.look, share=False, height=0.8)
    most = max(int(grades.max()) for grades, *_ in projections) + 1
    colours = shades(most, 0.92, 0.0)  # irrelevant documents light, perfect ones dark
    styles = [Style(colour, SOLID, _MARKERS[grade % len(_MARKERS)]) for grade, colour in enumerate(colours)]
    both = [(places, grades) for grades, *two in projections for places in two]
    for axes, (places, grades) in zip(panels.axes, both, strict=True):
        values, counts = np.unique(grades, return_counts=True)
        for _, grade in sorted(zip(-counts, values, strict=True)):  # the frequent first
            style = styles[grade]
            x, y = places[grades == grade].T
            axes.plot(x, y, style.marker, color=style.colour, markersize=2.2, markeredgewidth=0, alpha=0.75)
        low, high = np.quantile(places, (0.01, 0.99), axis=0)
        spare = 0.15 * (high - low)
        axes.set_xlim(low[0] - spare[0], high[0] + spare[0])
        axes.set_ylim(low[1] - spare[1], high[1] + spare[1])
        axes.set_xticks([])  # discriminants have no unit
        axes.set_yticks([])
    panels.label("first discriminant", "second discriminant")
    panels.legend({f"grade {grade}": style for grade, style in enumerate(styles)}, lines=False)
    return panels.figure


def project(
    path: Path, documents: int, seed: int | None = None, own_targets: Collection[str] = ()
) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n 2"], Float[np.ndarray, "n 2"]]:
    """Grades of documents of the run in `path`, and their coordinates by features and by a network's last hidden layer.

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
    member = trained.deployed[replica, : model.size(features.shape[1])][None, None]  # the first
    parts = (part.to(member.dtype)[None] for part in features.split(_AT_ONCE))
    hidden = torch.cat([model.forward(member, part).layers[-1][0, 0] for part in parts])
    return grades[shown], _discriminants(features, grades)[shown], _discriminants(hidden, grades)[shown]


def _evenly_spaced(rows: Tensor, most: int) -> Tensor:
    return (
        rows if len(rows) <= most else rows[torch.linspace(0, len(rows) - 1, most, dtype=torch.float64).round().long()]
    )


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
