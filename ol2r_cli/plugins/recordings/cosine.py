"""The cosine between the deployed weights and those of the offline RankNet, in the evaluation of a linear ranker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from ol2r_cli.config.ranges import check_settings
from ol2r_cli.run.skyline import fit_offline
from ol2r_cli.tensor.shapes import Float

if TYPE_CHECKING:
    from ol2r_cli.run.experiment import Experiment
    from ol2r_cli.run.runner import Runner


@dataclass(frozen=True)
class CosineSettings:
    """What the setting may be."""

    trace_cosine: bool


def prepare(experiment: Experiment) -> None:
    """Raise ValueError for a wrong value, and for a ranker without weights."""
    check_settings(CosineSettings, {"trace_cosine": experiment.settings["trace_cosine"]}, "")
    if not experiment.roles["ranker"].linear:
        leave = f"leave it out with ranker={experiment.choices['ranker']}"
        raise ValueError(f"trace_cosine=true needs a ranker with linear weights: {leave}")


def check(experiment: Experiment) -> None:
    """Raise ValueError where users change, as the offline ranker does not."""
    if experiment.intent.changes:
        raise ValueError("trace_cosine=true compares with a ranker for labels that stay: type intent=none")


def evaluate(runner: Runner) -> Callable[[Float[Tensor, "E B F"]], Mapping[str, Float[Tensor, "E B"]]]:
    """Fit ranker=offline_ranknet with its default settings to the data of a run, and return what makes of deployed
    weights the cosine of the angle between them and its own, NaN where either is zero."""
    experiment, context = runner.experiment, runner.simulation.context
    cache, dataset = {"cache_dir": experiment.settings["cache_dir"]}, experiment.dataset
    theirs = fit_offline("offline_ranknet", cache, context, dataset, dataset.oracle()).double()

    def cosine(deployed: Float[Tensor, "E B F"]) -> Mapping[str, Float[Tensor, "E B"]]:
        ours = deployed.double()
        return {"cosine": ((ours @ theirs) / (ours.norm(dim=2) * theirs.norm())).clamp(-1, 1)}

    return cosine
