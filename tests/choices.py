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

from ol2r_cli.config.catalogue import Catalogue, config_dir
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction, Role
from ol2r_cli.metrics.exposure import exposure_of
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
# A ranker for the explorations and fairnesses that do not go with PairRank.
WITH_EXPLORATION = {"probabilistic_interleaving": "dbgd"}
WITH_FAIRNESS = {"fairco": "ips_regression"}
FAIR = ("pairrank", "pepairrank", "toprank", "olranknet", "ips_regression")  # rankers that every fairness is tried with
POSITIONS = 5  # some queries are shorter, some longer
ROUNDS = 12
SEEDS = [3, 4, 11]
SMALL = {
    "ranker.model.width": 6,
    "ranker.batch": 16,
    "ranker.epochs": 2,
    "ranker.steps": 2,
}  # networks need not be large to keep the laws
OWN = Path(os.environ["OL2R_TEST_CONFIGS"]).absolute() if os.environ.get("OL2R_TEST_CONFIGS") else None

Overrides = tuple[str, ...]


def names(group: str) -> list[str]:
    """The choices of a group."""
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def held(group: str) -> list[str]:
    """The choices that are held to the laws: also those in OL2R_TEST_CONFIGS."""
    own = (OWN / group).glob("*.yaml") if OWN else ()
    return sorted({*names(group), *(path.stem for path in own)})


def typed(group: str, name: str) -> Overrides:
    """The overrides that make a choice; one of `ranker/model` needs a ranker that has a model."""
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
    """The error message for choices that do not work together; empty for choices that do.

    Each choice is built once, from the configuration of its ranker alone or of the default ranker.
    """
    of_ranker = tuple(word for word in overrides if word.startswith(("ranker=", "ranker.", "ranker/")))
    roles = {}
    for group in ("ranker", "exploration", "fairness"):
        own = tuple(word for word in overrides if word.startswith((f"{group}=", f"{group}.")))
        is_chosen = group != "ranker" and any(word.startswith(f"{group}=") for word in own)
        roles[group] = _built(own if is_chosen else tuple(dict.fromkeys((*of_ranker, *own))), group)
    try:
        check_needs(roles)
    except ValueError as error:
        return str(error)
    return ""


@cache
def _built(overrides: Overrides, group: str) -> Role:
    return build(composed(overrides)[group])


def each_choice() -> list[Overrides]:
    """Every ranker with its own exploration, and every other exploration and every fairness with one ranker."""
    brought = {
        choice.brings.get("exploration") for choice in Catalogue([OWN] if OWN else []).choices["ranker"].values()
    }
    others = [name for name in held("exploration") if name not in brought]
    fair = [name for name in held("fairness") if name != "none"]
    return [
        *rankers(),
        *((f"ranker={WITH_EXPLORATION.get(name, 'pairrank')}", f"exploration={name}") for name in others),
        *((f"ranker={WITH_FAIRNESS.get(name, 'pairrank')}", f"fairness={name}") for name in fair),
    ]


def combinations() -> list[Overrides]:
    """Every combination that the laws hold for: `each_choice`, every click model, every ranker with every exploration
    that goes with it, and some rankers with every fairness that does."""
    mixed = [overrides for overrides in pairings() if not refusal(overrides)]
    tried = [f"ranker={ranker}" for ranker in FAIR]
    fair = [overrides for overrides in arrangements() if overrides[0] in tried and not refusal(overrides)]
    clicks = [(f"click={name}",) for name in held("click")]
    return list(dict.fromkeys([*each_choice(), *mixed, *clicks, *fair]))


@cache
def _composer() -> Composer:
    return Composer(["--config-dir", str(OWN)] if OWN else [])


@cache
def composed(overrides: Overrides) -> DictConfig:
    """The configuration, with small networks. Read-only, because it is shared."""
    config = _composer()(overrides).config
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
