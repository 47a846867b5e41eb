"""Thompson sampling in the position-based model: what is drawn, and what is learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import beta, kstest

from ol2r_cli.interfaces import Candidates
from ol2r_cli.ranker.pbm_thompson import PositionThompson
from ol2r_cli.tensor.streams import Streams
from tests.choices import simulation

PRIOR = ("ranker.prior_clicks=[0.5,0.2]", "ranker.prior_views=[2,3]", "ranker.examination=[1,0.5,0.25,0.2,0.1]")


def thompson(overrides: tuple[str, ...] = (), **more):
    return simulation(("ranker=pbm_thompson", *PRIOR, *overrides), positions=3, **more)


def drawn(played):
    """Scores [B D] of the documents of the longest query, and the first of its rows."""
    with torch.inference_mode():
        query, replicas = int(played.train_split.length.argmax()), len(played.ranker.clicks)
        candidates, _ = played.train_split.serve(torch.full((replicas,), query))
        scores = played.ranker.predict(candidates, played.streams.at("judge", 0)).scores[:, 0]
    return scores.numpy(), int(played.train_split.start[query])


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.7), (0.6, 3.0), (1.0, 1.0), (4.0, 0.3), (30.0, 200.0)])
def test_scores_have_the_beta_distribution_of_the_prior(a, b):
    """By the test of Kolmogorov and Smirnov, on fixed random numbers."""
    prior = f"ranker.prior_clicks=[{a}]", f"ranker.prior_views=[{a + b}]"
    scores, _ = drawn(thompson(prior, seeds=torch.arange(2000)))
    assert kstest(scores.ravel(), beta(a, b).cdf).pvalue > 0.01


def test_scores_are_drawn_from_what_is_known():
    """The mean of a document over many replicas is that of its Beta distribution, with prior, clicks and views."""
    played = thompson(seeds=torch.arange(4000))
    ranker, (_, row) = played.ranker, drawn(played)
    ranker.clicks[:, row], ranker.examined[:, row] = 3.0, 2.5  # more clicks than views: only clicks count
    ranker.clicks[:, row + 1], ranker.examined[:, row + 1] = 1.0, 5.0
    for scores, (a, b) in zip(drawn(played)[0].T, [(0.5 + 3, 1.5), (0.5 + 1, 1.5 + 4), (0.5, 1.5)], strict=False):
        assert kstest(scores, beta(a, b).cdf).pvalue > 0.001


def test_it_counts_clicks_and_examination_by_rank():
    with torch.inference_mode():
        played = thompson(single=True)
        clicks, examined = np.zeros((2, *played.ranker.clicks.shape))
        for _, interaction in played.play():
            document = interaction.candidates.document.gather(1, interaction.ranking)
            for replica, place in zip(*np.nonzero(interaction.shown.numpy()), strict=True):
                row = int(document[replica, place])
                clicks[replica, row] += bool(interaction.clicks[replica, place])
                examined[replica, row] += [1, 0.5, 0.25][place]
            if played.measurement.full():
                played.measurement.measures()
    assert np.array_equal(played.ranker.clicks.numpy(), clicks)
    assert np.allclose(played.ranker.examined.numpy(), examined)


def test_the_prior_is_that_of_the_rank_in_production():
    """A feature has the rank: below those of the prior, the last one counts; deployed is the mean."""
    ranker = PositionThompson(None, [0.5, 0.2], [2.0, 4.0], rank_feature=2)
    played = thompson(seeds=torch.arange(1))
    features = torch.tensor([[9.0, 1], [9, 2], [9, 7]])
    ranker.setup(played.context, features)
    assert ranker.deploy().tolist() == [[0.25, 0.05, 0.05]]
    ranker.clicks[0, 1], ranker.examined[0, 1] = 1.0, 4.0
    assert ranker.deploy()[0, 1].item() == pytest.approx(1.2 / 8)
    one = torch.zeros(1, dtype=torch.int64)
    listed = Candidates(one, torch.tensor([[2, 1]]), torch.zeros(1, 2, 2), torch.ones(1, 2, dtype=torch.bool))
    assert ranker.score(ranker.deploy(), listed)[0, 0].tolist() == pytest.approx([0.05, 0.15])
    with pytest.raises(ValueError, match="documents of the dataset as they are"):
        ranker.predict(listed, Streams(torch.zeros(1, dtype=torch.int64)).at("judge", 0))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("ranker.prior_views=[2]",), r"ranker.prior_views must have as many numbers as ranker.prior_clicks"),
        (("ranker.prior_views=[0.5,3]",), r"ranker.prior_views must be above ranker.prior_clicks at each rank"),
        (("ranker.examination=[1,0.5]",), r"ranker.examination must be 3 probabilities, one per rank, got \[1, 0.5\]"),
        (("ranker.rank_feature=99",), r"ranker.rank_feature must be a feature from 1 to \d+, got 99"),
        (
            ("ranker.rank_feature=2",),
            r"ranker.rank_feature must be a feature with ranks 1, 2, 3, .., and feature 2 has .*: "
            r"type dataset.normalise=none",
        ),
    ],
)
def test_a_bad_setting_is_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        thompson(overrides)
