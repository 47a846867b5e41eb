"""SGD RankNet: the pairwise logistic ranker that takes one gradient step per round (PairRank, WWW 2021, section 5)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.feedback import check_pairs
from ol2r_cli.interfaces import Interaction
from ol2r_cli.random import Random
from ol2r_cli.ranker.linear import GradientRanker


class SGDRankNet(GradientRanker):
    """One step per round down the sum of -log sigma(theta.(x_winner - x_loser)) over the round's pairs.

    `learning_rate` > 0 and `decay` in (0, 1] as in `GradientRanker`; `pairs` is how clicks become preferences
    (matching, adjacent, all).
    """

    def __init__(self, learning_rate: float, decay: float, pairs: str):
        super().__init__(learning_rate, decay)
        self.pairs = check_pairs(pairs)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """The gradient of each pair is sigma(-theta.x) x; an invalid pair's x is zero."""
        rows = interaction.belief.tangent().differences(interaction.preferences)
        lost: Tensor = torch.sigmoid(-torch.bmm(rows, self.theta[:, :, None]))
        self.move(torch.bmm(rows.mT, lost).squeeze(2), interaction.preferences.valid.any(1))
