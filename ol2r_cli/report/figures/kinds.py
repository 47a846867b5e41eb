"""The kinds of figures and their options, without matplotlib. Options may be text, as from a command line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ol2r_cli.report.estimates import BANDS, UNITS

WIDTHS = {"column": 3.3, "page": 7.0}  # inches
Width = str | float | None
Integer = int | str
Switch = bool | str
Choice = TypeVar("Choice", str, int)


@dataclass(frozen=True)
class Look:
    """The options of every kind. width: column, page or inches. bands, units: those of `Estimate.band`."""

    width: Width = None
    bands: str | None = None
    units: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("bands", BANDS), ("units", UNITS)):
            if (value := getattr(self, name)) is not None:
                choice(name, value, allowed)

    def band(self, values: Any) -> Any:
        """The `band` of an estimate or a series."""
        return values.band(self.bands, self.units)

    @property
    def reading(self) -> str:
        """What bands are."""
        texts = {"sd": "standard deviations", "se": "standard errors of the mean"}
        return texts.get(self.bands or "", "95% intervals of the mean") + f" over {self.units}" * bool(self.units)


PLAIN = Look()
EVERY_KIND = tuple(vars(PLAIN))  # names of options


class NothingToDraw(ValueError):
    """No group has what the figure shows."""


@dataclass(frozen=True)
class Kind:
    """A figure that `draw` knows.

    shows: its content, in one line. needs: what the runs must have, as the end of a sentence. module: the module of its
    function, which has the name of the kind. reading: a sentence on intervals, {} for what they are. options: names and
    meanings of its options, beside those of `Look`.
    """

    shows: str
    needs: str
    module: str
    reading: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


_WINDOW = {"window": "rounds that are averaged; 2 % of all"}
_EVERY = {"every": "rounds between two points; 2 % of all"}
_METRIC = {"metric": "a name in summary.json; test_ndcg_10, or at the cutoff of the runs"}
_BLOCKS = "an exploration that forms blocks, such as ranker=pairrank, and trace_blocks=true"
_BANDS = "Lines are means; bands are {}, cut where they leave the panel."
_WHISKERS = "Lines at the ends of bars are {}."
KINDS: Mapping[str, Kind] = {
    "learning_curve": Kind(
        "NDCG on held-out queries over rounds",
        "runs with evaluate_on=[validation,test] and a ranker that is evaluated offline",
        "curves",
        _BANDS,
        {"split": "test or validation", "cutoff": "1, 3, 5, 10 or one of measures"},
    ),
    "measure": Kind(
        "a measure over rounds",
        "a column with values: --option column=NAME, such as err_10 with measures=[ndcg,err]",
        "curves",
        _BANDS,
        {"column": "of trace.parquet or evaluation.parquet", "split": "test or validation, of an evaluation"} | _WINDOW,
    ),
    "online_ndcg": Kind("NDCG of the lists shown over rounds, smoothed", "finished runs", "curves", _BANDS, _WINDOW),
    "cumulative_ndcg": Kind("discounted sum of online NDCG over rounds", "finished runs", "curves", _BANDS, _EVERY),
    "unfairness": Kind(
        "cumulative unfairness of exposure between groups over rounds",
        "a dataset with groups: dataset=synthetic, or dataset.group={feature: .., threshold: ..}",
        "curves",
        _BANDS,
        {"signed": "true or false: with its sign", "scale": "linear, log or auto"} | _EVERY,
    ),
    "block_size": Kind(
        "size of the block at ranks 1, 5 and 10 over rounds, smoothed", _BLOCKS, "curves", _BANDS, _WINDOW
    ),
    "blocks": Kind("number of blocks over rounds, smoothed", _BLOCKS, "curves", _BANDS, _WINDOW),
    "block_size_by_rank": Kind(
        "size of the block at every rank in some rounds",
        "rounds that were kept: block_rounds=[10,100,1000], and blocks to keep, as of ranker=pairrank",
        "curves",
        "Means over the seeds whose query in this round has the rank.",
        {"rounds": "of block_rounds, such as 10,100,1000; at most six"},
    ),
    "certain_ratio": Kind(
        "share of certain pairs in the top 10 over rounds, smoothed", _BLOCKS, "curves", _BANDS, _WINDOW
    ),
    "cosine": Kind(
        "cosine between a linear ranker and the offline RankNet over rounds",
        "linear rankers that were run with trace_cosine=true",
        "curves",
        _BANDS,
    ),
    "violations": Kind(
        "certain pairs that the shown list reverses over rounds, smoothed", _BLOCKS, "curves", _BANDS, _WINDOW
    ),
    "running_time": Kind(
        "seconds per round",
        "finished runs",
        "final_metrics",
        _WHISKERS,
        {"unit": "seconds (per round) or rounds (per second)"},
    ),
    "bar": Kind("one metric by group, with intervals", "finished runs", "final_metrics", _WHISKERS, _METRIC),
    "grid": Kind(
        "one metric over two settings as a heat map",
        "runs that differ in two settings: ol2r run -m ranker.members=2,5,10 ranker.label_noise_variance=0.1,0.01 ..",
        "facets",
        "Numbers behind ± are {}.",
        {"x": "a setting, such as ranker.members", "y": "another one"} | _METRIC,
    ),
    "setting": Kind(
        "one metric against one setting, with intervals",
        "runs that differ in a setting: ol2r run -m fairness.epsilon=0.1,1,10 ..",
        "facets",
        "Vertical lines are {}.",
        {"x": "a setting, such as fairness.epsilon"} | _METRIC,
    ),
    "scatter": Kind(
        "two metrics, a point for each group",
        "runs that have both metrics in summary.json",
        "final_metrics",
        "Lines through the points are {}.",
        {"x": "a name in summary.json; unfairness", "y": "another one; test_ndcg_10, or at the cutoff of the runs"},
    ),
    "lda": Kind(
        "documents by grade on two axes: features against what a network makes of them",
        "the ranker.pt of a ranker with a network, such as ranker=olranknet, and its dataset",
        "lda",
        options={
            "documents": "of each grade that are drawn; 300",
            "seed": "whose network; the first",
            "config_dir": "of your own choices",
        },
    ),
}


def choice(name: str, value: Any, allowed: Sequence[Choice]) -> Choice:
    """The allowed value with the same text; ValueError where there is none."""
    for one in allowed:
        if str(value) == str(one):
            return one
    raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value}")


def switch(name: str, value: Any) -> bool:
    """A boolean from true or false."""
    return choice(name, str(value).lower(), ("true", "false")) == "true"


def integer(name: str, value: Any, most: int, least: int = 1) -> int:
    """A whole number from `least` to `most`."""
    if not str(value).isdecimal() or not least <= int(value) <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value}")
    return int(value)


def inches(width: Width, panels: int) -> float:
    """A width in inches. None is the width of a column for one panel, and of a page for several."""
    if width is None:
        return WIDTHS["column" if panels == 1 else "page"]
    if width in WIDTHS:
        return WIDTHS[str(width)]
    try:
        number = float(width)
    except ValueError:
        number = math.nan
    if not 2 <= number <= 30:
        raise ValueError(f"width must be column, page or inches from 2 to 30, got {width}")
    return number
