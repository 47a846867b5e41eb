"""Documents by grade on two discriminant axes: of their features, and of the last hidden layer of a network.

Figure 3 of olRankNet (Jia and Wang, 2022) shows the features; the panel beside it shows what a network has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ol2r_cli.config.instantiate import trusted_targets
from ol2r_cli.report.figures import paper_names
from ol2r_cli.report.figures.kinds import PLAIN, Integer, Look, NothingToDraw, integer
from ol2r_cli.report.figures.layout import Panels
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.style import Style, shades
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.projection import project
from ol2r_cli.report.run_groups import Group
from ol2r_cli.tensor.shapes import Float, Int

MOST_NETWORKS = 6
_MARKERS = ("o", "s", "^", "D", "X", "P", "v", "h", "p")


def lda(
    groups: Sequence[Group],
    labels: Labels,
    documents: Integer = 300,
    seed: Integer | None = None,
    config_dir: str | Path | None = None,
    look: Look = PLAIN,
) -> Figure:
    """A row for each network: the documents of its dataset by features, and by its last hidden layer.

    Rare grades are drawn over frequent ones; axes span 98 % of the drawn documents.
    """
    documents = integer("documents", documents, 100_000)
    seed = None if seed is None else integer("seed", seed, 2**63 - 1, least=0)
    networks = [group for group in groups if group.choices.get("ranker/model", "linear") != "linear"]
    networks = [group for group in networks if (group.runs[0].path / "ranker.pt").exists()]
    if not networks:
        raise NothingToDraw
    if len(networks) > MOST_NETWORKS:
        raise ValueError(f"lda must have at most {MOST_NETWORKS} networks, got {len(networks)}: name fewer folders")
    legend = Legend(networks, labels)
    shown = [(panel, group) for panel, members in legend.panels.items() for group in members]
    own_targets = trusted_targets([] if config_dir is None else [Path(config_dir)])
    projections = [project(group.runs[0].path, documents, seed, own_targets) for _, group in shown]
    rows = [
        [f"{paper_names.dataset(panel[0])}, features", f"{legend.label(group)}, {panel[1]}, last hidden layer"]
        for panel, group in shown
    ]
    panels = Panels(rows, look.width, share=False, height=0.8)
    styles = _grade_styles(max(int(projection.grades.max()) for projection in projections) + 1)
    axes = iter(panels.axes)
    for projection in projections:
        _draw(next(axes), projection.features, projection.grades, styles)
        _draw(next(axes), projection.network, projection.grades, styles)
    panels.label("first discriminant", "second discriminant")
    panels.legend({f"grade {grade}": style for grade, style in enumerate(styles)}, lines=False)
    return panels.figure


def _draw(axes: Axes, places: Float[np.ndarray, "n 2"], grades: Int[np.ndarray, "n"], styles: Sequence[Style]) -> None:
    for grade in _frequent_first(grades):
        x, y = places[grades == grade].T
        style = styles[grade]
        axes.plot(x, y, style.marker, color=style.colour, markersize=2.2, markeredgewidth=0, alpha=0.75)
    low, high = np.quantile(places, (0.01, 0.99), axis=0)
    spare = 0.15 * (high - low)
    axes.set_xlim(low[0] - spare[0], high[0] + spare[0])
    axes.set_ylim(low[1] - spare[1], high[1] + spare[1])
    axes.set_xticks([])  # discriminants have no unit
    axes.set_yticks([])


def _frequent_first(grades: Int[np.ndarray, "n"]) -> list[int]:
    values, counts = np.unique(grades, return_counts=True)
    return [int(grade) for _, grade in sorted(zip(-counts, values, strict=True))]


def _grade_styles(grades: int) -> list[Style]:
    """Irrelevant documents light, perfect ones dark."""
    colours = shades(grades, 0.92, 0.0)
    return [Style(colour, "-", _MARKERS[grade % len(_MARKERS)]) for grade, colour in enumerate(colours)]
