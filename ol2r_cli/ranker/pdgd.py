"""Pairwise Differentiable Gradient Descent (Oosterhuis and de Rijke, CIKM 2018)."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.interfaces import PLACKETT_LUCE, Interaction, Need
from ol2r_cli.learning.preferences import examined
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import GradientRanker
from ol2r_cli.tensor.gather import cached_arange, gather
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

ABSENT = -1e30  # score of padding, and of a document that is not drawn


class PDGD(GradientRanker):
    """Prefers every clicked document to every examined unclicked one, each pair with the weight that removes its bias.

    The gradient of a pair is that of P(winner above loser) = e^{f_w} / (e^{f_w} + e^{f_l}), times
    rho = P(R*) / (P(R) + P(R*)) with R the list that was drawn and R* the same with the two swapped (equations 5
    to 8). `learning_rate` and `decay` as in `GradientRanker`.
    """

    pairs = "all"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    def for_loops(self) -> Any:
        if type(self.model) is not Linear:
            return None
        state = self.theta.numpy(), self.rate.numpy(), float(self.decay)
        return loops.play.Learner(loops.play.PDGD, loops.play.PAIRS[self.pairs], *state)

    def stages(self) -> Any:
        return self.gradient_stages(loops.gradient_steps.learns_by_pdgd) if type(self.model) is Linear else None

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Take one step along the weighted gradients; pairs are a square of places instead of a list."""
        ranking, clicks, scores = interaction.ranking, interaction.clicks, interaction.prediction.scores[:, 0]
        losers = examined(clicks, interaction.shown) & ~clicks
        beats = (clicks[:, :, None] & losers[:, None, :]).to(scores.dtype)
        shown = scores.gather(1, ranking)
        above = torch.sigmoid(shown[:, :, None] - shown[:, None, :])
        slope = torch.addcmul(above, above, above, value=-1)
        weight = debias_weights(scores, interaction.candidates.mask, ranking) * slope
        pull = (weight * (beats - beats.mT)).sum(2)
        shown_rows = gather(interaction.candidates.features, ranking)
        self.move(self.gradient(shown_rows, pull), interaction.preferences.valid.any(1))


def debias_weights(
    scores: Float[Tensor, "B D"], mask: Bool[Tensor, "B D"], ranking: Int[Tensor, "B K"]
) -> Float[Tensor, "B K K"]:
    """rho of every pair of places; the diagonal has no meaning.

    With D_p the sum of e^f over what was left when place p was drawn, and a < b the two places, the swap changes
    nothing but D_p to D_p - e_b + e_a for a < p <= b. So P(R) / P(R*) is the product of 1 + e_a / D_p - e_b / D_p over
    those p, at most K numbers that are all at least 1 or all at most 1. D_p is kept as its logarithm, so that documents
    far below the best one are distinguished, too.
    """
    positions = ranking.shape[1]
    real = scores.masked_fill(~mask, ABSENT)
    shown = real.gather(1, ranking)
    below = real.scatter(1, ranking, ABSENT).logsumexp(1, keepdim=True)
    left = torch.cat([below, shown.flip(1)], dim=1).logcumsumexp(1)[:, 1:].flip(1)
    share = (shown[:, :, None] - left[:, None]).exp_()  # [a, p]: e_a / D_p; beyond 1, even infinite, for a above p
    change = (share + 1)[:, :, None] - share[:, None]
    ratio = change.masked_fill_(_elsewhere(positions, scores.device), 1).prod(3).clamp_(min=0)  # rounding may go below
    upper = (1 / (1 + ratio)).triu_(1)
    return upper + upper.mT


@cache
def _elsewhere(positions: int, device: torch.device) -> Bool[Tensor, "K K K"]:
    """[a, b, p]: False where a < p <= b; shared, not to be written to."""
    place = cached_arange(positions, device)
    return (place <= place[:, None, None]) | (place[:, None] < place)
