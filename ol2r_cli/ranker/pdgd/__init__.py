"""Pairwise Differentiable Gradient Descent (Oosterhuis and de Rijke, CIKM 2018)."""

from __future__ import annotations

from typing import Any

import torch

from ol2r_cli import loops
from ol2r_cli.interfaces import PLACKETT_LUCE, Interaction, Need
from ol2r_cli.learning.feedback import learn_by_stage
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import GradientRanker
from ol2r_cli.ranker.pdgd import pdgd_loops
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.streams import Random


class PDGD(GradientRanker):
    """Prefers every clicked document to every examined unclicked one, each pair with the weight that removes its bias.

    The gradient of a pair is that of P(winner above loser) = e^{f_w} / (e^{f_w} + e^{f_l}), times
    rho = P(R*) / (P(R) + P(R*)) with R the list that was drawn and R* the same with the two swapped (equations 5
    to 8). `learning_rate` and `decay` as in `GradientRanker`.
    """

    pairs = "all"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    def stages(self) -> Any:
        return self.gradient_stages(pdgd_loops.learns_by_pdgd) if type(self.model) is Linear else None

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Take one step along the weighted gradients; pairs are a square of places instead of a list."""
        scores, ranking = interaction.prediction.scores, interaction.ranking
        pull = torch.zeros(ranking.shape, dtype=torch.float64, device=ranking.device)
        pulls = loops.rounds.RankerStages(None, pdgd_loops.pulls_by_pdgd, pull)
        learn_by_stage(pulls, interaction, interaction.candidates.in_table(), random)
        shown_rows = gather(interaction.candidates.features, ranking)
        self.move(self.gradient(shown_rows, pull.to(scores.dtype)), interaction.preferences.valid.any(1))
