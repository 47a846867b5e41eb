"""What a search makes as good as it can: a mean of summary.json over the replicas, never one of the test split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ol2r_cli.experiment import Experiment

Direction = Literal["minimize", "maximize"]

USUAL = "validation_ndcg_10"  # the only one that evaluations along the way tell ahead, so that trials can be pruned
_VALIDATION = tuple(f"validation_ndcg_{cutoff}" for cutoff in (1, 3, 5, 10))
_ONLINE = ("online_ndcg", "online_ndcg_last_tenth", "cumulative_ndcg")
_LESS = ("regret", "unfairness", "violations")  # of which less is better
METRICS = (*_VALIDATION, *_ONLINE, *_LESS)


def direction(metric: str) -> Direction:
    """`maximize` or `minimize`; ValueError for what is no objective."""
    if metric.startswith("test_"):
        raise ValueError(f"--metric must not look at the test split, got {metric}: type {USUAL}, the default")
    if metric not in METRICS:
        raise ValueError(f"--metric must be one of {', '.join(METRICS)}, got {metric}")
    return "minimize" if metric in _LESS else "maximize"


def check_metric(metric: str, experiment: Experiment) -> None:
    """Raises ValueError, with what to type, when this experiment's summary would have no such metric."""
    ranker = experiment.choices["ranker"]
    if metric in _VALIDATION:
        if not experiment.roles["ranker"].generalises:
            raise ValueError(
                f"ranker={ranker} is not evaluated on queries that are new to it: type --metric online_ndcg"
            )
        if "validation" not in experiment.settings["evaluate_on"]:
            raise ValueError(f"evaluate_on must have validation for --metric {metric}: leave evaluate_on out")
        if not len(experiment.dataset.splits.get("validation", ())):
            raise ValueError(f"dataset must have a validation split for --metric {metric}, got none")
    if metric == "regret" and not experiment.settings["trace_regret"]:
        raise ValueError("trace_regret must be true for --metric regret: type trace_regret=true")
    if metric == "unfairness" and experiment.dataset.group is None:
        raise ValueError("dataset must have two groups for --metric unfairness: type dataset.group={..}")
