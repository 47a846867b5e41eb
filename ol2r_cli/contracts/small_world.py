"""A small world in which every choice can be run through any law: lists of many lengths, two groups, few rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction, Measure
from ol2r_cli.metrics.exposure import exposure_of
from ol2r_cli.simulation import Simulation

LISTS = (  # the labels of each query
    (0,),
    (4,),
    (1, 0),
    (0, 0, 0),
    (2, 0, 1),
    (3, 1, 0, 0, 2, 0, 0),
    (0,) * 9,
    (0, 1, 2, 3, 4, 0, 1, 0, 2, 0, 1, 0),
)
GRADES = 5
POSITIONS = 5  # some queries are shorter, some longer
ROUNDS = 12
SEEDS = (3, 4, 11)
SMALL = {  # networks and trees need not be large to keep the laws
    "ranker.model.width": 6,
    "ranker.batch": 16,
    "ranker.epochs": 2,
    "ranker.steps": 2,
    "ranker.trees": 4,
    "ranker.min_documents": 2,  # or the small world is too small for a tree
}

Lists = Sequence[Sequence[int]]
Seen = tuple[int, list[int], list[bool]]  # query, rows of the documents shown, and which of them were clicked


def handmade(lists: Lists, features: int = 4, seed: int = 0) -> Dataset:
    """Return a dataset with these labels, a list per query, and random features; every split has all queries."""
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
        grades=GRADES,
        splits={"train": every, "validation": every, "test": every},
    )


def world(lists: Lists = LISTS) -> Dataset:
    """Return a dataset with these labels, whose documents alternate between two groups."""
    dataset = handmade(lists)
    return dataclasses.replace(dataset, group=(torch.arange(len(dataset.labels)) % 2).to(torch.int8))


def small(config: DictConfig) -> DictConfig:
    """Return a copy of a configuration with small networks and few steps, where the ranker's class is one of ol2r.

    The copy is read-only, so that it can be shared.
    """
    config = config.copy()
    with open_dict(config):
        for setting, value in SMALL.items():
            target = OmegaConf.select(config, f"{setting.rpartition('.')[0]}._target_")
            if str(target).startswith("ol2r_cli.") and OmegaConf.select(config, setting) is not None:
                OmegaConf.update(config, setting, value)
    OmegaConf.set_readonly(config, True)
    return config


def chosen(group: str, name: str) -> DictConfig:
    """Return the default settings of a choice."""
    return OmegaConf.create({group: Catalogue().choices[group][name].content})[group]


def clicking(probability: float) -> DictConfig:
    """Return the settings of a user who clicks every shown document with this probability, whatever its label."""
    return OmegaConf.create({"click": {**chosen("click", "random"), "click": [probability] * GRADES}}).click


def measures_of(config: DictConfig, blocks: bool = True, regret: bool = True) -> dict[str, Measure]:
    """Return the measures that a configuration names, with blocks and regret, or without them."""
    nodes = {str(name): node for name, node in config.measure.items() if name not in ("blocks", "regret")}
    more = [name for name, taken in (("regret", regret), ("blocks", blocks)) if taken]
    return {name: build(node) for name, node in (nodes | {name: chosen("measure", name) for name in more}).items()}


def simulation_of(
    config: DictConfig,
    dataset: Dataset,
    seeds: Sequence[int],
    rounds: int,
    positions: int,
    *,
    trace_blocks: bool = True,
    trace_regret: bool = True,
    measures: Mapping[str, Measure] | None = None,
    device: str = "cpu",
    **more: Any,
) -> Simulation:
    """A simulation of the roles that a configuration names, ready for round 1. `more` is what `Simulation` takes.

    Without `measures`, those of the configuration are taken, with blocks and regret unless they are switched off.
    """
    return Simulation(
        dataset,
        **{group: build(config[group]) for group in ("click", "ranker", "exploration", "fairness", "intent")},
        seeds=torch.tensor(list(seeds), device=device),
        rounds=rounds,
        positions=positions,
        measures=measures_of(config, trace_blocks, trace_regret) if measures is None else measures,
        **more,
    )


def simulation(
    config: DictConfig,
    dataset: Dataset | None = None,
    *,
    seeds: Sequence[int] = SEEDS,
    rounds: int = ROUNDS,
    positions: int = POSITIONS,
    click: DictConfig | None = None,
    **more: Any,
) -> Simulation:
    """Return a simulation in the small world, or on `dataset`, ready for round 1.

    `click` takes the place of the configured click model; `more` is what `Simulation` takes. ValueError where the
    choices do not go together.
    """
    config, dataset = config.copy(), dataset or world()
    OmegaConf.set_readonly(config, False)
    config.click = config.click if click is None else click
    more.setdefault("exposure", exposure_of(dataset, build(config.click), positions, "reciprocal", 0.5))
    return simulation_of(config, dataset, seeds, rounds, positions, **more)


def play(simulation: Simulation, rounds: int = ROUNDS) -> list[Interaction]:
    """Return the next so many rounds."""
    interactions = []
    for _, (_, interaction) in zip(range(rounds), simulation.play(), strict=False):
        interactions.append(interaction)
        if simulation.measurement.full():
            simulation.measurement.measures()
    return interactions


def seen(interactions: Sequence[Interaction], replica: int | None = None) -> list[list[Seen]]:
    """What a user can see of each round: for every replica (or one) the query, the documents shown and the clicks."""
    rounds = []
    for one in interactions:
        documents = one.candidates.document.gather(1, one.ranking)
        every = range(len(documents)) if replica is None else [replica]
        shown = [(int(one.candidates.query[b]), documents[b][one.shown[b]], one.clicks[b][one.shown[b]]) for b in every]
        rounds.append([(query, places.tolist(), clicks.tolist()) for query, places, clicks in shown])
    return rounds
