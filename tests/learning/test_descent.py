"""Optima in a fixed number of steps, as on a GPU: the guarantee in every round, also after moving to a CPU and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.learning.newton import AnchoredNewton
from tests.learning.test_newton import play
from tests.pretended_gpu import pretended_gpu
from tests.reference import objective as reference
from tests.reference.perturbed import gap
from tests.rounds import rounds
from tests.worlds import simulate, tiny


def excess(solver: AnchoredNewton) -> float:
    """How far the first replica's theta is above the least value, in units of what is tolerated."""
    rows = solver.history.rows[0, : int(solver.history.count[0])].numpy()
    if not len(rows):
        return 0.0
    ones, settings = np.ones(len(rows)), (solver.l2, solver.reduction)
    scale = 1 if solver.reduction == "sum" else len(rows)  # the guarantee is about the sum form
    least = scale * reference.objective(reference.optimum(rows, ones, *settings), rows, ones, *settings)
    reached = scale * reference.objective(solver.theta[0].numpy(), rows, ones, *settings)
    return (reached - least) / (1e-3 + 1e-5 * reached)


@pytest.mark.parametrize(
    ("reduction", "l2", "features", "noise"),
    [
        ("sum", 1e-4, 6, 0.0),
        pytest.param("mean", 0.1, 30, 0.2, marks=pytest.mark.slow),
        pytest.param("sum", 0.1, 6, 1.0, marks=pytest.mark.slow),
        pytest.param("mean", 1e-4, 6, 0.0, marks=pytest.mark.slow),
        pytest.param("sum", 1e-4, 30, 0.2, marks=pytest.mark.slow),
        pytest.param("mean", 0.1, 6, 1.0, marks=pytest.mark.slow),
    ],
)
def test_the_optimum_is_reached_every_round(reduction, l2, features, noise):
    solver, worst = AnchoredNewton(l2, reduction), 0.0
    with pretended_gpu():
        for t in play(solver, features, 60, noise, replicas=2):
            worst = max(worst, excess(solver) if t < 10 or t % 10 == 9 else 0)
    assert worst <= 1


@pytest.mark.parametrize(
    ("reduction", "l2", "variance", "click", "features"),
    [
        ("sum", 1e-4, 0.01, "perfect", 15),
        pytest.param("mean", 0.1, 0.1, "informational", 6, marks=pytest.mark.slow),
        pytest.param("sum", 0.1, 0.1, "perfect", 15, marks=pytest.mark.slow),
        pytest.param("mean", 1e-4, 0.01, "informational", 6, marks=pytest.mark.slow),
        pytest.param("mean", 1e-5, 0.1, "perfect", 15, marks=pytest.mark.slow),
        pytest.param("sum", 1e-5, 0.1, "informational", 6, marks=pytest.mark.slow),
    ],
)
def test_all_perturbed_optima_are_reached_every_round(reduction, l2, variance, click, features):
    """From the first pair on: fewer pairs than features, separable ones, labels outside [0, 1]."""
    settings = f"ranker.l2={l2}", f"ranker.reduction={reduction}", f"ranker.label_noise_variance={variance}"
    gaps = []
    with pretended_gpu():
        simulation = simulate(
            tiny("ranker=pepairrank", *settings, f"dataset.features={features}", f"click={click}"), [0, 1], 30
        )
        optima = simulation.ranker.optima
        for t, _ in rounds(simulation):
            count, members = optima.history.count.tolist(), optima.members
            normal = simulation.streams.at("learn/ranker", t).normal(5 * (t + 1) * members, "every pair")
            for b, n in enumerate(count if t < 10 or t % 5 == 4 else ()):
                rows = optima.history.rows[b, :n].numpy()
                gamma = normal[b].unflatten(0, (-1, members))[:n].numpy() * variance**0.5
                scale = 1 if reduction == "sum" else n
                anchor = optima.solver.anchor[b].numpy()
                f = scale * reference.objective(anchor, rows, np.ones(n), l2, reduction) if n else 0
                for theta, noise in zip(optima.theta[b].numpy(), gamma.T, strict=True):
                    if n:
                        gaps.append(scale * gap(theta, rows, noise, l2, reduction) / (1e-3 + 1e-5 * f))
    assert len(gaps) > 40
    assert max(gaps) <= 1


@pytest.mark.slow
def test_a_run_can_go_on_from_a_gpu_on_a_cpu_and_back():
    """The guarantee holds after each move, in rounds that a checkpoint lies between."""
    overrides = "ranker=pepairrank", "ranker.l2=0.01", "dataset.features=6", "click=informational"
    state = None
    for gpu in True, False, True, False:
        with pretended_gpu() if gpu else torch.no_grad():
            simulation = simulate(tiny(*overrides), [0, 1], 120)
            if state is not None:
                simulation.load_state_dict(state)
            solver = simulation.ranker.solver
            for _, (t, _) in zip(range(20), rounds(simulation), strict=False):
                if t % 3 == 0:
                    assert excess(solver) <= 1, f"round {t}"
            state = simulation.state_dict()
    assert int(solver.history.count[0]) > 40


def test_single_precision_does_not_get_lost():
    """Separable pairs and next to no l2, where the Hessian of float32 is hardly definite."""
    with pretended_gpu():
        simulation = simulate(
            tiny("ranker=pepairrank", "ranker.l2=1e-6", "dataset.features=15", "click=perfect"),
            [0, 1],
            12,
            dtype=torch.float32,
        )
        ranker = simulation.ranker
        for _ in rounds(simulation):
            assert ranker.optima.theta.isfinite().all()
            assert excess(ranker.solver) < 1.5
    assert ranker.solver.theta.dtype == torch.float32
