"""Learning from several rounds at once, and late: against the definition, and from a state that was kept."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.choices import each_choice, play, seen, simulation

ROUNDS = 14
NETWORK = ("ranker=olranknet", "ranker.every=1", "ranker.growth=1")
SINGLE = [
    *(("ranker=pairrank",), ("ranker=pepairrank",), ("ranker=nsgd",), ("ranker=toprank",), NETWORK),
    *(("ranker=intervention_aware", "ranker.every=2"), ("ranker=ips_regression", "fairness=fairco")),
    *(("ranker=pairrank", "ranker.window=4"), ("ranker=pdgd", "ranker/model=mlp"), ("ranker=p2neurrank",)),
]
BY_THETA = [(f"ranker={name}",) for name in ("pdgd", "sgd_ranknet", "dbgd", "mgd", "coltr")]
BY_THETA += [("ranker=fixed", "ranker.feature=2")]
ONLY_SHOWN = {"blocks": False, "regret": False}


def close(found, expected, what) -> None:
    torch.testing.assert_close(found, expected, equal_nan=True, msg=f"{what}")


@pytest.mark.parametrize("overrides", SINGLE, ids=" ".join)
def test_what_is_learned_late_is_what_was_given(overrides):
    """The definition: copies of the roles learn at once, from the interactions as they were given; what serves are the
    parameters as they were after the last due round."""
    late = simulation(overrides, rounds=ROUNDS, update_every=3, delay=2)
    given, learned, copies = [], 0, {}
    with torch.inference_mode():
        for t, interaction in late.play():
            if not copies:  # as they are before the first update, without what a round has left in them
                ranker, exploration = copy.deepcopy((late.ranker, late.exploration))
                copies = {"ranker": ranker, "exploration": exploration}
            copies["ranker"].predict(interaction.candidates, late.streams.at("judge", t - 1))  # which reserves memory
            given.append(interaction)
            while t % 3 == 0 and learned < t - 2:
                for name, role in copies.items():
                    role.learn(given[learned], late.streams.at(f"learn/{name}", learned))
                learned += 1
            for name, role in copies.items():
                close(getattr(late, name).state_dict(), role.state_dict(), (t, name))
    assert learned == 10


def test_a_batch_of_pdgd_sums_gradients_at_served_weights():
    at_once = simulation(("ranker=pdgd", "ranker.decay=1"), rounds=5, update_every=5, **ONLY_SHOWN)
    with torch.inference_mode():
        frozen = play(at_once, 5)
        total = torch.zeros_like(at_once.ranker.theta)
        for t, one in enumerate(frozen):
            alone = simulation(("ranker=pdgd", "ranker.decay=1"), rounds=5, **ONLY_SHOWN)
            # from theta = 0, which all five were served by
            alone.ranker.learn(one, alone.streams.at("learn/ranker", t))
            total += alone.ranker.theta
    assert total.norm() > 0
    close(at_once.ranker.theta, total, "theta")


@pytest.mark.parametrize("overrides", BY_THETA, ids=" ".join)
def test_rounds_together_are_single_rounds(overrides):
    results = []
    for together in (True, False):
        running = simulation(overrides, rounds=32, update_every=4, **ONLY_SHOWN)
        assert running.together is not None
        with torch.inference_mode():
            for _ in running.play_until(lambda t: t % 10 == 0) if together else running.play():
                pass
            first, columns = running.measurement.measures()
        results.append((columns, running.ranker.state_dict()))
        assert first == 1
    close(*results, overrides)


@pytest.mark.parametrize(
    ("overrides", "how"),
    [
        (("ranker=pdgd",), {"update_every": 2, "delay": 1}),
        (("ranker=nsgd",), {"update_every": 2}),
        (("ranker=sgd_ranknet", "exploration=confidence"), {"update_every": 2}),
        (("ranker=pairrank",), {"update_every": 2}),
    ],
)
def test_what_else_shows_in_lists_is_played_round_by_round(overrides, how):
    assert simulation(overrides, rounds=2, **ONLY_SHOWN, **how).together is None


def test_every_choice_goes_on_where_it_stopped():
    """The state has what waits: a fresh simulation continues to the last bit, in the middle of a batch."""
    for overrides in each_choice():
        make = [simulation(overrides, rounds=ROUNDS, update_every=4, delay=3, **ONLY_SHOWN) for _ in range(3)]
        with torch.inference_mode():
            expected = seen(play(make[0], ROUNDS))
            first = seen(play(make[1], 9))
            make[2].load_state_dict(copy.deepcopy(make[1].state_dict()))
            assert first + seen(play(make[2], ROUNDS - 9)) == expected, overrides
            close(make[2].ranker.deploy(), make[0].ranker.deploy(), overrides)


@pytest.mark.parametrize("setting", ["exploration.covariance=full", "exploration.tangent_at=refit"])
def test_what_cannot_learn_late_is_refused(setting):
    with pytest.raises(ValueError, match="got 1 and 2: the exploration NeuralConfidence with its"):
        simulation((*NETWORK, setting), delay=2)
