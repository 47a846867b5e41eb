"""olLambdaRank GT beside the reference: the same rounds, learned from one pair after the other."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.learning import losses
from tests.networks import NETWORK
from tests.ranker.refits import L2, PLAIN, RATE, ports
from tests.reference.network import flat
from tests.reference.ollambdarank import from_labels
from tests.worlds import handmade, simulate, tiny

LISTS = [[2, 0, 1, 0], [1, 1], [0, 3, 0, 1, 2], [4]]


def labelled(*overrides: str, dataset=None):
    """The simulation after some rounds, the ports at its start, and the queries it served [T B]."""
    words = "ranker=ollambdarank_gt", "ranker.model.init=standard", *NETWORK, *PLAIN, "ranker.steps=3"
    config = tiny(*words, f"ranker.l2={L2}", f"ranker.learning_rate={RATE}", *overrides)
    simulation = simulate(config, [0, 3], 6, dataset or handmade(LISTS))
    simulation.ranker.loss.chunk = 3
    start = ports(simulation.ranker, simulation.context.forgetting)
    return simulation, start, [one.candidates.query.tolist() for _, one in simulation.play()]


@pytest.mark.parametrize(
    ("loss", "reduction", "restart"),
    [
        ("lambdarank", "mean", True),
        ("lambdarank", "sum", False),
        ("ranknet", "sum", True),
        ("ranknet", "mean", False),
    ],
)
def test_it_fits_the_lists_served_so_far(monkeypatch, loss, reduction, restart):
    """Which are worked on in several parts."""
    monkeypatch.setattr(losses, "CELLS", 100)
    dataset = handmade(LISTS)
    settings = f"ranker.loss={loss}", f"ranker.reduction={reduction}", f"ranker.restart={restart}"
    simulation, started, served = labelled(*settings, dataset=dataset)
    for replica, (port,) in enumerate(started):
        for query in (own[replica] for own in served):
            rows = dataset.features[dataset.offsets[query] : dataset.offsets[query + 1]].double().numpy()
            port.lists.append(from_labels(rows, LISTS[query]))
            if port.lists[-1].pairs:
                port.fit("ollambdarank" if loss == "lambdarank" else "olranknet", L2, reduction, 3, restart)
        found = simulation.ranker.theta[replica, 0].numpy()
        assert found == pytest.approx(flat(port.theta), abs=1e-9)
        assert abs(flat(port.theta) - flat(port.initial)).max() > 1e-3


def test_queries_without_a_pair_leave_it_where_it_is():
    simulation, _, _ = labelled(dataset=handmade([[0, 0], [3], [1, 1, 1]]))
    assert torch.equal(simulation.ranker.theta, simulation.ranker.start)
    assert simulation.ranker.loss.count.tolist() == [0, 0]
