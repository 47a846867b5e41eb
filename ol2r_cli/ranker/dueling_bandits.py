"""Dueling bandit gradient descent and its multileaved form (Yue and Joachims, ICML 2009; Schuth et al., WSDM 2016); and
document space projection of their steps (Wang et al., SIGIR 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Count, Positive, check_settings
from ol2r_cli.interfaces import CREDIT, FEATURES, MEMBERS, Candidates, Interaction, Need, Oracle, Prediction, RunContext
from ol2r_cli.learning.document_space import DocumentSpace
from ol2r_cli.learning.model import Model
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import Decay, GradientRanker
from ol2r_cli.tensor.shapes import Bool, Float
from ol2r_cli.tensor.streams import Random

Projection = Literal["none", "document_space"]  # of a step


class DuelingBandits(GradientRanker):
    """Tries directions: where interleaved lists earn a candidate more clicks than the current ranker, theta moves.

    Member 0 is theta; the others are theta + `delta` u, with `candidates` directions u drawn from the unit sphere in
    every round. Then theta += rate x the mean u of the winners. `candidates` = 1 is DBGD, more is MGD. `learning_rate`
    and `decay` as in `GradientRanker`. With `projection` = document_space, the mean is projected first; then
    `document_space` has the settings of `DocumentSpace`, and the model must be linear. A subclass that draws other
    directions overrides `draw`, one that chooses among the winners `winners`.
    """

    pairs = "none"
    needs = (Need(CREDIT, "exploration=team_draft"),)
    offers = frozenset({FEATURES, MEMBERS})

    def __init__(
        self,
        model: Model,
        learning_rate: Positive,
        decay: Decay,
        delta: Positive,
        candidates: Count,
        projection: Projection,
        document_space: Mapping[str, Any],
    ):
        super().__init__(model, learning_rate, decay)
        self.delta, self.candidates = delta, candidates
        if document_space or projection != "none":  # subclasses that never project pass no settings
            check_settings(DocumentSpace, document_space, self.setting("document_space"))
        if projection != "none" and not model.linear:
            raise ValueError(f"{self.setting('projection')}={projection} needs a linear model: use ranker/model=linear")
        self.space = None if projection == "none" else DocumentSpace(**dict[str, Any](document_space))

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at the model's initial parameters."""
        super().setup(context, features)
        if self.space is not None:
            self.space.setup(context, features)
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
        """The ranker for rounds that are played together, where its model is linear and nothing is projected."""
        if type(self.model) is not Linear or self.space is not None:
            return None
        state = self.theta.numpy(), self.rate.numpy(), float(self.decay), float(self.delta), self.candidates
        return loops.play.Learner(loops.play.DUELING, loops.play.PAIRS[self.pairs], *state)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the mean of the winners, projected if that is set."""
        replaced = "earned", "winners"  # by the compiled loop
        if self.space is None and self.rows_for_loops(interaction, DuelingBandits, *replaced) is not None:
            assert interaction.proposal.credit is not None
            state = self.theta.numpy(), self.rate.numpy(), self.decay, self.directions.numpy()
            lists = interaction.proposal.credit.numpy(), interaction.ranking.numpy(), interaction.clicks.numpy()
            loops.steps.dueling(*state, *lists)
            return
        won = self.winners(interaction, random)
        share = won.to(self.theta.dtype) / won.sum(1, keepdim=True).clamp(min=1)
        direction = torch.bmm(share[:, None], self.directions).squeeze(1)
        if self.space is not None:
            direction = self.space.project(direction, interaction)
            self.space.remember(interaction)
        self.move(direction, won.any(1))

    def winners(self, interaction: Interaction, random: Random) -> Bool[Tensor, "B M"]:
        """Return the candidates that theta moves to: those that earned more than theta."""
        earned = self.earned(interaction)
        won: Tensor = earned[:, 1:] > earned[:, :1]
        return won

    def earned(self, interaction: Interaction) -> Float[Tensor, "B N"]:
        """Return the clicks that each member is credited with in this round; member 0 is theta."""
        credit = interaction.proposal.credit
        assert credit is not None
        ranking = interaction.ranking[:, None].expand(-1, credit.shape[1], -1)
        return (credit.gather(2, ranking) * interaction.clicks[:, None]).sum(2)
