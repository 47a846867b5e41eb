"""On a GPU, no round waits for the device, and the lists are those of a CPU.

The fast tests play every ranker with the exploration it brings, every exploration, fairness and click model with one
ranker, and every setting that has a separate implementation. The slow test plays all combinations.
"""

from __future__ import annotations

import pytest
import torch

from tests.choices import ROUNDS, SEEDS, names, play, refusal, seen, simulation
from tests.pretended_gpu import Waited, pretended_gpu

ALL_TRACED = {"seeds": SEEDS}
ONLY_SHOWN = {"seeds": SEEDS, "trace_blocks": False, "trace_regret": False}
ONE_REPLICA = {"seeds": SEEDS[:1], "trace_blocks": False}

# Perturbed optima draw other random numbers than on a CPU; tests/learning/test_descent.py checks them.
OTHER_NUMBERS = {"pepairrank"}
PARTNERS = {  # rankers for the explorations and the fairness that do not accept the default one
    "ensemble": "pepairrank",
    "fairco": "ips_regression",
    "neural_confidence": "olranknet",
    "probabilistic_interleaving": "mgd",
    "stated": "toprank",
    "team_draft": "dbgd",
}
SETTINGS = [
    ("ranker=nsgd", "ranker.projection=document_space"),
    ("ranker=intervention_aware", "ranker.every=5", "ranker.propensities=estimated"),
    ("ranker=olranknet", "exploration.covariance=full"),
    ("ranker=olranknet", "exploration.covariance=full", "exploration.tangent_at=refit"),
    ("ranker=olranknet", "exploration.tangent_at=refit"),
    ("ranker=olranknet", "ranker.window=3"),
    ("ranker=olranknet", "ranker.discount=0.8"),
    ("ranker=olranknet", "ranker.fit=authors"),
    ("ranker=ollambdarank", "ranker.fit=authors"),
]


def check(overrides: tuple[str, ...], *kinds: dict, rounds: int = 7) -> None:
    """Play on a CPU and on the pretended GPU: nothing waits, and the lists are equal."""
    ranker = dict(word.split("=", 1) for word in overrides).get("ranker", "pairrank")
    for kind in kinds:
        with torch.no_grad():
            expected = play(simulation(overrides, **kind), rounds)
        with pretended_gpu():
            running = simulation(overrides, **kind)
        with pretended_gpu(running):
            lists = play(running, rounds)
        assert len(lists) == len(expected) == rounds
        if ranker not in OTHER_NUMBERS:
            assert seen(lists) == seen(expected), (overrides, kind)


def with_partner(group: str, name: str) -> tuple[str, str]:
    """A choice with a ranker that accepts it."""
    return f"ranker={PARTNERS.get(name, 'pairrank')}", f"{group}={name}"


@pytest.mark.parametrize("ranker", names("ranker"))
def test_a_ranker_with_the_exploration_it_brings(ranker):
    check((f"ranker={ranker}",), ALL_TRACED)


@pytest.mark.parametrize("exploration", names("exploration"))
def test_an_exploration(exploration):
    check(with_partner("exploration", exploration), ONLY_SHOWN, ONE_REPLICA)


@pytest.mark.parametrize("fairness", [name for name in names("fairness") if name != "none"])
def test_a_fairness(fairness):
    check(with_partner("fairness", fairness), ALL_TRACED, ONE_REPLICA)


@pytest.mark.parametrize("click", ["informational", "position_based", "user_browsing"])
def test_a_click_model(click):
    check((f"click={click}",), ONE_REPLICA)


@pytest.mark.parametrize("settings", SETTINGS, ids=",".join)
def test_a_setting_with_its_own_implementation(settings):
    check(settings, ONLY_SHOWN)


@pytest.mark.slow
@pytest.mark.parametrize("ranker", names("ranker"))
def test_all_combinations(ranker):
    others = [f"exploration={name}" for name in names("exploration")] + [
        f"fairness={name}" for name in names("fairness")
    ]
    for override in others:
        words = (f"ranker={ranker}", override)
        if not refusal(words):
            check(words, ALL_TRACED, ONLY_SHOWN, ONE_REPLICA, rounds=ROUNDS)
    check((f"ranker={ranker}",), ALL_TRACED, ONLY_SHOWN, ONE_REPLICA, rounds=ROUNDS)


WAITING = {
    "a number": lambda x: float(x.sum()),
    "a branch": lambda x: 1 if x.any() else 2,
    "a list": lambda x: x.tolist(),
    "an array": lambda x: x.numpy(),
    "a mask": lambda x: x[x > 0],
    "places": lambda x: x.nonzero(),
    "a comparison": lambda x: torch.equal(x, x),
    "a list as an index": lambda x: x[[0, 1]],
    "a number as an index": lambda x: x[(x > 0).sum()],
    "values from Python": lambda x: torch.tensor([1.0], device=x.device),
    "a factor that is checked": lambda x: torch.linalg.cholesky(torch.diag(x)),
    "counts": lambda x: x.repeat_interleave((x > 0).long()),
}


@pytest.mark.parametrize("operation", WAITING)
def test_waiting_is_noticed(operation):
    running, values = simulation(("ranker=random",)), torch.ones(3)
    with pretended_gpu(running), pytest.raises(Waited):
        WAITING[operation](values)
