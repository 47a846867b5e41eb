"""Rounds that one launch plays together are those that the roles play one by one, on the same random numbers; and what
single rounds make of own rankers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import chain

import pytest
import torch

from ol2r_cli.ranker.pairrank import PairwiseRanker
from tests.choices import SEEDS, each_choice, names, play, seen, simulation, world

ROUNDS = 90  # beyond the first 64, after which measures are taken one by one
FEW = 8
SETTINGS = [
    ("ranker=sgd_ranknet", "ranker.pairs=adjacent", "click.stop_without_click=true"),
    ("ranker=sgd_ranknet", "ranker.pairs=all", "ranker.decay=0.9"),
    ("ranker=sgd_ranknet", "exploration=confidence"),
    ("ranker=pdgd", "ranker.decay=0.9"),
    ("ranker=mgd", "ranker.decay=0.9", "ranker.candidates=3"),
    ("ranker=epsilon_greedy", "exploration.epsilon=1"),
    ("ranker=dbgd", "exploration=probabilistic_interleaving"),
    ("ranker=mgd", "exploration=probabilistic_interleaving", "exploration.tau=0.5"),
    ("ranker=mgd", "ranker.projection=document_space"),
    ("ranker=nsgd", "ranker.projection=document_space", "exploration=probabilistic_interleaving"),
    ("ranker=nsgd", "ranker.difficult_queries=0", "ranker.drawn=9", "ranker.avoided=3"),
    ("ranker=nsgd", "ranker.projection=document_space", "ranker.document_space.normalise=false"),
    ("ranker=intervention_aware", "ranker.every=5", "ranker.restart=false"),
    ("ranker=pbm_thompson", "ranker.prior_clicks=[0.5,0.2]", "ranker.prior_views=[2,3]"),
    ("ranker=pairrank", "exploration=none"),
    ("ranker=pairrank", "exploration.covariance=diagonal", "exploration.shuffle=random", "ranker.reduction=mean"),
    ("ranker=pairrank", "exploration.covariance=inverse_diagonal", "exploration.transitive=false"),
    ("ranker=pepairrank", "ranker.members=3", "ranker.reduction=mean", "exploration.shuffle=random"),
    ("ranker=pepairrank", "ranker.deploy=first", "exploration=none"),
    ("ranker=pepairrank", "exploration=plackett_luce"),
    ("ranker=pepairrank", "exploration=epsilon_greedy"),
    *(("ranker=pdgd", f"click={name}") for name in names("click")),
]


def result(running, together: bool, rounds: int = ROUNDS):
    """Measures of all rounds, state after them, and the rounds after which control came back."""
    parts, pauses = [], []
    with torch.inference_mode():
        for t, _ in running.play_until(lambda t: t % 20 == 0) if together else running.play():
            pauses.append(t)
            if running.measurement.full() or t == rounds:
                parts.append(running.measurement.measures()[1])
            if t == rounds:
                break
    columns = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return columns, running.state_dict(), pauses


def is_together(overrides: tuple[str, ...]) -> bool:
    """Whether rounds of these choices are played together."""
    return simulation(overrides, rounds=2, regret=False).together is not None


def check(overrides: tuple[str, ...], **kind):
    """Rounds that one launch plays are those that the roles play one by one."""
    (columns, state, pauses), (expected, expected_state, _) = (
        result(simulation(overrides, rounds=ROUNDS, regret=False, **kind), together) for together in (True, False)
    )
    assert set(pauses) >= {20, 40, 60, 80, 90}, overrides
    assert len(pauses) < ROUNDS, overrides
    assert columns.keys() == expected.keys() >= {"query", "clicks", "online_ndcg"}
    for name, values in chain(expected.items(), expected_state.items()):
        found = columns[name] if name in columns else state[name]
        torch.testing.assert_close(found, values, equal_nan=True, msg=f"{overrides}: {name}")


def test_every_choice():
    together = [overrides for overrides in each_choice() if is_together(overrides)]
    assert len(together) > 10
    for overrides in together:
        check(overrides)


def of_shares(cases: Sequence[tuple[str, ...]]) -> list:
    """Every third is played in every test run, the others in the long one."""
    return [pytest.param(case, marks=[pytest.mark.slow] * bool(number % 3)) for number, case in enumerate(cases)]


@pytest.mark.parametrize("overrides", of_shares(SETTINGS), ids=" ".join)
def test_every_setting_with_code_of_its_own(overrides):
    check(overrides)


@pytest.mark.parametrize("kind", [{"positions": 1}, {"positions": 7}, {"seeds": SEEDS[:1]}], ids=str)
@pytest.mark.parametrize("ranker", ["pdgd", "mgd", "pairrank", "pepairrank"])
def test_other_sizes(ranker, kind):
    check((f"ranker={ranker}",), **kind)


def test_more_places_than_documents():
    check(("ranker=pdgd",), positions=40)


def test_confidences_that_are_refreshed_often(monkeypatch):
    monkeypatch.setattr("ol2r_cli.exploration.confidence.Confidence.refresh", 7)
    check(("ranker=pairrank",))


@pytest.mark.slow
@pytest.mark.parametrize("ranker", ["pairrank", "pepairrank"])
def test_single_precision(ranker):
    check((f"ranker={ranker}",), dtype=torch.float32)


def test_a_dataset_without_groups():
    check(("ranker=pdgd",), dataset=dataclasses.replace(world(), group=None), exposure=None)


def test_a_run_goes_on_where_it_stopped():
    """As from a checkpoint, in the middle of the rounds that are played together."""
    expected = result(simulation(("ranker=pdgd",), rounds=ROUNDS, regret=False), True)[1]
    first, then = (simulation(("ranker=pdgd",), rounds=ROUNDS, regret=False) for _ in range(2))
    with torch.inference_mode():
        next(first.play_until(lambda t: t == 33))
        first.measurement.measures()
        then.load_state_dict(first.state_dict())
    state = result(then, True)[1]
    assert all(torch.equal(state[name], values) for name, values in expected.items())


class Scaled(PairwiseRanker):
    """Ranks by features that it scales by itself."""

    def predict(self, candidates, random):
        return super().predict(dataclasses.replace(candidates, features=candidates.features * 4), random)


def test_a_ranker_with_its_own_features_is_explored_with_them():
    """A ranker that replaces the features is explored with its own.

    As a plain one in a world that has these features.
    """
    scaled = simulation(("ranker=pairrank",), rounds=FEW)
    scaled.ranker.__class__ = Scaled
    dataset = world()
    plain = simulation(("ranker=pairrank",), dataclasses.replace(dataset, features=4 * dataset.features), rounds=FEW)
    with torch.inference_mode():
        assert seen(play(scaled, FEW)) == seen(play(plain, FEW))


def step(ranker: str, given=lambda interaction: interaction):
    """The step from theta = 0 of a ranker in a small world, from an interaction that `given` changes."""
    words = ("ranker.pairs=all",) if ranker == "sgd_ranknet" else ()
    overrides = f"ranker={ranker}", "ranker.decay=1", "click=random", *words
    running = simulation(overrides, seeds=SEEDS[:1], rounds=40)
    with torch.inference_mode():
        for t, interaction in running.play():
            if interaction.preferences.valid.sum() > 1:
                running.ranker.theta.zero_()
                running.ranker.learn(given(interaction), running.streams.at("learn/ranker", t - 1))
                return running.ranker.theta
    raise AssertionError("no round has two pairs")


def tripled(interaction):
    """The interaction with features that are three times as large."""
    candidates = dataclasses.replace(interaction.candidates, features=interaction.candidates.features * 3)
    return dataclasses.replace(interaction, candidates=candidates)


def with_pairs(interaction, valid):
    """The interaction with these of its pairs."""
    return dataclasses.replace(interaction, preferences=dataclasses.replace(interaction.preferences, valid=valid))


def first_pair(interaction):
    """The interaction with the first pair of each replica."""
    valid = interaction.preferences.valid
    return with_pairs(interaction, valid & (valid.cumsum(1) == 1))


def other_pairs(interaction):
    """The interaction without the first pair of each replica."""
    valid = interaction.preferences.valid
    return with_pairs(interaction, valid & (valid.cumsum(1) > 1))


def test_a_step_follows_the_features_and_pairs_that_are_given():
    """The scores stay as they were, so that the step grows as the features do, and the steps of pairs add up."""
    for ranker in "pdgd", "sgd_ranknet":
        assert step(ranker).any(1).all()
        torch.testing.assert_close(step(ranker, tripled), 3 * step(ranker))
    torch.testing.assert_close(step("sgd_ranknet", first_pair) + step("sgd_ranknet", other_pairs), step("sgd_ranknet"))


ONE_BY_ONE = {
    "a width that depends on the round": (("ranker=pairrank", "exploration.alpha=theory"), {}),
    "more places than certain pairs are recorded for": (("ranker=pairrank",), {"positions": 12}),
    "a window": (("ranker=pairrank", "ranker.window=5"), {}),
    "a discount, with lists by score": (("ranker=pairrank", "exploration=none", "ranker.discount=0.9"), {}),
    "a network": (("ranker=pdgd", "ranker/model=mlp"), {}),
    "a fairness": (("ranker=ips_regression", "fairness=fairco"), {}),
    "a measure that receives every round": (("ranker=pdgd",), {"regret": True}),
}


@pytest.mark.parametrize("why", ONE_BY_ONE)
def test_others_are_played_one_by_one(why):
    overrides, kind = ONE_BY_ONE[why]
    running = simulation(overrides, **{"rounds": 2, "regret": False, **kind})
    assert running.together is None
    with torch.inference_mode():
        assert all(happened is not None for _, happened in running.play_until(lambda t: False))


def test_measures_that_are_not_taken_are_asked_for():
    running = simulation(("ranker=pdgd",), rounds=5_000, regret=False)
    with torch.inference_mode(), pytest.raises(ValueError, match=r"call measurement\.measures\(\) when it is full"):
        list(running.play_until(lambda t: False))


WRITE_BY_ROUND = [  # histories, policies, windows and layers have a place for each round
    *((f"ranker={name}",) for name in ("pdgd", "pairrank", "intervention_aware", "ips_regression", "coltr", "mgd")),
    ("ranker=pdgd", "ranker/model=mlp"),
]


@pytest.mark.parametrize("overrides", WRITE_BY_ROUND, ids=" ".join)
def test_no_more_rounds_are_played_than_there_is_room_for(overrides):
    """Loops do not look whether there is."""
    running = simulation(overrides, rounds=30, regret=False)
    with torch.inference_mode():
        for rounds in (31, 0, -1):
            with pytest.raises(ValueError, match=f"rounds must be from 1 to 30, which are left of 30, got {rounds}"):
                running.advance(rounds)
        while int(running.round) < 30:
            running.advance(30 - int(running.round))
        with pytest.raises(ValueError, match="all 30 rounds have been played"):
            running.advance(1)


def test_no_more_rounds_are_played_than_can_be_measured():
    running = simulation(("ranker=pdgd",), rounds=5_000, regret=False)
    with torch.inference_mode():
        with pytest.raises(ValueError, match=r"rounds must be at most 1,024, for which there is room .*, got 1,500"):
            running.advance(1500)
        assert running.rounds_until(lambda t: False) == running.measurement.rounds
        running.advance(1000)
        with pytest.raises(ValueError, match="at most 24"):
            running.advance(25)
        running.advance(24)
        first, measures = running.measurement.measures()
    assert (first, len(measures["clicks"]), int(running.round)) == (1, 1024, 1024)
