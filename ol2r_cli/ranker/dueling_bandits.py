"""Dueling bandit gradient descent and its multileaved form (Yue and Joachims, ICML 2009; Schuth et al., WSDM 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Count, Positive
from ol2r_cli.interfaces import CREDIT, FEATURES, MEMBERS, Candidates, Interaction, Need, Oracle, Prediction, RunContext
from ol2r_cli.learning.model import Model
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import Decay, GradientRanker
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


class DuelingBandits(GradientRanker):
    """Tries directions: where interleaved lists earn a candidate more clicks than the current ranker, theta moves.

    Member 0 is theta; the others are theta + `delta` u, with `candidates` directions u drawn from the unit sphere in
    every round. Then theta += rate x the mean u of the winners. `candidates` = 1 is DBGD, more is MGD. `learning_rate`
    and `decay` as in `GradientRanker`. A subclass that draws other directions overrides `draw`.
    """

    pairs = "none"
    needs = (Need(CREDIT, "exploration=team_draft"),)
    offers = frozenset({FEATURES, MEMBERS})

    def __init__(self, model: Model, learning_rate: Positive, decay: Decay, delta: Positive, candidates: Count):
        super().__init__(model, learning_rate, decay)
        self.delta, self.candidates = delta, candidates

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at the model's initial parameters."""
        super().setup(context, features)
        shape = context.replicas, self.candidates, self.theta.shape[1]
        # Directions are drawn for one round alone: they are no state, hence no buffer.
        self.directions = torch.zeros(shape, dtype=context.dtype, device=context.device)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Scores of the current ranker and of this round's candidates."""
        self.directions = self.draw(candidates, random)
        return super().predict(candidates, random)

    def draw(self, candidates: Candidates, random: Random) -> Float[Tensor, "B M P"]:
        """Return the directions of this round, of length 1: M = `candidates`, of P parameters."""
        return self.directions_of([random])[0]

    def directions_of(self, rounds: Sequence[Random]) -> Float[Tensor, "R B M P"]:
        """Return the directions of several rounds, given the source of each round's random numbers."""
        normal = torch.stack([random.normal(self.directions[0].numel()) for random in rounds])
        normal = normal.unflatten(2, self.directions.shape[1:])
        return (normal / normal.norm(dim=3, keepdim=True)).to(self.theta.dtype)

    def weights(self) -> Float[Tensor, "B N P"]:
        """theta, and the candidates that it may move to."""
        return torch.cat([self.theta[:, None], self.theta[:, None] + self.delta * self.directions], dim=1)

    def for_loops(self) -> Any:
        """The ranker for rounds that are played together, where its model is linear."""
        if type(self.model) is not Linear:
            return None
        state = self.theta.numpy(), self.rate.numpy(), float(self.decay), float(self.delta), self.candidates
        return loops.play.Learner(loops.play.DUELING, loops.play.PAIRS[self.pairs], *state)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the mean of the winners."""
        if self.rows_for_loops(interaction, DuelingBandits, "earned") is not None:
            assert interaction.proposal.credit is not None
            state = self.theta.numpy(), self.rate.numpy(), self.decay, self.directions.numpy()
            lists = interaction.proposal.credit.numpy(), interaction.ranking.numpy(), interaction.clicks.numpy()
            loops.steps.dueling(*state, *lists)
            return
        earned = self.earned(interaction)
        won: Tensor = earned[:, 1:] > earned[:, :1]
        share = won.to(self.theta.dtype) / won.sum(1, keepdim=True).clamp(min=1)
        self.move(torch.bmm(share[:, None], self.directions).squeeze(1), won.any(1))

    def earned(self, interaction: Interaction) -> Float[Tensor, "B N"]:
        """Return the clicks that each member is credited with in this round; member 0 is theta."""
        credit = interaction.proposal.credit
        assert credit is not None
        ranking = interaction.ranking[:, None].expand(-1, credit.shape[1], -1)
        return (credit.gather(2, ranking) * interaction.clicks[:, None]).sum(2)
