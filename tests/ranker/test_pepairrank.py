"""PePairRank round by round: whose scores are served and evaluated, when noise is drawn, and what is kept of it."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from tests.choices import seen
from tests.reference.objective import objective, optimum
from tests.rounds import LISTS, SEEDS, rounds
from tests.worlds import handmade, simulate, tiny


def pepairrank(*overrides, total=60, lists=LISTS):
    return simulate(tiny("ranker=pepairrank", *overrides), SEEDS, total, handmade(lists), loops=True)


def test_all_members_are_served_and_every_one_scores_its_own_way():
    simulation = pepairrank("ranker.members=5", "click=perfect")
    theta = simulation.ranker.optima.theta.clone()
    assert not theta.any()
    for t, one in rounds(simulation):
        for b in range(len(SEEDS)):
            length = int(one.candidates.mask[b].sum())
            rows = one.candidates.features[b, :length].numpy()
            expected = np.array([[x @ w for x in rows] for w in theta[b].numpy()])
            np.testing.assert_allclose(one.prediction.scores[b, :, :length].numpy(), expected, rtol=1e-12, atol=1e-12)
        theta = simulation.ranker.optima.theta.clone()
        for b in simulation.ranker.history.count.nonzero().flatten().tolist():
            assert len({tuple(w) for w in theta[b].tolist()}) == 5, f"round {t}: members are perturbed independently"


def test_noise_is_drawn_afresh_for_the_whole_history_in_every_round():
    """A round without a pair leaves the unperturbed optimum where it is, and moves every member."""
    simulation, without = pepairrank("click=navigational"), 0
    ranker = simulation.ranker
    before, unperturbed = ranker.optima.theta.clone(), ranker.solver.theta.clone()
    for _, one in rounds(simulation):
        for b, some in enumerate(one.preferences.valid.any(1).tolist()):
            known = int(ranker.history.count[b]) > 0
            assert bool((ranker.optima.theta[b] != before[b]).any(1).all()) is known
            if not some:
                torch.testing.assert_close(ranker.solver.theta[b], unperturbed[b])
                without += known
        before, unperturbed = ranker.optima.theta.clone(), ranker.solver.theta.clone()
    assert without > 10


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_without_noise_every_member_is_at_the_unperturbed_optimum(reduction):
    l2 = 0.01
    settings = f"ranker.l2={l2}", f"ranker.reduction={reduction}", "click=informational", "ranker.members=3"
    simulation = pepairrank("ranker.label_noise_variance=0", *settings, total=40)
    ranker = simulation.ranker
    for t, _ in rounds(simulation):
        for b, count in enumerate(ranker.history.count.tolist()):
            torch.testing.assert_close(ranker.optima.theta[b], ranker.optima.theta[b, :1].expand(3, -1))
            if not count or t % 4:
                continue
            rows, labels, scale = ranker.history.rows[b, :count].numpy(), np.ones(count), [count, 1][reduction == "sum"]
            found = [ranker.optima.theta[b, 0].numpy(), optimum(rows, labels, l2, reduction)]
            reached, least = (scale * objective(theta, rows, labels, l2, reduction) for theta in found)
            assert 0 <= reached - least + 1e-9 <= 1e-3 + 1e-5 * reached


@pytest.mark.parametrize("deploy", ["mean", "first", "unperturbed"])
def test_what_is_deployed(deploy):
    """The scores of `score` against those of the members one by one; and deploying is taking a copy."""
    simulation = pepairrank("ranker.members=5", f"ranker.deploy={deploy}", total=30)
    ranker, kept = simulation.ranker, []
    candidates, _ = simulation.train_split.serve(torch.arange(len(LISTS)))
    for _ in rounds(simulation):
        deployed = ranker.deploy()
        found = ranker.score(deployed, candidates)
        kept.append((deployed, deployed.clone()))
        members = torch.einsum("bnf,qdf->bnqd", ranker.optima.theta, candidates.features)
        alone = torch.einsum("bf,qdf->bqd", ranker.solver.theta, candidates.features)
        expected = {"mean": members.mean(1), "first": members[:, 0], "unperturbed": alone}[deploy]
        torch.testing.assert_close(found, expected)
        others = {"mean": members[:, 0], "first": alone, "unperturbed": members.mean(1)}[deploy]
        assert not ranker.history.count.any() or not torch.allclose(found, others)
    assert all(torch.equal(deployed, copy) for deployed, copy in kept), "later rounds must not change it"


@pytest.mark.parametrize(
    "after", [10, pytest.param(3, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.slow)]
)
def test_a_resumed_run_is_the_undisturbed_one_across_a_new_factor(after):
    """Four features: the noise of old pairs comes from a factor that is renewed every five pairs or so.

    Saved in the first round from `after` on that leaves every replica with pairs beyond its factor.
    """
    simulation, saved = pepairrank("click=perfect", "ranker.members=3"), io.BytesIO()
    optima, running = simulation.ranker.optima, rounds(simulation)
    for t, _ in running:
        count = simulation.ranker.history.count.clone()
        if t >= after and (optima.factored > 0).all() and (count > optima.factored).all():
            break
    torch.save(simulation.state_dict(), saved)
    expected = [(one, optima.theta.clone()) for _, one in running]
    assert (optima.factored > count).all(), "a new factor after that"
    saved.seek(0)
    resumed = pepairrank("click=perfect", "ranker.members=3")
    resumed.load_state_dict(torch.load(saved, weights_only=True))
    found = [(one, resumed.ranker.optima.theta.clone()) for _, one in rounds(resumed)]
    assert seen([one for one, _ in found]) == seen([one for one, _ in expected])
    assert all(torch.equal(theta, other) for (_, theta), (_, other) in zip(found, expected, strict=True))
