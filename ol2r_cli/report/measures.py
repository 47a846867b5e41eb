"""The metrics of a summary as a reader meets them: which a table has, their names and digits, which way is better."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ol2r_cli.report.groups import Group
from ol2r_cli.settings import nearest

METRICS = ("test_ndcg_10", "validation_ndcg_10", "cumulative_ndcg", "online_ndcg")
LESS_IS_BETTER = frozenset({"regret", "unfairness", "violations"})
_DIGITS = {"cumulative_ndcg": 2, "cosine": 4, "certain_top10": 4, "unfairness": 3}  # 4 for other NDCG, else 2


def usual_metrics(groups: Sequence[Group]) -> tuple[str, ...]:
    """The columns that a table has when nobody asks for others: what fairness costs and brings, where there is any."""
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    return (*METRICS, "unfairness", "violations") if fair else METRICS


def known_metrics(groups: Sequence[Group]) -> list[str]:
    """All that some run has in its summary."""
    return list(dict.fromkeys(name for group in groups for name in group.metrics))


def check_metrics(metrics: Sequence[str], groups: Sequence[Group]) -> None:
    """ValueError unless each of these metrics is in the summary of some run."""
    known = known_metrics(groups)
    for name in metrics:
        if name not in known:
            listed = ", ".join(known) or "none: nothing was measured"
            raise ValueError(f"--metric must be one of {listed}, got {name}{nearest(name, known)}")


def heading(metric: str) -> str:
    """The name of a metric of summary.json as a person says it."""
    if found := re.fullmatch(r"(test|validation)_ndcg_(\d+)(?:_(untrained|best))?", metric):
        suffix = {"untrained": ", untrained", "best": ", best round"}.get(found[3], "")
        return f"{found[1]} NDCG@{found[2]}{suffix}"
    return metric.replace("_", " ").replace("ndcg", "NDCG")


def digits(metric: str) -> int:
    """How many are shown behind the point."""
    return _DIGITS.get(metric, 4 if "ndcg" in metric else 2)


def has_a_better(metric: str) -> bool:
    """Whether more or less of it is good in itself, as of NDCG and regret, and not of clicks or block sizes."""
    return "ndcg" in metric or metric == "cosine" or metric in LESS_IS_BETTER


def gain(metric: str, difference: float) -> float:
    """Above 0 where a difference is for the better; of what is neither good nor bad, where it is more."""
    return -difference if metric in LESS_IS_BETTER else difference
