"""Pairwise Differentiable Gradient Descent (Oosterhuis and de Rijke, CIKM 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.interfaces import PLACKETT_LUCE, Interaction, Need
from ol2r_cli.random import Random
from ol2r_cli.ranker.linear import GradientRanker
from ol2r_cli.rows import pick, places
from ol2r_cli.shapes import Float, Int


class PDGD(GradientRanker):
    """Every clicked document against every examined unclicked one, each pair with the weight that undoes its bias.

    The gradient of a pair is that of P(winner above loser) = e^{f_w} / (e^{f_w} + e^{f_l}), times
    rho = P(R*) / (P(R) + P(R*)) with R the list that was drawn and R* the same with the two swapped (equations 5
    to 8). `learning_rate` > 0 and `decay` in (0, 1] as in `GradientRanker`.
    """

    pairs = "all"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """One step along the weighted gradients."""
        ranking, preferences, scores = interaction.ranking, interaction.preferences, interaction.belief.scores[:, 0]
        winner, loser = _places(ranking, preferences.winner), _places(ranking, preferences.loser)
        real = scores.masked_fill(~interaction.candidates.mask, float("-inf"))
        rho = debias_weight(real.gather(1, interaction.draft.order), winner, loser, ranking.shape[1])
        above = torch.sigmoid(scores.gather(1, preferences.winner) - scores.gather(1, preferences.loser))
        weight = rho * above * (1 - above) * preferences.valid
        by_place = torch.zeros(ranking.shape, dtype=weight.dtype, device=weight.device)
        by_place.scatter_add_(1, winner, weight).scatter_add_(1, loser, -weight)
        shown = pick(interaction.candidates.features, ranking)
        self.move(torch.bmm(by_place[:, None], shown).squeeze(1), preferences.valid.any(1))


def _places(ranking: Int[Tensor, "B K"], document: Int[Tensor, "B M"]) -> Int[Tensor, "B M"]:
    """The place of each document in the ranking."""
    return (ranking[:, None, :] == document[:, :, None]).int().argmax(2)


def debias_weight(
    scores: Float[Tensor, "B D"], first: Int[Tensor, "B M"], second: Int[Tensor, "B M"], positions: int
) -> Float[Tensor, "B M"]:
    """rho of pairs of places among the first `positions`; `scores` stand in the order of the list, -inf on padding.

    With D_p the sum of e^f over what was left when place p was drawn, and a < b the two places, the swap changes
    nothing but D_p to D_p - e_b + e_a for a < p <= b. So P(R*) / P(R) is a product of at most k ratios.
    """
    weight = (scores - scores.amax(1, keepdim=True)).exp()
    left = weight.flip(1).cumsum(1).flip(1)[:, None, :positions]
    upper, lower = torch.minimum(first, second), torch.maximum(first, second)
    between = places(positions, scores.device) > upper[:, :, None]
    between &= places(positions, scores.device) <= lower[:, :, None]
    others = (left - weight.gather(1, lower)[:, :, None]).clamp_(min=0)
    swapped = others + weight.gather(1, upper)[:, :, None]
    tiny = torch.finfo(scores.dtype).tiny
    change = ((left + tiny) / (swapped + tiny)).log() * between
    return torch.sigmoid(change.sum(2))
