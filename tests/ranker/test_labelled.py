"""olLambdaRank GT beside the reference: the same rounds, learned from one pair after the other."""

from __future__ import annotations

import numpy as np
import torch

from ol2r_cli.learning import losses
from tests.reference import ollambdarank as reference
from tests.reference import olranknet
from tests.reference.network import flat, unflat
from tests.worlds import handmade, simulate, tiny

LISTS = [[2, 0, 1, 0], [1, 1], [0, 3, 0, 1, 2], [4]]
WIDTH, L2, RATE, STEPS, ROUNDS = 4, 0.01, 0.3, 3, 6
NETWORK = ["ranker=ollambdarank_gt", f"ranker.model.width={WIDTH}", "ranker.model.init=standard"]
WHOLE = [*NETWORK, f"ranker.l2={L2}", f"ranker.learning_rate={RATE}", f"ranker.steps={STEPS}", "ranker.batch=null"]


def rounds_of(*overrides: str, dataset=None, rounds=ROUNDS):
    """The simulation after all its rounds, and the queries it served [T B]."""
    simulation = simulate(tiny(*overrides), [0, 3], rounds, dataset or handmade(LISTS))
    return simulation, [one.candidates.query.tolist() for _, one in simulation.play()]


def weights(theta, features):
    like = [np.zeros((WIDTH, features)), np.zeros((WIDTH, WIDTH)), np.zeros(WIDTH)]
    return unflat(theta.double().numpy(), like)


def test_it_fits_the_lists_served_so_far(monkeypatch):
    """Which are worked on in several parts."""
    monkeypatch.setattr(losses, "CELLS", 100)
    monkeypatch.setattr(losses.LabelledLoss, "chunk", 3)
    for loss, reduction, restart in [
        ("lambdarank", "mean", "true"),
        ("lambdarank", "sum", "false"),
        ("ranknet", "sum", "true"),
        ("ranknet", "mean", "false"),
    ]:
        dataset = handmade(LISTS)
        settings = [f"ranker.loss={loss}", f"ranker.reduction={reduction}", f"ranker.restart={restart}"]
        simulation, served = rounds_of(*WHOLE, *settings, dataset=dataset)
        for replica in range(2):
            start = weights(simulation.ranker.start[replica, 0], 4)
            theta, history = start, []
            for query in (own[replica] for own in served):
                rows = dataset.features[dataset.offsets[query] : dataset.offsets[query + 1]].double().numpy()
                history.append(reference.from_labels(rows, LISTS[query]))
                if history[-1].pairs:
                    theta = refitted(start if restart == "true" else theta, start, history, loss, reduction)
            found = simulation.ranker.theta[replica, 0]
            np.testing.assert_allclose(found, flat(theta), rtol=0, atol=1e-9)
            assert np.abs(flat(theta) - flat(start)).max() > 1e-3, (loss, reduction, restart)


def refitted(theta, start, history, loss, reduction):
    """`STEPS` steps of RATE/m by the reference."""
    if loss == "lambdarank":
        return reference.fit(theta, start, history, L2, reduction, RATE / WIDTH, STEPS)
    ends = [np.array([each.documents[pair[end]] for each in history for pair in each.pairs]) for end in (0, 1)]
    return olranknet.fit(theta, start, *ends, np.ones(len(ends[0])), L2, reduction, RATE / WIDTH, STEPS)


def test_queries_without_a_pair_leave_it_where_it_is():
    simulation, _ = rounds_of(*WHOLE, dataset=handmade([[0, 0], [3], [1, 1, 1]]))
    assert torch.equal(simulation.ranker.theta, simulation.ranker.start)
    assert simulation.ranker.loss.count.tolist() == [0, 0]
