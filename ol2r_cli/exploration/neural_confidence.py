"""Explore only uncertain pairs of a network: confidence intervals on its tangent features (olRankNet, 2022)."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Positive
from ol2r_cli.exploration.divide_and_conquer import DivideAndConquer, ScoreOrder, Shuffle, Width
from ol2r_cli.exploration.tangent_certainty import (
    Criterion,
    DiagonalTangentCovariance,
    FullTangentCovariance,
    TangentCovariance,
    most_rounds,
)
from ol2r_cli.interfaces import (
    TANGENT,
    Candidates,
    Forgetting,
    Interaction,
    Need,
    Oracle,
    Prediction,
    Proposal,
    RunContext,
)
from ol2r_cli.learning.tangents import LayeredTangent
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.memory import available_memory
from ol2r_cli.tensor.shapes import Bool, Float
from ol2r_cli.tensor.streams import Random


class NeuralConfidence(DivideAndConquer):
    """Document i is certainly above j if and only if sigma(s_i - s_j) - 1/2 > alpha |phi_i - phi_j|_{A^-1}.

    phi is the gradient of the network's score divided by sqrt(m), and A = l2 I + sum of v v^T with
    v = phi_winner - phi_loser over the preferences so far. `covariance` is `full`, exact at any width, or `diagonal`
    (the inverse of the diagonal of A, the papers' approximation). Their widths differ by an order of magnitude, so they
    need different values of `alpha`. `tangent_at` is `serving` (v at the parameters that served the round) or `refit`
    (v at the parameters after the round's fit). `precision` is that of the full covariance. `prune` leaves out
    documents that cannot be shown, unless they are traced. `shuffle` and `transitive` as in `DivideAndConquer`.

    Where the ranker forgets (`RunContext.forgetting`), `diagonal` does as `inverse_diagonal` of `Confidence`, which
    takes a number for every parameter and round of a window, and `full` is refused.
    """

    needs = (Need(TANGENT, "exploration=confidence"),)

    def __init__(
        self,
        alpha: Width,
        covariance: Literal["full", "diagonal"],
        l2: Positive,
        tangent_at: Literal["serving", "refit"],
        precision: Literal["float64", "float32"],
        prune: bool,
        shuffle: Shuffle,
        transitive: bool,
    ):
        super().__init__(shuffle, transitive)
        self.alpha = float(alpha)  # the square of a whole number may be too large for a tensor
        self.covariance, self.l2 = covariance, l2
        self.tangent_at, self.dtype, self.prune = tangent_at, getattr(torch, precision), prune

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with A = l2 I; ValueError if a full covariance may not fit into memory."""
        super().setup(context, features)
        if self.covariance == "full" and context.forgetting != Forgetting():
            raise ValueError(f"{self.setting('covariance')} must be diagonal where the ranker forgets pairs, got full")
        if self.covariance == "full":
            self._check_memory(context)
        self.prunes = self.prune and self.only_shown and self.shuffle == "conservative"
        self.tangents: TangentCovariance = (
            DiagonalTangentCovariance(self.l2, context)
            if self.covariance == "diagonal"
            else FullTangentCovariance(self.l2, context, self.dtype)
        )
        self.waiting: tuple[Tensor, Tensor] | None = None  # the latest pairs: features [B 2M F], valid [B M]

    def _check_memory(self, context: RunContext) -> None:
        """Raise ValueError, with what to type, if the largest possible covariance exceeds the memory."""
        memory = available_memory(context.device)
        rounds = most_rounds(context, self.dtype, memory)
        if rounds >= context.rounds:
            return
        float32 = "" if self.dtype == torch.float32 else f"{self.setting('precision')}=float32, "
        raise ValueError(
            f"rounds must be at most {rounds} with {self.setting('covariance')}=full and replicas={context.replicas} "
            f"in {memory / 2**30:.1f} GiB of memory, got {context.rounds}: {float32}fewer replicas or "
            f"{self.setting('covariance')}=diagonal need less"
        )

    def propose(self, prediction: Prediction, candidates: Candidates, random: Random) -> Proposal:
        """Add the pairs that wait for the fit, then propose as every divide-and-conquer exploration."""
        tangent = prediction.tangent()
        assert isinstance(tangent, LayeredTangent)
        pairs = None
        if self.waiting is not None:
            features, valid = self.waiting
            pairs, self.waiting = (tangent.at(features), valid), None
        self.tangents.begin(tangent, pairs)
        return super().propose(prediction, candidates, random)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the round's pairs to A, or keep their features until the network has been fitted."""
        preferences = interaction.preferences
        if self.tangent_at == "refit":
            both = torch.stack([preferences.winner, preferences.loser], 2).flatten(1)
            self.waiting = gather(interaction.candidates.features, both), preferences.valid
        else:
            self.tangents.learn(preferences)

    def certain(self, ranked: ScoreOrder) -> Bool[Tensor, "b s s"]:
        """Compare sigma(s_i - s_j) - 1/2 with alpha times the width, both squared, for documents that can be shown."""
        criterion = Criterion(self._margins(ranked), self.alpha**2, self.positions if self.prunes else None)
        return self.tangents.certain(ranked.replicas, ranked.order, criterion)

    def _margins(self, ranked: ScoreOrder) -> Float[Tensor, "b d d"]:
        """Return (sigma(s_i - s_j) - 1/2)^2, or 0 if s_i < s_j; infinity if j is padding.

        Documents with equal features get 0: their order cannot be certain, whatever the last bits of their scores.
        Features are compared by one fixed random combination.
        """
        replicas, prediction, order, scores, mask, _ = ranked
        tangent = prediction.tangent()
        assert isinstance(tangent, LayeredTangent)
        features = tangent.factors[0][1][replicas, : order.shape[1]].double()
        combined = (features * _combination(features.shape[2], features.device)).sum(2).gather(1, order)
        margins = (scores[:, :, None] - scores[:, None, :]).sigmoid_().sub_(0.5).clamp_(min=0).square_()
        margins.masked_fill_(combined[:, :, None] == combined[:, None, :], 0)
        return margins.masked_fill_(~mask[:, None, :], torch.inf)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the covariance in its present form, and the pairs that wait for the fit."""
        return {"tangents": self.tangents.state(), "waiting": list(self.waiting or ())}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.tangents.restore(state["tangents"])
        waiting = [values.to(self.tangents.device) for values in state["waiting"]]
        self.waiting = (waiting[0], waiting[1]) if waiting else None


@cache
def _combination(features: int, device: torch.device) -> Float[Tensor, "F"]:
    """Return random coefficients, so that different features have different sums. The tensor is shared."""
    return torch.rand(features, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
