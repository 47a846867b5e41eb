"""Every choice of every group, found from configs/, and a small world in which each can be run through any of them.

The environment may name a folder of further choices in OL2R_TEST_CONFIGS: see CONTRIBUTING.md.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from ol2r_cli.catalogue import Catalogue
from ol2r_cli.compose import build, compose, config_dir
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.exposure import exposure_of
from ol2r_cli.interfaces import Interaction
from ol2r_cli.simulation import Simulation, check_needs
from tests.worlds import handmade, simulate

PARTS = ("dataset", "device", "launcher", "click", "ranker", "ranker/model", "exploration", "fairness")
LISTS = [
    [0],
    [4],
    [1, 0],
    [0, 0, 0],
    [2, 0, 1],
    [3, 1, 0, 0, 2, 0, 0],
    [0] * 9,
    [0, 1, 2, 3, 4, 0, 1, 0, 2, 0, 1, 0],
]
FAIR = ("pairrank", "pepairrank", "toprank", "olranknet", "ips_regression")  # rankers that every fairness is tried with
POSITIONS = 5  # some queries are shorter, some longer
ROUNDS = 12
SEEDS = [3, 4, 11]
SMALL = {"ranker.model.width": 6, "ranker.batch": 16}  # networks need not be large to keep the laws
OWN = Path(os.environ["OL2R_TEST_CONFIGS"]).absolute() if os.environ.get("OL2R_TEST_CONFIGS") else None

Overrides = tuple[str, ...]


def names(group: str) -> list[str]:
    """The choices of a group."""
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def held(group: str) -> list[str]:
    """The choices that are held to the laws: also those in a folder of one's own."""
    own = (OWN / group).glob("*.yaml") if OWN else ()
    return sorted({*names(group), *(path.stem for path in own)})


def typed(group: str, name: str) -> Overrides:
    """The words that make a choice; one of `ranker/model` needs a ranker that has one."""
    above = group.rpartition("/")[0]
    whole = Catalogue().choices[above].values() if above else ()
    having = next((f"{above}={choice.name}" for choice in whole if group in choice.brings), None)
    return (having, f"{group}={name}") if having else (f"{group}={name}",)


def rankers() -> list[Overrides]:
    """Every ranker with the exploration it brings."""
    return [(f"ranker={ranker}",) for ranker in held("ranker")]


def pairings() -> list[Overrides]:
    """Every ranker with every exploration."""
    return [(f"ranker={r}", f"exploration={e}") for r in held("ranker") for e in held("exploration")]


def arrangements() -> list[Overrides]:
    """Every ranker, with the exploration it brings, with every fairness that changes anything."""
    fair = [name for name in held("fairness") if name != "none"]
    return [(f"ranker={ranker}", f"fairness={name}") for ranker in held("ranker") for name in fair]


@cache
def refusal(overrides: Overrides) -> str:
    """Why a combination makes no sense, in the words of the error message; empty where it does."""
    config = composed(overrides)
    try:
        check_needs({group: build(config[group]) for group in ("ranker", "exploration", "fairness")})
    except ValueError as error:
        return str(error)
    return ""


def combinations() -> list[Overrides]:
    """Every ranker alone, with every exploration that goes with it, and, of some, with every fairness that does; every
    click model with the default ranker."""
    mixed = [overrides for overrides in pairings() if not refusal(overrides)]
    clicks = [(f"click={name}",) for name in held("click")]
    tried = [f"ranker={ranker}" for ranker in FAIR]
    fair = [overrides for overrides in arrangements() if overrides[0] in tried and not refusal(overrides)]
    return [*rankers(), *mixed, *clicks, *fair]


@cache
def composed(overrides: Overrides) -> DictConfig:
    """Composing takes a quarter of a second, and the laws ask for the same few configurations again and again."""
    config = compose([*overrides, f"--config-dir={OWN}"] if OWN else list(overrides))
    OmegaConf.set_readonly(config, False)
    for setting, value in SMALL.items():
        if OmegaConf.select(config, setting) is not None:
            OmegaConf.update(config, setting, value)
    OmegaConf.set_readonly(config, True)
    return config


def world(lists: Sequence[Sequence[int]] = LISTS) -> Dataset:
    """A dataset with these labels, whose documents alternate between two groups."""
    dataset = handmade([list(labels) for labels in lists])
    group = (torch.arange(len(dataset.labels)) % 2).to(torch.int8)
    return dataclasses.replace(dataset, group=group)


def simulation(overrides: Overrides, dataset: Dataset | None = None, **more) -> Simulation:
    """A simulation ready for round 1; ValueError where the overrides do not go together.

    `more`: seeds, positions, a `click` group in place of the configured one, and what `Simulation` takes.
    """
    config, seeds = composed(overrides).copy(), more.pop("seeds", SEEDS)
    OmegaConf.set_readonly(config, False)
    config.positions = more.pop("positions", POSITIONS)
    config.click = more.pop("click", config.click)
    dataset = dataset or world()
    more.setdefault("exposure", exposure_of(dataset, build(config.click), config.positions, "reciprocal", 0.5))
    return simulate(config, seeds, ROUNDS, dataset, **more)


def play(simulation: Simulation, rounds: int = ROUNDS) -> list[Interaction]:
    """The next so many rounds."""
    interactions = []
    for _, (_, interaction) in zip(range(rounds), simulation.play(), strict=False):
        interactions.append(interaction)
        if simulation.measurement.full():
            simulation.measurement.measures()
    return interactions


def seen(interactions: Sequence[Interaction], replica: int | None = None) -> list[list]:
    """What a user can see of each round: for every replica (or one) the query, the documents shown and the clicks."""
    rounds = []
    for one in interactions:
        documents = one.candidates.document.gather(1, one.ranking)
        rows = [
            (int(query), shown_documents[shown].tolist(), clicks[shown].tolist())
            for query, shown_documents, shown, clicks in zip(
                one.candidates.query, documents, one.shown, one.clicks, strict=True
            )
        ]
        rounds.append(rows if replica is None else rows[replica : replica + 1])
    return rounds
