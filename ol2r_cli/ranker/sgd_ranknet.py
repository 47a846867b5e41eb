"""SGD RankNet: the pairwise logistic ranker that takes one gradient step per round (PairRank, WWW 2021, section 5)."""

from __future__ import annotations

from typing import Any

import torch

from ol2r_cli import loops
from ol2r_cli.config.ranges import Positive
from ol2r_cli.interfaces import Interaction
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preferences import Pairs
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import Decay, GradientRanker
from ol2r_cli.tensor.streams import Random


class SGDRankNet(GradientRanker):
    """One step per round down the sum of -log sigma(f(x_winner) - f(x_loser)) over the round's pairs.

    `learning_rate` and `decay` as in `GradientRanker`; `pairs` is how clicks become preferences.
    """

    def __init__(self, model: Model, learning_rate: Positive, decay: Decay, pairs: Pairs):
        super().__init__(model, learning_rate, decay)
        self.pairs = pairs

    def for_loops(self) -> Any:
        if type(self.model) is not Linear:
            return None
        state = self.theta.numpy(), self.rate.numpy(), float(self.decay)
        return loops.play.Learner(loops.play.RANKNET, loops.play.PAIRS[self.pairs], *state)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """The gradient of each pair is sigma(f(x_loser) - f(x_winner)) times that of f(x_winner) - f(x_loser)."""
        valid = interaction.preferences.valid
        pull = torch.sigmoid(-self.margins(interaction)) * valid
        self.move(self.pair_gradient(interaction, pull), valid.any(1))
