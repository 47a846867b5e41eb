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
from ol2r_cli.interfaces import Measure, Ranker
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.simulation import Simulation

TINY = [
    "dataset.queries={train: 12, validation: 4, test: 4}",
    "dataset.documents=12",
    "dataset.features=6",
]


@cache
def _composer() -> Composer:
    return Composer()


def tiny(*overrides: str) -> DictConfig:
    """The configuration of `ol2r run` on a tiny generated dataset."""
    return _composer()([*TINY, *overrides]).config


def simulate(config: DictConfig, seeds: list[int], rounds: int, dataset: Dataset | None = None, **more) -> Simulation:
    """A simulation of what the configuration names, ready for round 1.

    The regret is measured, unless `trace_regret` is false, and blocks, unless `trace_blocks` is.
    """
    taken = measures(blocks=more.pop("trace_blocks", True), regret=more.pop("trace_regret", True))
    return Simulation(
        dataset or build(config.dataset).load(),
        **{group: build(config[group]) for group in ("click", "ranker", "exploration", "fairness")},
        seeds=torch.tensor(seeds),
        rounds=rounds,
        positions=config.positions,
        measures=taken,
        **more,
    )


def measures(blocks: bool = True, regret: bool = True) -> dict[str, Measure]:
    """The measures of a default run, with blocks and regret or without."""
    nodes = tiny("trace_regret=true").measure
    left_out = {name for name, taken in (("blocks", blocks), ("regret", regret)) if not taken}
    return {str(name): build(node) for name, node in nodes.items() if name not in left_out}


def evaluator(dataset: Dataset, split: str, seeds: Tensor, no_relevant: str = "zero", **more) -> Evaluator:
    """An offline evaluation of NDCG on a split; `dtype` is float64 unless it is given."""
    return Evaluator(dataset, split, seeds, no_relevant, more.pop("dtype", torch.float64), measures(), **more)


def offline_ndcg(dataset: Dataset, split: str, seeds: Tensor, **more) -> Callable[[Ranker, Tensor], Tensor]:
    """A function of a ranker and snapshots [E, B, P] that returns NDCG [E, B, C] at the cutoffs 1, 3, 5 and 10."""
    evaluate = evaluator(dataset, split, seeds, **more)
    return lambda ranker, deployed: torch.stack(list(evaluate(ranker, deployed).values()), -1)


def handmade(lists: list[list[int]], features: int = 4, seed: int = 0) -> Dataset:
    """A dataset with these labels, a list per query, and random features; every split has all queries."""
    labels = torch.tensor([label for labels in lists for label in labels], dtype=torch.int8)
    lengths = torch.tensor([0, *map(len, lists)])
    values = torch.rand(len(labels), features, generator=torch.Generator().manual_seed(seed))
    every = torch.arange(len(lists))
    return Dataset(
        name="handmade",
        fingerprint=f"handmade-{seed}",
        features=values,
        labels=labels,
        offsets=lengths.cumsum(0),
        query_ids=[str(q) for q in range(len(lists))],
        grades=5,
        splits={"train": every, "validation": every, "test": every},
    )
