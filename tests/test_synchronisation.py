"""On a GPU no round waits for it, whatever is combined, and shows what it shows on a CPU."""

from __future__ import annotations

import pytest
import torch

from tests.choices import SEEDS, combinations, composed, play, seen, simulation
from tests.pretended_gpu import Waited, pretended_gpu

KINDS = {
    "all looked at": {"seeds": SEEDS},
    "only what is shown": {"seeds": SEEDS, "trace_blocks": False, "trace_regret": False},
    "one replica": {"seeds": SEEDS[:1], "trace_blocks": False},
}


# What draws other random numbers than on a CPU: tests/learning/test_descent.py holds it to its optimum.
DRAWS_OTHERS = {("ranker", "pepairrank")}


def chosen(overrides):
    """Group and choice of ranker and exploration."""
    return {(group, composed(overrides).choices[group]) for group in ("ranker", "exploration")}


def by_name(value):
    return ",".join(value) if isinstance(value, tuple) else None


FULL = ("ranker=olranknet", "exploration.covariance=full")
SETTINGS = [FULL, (*FULL, "exploration.tangent_at=refit"), ("ranker=olranknet", "exploration.tangent_at=refit")]


@pytest.mark.parametrize("overrides", [*combinations(), *SETTINGS], ids=by_name)
@pytest.mark.parametrize("kind", KINDS)
def test_no_round_waits_and_shows_what_it_shows_on_a_cpu(overrides, kind):
    parts = chosen(overrides)
    with torch.no_grad():
        expected = play(simulation(overrides, **KINDS[kind]))
    with pretended_gpu():
        running = simulation(overrides, **KINDS[kind])
    with pretended_gpu(running):
        found = play(running)
    assert len(found) == len(expected)
    if parts.isdisjoint(DRAWS_OTHERS):
        assert seen(found) == seen(expected)


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


@pytest.mark.parametrize("what", WAITING)
def test_waiting_is_noticed(what):
    running, values = simulation(("ranker=random",)), torch.ones(3)
    with pretended_gpu(running), pytest.raises(Waited):
        WAITING[what](values)
