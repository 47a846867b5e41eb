"""The figures of the papers, drawn from finished runs: one name for each kind, one look for each ranker.

    >>> from ol2r_cli.report.figures import draw, save          # doctest: +SKIP
    >>> save(draw("learning_curve", groups, labels), "learning_curve.pdf")          # doctest: +SKIP

Needs matplotlib, which comes with the extra `plots` and is imported with the first figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.report.figures.options import NothingToDraw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ol2r_cli.report.groups import Group
    from ol2r_cli.report.labels import Labels

__all__ = ["KINDS", "SUFFIXES", "Kind", "NothingToDraw", "draw", "save"]
SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Kind:
    """A figure that can be asked for.

    `shows`: what, in one line; `needs`: what the runs must have, as the end of a sentence; `options`: those it takes
    besides `width` (column, page or inches), with what they may be; `family`: the module that draws it.
    """

    shows: str
    needs: str
    family: str
    options: Mapping[str, str] = field(default_factory=dict)


_WINDOW = {"window": "rounds that are averaged; 1 % of all"}
_EVERY = {"every": "rounds between two points; 1 % of all"}
_BLOCKS = "an exploration that forms blocks, such as ranker=pairrank, and trace_blocks=true"
_METRIC = {"metric": "a name in summary.json; test_ndcg_10"}
KINDS: Mapping[str, Kind] = {
    "learning_curve": Kind(
        "NDCG on held-out queries over rounds",
        "runs with evaluate_on=[validation,test] and a ranker that is evaluated offline",
        "curves",
        {"split": "test or validation", "cutoff": "1, 3, 5 or 10"},
    ),
    "online_ndcg": Kind("NDCG of the lists shown over rounds, smoothed", "finished runs", "curves", _WINDOW),
    "cumulative_ndcg": Kind("discounted sum of online NDCG over rounds", "finished runs", "curves", _EVERY),
    "unfairness": Kind(
        "cumulative unfairness of exposure between two groups over rounds",
        "a dataset with two groups: dataset=synthetic, or dataset.group={feature: .., threshold: ..}",
        "curves",
        {"signed": "true or false: with its sign", "scale": "linear, log or auto"} | _EVERY,
    ),
    "block_size": Kind("size of the block at ranks 1, 5 and 10 over rounds, smoothed", _BLOCKS, "curves", _WINDOW),
    "blocks": Kind("number of blocks over rounds, smoothed", _BLOCKS, "curves", _WINDOW),
    "block_size_by_rank": Kind(
        "size of the block at every rank in some rounds",
        "rounds that were kept: block_rounds=[10,100,1000], and blocks to keep, as of ranker=pairrank",
        "ranks",
        {"rounds": "of block_rounds, such as 10,100,1000; at most six"},
    ),
    "certain_ratio": Kind("share of certain pairs in the top 10 over rounds, smoothed", _BLOCKS, "curves", _WINDOW),
    "cosine": Kind(
        "cosine between a linear ranker and the offline RankNet over rounds",
        "linear rankers that were run with trace_cosine=true",
        "curves",
    ),
    "violations": Kind("certain pairs that the shown list reverses over rounds, smoothed", _BLOCKS, "curves", _WINDOW),
    "running_time": Kind(
        "seconds per round", "finished runs", "bars", {"unit": "seconds (per round) or rounds (per second)"}
    ),
    "bar": Kind("one metric by group, with intervals", "finished runs", "bars", _METRIC),
    "grid": Kind(
        "one metric over two settings as a heat map",
        "runs that differ in two settings: ol2r run -m ranker.members=2,5,10 ranker.label_noise_variance=0.1,0.01 ..",
        "grid",
        {"x": "a setting, such as ranker.members", "y": "another one"} | _METRIC,
    ),
    "setting": Kind(
        "one metric against one setting, with intervals",
        "runs that differ in a setting: ol2r run -m fairness.epsilon=0.1,1,10 ..",
        "setting",
        {"x": "a setting, such as fairness.epsilon"} | _METRIC,
    ),
    "scatter": Kind(
        "two metrics, a point for each group",
        "runs that have both metrics in summary.json",
        "scatter",
        {"x": "a name in summary.json; unfairness", "y": "another one; test_ndcg_10"},
    ),
    "lda": Kind(
        "documents by grade on two axes: features against what a network makes of them",
        "the ranker.pt of a ranker with a network, such as ranker=olranknet, and its dataset",
        "lda",
        {"documents": "of each grade that are drawn; 300", "seed": "whose network; the first"},
    ),
}


def draw(kind: str, groups: Sequence[Group], labels: Labels, **options: Any) -> Figure:
    """A figure of one of the `KINDS`. Options may be text, as from a command line.

    ValueError, in one line that says what to type, for an unknown kind or option and a value that is not allowed;
    NothingToDraw, which is one too, where no group has what the figure shows.
    """
    if kind not in KINDS:
        raise ValueError(f"a figure must be one of {', '.join(KINDS)}, got {kind}")
    if find_spec("matplotlib") is None:
        raise ValueError("figures need matplotlib: type pip install 'ol2r[plots]'")
    painter = getattr(import_module(f"{__name__}.{KINDS[kind].family}"), kind)
    known = list(signature(painter).parameters)[2:]
    for name in options:
        if name not in known:
            raise ValueError(f"an option of figure {kind} must be one of {', '.join(known)}, got {name}")
    from ol2r_cli.report.figures.look import look

    with look():
        try:
            return painter(groups, labels, **options)
        except NothingToDraw as lacking:
            detail = f" ({lacking})" if str(lacking) else ""
            raise NothingToDraw(f"figure {kind} needs {KINDS[kind].needs}{detail}") from None


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as png, svg or pdf, by the ending; the same figure gives the same bytes at any time.

    ValueError for another ending and a file that cannot be written.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a figure's file must end in {', '.join(SUFFIXES)}, got {path}")
    from ol2r_cli.report.figures.look import write

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(write(figure, path.suffix[1:]))
    except OSError as error:
        raise ValueError(f"a figure's file must be one that can be written, got {path} ({error.strerror})") from error
