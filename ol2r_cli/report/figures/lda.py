"""Whether grades can be told apart: documents on two discriminant axes, of features and of a network's last layer.

Figure 3 of olRankNet (Jia and Wang, 2022) shows the features; beside it stands what a network has learned of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.report.figures import names
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.options import NothingToDraw, Whole, Width, whole
from ol2r_cli.report.figures.sheet import Sheet
from ol2r_cli.report.figures.styles import Style
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.shapes import Float, Int

if TYPE_CHECKING:
    from ol2r_cli.projection import Projection

MOST = 6  # networks
_MARKERS = ("o", "s", "^", "D", "X", "P", "v", "h", "p")


def lda(
    groups: Sequence[Group],
    labels: Labels,
    documents: Whole = 300,
    seed: Whole | None = None,
    width: Width = None,
) -> Figure:
    """A row for each network: its dataset's documents by features, and by its last hidden layer.

    Rare grades are drawn over frequent ones; axes span 98 % of the documents drawn.
    """
    from ol2r_cli.projection import project

    documents = whole("documents", documents, 100_000)
    seed = None if seed is None else whole("seed", seed, 2**63 - 1, least=0)
    networks = [group for group in groups if group.choices.get("ranker/model", "linear") != "linear"]
    networks = [group for group in networks if (group.runs[0].path / "ranker.pt").exists()]
    if not networks:
        raise NothingToDraw
    if len(networks) > MOST:
        raise ValueError(f"lda must have at most {MOST} networks, got {len(networks)}: name fewer folders")
    legend = Legend(networks, labels)
    shown = [(panel, group) for panel, members in legend.panels.items() for group in members]
    found = [project(group.runs[0].path, documents, seed) for _, group in shown]
    rows = [
        [f"{names.dataset(panel[0])}, features", f"{legend.label(group)}, {panel[1]}, last hidden layer"]
        for panel, group in shown
    ]
    sheet = Sheet(rows, width, share=False, height=0.8)
    looks = _looks(max(int(each.grades.max()) for each in found) + 1)
    axes = iter(sheet.axes)
    for projection in found:
        _draw(next(axes), projection.features, projection, looks)
        _draw(next(axes), projection.network, projection, looks)
    sheet.label("first discriminant", "second discriminant")
    sheet.legend({f"grade {grade}": look for grade, look in enumerate(looks)}, lines=False)
    return sheet.figure


def _draw(axes: Axes, places: Float[np.ndarray, "n 2"], of: Projection, looks: Sequence[Style]) -> None:
    for grade in _frequent_first(of.grades):
        own, look = places[of.grades == grade], looks[grade]
        axes.plot(own[:, 0], own[:, 1], look.marker, color=look.colour, markersize=2.2, markeredgewidth=0, alpha=0.75)
    low, high = np.quantile(places, (0.01, 0.99), axis=0)
    spare = 0.15 * (high - low)
    axes.set_xlim(low[0] - spare[0], high[0] + spare[0])
    axes.set_ylim(low[1] - spare[1], high[1] + spare[1])
    axes.set_xticks([])  # discriminants have no unit
    axes.set_yticks([])


def _frequent_first(grades: Int[np.ndarray, "n"]) -> list[int]:
    found, counts = np.unique(grades, return_counts=True)
    return [int(grade) for _, grade in sorted(zip(-counts, found, strict=True))]


def _looks(grades: int) -> list[Style]:
    """Irrelevant light, perfect dark."""
    shades = colormaps["viridis"](np.linspace(0.92, 0.0, grades))
    colours = ["#" + "".join(f"{round(255 * part):02x}" for part in shade[:3]) for shade in shades]
    return [Style(colour, "-", _MARKERS[grade % len(_MARKERS)]) for grade, colour in enumerate(colours)]
