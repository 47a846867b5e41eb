"""Choices whose rounds are stages of loops, and rounds of theirs in the small world, in which a list is seen whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hydra.utils import get_class
from torch import Tensor

from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.loops.rounds import Record
from ol2r_cli.metrics.exposure import exposure_of
from ol2r_cli.plugins.check.small_world import chosen
from tests.choices import Overrides, composed, each_choice, names, refusal, simulation, with_setting, world
from tests.loops.lanes_by_threads import loops_by

SEEDS = (3, 4)
USERS = ("click=informational", "click=position_based", "click=user_browsing")  # one for every stage of a user

SETTINGS = [  # with which a ranker has stages that it does not have by default
    ("ranker=mgd", "ranker.projection=document_space", "ranker.candidates=3", "ranker.document_space.earlier=3"),
    ("ranker=nsgd", "ranker.projection=document_space", "ranker.drawn=9", "ranker.memory=9", "ranker.avoided=2"),
    ("ranker=pairrank", "exploration.covariance=diagonal", "exploration.shuffle=random", "ranker.reduction=mean"),
    ("ranker=pairrank", "exploration.covariance=inverse_diagonal", "exploration.transitive=false"),
    ("ranker=pepairrank", "ranker.members=3", "ranker.l2=0.01", "ranker.reduction=mean"),
]
SINGLE = [  # of which the roles together launch every loop of single rounds
    ("ranker=pairrank", "click=user_browsing"),
    ("ranker=pepairrank", "ranker.discount=0.9"),
    ("ranker=pdgd", "click=position_based"),
    ("ranker=sgd_ranknet", "ranker.pairs=adjacent"),
    ("ranker=epsilon_greedy",),
    ("ranker=dbgd", "exploration=team_draft"),
    ("ranker=dbgd", "exploration=probabilistic_interleaving"),
    ("ranker=mgd", "ranker.projection=document_space"),
    ("ranker=nsgd",),
    ("ranker=nsgd", "ranker.projection=document_space"),
    ("ranker=coltr",),
    ("ranker=intervention_aware", "ranker.every=3"),
    ("ranker=intervention_aware", "ranker.every=3", "ranker.propensities=estimated"),
    ("ranker=p2neurrank",),
]

# FairExp has two groups of documents, and here every document is one.
ONE_BY_ONE = [overrides for overrides in each_choice() if "fairness=fairexp" not in overrides]


@cache
def has_stages(overrides: Overrides) -> bool:
    """Whether ranker and exploration are stages; False where they do not go together."""
    if refusal(overrides):
        return False
    running = simulation(overrides, rounds=1)
    return running.ranker.stages() is not None and running.exploration.stages() is not None


def staged(group: str) -> list[str]:
    """The choices of a group whose class has stages."""
    return [name for name in names(group) if "stages" in vars(get_class(chosen(group, name)._target_))]


def rankers() -> list[Overrides]:
    """Every ranker that is stages, with the exploration it brings."""
    every = [with_setting("ranker", name) for name in staged("ranker")]
    return [overrides for overrides in every if has_stages(overrides)]


def pairings(ranker: str) -> list[Overrides]:
    """A ranker with every exploration where both are stages."""
    tried = [(*with_setting("ranker", ranker), f"exploration={name}") for name in staged("exploration")]
    return [overrides for overrides in tried if has_stages(overrides)]


def explorations() -> list[Overrides]:
    """Every exploration that is stages, with one ranker."""
    found = {overrides[-1]: overrides for name in staged("ranker") for overrides in pairings(name)}
    return list(found.values())


def numbered(lists: Any = None) -> Dataset:
    """The small world, in which every document is a group of its own, so that the record says which are shown."""
    dataset = world() if lists is None else world(lists)
    return dataclasses.replace(dataset, group=torch.arange(len(dataset.labels)).to(torch.int8))


Played = dict[str, Tensor]


def played(
    overrides: Overrides,
    by: Callable[[Any], Callable[..., None]] | None,
    rounds: int = 20,
    singly: bool = False,
    **more: Any,
) -> Played:
    """What is recorded of so many rounds, and the state after them.

    `by` takes the place of `launch.for_each_replica`; None: loops are compiled. `singly`: roles play the rounds, one by
    one, of which some launch loops.
    """
    dataset, positions = more.pop("dataset", None) or numbered(), more.setdefault("positions", 5)
    more["exposure"] = exposure_of(dataset, build(composed(overrides).click), positions, "reciprocal", "parity")
    kind = {"seeds": SEEDS, "regret": False, "blocks": False, **more}
    running = simulation(overrides, dataset, rounds=rounds, **kind)
    with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:
        if by is not None:
            loops_by(by, patch)
        for _ in running.play() if singly else running.play_until(lambda t: t % 7 == 0):
            pass
    record = dict(zip(Record._fields, running.measurement.of_rounds, strict=True))
    state = {name: values for name, values in running.state_dict().items() if isinstance(values, Tensor)}
    return {name: values[:rounds] for name, values in record.items()} | state
