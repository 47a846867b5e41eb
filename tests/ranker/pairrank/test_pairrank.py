"""PairRank and PePairRank, also where they forget, round by round against plain sums over the whole history."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Forgetting
from ol2r_cli.ranker.pairrank import optima_loops as perturbed_optima
from tests.loops.lanes_by_threads import loops_by, one_lane
from tests.ranker.pairrank.noise import noise_of
from tests.reference import objective as plain
from tests.reference.blocks import partition
from tests.reference.forgetting import ForgetfulPairRank, information, theoretical_alpha
from tests.reference.shuffles import order_by_clocks
from tests.rounds import LISTS, SEEDS, replicas, rounds
from tests.worlds import handmade, simulate, tiny

L2, ALPHA = 0.05, 0.3


def told(oracle, here):
    """Tell an oracle the pairs of a round."""
    oracle.learn(*(here.features[[pair[side] for pair in here.pairs]] for side in (0, 1)))


def words_of(forgetting):
    window = "null" if forgetting.window is None else forgetting.window
    return f"ranker.window={window}", f"ranker.discount={forgetting.discount}"


@pytest.mark.parametrize(
    ("forgetting", "reduction", "covariance", "shuffle", "transitive", "pairs", "click", "alpha"),
    [
        (Forgetting(), "sum", "full", "conservative", True, "matching", "informational", ALPHA),
        (Forgetting(), "mean", "inverse_diagonal", "random", False, "all", "perfect", ALPHA),
        (Forgetting(window=3), "mean", "diagonal", "random", False, "all", "perfect", ALPHA),
        (Forgetting(discount=0.8), "sum", "full", "conservative", True, "matching", "informational", ALPHA),
        (Forgetting(discount=0.9), "mean", "full", "random", True, "adjacent", "perfect", ALPHA),
        (Forgetting(), "sum", "full", "conservative", False, "all", "perfect", "theory"),
    ],
    ids=str,
)
def test_every_round_of_pairrank(forgetting, reduction, covariance, shuffle, transitive, pairs, click, alpha):
    """Lists of different length: order, blocks and certain pairs exactly, weights within the gap.

    The oracle proposes with our weights, because a gap within the guarantee may legitimately turn a comparison.
    """
    settings = {"covariance": covariance, "shuffle": shuffle, "transitive": transitive, "alpha": alpha}
    words = [f"exploration.{name}={value}" for name, value in settings.items()]
    words += [f"ranker.reduction={reduction}", f"ranker.pairs={pairs}", *words_of(forgetting)]
    simulation = simulate(tiny(f"ranker.l2={L2}", *words, f"click={click}"), SEEDS, 24, handmade(LISTS))
    exploration, features = simulation.exploration, simulation.context.features
    exploration.refresh = 7
    if alpha == "theory":
        exploration.steepness = 0.02  # Lemma 2 makes next to nothing certain: a slope that lets some pairs through
    oracles = [ForgetfulPairRank(features, L2, alpha, covariance, reduction, *forgetting) for _ in SEEDS]
    theta, differs, known = simulation.ranker.solver.theta.clone(), 0, 0
    for t, one in rounds(simulation):
        clocks = simulation.streams.at("explore", t).exponential(one.candidates.mask.shape[1])
        for b, here in replicas(one):
            oracle = oracles[b]
            oracle.theta = theta[b].numpy()
            if alpha == "theory":
                m = information(oracle.pairs, L2, features)
                oracle.alpha = theoretical_alpha(m, L2, 1 / 24, 0.5 / exploration.steepness)
            certain = oracle.certain(here.features, transitive)
            known += certain.sum()
            check_proposal(one.proposal, b, certain, clocks[b].tolist(), shuffle)
            told(oracle, here)
            differs += sum(w < 1 for _, w in oracle.pairs)
        theta = simulation.ranker.solver.theta.clone()
        for b, oracle in enumerate(oracles):
            assert oracle.excess(theta[b].numpy()) <= 1
            expected = information(oracle.pairs, L2, features)
            np.testing.assert_allclose(exploration.matrix[b].numpy(), expected, atol=1e-9)
    assert (differs > 100) is (forgetting != Forgetting())
    assert known > 30


def check_proposal(proposal, b, certain, clocks, shuffle):
    """Order, blocks and certain pairs of a replica are those of the oracle."""
    length, blocks = len(certain), partition(certain)
    served = order_by_clocks(certain, blocks, clocks, shuffle)
    assert tuple(proposal.order[b, :length].tolist()) == served
    assert proposal.block[b, :length].tolist() == [[d in block for block in blocks].index(True) for d in range(length)]
    if proposal.certain is None:  # then the certain pairs are by place, for the first places
        certain = certain[np.ix_(served, served)]
    found = proposal.certain_by_place if proposal.certain is None else proposal.certain
    places = min(length, found.shape[1])
    assert (found[b, :places, :places].numpy() == certain[:places, :places]).all()


def test_steepness_is_that_of_the_sigmoid_at_the_largest_score():
    exploration = simulate(tiny("exploration.alpha=theory"), SEEDS, 24, handmade(LISTS)).exploration
    every = handmade(LISTS).features.double()
    slope = torch.sigmoid((every.amax(0) - every.amin(0)).norm())
    assert exploration.steepness == pytest.approx(0.5 / float(slope * (1 - slope)), rel=1e-6)


@pytest.mark.parametrize(
    ("forgetting", "l2", "reduction", "variance", "members", "features", "click"),
    [
        (Forgetting(window=2), L2, "sum", 0.1, 2, 4, "informational"),
        (Forgetting(discount=0.95), L2, "mean", 0.01, 2, 4, "informational"),
        (Forgetting(), 1e-4, "sum", 0.1, 2, 15, "perfect"),  # separable: curvature fades on the way to the optimum
        (Forgetting(), L2, "sum", 0.1, 3, 4, "informational"),
        (Forgetting(), L2, "mean", 0.0, 2, 4, "informational"),
    ],
    ids=str,
)
def test_every_round_of_pepairrank(forgetting, l2, reduction, variance, members, features, click):
    """Every member is at the optimum of the pairs that count under its noise, within the gap, and is served.

    The oracle wants a noise for every pair: any that sums to the round's noise, in which pair i weighs w_i.
    """
    words = f"ranker.reduction={reduction}", f"ranker.label_noise_variance={variance}", f"ranker.members={members}"
    config = tiny("ranker=pepairrank", f"ranker.l2={l2}", *words_of(forgetting), *words, f"click={click}")
    simulation = simulate(config, SEEDS[:2], 24, handmade(LISTS, features))
    ranker, optima = simulation.ranker, simulation.ranker.optima
    noises, compared, before = noises_of(optima), 0, optima.theta.clone()
    oracles = [ForgetfulPairRank(features, l2, ALPHA, "full", reduction, *forgetting) for _ in range(2)]
    for t, one in rounds(simulation):
        for b, here in replicas(one):
            np.testing.assert_allclose(here.scores, before[b].numpy() @ here.features.T, rtol=1e-12, atol=1e-12)
            told(oracles[b], here)
            pairs = [(row, w) for row, w in oracles[b].pairs if w > 0]
            if t % 4 and t > 8:
                continue
            if not pairs:
                assert optima.theta[b].abs().max() < 1e-12
                continue
            rows, noise = np.array([w * row for row, w in pairs]), noises[t][b].numpy()
            gamma = np.linalg.lstsq(rows.T, noise.T, rcond=None)[0].T
            np.testing.assert_allclose(gamma @ rows, noise, atol=1e-8)
            f = plain.objective(ranker.solver.theta[b].numpy(), pairs, l2, reduction)
            for theta, of_pairs in zip(optima.theta[b].numpy(), gamma, strict=True):
                best = plain.optimum(pairs, l2, reduction, features, of_pairs)
                reached, least = (plain.objective(each, pairs, l2, reduction, of_pairs) for each in (theta, best))
                assert reached - least <= 1e-3 + 1e-5 * f, f"round {t}, replica {b}"
                compared += 1
        before = optima.theta.clone()
    assert compared > 20


def noises_of(optima):
    """A list that will hold the noise of every round [B, N, F]."""
    noises, update = [], optima.update

    def noting(random):
        noises.append(noise_of(optima, random))
        update(random)

    optima.update = noting
    return noises


def test_where_steps_lead_nowhere_larger_l2_leads_to_the_optima(monkeypatch):
    """Where steps from the anchor lead nowhere, the way along larger l2 ends at the optima.

    Neither together nor alone a member takes a step from the anchor; uncompiled loops look at these numbers.
    """
    monkeypatch.setattr(perturbed_optima, "PASSES", 0)
    monkeypatch.setattr(perturbed_optima, "DIRECT", 0)
    loops_by(one_lane, monkeypatch)
    test_every_round_of_pepairrank(Forgetting(), L2, "sum", 0.1, 2, 4, "informational")


@pytest.mark.parametrize("forgetting", [Forgetting(), Forgetting(window=3), Forgetting(discount=0.7)], ids=str)
def test_the_noise_of_a_pair_counts_as_the_pair(forgetting):
    """Z has the covariance nu^2 (M~ - l2 I): 4,000 members' noise against it."""
    words = "ranker.members=4000", "ranker.label_noise_variance=0.25", "exploration=none", "click=perfect"
    config = tiny("ranker=pepairrank", *words_of(forgetting), *words)
    simulation = simulate(config, [0], 20, handmade(LISTS))
    noises = noises_of(simulation.ranker.optima)
    oracle = ForgetfulPairRank(4, L2, ALPHA, "full", "sum", *forgetting)
    for _, one in rounds(simulation):
        told(oracle, next(replicas(one))[1])
    assert simulation.ranker.history.count[0] > 15 > 4
    assert bool(simulation.ranker.optima.factored[0]) is (forgetting.window is None)
    expected = 0.25 * information(oracle.pairs, 0.0, 4, 2)
    found = np.cov(noises[-1][0].numpy().T, bias=True)
    deviation = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 4000)
    assert (np.abs(found - expected) <= 4 * deviation + 1e-12).all()
