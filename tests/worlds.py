"""Small worlds to run real experiments in: the shipped configuration, shrunk."""

from __future__ import annotations

from functools import cache

import torch
from omegaconf import DictConfig

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
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
    """A simulation of what the configuration names, ready for round 1."""
    return Simulation(
        dataset or build(config.dataset).load(),
        **{group: build(config[group]) for group in ("click", "ranker", "exploration", "fairness")},
        seeds=torch.tensor(seeds),
        rounds=rounds,
        positions=config.positions,
        **more,
    )


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
