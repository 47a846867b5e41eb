"""As tensors, no round of a linear ranker waits for a GPU.

What networks, TopRank, BatchRank and intervention_aware decide by values is read on the host (docs/architecture.md).
"""

from __future__ import annotations

import pytest
import torch

from tests.choices import ROUNDS, SEEDS, names, play, refusal, simulation
from tests.pretended_gpu import Waited, pretended_gpu

ALL_TRACED = {"seeds": SEEDS}
ONLY_SHOWN = {"seeds": SEEDS, "trace_blocks": False, "trace_regret": False}
ONE_REPLICA = {"seeds": SEEDS[:1], "trace_blocks": False}

READ_ON_THE_HOST = {
    "olranknet",
    "ollambdarank",
    "ollambdarank_gt",
    "p2neurrank",
    "toprank",
    "batchrank",
    "intervention_aware",
}
RANKERS = [ranker for ranker in names("ranker") if ranker not in READ_ON_THE_HOST]
PARTNERS = {  # rankers for the explorations and the fairness that do not accept the default one
    "ensemble": "pepairrank",
    "fairco": "ips_regression",
    "probabilistic_interleaving": "mgd",
    "team_draft": "dbgd",
}
SETTINGS = [
    ("ranker=nsgd", "ranker.projection=document_space"),
    ("ranker=pairrank", "ranker.window=4"),
    ("ranker=pairrank", "ranker.discount=0.8", "exploration.covariance=inverse_diagonal"),
    ("ranker=pepairrank", "ranker.window=4"),
    *((f"click={click}",) for click in ("informational", "position_based", "user_browsing")),
]


def check(overrides: tuple[str, ...], *kinds: dict, rounds: int = 7) -> None:
    """Play on the pretended GPU: nothing waits."""
    for kind in kinds:
        with pretended_gpu():
            running = simulation(overrides, **kind)
        try:
            with pretended_gpu(running):
                assert len(play(running, rounds)) == rounds
        except Waited as error:
            pytest.fail(f"{' '.join(overrides)} waits: {error}")


def test_rankers_with_the_exploration_they_bring():
    for ranker in RANKERS:
        check((f"ranker={ranker}",), ALL_TRACED)


def test_explorations_and_fairness():
    for group in "exploration", "fairness":
        for name in names(group):
            if name not in ("neural_confidence", "stated", "none"):
                words = f"ranker={PARTNERS.get(name, 'pairrank')}", f"{group}={name}"
                check(words, ONLY_SHOWN if group == "exploration" else ALL_TRACED, ONE_REPLICA)


def test_settings_with_code_of_their_own():
    for words in SETTINGS:
        check(words, ONLY_SHOWN)


@pytest.mark.slow
@pytest.mark.parametrize("ranker", RANKERS)
def test_all_combinations(ranker):
    for group in "exploration", "fairness":
        for name in names(group):
            words = (f"ranker={ranker}", f"{group}={name}")
            if name not in ("neural_confidence", "stated") and not refusal(words):
                check(words, ALL_TRACED, ONLY_SHOWN, ONE_REPLICA, rounds=ROUNDS)


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


def test_waiting_is_noticed():
    running, values = simulation(("ranker=random",)), torch.ones(3)
    for name, operation in WAITING.items():
        with pytest.raises(Waited), pretended_gpu(running):
            _ = name, operation(values)
