"""Pairwise Differentiable Gradient Descent (Oosterhuis and de Rijke, CIKM 2018)."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ol2r_cli.feedback import examined
from ol2r_cli.interfaces import PLACKETT_LUCE, Interaction, Need
from ol2r_cli.random import Random
from ol2r_cli.ranker.linear import GradientRanker
from ol2r_cli.rows import pick, places
from ol2r_cli.shapes import Bool, Float, Int


class PDGD(GradientRanker):
    """Every clicked document against every examined unclicked one, each pair with the weight that undoes its bias.

    The gradient of a pair is that of P(winner above loser) = e^{f_w} / (e^{f_w} + e^{f_l}), times
    rho = P(R*) / (P(R) + P(R*)) with R the list that was drawn and R* the same with the two swapped (equations 5
    to 8). `learning_rate` > 0 and `decay` in (0, 1] as in `GradientRanker`.
    """

    pairs = "all"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """One step along the weighted gradients, pairs of places in a square instead of a list."""
        ranking, clicks, scores = interaction.ranking, interaction.clicks, interaction.belief.scores[:, 0]
        lost = examined(clicks, interaction.shown) & ~clicks
        beats = (clicks[:, :, None] & lost[:, None, :]).to(scores.dtype)
        shown = scores.gather(1, ranking)
        above = torch.sigmoid(shown[:, :, None] - shown[:, None, :])
        weight = debias_weights(scores, interaction.candidates.mask, ranking) * torch.addcmul(
            above, above, above, value=-1
        )
        pull = (weight * (beats - beats.mT)).sum(2)
        rows = pick(interaction.candidates.features, ranking)
        self.move(torch.bmm(pull[:, None], rows).squeeze(1), interaction.preferences.valid.any(1))


def debias_weights(
    scores: Float[Tensor, "B D"], mask: Bool[Tensor, "B D"], ranking: Int[Tensor, "B K"]
) -> Float[Tensor, "B K K"]:
    """rho of every pair of places; the diagonal means nothing.

    With D_p the sum of e^f over what was left when place p was drawn, and a < b the two places, the swap changes
    nothing but D_p to D_p - e_b + e_a for a < p <= b. So P(R*) / P(R) is a product of at most K ratios.
    """
    positions = ranking.shape[1]
    power = (scores.masked_fill(~mask, float("-inf")) - scores.amax(1, keepdim=True)).exp()
    shown = power.gather(1, ranking)
    below = power.scatter(1, ranking, 0).sum(1, keepdim=True)
    tiny = torch.finfo(scores.dtype).tiny
    from_here = places(positions, scores.device) <= places(positions, scores.device)[:, None]  # [q, p]: q at or below p
    left = shown @ from_here.to(scores.dtype) + (below + tiny)  # no differences, so that small ones are exact
    others = (left[:, None, :] - shown[:, :, None]).clamp_(min=tiny)  # [b, p]: D_p without e_b, for b at or below p
    swapped = others[:, None] + shown[:, :, None, None]  # [a, b, p]
    ratio = torch.where(_between(positions, scores.device), left[:, None, None] / swapped, 1.0)
    upper = torch.sigmoid(ratio.prod(3).log_()).triu_(1)
    return upper + upper.mT


@cache
def _between(positions: int, device: torch.device) -> Bool[Tensor, "K K K"]:
    """[a, b, p]: whether a < p <= b; shared, not to be written to."""
    place = places(positions, device)
    return (place[:, None, None] < place) & (place <= place[:, None])
