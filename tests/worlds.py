"""Small worlds to run real experiments in: the shipped configuration, shrunk."""

from __future__ import annotations

from functools import cache

from omegaconf import DictConfig

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.contracts.small_world import handmade, simulation_of
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.simulation import Simulation

__all__ = ["TINY", "handmade", "simulate", "tiny"]

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
    return simulation_of(config, dataset or build(config.dataset).load(), seeds, rounds, config.positions, **more)
