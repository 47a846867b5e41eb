"""Every choice of every group, found from configs/, which of them go together, and simulations in the small world."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import pytest
from omegaconf import DictConfig

from ol2r_cli.config.composer import Composer, Composition
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Role
from ol2r_cli.plugins.check import small_world
from ol2r_cli.plugins.check.laws import CheckReport, check_composition
from ol2r_cli.plugins.check.small_world import LISTS, POSITIONS, ROUNDS, SEEDS, Law, play, seen, small, world
from ol2r_cli.simulation import Simulation, check_needs

__all__ = ["LISTS", "POSITIONS", "ROUNDS", "SEEDS", "play", "seen", "world"]

# A ranker for the explorations and fairnesses that do not go with PairRank.
WITH_EXPLORATION = {"probabilistic_interleaving": "dbgd"}
WITH_FAIRNESS = {"fairco": "ips_regression"}
WITH_SETTING = {"ranker=fixed": ("ranker.feature=2",)}  # without which a choice is refused
NEEDS_PACKAGE = {"ranker=offline_lambdamart": "lightgbm"}  # choices that an optional package computes
FAIR = ("pairrank", "pepairrank", "toprank", "olranknet", "ips_regression")  # rankers that every fairness is tried with
Overrides = tuple[str, ...]


def names(group: str) -> list[str]:
    """The choices of a group."""
    return sorted(_composer().catalogue.choices[group])


def typed(group: str, name: str) -> Overrides:
    """The overrides that make a choice; one of `ranker/model` needs a ranker that has a model."""
    above = group.rpartition("/")[0]
    whole = _composer().catalogue.choices[above].values() if above else ()
    having = next((f"{above}={choice.name}" for choice in whole if group in choice.brings), None)
    return (having, f"{group}={name}") if having else with_setting(group, name)


def rankers() -> list[Overrides]:
    """Every ranker with the exploration it brings."""
    return [with_setting("ranker", ranker) for ranker in names("ranker")]


def with_setting(group: str, name: str) -> Overrides:
    """A choice, and the settings without which it is refused."""
    return (f"{group}={name}", *WITH_SETTING.get(f"{group}={name}", ()))


def pairings() -> list[Overrides]:
    """Every ranker with every exploration."""
    return [(*ranker, f"exploration={e}") for ranker in rankers() for e in names("exploration")]


def arrangements() -> list[Overrides]:
    """Every ranker, with the exploration it brings, with every fairness that changes anything."""
    fair = [name for name in names("fairness") if name != "none"]
    return [(*ranker, f"fairness={name}") for ranker in rankers() for name in fair]


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
    brought = {choice.brings.get("exploration") for choice in _composer().catalogue.choices["ranker"].values()}
    others = [name for name in names("exploration") if name not in brought]
    fair = [name for name in names("fairness") if name != "none"]
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
    clicks = [(f"click={name}",) for name in names("click")]
    return list(dict.fromkeys([*each_choice(), *mixed, *clicks, *fair]))


@cache
def _composer() -> Composer:
    return Composer()


@cache
def composition(overrides: Overrides) -> Composition:
    """The composition of these overrides."""
    return _composer()(overrides)


@cache
def composed(overrides: Overrides) -> DictConfig:
    """The configuration, with small networks. Read-only, because it is shared."""
    return small(composition(overrides).config)


def simulation(overrides: Overrides, dataset: Dataset | None = None, **more) -> Simulation:
    """A simulation ready for round 1; ValueError where the overrides do not go together.

    `more`: seeds, positions, a `click` group in place of the configured one, and what `Simulation` takes. The test is
    skipped where the package that a choice needs is not installed.
    """
    skip_without_package(overrides)
    return small_world.simulation(composed(overrides), dataset, **{"rounds": ROUNDS, **more})


def held(overrides: Overrides, laws: Sequence[Law] | None = None) -> CheckReport:
    """What comes of holding a combination of choices to these laws, by default to all those of roles.

    The test is skipped where the package that a choice needs is not installed.
    """
    skip_without_package(overrides)
    return check_composition(composition(overrides), ("ranker",), " ".join(overrides), laws=laws)


def skip_without_package(overrides: Overrides) -> None:
    """Skip the test where the package that one of the choices needs is not installed."""
    if package := missing_package(overrides):
        pytest.skip(f"{' '.join(overrides)} needs {package}")


def missing_package(overrides: Overrides) -> str:
    """The package that one of the choices needs and that is not installed; empty if there is none."""
    needed = (NEEDS_PACKAGE.get(word) for word in overrides)
    return next((package for package in needed if package and not find_spec(package)), "")
