"""Compiled loops and tensor operations show the same lists and learn the same, on the same random numbers.

The fast tests play every ranker with the exploration it brings, every exploration, fairness and click model with one
ranker, and settings with loops of their own. The slow test plays all combinations.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ol2r_cli.ranker.pairrank import PairwiseRanker
from tests.choices import SEEDS, combinations, each_choice, names, play, seen, simulation, world

pytest.importorskip("numba")

ONLY_SHOWN = {"trace_blocks": False, "trace_regret": False}
SETTINGS = [
    ("ranker=sgd_ranknet", "ranker.pairs=adjacent"),
    ("ranker=sgd_ranknet", "ranker.pairs=all", "ranker.decay=0.9"),
    ("ranker=pdgd", "ranker.decay=0.9"),
    ("ranker=mgd", "ranker.decay=0.9", "ranker.candidates=3"),
    ("ranker=pdgd", "ranker/model=mlp"),
    ("ranker=dbgd", "ranker/model=mlp"),
    ("ranker=pdgd", "click.stop_without_click=true"),
    ("ranker=epsilon_greedy", "exploration.epsilon=1"),
    ("ranker=mgd", "exploration=probabilistic_interleaving", "exploration.tau=0.5"),
    ("fairness=fairexp", "fairness.count=shown", "fairness.epsilon=0", "exploration.alpha=0.1"),
    ("fairness=fairexp", "fairness.epsilon=inf", "exploration.alpha=0.1"),
    ("fairness=fairexp", "fairness.fill=paper", "exploration.alpha=0.1"),
    ("ranker=mgd", "ranker.projection=document_space"),
    ("ranker=pairrank", "ranker.window=6"),
    ("ranker=pairrank", "ranker.discount=0.9", "exploration.covariance=inverse_diagonal"),
    ("ranker=nsgd", "ranker.projection=document_space", "exploration=probabilistic_interleaving"),
    ("ranker=coltr", "ranker.renormalise=true"),
    ("ranker=intervention_aware", "ranker.every=5", "ranker.propensities=estimated"),
]


def check(overrides: tuple[str, ...], rounds: int = 30, **kind) -> None:
    """Play with both engines: equal lists and clicks, and equal state up to rounding."""
    played = {}
    for loops in (False, True):
        with torch.inference_mode():
            running = simulation(overrides, rounds=rounds, loops=loops, **kind)
            played[loops] = seen(play(running, rounds)), running.ranker.deploy(), running.measurement.measures()
    assert played[True][0] == played[False][0], overrides
    for tensors, compiled in zip(played[False][1:], played[True][1:], strict=True):
        torch.testing.assert_close(compiled, tensors, equal_nan=True)


@pytest.mark.parametrize("overrides", each_choice(), ids=",".join)
def test_a_choice(overrides):
    check(overrides)


@pytest.mark.parametrize("overrides", SETTINGS, ids=",".join)
def test_a_setting_with_loops_of_its_own(overrides):
    check(overrides)


@pytest.mark.parametrize("click", names("click"))
def test_a_click_model(click):
    check((f"click={click}", "ranker=pdgd"))


@pytest.mark.parametrize("ranker", ["pdgd", "sgd_ranknet", "mgd", "pairrank"])
@pytest.mark.parametrize("kind", [{"positions": 1}, {"positions": 40}, {"dtype": torch.float32}, {"seeds": SEEDS[:1]}])
def test_other_sizes(ranker, kind):
    check((f"ranker={ranker}",), **ONLY_SHOWN, **kind)


def test_a_dataset_without_groups():
    played = []
    for loops in (False, True):
        without = dataclasses.replace(world(), group=None)
        with torch.inference_mode():
            played.append(seen(play(simulation(("ranker=pdgd",), without, loops=loops, exposure=None))))
    assert played[0] == played[1]


class Scaled(PairwiseRanker):
    """Ranks by features that it scales by itself."""

    def predict(self, candidates, random):
        return super().predict(dataclasses.replace(candidates, features=candidates.features * 3), random)


def test_a_ranker_that_replaces_the_features_is_explored_with_its_own():
    played = []
    for loops in (False, True):
        with torch.inference_mode():
            running = simulation(("ranker=pairrank",), loops=loops)
            running.ranker.__class__ = Scaled
            played.append(seen(play(running)))
    assert played[0] == played[1]


@pytest.mark.slow
@pytest.mark.parametrize("overrides", combinations(), ids=",".join)
def test_every_combination(overrides):
    check(overrides, **ONLY_SHOWN)
