"""Draw docs/pictures/field.svg: linear rankers under five users on MQ2008, as differences from PDGD.

    python scripts/field.py

The values are those of the published tables `linear` and `users`. Rows that vary a ranker (PairRank, sum) are left out;
Holm's correction counts them, as in the tables. tests/plugins/benchmark/test_field.py compares the picture with the
tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ol2r_cli.plugins.benchmark.differences import Difference, differences, for_metric
from ol2r_cli.plugins.benchmark.results import Row, published, tables_of
from ol2r_cli.plugins.figures.drawing import figure_settings, save
from ol2r_cli.report.styles import INK

FILE = Path(__file__).parents[1] / "docs" / "pictures" / "field.svg"
DATASET = "MQ2008"
BASELINE = "PDGD"
RANKERS = (
    "PairRank",
    "PePairRank",
    "SGD RankNet",
    "epsilon-greedy",
    "IPS regression",
    "CascadeLinUCB",
    "CascadeLinTS",
    "DBGD",
    "MGD",
    "NSGD",
    "COLTR",
    "intervention-aware",
)
LABELLED = "RankNet on the true labels"  # no learner from clicks
NAMES = {LABELLED: "RankNet on labels"}
USERS = {  # by click model: the page, and the heading
    "perfect": ("linear", "perfect\n"),
    "navigational": ("linear", "naviga-\ntional"),
    "informational": ("linear", "informa-\ntional"),
    "yandex_dcm": ("users", "Yandex,\nDCM"),
    "baidu_position": ("users", "Baidu,\nposition"),
}
METRICS = {  # by metric: the title of its block, the ends of its axis, and its ticks, and how values are printed
    "test_ndcg_10": ("What is learnt: test NDCG@10", (-0.078, 0.036), (-0.05, 0), ".3f"),
    "cumulative_ndcg": ("What users see meanwhile: cumulative NDCG", (-275, 130), (-200, 0), ".0f"),
}
BETTER, WORSE, NEITHER = ("#0072b2", ">"), ("#c04a00", "<"), ("#6e6e70", "o")  # colour and marker
SIZE = 4.6, 7.6  # inches
BOTTOMS = 0.515, 0.03  # of the blocks, in shares of the figure
HEIGHT = 0.36
LEFT, RIGHT, GAP = 0.27, 1.0, 0.01
BAND = "#f0f0ee"
BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
LEGEND = {"frameon": False, "fontsize": 8.5, "columnspacing": 1.2, "handletextpad": 0.5}


def drawn() -> Figure:
    """Return the figure: a block for each metric, a column for each user, a line for each ranker, the best first."""
    tables = {page: tables_of(published(page)) for page in dict(USERS.values())}
    with figure_settings():
        figure = Figure(figsize=SIZE)
        FigureCanvasAgg(figure)
        add_heading(figure)
        for block, bottom in zip(METRICS, BOTTOMS, strict=True):
            entries = {user: for_metric(tables[page][DATASET, user], block) for user, (page, _) in USERS.items()}
            add_block(figure, block, entries, bottom)
    return figure


def add_heading(figure: Figure) -> None:
    """Write above the blocks what is shown, and what the markers mean."""
    figure.text(0.012, 0.99, f"Difference from {BASELINE} on {DATASET}", fontsize=11, weight="bold", va="top")
    meanings = {"better after Holm": BETTER, "worse after Holm": WORSE, "not significant": NEITHER}
    handles = []
    for meaning, (colour, marker) in meanings.items():
        handles.append(Line2D([], [], color=colour, lw=1.3, label=meaning, **marker_look(colour, marker)))
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, 0.972), ncols=3, **LEGEND)


def add_block(figure: Figure, metric: str, entries: Mapping[str, Mapping[str, Row]], bottom: float) -> None:
    """Draw a panel for each user, by the rows of the table of each."""
    title, limits, ticks, number = METRICS[metric]
    of_users = {user: differences(rows, metric, BASELINE) for user, rows in entries.items()}
    names = ordered([*of_users.values()])
    figure.text(0.012, bottom + HEIGHT + 0.043, title, fontsize=9.5, weight="bold", va="bottom")
    width = (RIGHT - LEFT) / len(USERS)
    for column, (user, of_user) in enumerate(of_users.items()):
        axes = figure.add_axes((LEFT + column * width, bottom, width - GAP, HEIGHT))
        axes.set_title(USERS[user][1], fontsize=8.5, pad=2)
        axes.set_xlim(limits)
        axes.set_xticks(ticks, [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in ticks])
        shown_names = [NAMES.get(name, name) for name in names] if column == 0 else [""] * len(names)
        axes.set_yticks(range(len(names)), shown_names, fontsize=8.5)
        baseline = entries[user][BASELINE].group.estimate(metric)
        draw_panel(axes, names, of_user, f"{baseline.mean:{number}}" if baseline else "")


def ordered(of_users: Sequence[Mapping[str, Difference]]) -> list[str]:
    """Return the lines of a block: RankNet on the true labels, and rankers by their mean over users, the best first."""
    means = {BASELINE: 0.0}
    for name in RANKERS:
        means[name] = fmean(of_user[name].mean for of_user in of_users)
    return [LABELLED, *sorted(means, key=lambda name: -means[name])]


def draw_panel(axes: Axes, names: Sequence[str], of_user: Mapping[str, Difference], baseline: str) -> None:
    """Draw a marker with its interval on the line of each ranker, and the value of the baseline on its own."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=INK, lw=0.8, zorder=1)
    axes.axhline(0.5, color=INK, lw=0.5)
    for line in range(1, len(names), 2):
        axes.axhspan(line - 0.5, line + 0.5, color=BAND, lw=0, zorder=0)
    for line, name in enumerate(names):
        if name == BASELINE:
            axes.text(0, line, baseline, va="center", ha="center", fontsize=8, weight="bold", bbox=BOX)
        else:
            draw_difference(axes, line, of_user[name])


def draw_difference(axes: Axes, line: int, difference: Difference) -> None:
    """Draw a marker with its interval."""
    colour, marker = {"↑": BETTER, "↓": WORSE}.get(difference.arrow, NEITHER)
    ends = [difference.mean - difference.half_width, difference.mean + difference.half_width]
    axes.plot(ends, [line, line], color=colour, lw=1.3, solid_capstyle="butt", zorder=2)
    axes.plot(difference.mean, line, color=colour, zorder=3, **marker_look(colour, marker))


def marker_look(colour: str, marker: str) -> dict[str, Any]:
    """Return what matplotlib takes for a marker, which is filled where a difference is significant."""
    filled = "white" if (colour, marker) == NEITHER else colour
    return {"marker": marker, "mfc": filled, "ms": 4, "mew": 1}


if __name__ == "__main__":
    save(drawn(), FILE)
    print(FILE)
