"""Rounds that one compiled loop plays together are those that the roles play one by one."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ol2r_cli.exploration.order import PlackettLuce
from ol2r_cli.ranker.pdgd import PDGD
from tests.choices import SEEDS, simulation, world

pytest.importorskip("numba")

RANKERS = ("pdgd", "sgd_ranknet", "epsilon_greedy", "dbgd", "mgd")
ROUNDS = 90  # beyond the first 64, after which measures are taken one by one
SETTINGS = [
    *[(f"ranker={ranker}",) for ranker in RANKERS],
    *[(f"ranker={ranker}", "click=position_based") for ranker in RANKERS],
    *[("ranker=pdgd", f"click={name}") for name in ("trust_bias", "dependent_by_place", "dynamic_bayesian")],
    *[(f"ranker={ranker}", "click=user_browsing") for ranker in ("pdgd", "sgd_ranknet")],
    ("ranker=sgd_ranknet", "ranker.pairs=adjacent", "click.stop_without_click=true"),
    ("ranker=sgd_ranknet", "ranker.pairs=all", "ranker.decay=0.9"),
    ("ranker=mgd", "ranker.decay=0.9", "ranker.candidates=3"),
    ("ranker=epsilon_greedy", "exploration.epsilon=1"),
    ("ranker=dbgd", "exploration=probabilistic_interleaving"),
    ("ranker=mgd", "exploration=probabilistic_interleaving", "exploration.tau=0.5"),
    ("ranker=pairrank",),
    ("ranker=pairrank", "exploration=none"),
    ("ranker=pairrank", "exploration.covariance=diagonal", "exploration.shuffle=random"),
    ("ranker=pairrank", "exploration.covariance=inverse_diagonal", "exploration.transitive=false"),
    ("ranker=pairrank", "ranker.reduction=mean", "ranker.pairs=all", "click=position_based"),
    ("ranker=sgd_ranknet", "exploration=confidence"),
]


def result(running, together: bool):
    """Measures of all rounds, state and measured state after them, and the rounds after which control came back."""
    parts, pauses = [], []
    with torch.inference_mode():
        for t, happened in running.play_until(lambda t: t % 20 == 0) if together else running.play():
            pauses.append(t)
            assert (happened is None) == together
            if running.measurement.full() or t == ROUNDS:
                parts.append(running.measurement.measures()[1])
    columns = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return columns, running.state_dict(), pauses


def check(overrides: tuple[str, ...], **kind) -> None:
    (columns, state, pauses), (expected, expected_state, _) = (
        result(simulation(overrides, rounds=ROUNDS, loops=True, trace_regret=False, **kind), together)
        for together in (True, False)
    )
    assert set(pauses) >= {20, 40, 60, 80, 90}
    assert columns.keys() == expected.keys() >= {"query", "clicks", "online_ndcg", "unfairness"}
    for name, values in expected.items():
        torch.testing.assert_close(columns[name], values, equal_nan=True, msg=name)
    for name, values in expected_state.items():
        torch.testing.assert_close(state[name], values)


@pytest.mark.parametrize("overrides", SETTINGS, ids=",".join)
def test_a_ranker(overrides):
    check(overrides)


SIZES = [{"positions": 1}, {"positions": 40}, {"dtype": torch.float32}, {"seeds": SEEDS[:1]}]


@pytest.mark.parametrize("ranker", [*RANKERS, "pairrank"])
@pytest.mark.parametrize("kind", SIZES, ids=str)
def test_other_sizes(ranker, kind):
    if (ranker, kind) == ("pairrank", SIZES[1]):
        kind = {"positions": 7}  # certain pairs are recorded for ten places
    check((f"ranker={ranker}",), **kind)


def test_the_inverse_is_recomputed_as_in_single_rounds(monkeypatch):
    monkeypatch.setattr("ol2r_cli.exploration.confidence.Confidence.refresh", 7)
    check(("ranker=pairrank",))


def test_directions_are_drawn_for_few_rounds_where_there_are_many_numbers(monkeypatch):
    monkeypatch.setattr("ol2r_cli.rounds_together._DIRECTIONS", 200)
    check(("ranker=mgd",))


def test_a_run_goes_on_where_it_stopped():
    """As from a checkpoint, in the middle of the rounds that are played together."""
    whole = simulation(("ranker=pdgd",), rounds=ROUNDS, loops=True, trace_regret=False)
    expected = result(whole, True)[1]
    first, then = (simulation(("ranker=pdgd",), rounds=ROUNDS, loops=True, trace_regret=False) for _ in range(2))
    with torch.inference_mode():
        for t, _ in first.play_until(lambda t: t == 33):
            assert t == 33
            first.measurement.measures()
            then.load_state_dict(first.state_dict())
            break
    state = result(then, True)[1]
    assert all(torch.equal(state[name], values) for name, values in expected.items())


def test_measures_that_are_not_taken_are_asked_for():
    running = simulation(("ranker=pdgd",), rounds=5_000, loops=True, trace_regret=False)
    with torch.inference_mode(), pytest.raises(ValueError, match=r"call measurement\.measures\(\) when it is full"):
        list(running.play_until(lambda t: False))


class Mine(PDGD):
    """Could learn otherwise."""


class MyLists(PlackettLuce):
    """Could propose otherwise."""


ONE_BY_ONE = {
    "members that are refitted": (("ranker=pepairrank",), {}),
    "the authors' fit": (("ranker=pairrank", "ranker.solver=lbfgs_restart"), {}),
    "a width that depends on the round": (("ranker=pairrank", "exploration.alpha=theory"), {}),
    "more places than certain pairs are recorded for": (("ranker=pairrank",), {"positions": 12}),
    "a window": (("ranker=pairrank", "ranker.window=5"), {}),
    "a discount, with lists by score": (("ranker=pairrank", "exploration=none", "ranker.discount=0.9"), {}),
    "a network": (("ranker=pdgd", "ranker/model=mlp"), {}),
    "a projected step": (("ranker=mgd", "ranker.projection=document_space"), {}),
    "directions in a null space": (("ranker=nsgd",), {}),
    "a subclass of a ranker": (("ranker=pdgd", f"ranker._target_={__name__}.Mine"), {}),
    "a subclass of an exploration": (("ranker=pdgd", f"exploration._target_={__name__}.MyLists"), {}),
    "a fairness": (("ranker=ips_regression", "fairness=fairco"), {}),
    "a measure that receives every round": (("ranker=pdgd",), {"trace_regret": True}),
    "tensors": (("ranker=pdgd",), {"loops": False}),
}


@pytest.mark.parametrize(("overrides", "kind"), ONE_BY_ONE.values(), ids=ONE_BY_ONE)
def test_others_are_played_one_by_one(overrides, kind):
    running = simulation(overrides, **{"rounds": 2, "loops": True, "trace_regret": False, **kind})
    assert running.together is None
    with torch.inference_mode():
        assert all(happened is not None for _, happened in running.play_until(lambda t: False))


@pytest.mark.parametrize("ranker", RANKERS)
def test_tensors_do_not_need_loops(ranker, monkeypatch):
    """As where numba is not installed: then the first use of a loop is an ImportError."""
    simulation((f"ranker={ranker}",), rounds=2, loops=False, trace_regret=False)  # what is imported once, is imported
    monkeypatch.delattr("ol2r_cli.loops.play")
    monkeypatch.setattr("ol2r_cli.loops.__getattr__", lambda name: pytest.fail(f"{name} is used"))
    running = simulation((f"ranker={ranker}",), rounds=2, loops=False, trace_regret=False)
    with torch.inference_mode():
        assert len(list(running.play_until(lambda t: False))) == 2


def test_a_dataset_without_groups():
    without = dataclasses.replace(world(), group=None)
    running = simulation(("ranker=pdgd",), without, rounds=ROUNDS, loops=True, trace_regret=False, exposure=None)
    assert running.together is not None
    assert "unfairness" not in result(running, True)[0]
