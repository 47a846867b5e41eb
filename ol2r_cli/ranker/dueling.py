"""Dueling bandit gradient descent and its multileaved form (Yue and Joachims, ICML 2009; Schuth et al., WSDM 2016)."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.interfaces import CREDIT, FEATURES, MEMBERS, Belief, Candidates, Interaction, Need, Oracle, Sizes
from ol2r_cli.learning.model import Model
from ol2r_cli.random import Random
from ol2r_cli.ranker.linear import GradientRanker
from ol2r_cli.shapes import Float


class DuelingBandits(GradientRanker):
    """Tries directions: where interleaved lists earn a candidate more clicks than the current ranker, theta moves.

    Member 0 is theta, the others are theta + `delta` u with u drawn from the unit sphere, `candidates` of them anew in
    every round. Then theta += rate x the mean u of the winners. `candidates` = 1 is DBGD, more is MGD. `learning_rate`
    > 0 and `decay` in (0, 1] as in `GradientRanker`; `delta` > 0.
    """

    pairs = "none"
    needs = (Need(CREDIT, "exploration=team_draft"),)
    offers = frozenset({FEATURES, MEMBERS})

    def __init__(self, model: Model, learning_rate: float, decay: float, delta: float, candidates: int):
        super().__init__(model, learning_rate, decay)
        if not delta > 0:
            raise ValueError(f"ranker.delta must be above 0, got {delta}")
        if candidates < 1:
            raise ValueError(f"ranker.candidates must be 1 or more, got {candidates}")
        self.delta, self.candidates = delta, candidates

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at the model's initial parameters."""
        super().setup(sizes, features)
        shape = sizes.replicas, self.candidates, self.theta.shape[1]
        self.directions = torch.zeros(shape, dtype=sizes.dtype, device=sizes.device)  # of this round alone: no state

    def judge(self, candidates: Candidates, random: Random) -> Belief:
        """Scores of the current ranker and of this round's candidates."""
        normal = random.normal(self.directions[0].numel()).view(self.directions.shape)
        self.directions = (normal / normal.norm(dim=2, keepdim=True)).to(self.theta.dtype)
        return super().judge(candidates, random)

    def weights(self) -> Float[Tensor, "B N P"]:
        """theta, and what it might become."""
        return torch.cat([self.theta[:, None], self.theta[:, None] + self.delta * self.directions], dim=1)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the mean of the winners."""
        credit = interaction.draft.credit
        assert credit is not None
        ranking = interaction.ranking[:, None].expand(-1, credit.shape[1], -1)
        earned = (credit.gather(2, ranking) * interaction.clicks[:, None]).sum(2)
        won: Tensor = earned[:, 1:] > earned[:, :1]
        share = won.to(self.theta.dtype) / won.sum(1, keepdim=True).clamp(min=1)
        self.move(torch.bmm(share[:, None], self.directions).squeeze(1), won.any(1))
