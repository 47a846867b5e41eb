"""The metrics of summary.json as reports show them: default columns, headings, axis labels, digits and directions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ol2r_cli.formatting import nearest
from ol2r_cli.report.run_groups import Group

METRICS = ("test_ndcg_10", "validation_ndcg_10", "cumulative_ndcg", "online_ndcg")


class Measure(NamedTuple):
    """How reports show a metric.

    heading: in tables. axis: the label in figures. digits: behind the decimal point. direction: 1 where more is better,
    -1 where less is better, 0 where neither is, as for clicks and block sizes.
    """

    heading: str
    axis: str
    digits: int = 2
    direction: int = 0


_MEASURES = {
    "online_ndcg": Measure("online NDCG", "mean online NDCG@10", 4, 1),
    "online_ndcg_last_tenth": Measure("online NDCG last tenth", "online NDCG@10, last tenth", 4, 1),
    "cumulative_ndcg": Measure("cumulative NDCG", "cumulative NDCG", 2, 1),
    "cosine": Measure("cosine", "cosine to offline RankNet", 4, 1),
    "regret": Measure("regret", "misordered pairs", 2, -1),
    "unfairness": Measure("unfairness", "|cumulative unfairness|", 3, -1),
    "violations": Measure("violations", "reversed certain pairs", 2, -1),
    "certain_top10": Measure("certain top10", "share of certain pairs in the top 10", 4),
    "blocks": Measure("blocks", "number of blocks"),
    "best_round": Measure("best round", "round of best validation NDCG@10"),
}


@cache
def measure(metric: str) -> Measure:
    """How reports show a metric of summary.json; a metric of an extension keeps its name."""
    if metric in _MEASURES:
        return _MEASURES[metric]
    plain = metric.replace("_", " ")
    if match := re.fullmatch(r"(test|validation)_ndcg_(\d+)(?:_(untrained|best))?", metric):
        name = f"{match[1]} NDCG@{match[2]}"
        heading, axis = {
            None: ("", ""),
            "untrained": (", untrained", ", untrained"),
            "best": (", best round", ", best round by validation"),
        }[match[3]]
        return Measure(name + heading, name + axis, 4, 1)
    if match := re.fullmatch(r"block_size_(\d+)", metric):
        return Measure(plain, f"size of the block at rank {match[1]}")
    if "ndcg" in metric:
        return Measure(plain.replace("ndcg", "NDCG"), plain, 4, 1)
    return Measure(plain, plain)


def heading(metric: str) -> str:
    """The name of a metric in a table."""
    return measure(metric).heading


def digits(metric: str) -> int:
    """The number of digits shown behind the decimal point."""
    return measure(metric).digits


def gain(metric: str, difference: float) -> float:
    """Above 0 where a difference is an improvement; the difference itself for a metric without a direction."""
    return -difference if measure(metric).direction < 0 else difference


def usual_metrics(groups: Sequence[Group]) -> tuple[str, ...]:
    """The default columns of a table; with unfairness and violations where a run has a fairness."""
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    return (*METRICS, "unfairness", "violations") if fair else METRICS


def known_metrics(groups: Sequence[Group]) -> list[str]:
    """All metrics that the summary of some run has."""
    return list(dict.fromkeys(name for group in groups for name in group.metrics))


def check_metrics(metrics: Sequence[str], groups: Sequence[Group], option: str = "--metric") -> None:
    """ValueError, with the option in its text, unless each of these metrics is in the summary of some run."""
    known = known_metrics(groups)
    for name in metrics:
        if name not in known:
            listed = ", ".join(known) or "none: nothing was measured"
            raise ValueError(f"{option} must be one of {listed}, got {name}{nearest(name, known)}")
