"""Small worlds to run real experiments in: the shipped configuration, shrunk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from omegaconf import DictConfig
from torch import Tensor

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction, Measure, Ranker
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.plugins.check.small_world import handmade, measures_of, simulation
from ol2r_cli.simulation import Simulation

__all__ = ["TINY", "evaluator", "handmade", "measured", "measures", "offline_ndcg", "simulate", "tiny"]

TINY = ["dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=12", "dataset.features=6"]


@cache
def _composer() -> Composer:
    return Composer()


def tiny(*overrides: str) -> DictConfig:
    """The configuration of `ol2r run` on a tiny generated dataset."""
    return _composer()([*TINY, *overrides]).config


def simulate(config: DictConfig, seeds: list[int], rounds: int, dataset: Dataset | None = None, **more) -> Simulation:
    """A simulation of what the configuration names, ready for round 1."""
    more = {"exposure": None, "positions": config.positions, **more}
    return simulation(config, dataset or build(config.dataset).load(), seeds=seeds, rounds=rounds, **more)


def measured(simulation: Simulation, last: int | None = None) -> tuple[dict[str, Tensor], list[Interaction]]:
    """The columns [T B] of all rounds, or of those up to `last`, and what happened in each."""
    chunks, happened, last = [], [], last or simulation.context.rounds
    for t, interaction in simulation.play():
        happened.append(interaction)
        if simulation.measurement.full() or t == last:
            chunks.append(simulation.measurement.measures()[1])
        if t == last:
            break
    return {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}, happened


def measures(blocks: bool = True, regret: bool = True) -> dict[str, Measure]:
    """The measures of a default run, with blocks and regret or without."""
    return measures_of(tiny(), blocks, regret)


def evaluator(dataset: Dataset, split: str, seeds: Tensor, no_relevant: str = "zero", **more) -> Evaluator:
    """An offline evaluation of NDCG on a split; `dtype` is float64 unless it is given."""
    return Evaluator(dataset, split, seeds, no_relevant, more.pop("dtype", torch.float64), measures(), **more)


def offline_ndcg(dataset: Dataset, split: str, seeds: Tensor, **more) -> Callable[[Ranker, Tensor], Tensor]:
    """A function of a ranker and snapshots [E, B, P] that returns NDCG [E, B, C] at the cutoffs 1, 3, 5 and 10."""
    evaluate = evaluator(dataset, split, seeds, **more)
    return lambda ranker, deployed: torch.stack(list(evaluate(ranker, deployed).values()), -1)
