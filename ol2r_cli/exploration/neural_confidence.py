"""Explore only where a network is uncertain: confidence intervals on its tangent features (olRankNet, 2022)."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.exploration.diagonal_tangents import DiagonalTangents
from ol2r_cli.exploration.divide import DivideAndConquer, Ranked
from ol2r_cli.exploration.full_tangents import FullTangents
from ol2r_cli.exploration.memory import check_memory
from ol2r_cli.exploration.survey import Survey, Tangents
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import TANGENT, Belief, Candidates, Draft, Interaction, Need, Oracle, Sizes
from ol2r_cli.learning.tangent import LayeredTangent
from ol2r_cli.random import Random
from ol2r_cli.rows import pick
from ol2r_cli.shapes import Bool, Float


class NeuralConfidence(DivideAndConquer):
    """Blocks of documents whose mutual order is uncertain, as `Confidence` has them, for a ranker with a network.

    i ranks certainly above j iff sigma(s_i - s_j) - 1/2 > alpha |phi_i - phi_j|_{A^-1}, with phi the gradient of the
    score divided by sqrt(m), and A = l2 I + sum of v v^T, v = phi_winner - phi_loser, over the preferences so far.
    `alpha` >= 0; `covariance` is `full`, exact at any width, or `diagonal` (the inverse of the diagonal of A, the
    papers' approximation): their widths differ by an order of magnitude, hence so do their alphas. `l2` > 0.
    `tangent_at` is `serving` (v at the parameters that served the round) or `refit` (at those after its fit).
    `precision` of the full covariance is `float64` or `float32`; `prune` leaves out documents that cannot be shown,
    where nobody looks at them. `shuffle` and `transitive` as in `DivideAndConquer`.
    """

    needs = (Need(TANGENT, "exploration=confidence"),)

    def __init__(
        self,
        alpha: float,
        covariance: str,
        l2: float,
        tangent_at: str,
        precision: str,
        prune: bool,
        shuffle: str,
        transitive: bool,
    ):
        super().__init__(shuffle, transitive)
        if not (isinstance(alpha, int | float) and alpha >= 0):
            raise ValueError(f"exploration.alpha must be a number from 0 up, got {alpha!r}")
        if not l2 > 0:
            raise ValueError(f"exploration.l2 must be above 0, got {l2}")
        for name, given, allowed in (
            ("covariance", covariance, ("full", "diagonal")),
            ("tangent_at", tangent_at, ("serving", "refit")),
            ("precision", precision, ("float64", "float32")),
        ):
            if given not in allowed:
                raise ValueError(f"exploration.{name} must be '{allowed[0]}' or '{allowed[1]}', got {given!r}")
        self.alpha, self.covariance, self.l2 = alpha, covariance, l2
        self.late, self.dtype, self.prune = tangent_at == "refit", getattr(torch, precision), prune

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with A = l2 I; ValueError where all of it will not fit into memory."""
        super().setup(sizes, features)
        if self.covariance == "full":
            check_memory(sizes, self.dtype)
        unseen = not sizes.explained and sizes.ordered == sizes.positions and self.shuffle == "conservative"
        self.prunes = self.prune and unseen and on_host(torch.empty(0, device=sizes.device))  # how many, it must ask
        self.tangents: Tangents = (
            DiagonalTangents(self.l2, sizes)
            if self.covariance == "diagonal"
            else FullTangents(self.l2, sizes, self.dtype)
        )
        self.waiting: tuple[Tensor, Tensor] | None = None  # of the latest pairs: features [B 2M F], valid [B M]

    def propose(self, belief: Belief, candidates: Candidates, random: Random) -> Draft:
        """Certain pairs, their blocks, and a random order of each block."""
        tangent = belief.tangent()
        assert isinstance(tangent, LayeredTangent)
        pairs = None
        if self.waiting is not None:
            features, valid = self.waiting
            pairs, self.waiting = (tangent.at(features), valid), None
        self.tangents.begin(tangent, pairs)
        return super().propose(belief, candidates, random)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the round's pairs to A, or keep their features until the network has been fitted."""
        chosen = interaction.preferences
        if self.late:
            both = torch.stack([chosen.winner, chosen.loser], 2).flatten(1)
            self.waiting = pick(interaction.candidates.features, both), chosen.valid
        else:
            self.tangents.learn(chosen)

    def certain(self, ranked: Ranked) -> Bool[Tensor, "b s s"]:
        """sigma(s_i - s_j) - 1/2 > alpha w_ij, both sides squared; of the documents that can be shown."""
        survey = Survey(self._margins(ranked), self.alpha**2, self.positions if self.prunes else None)
        return self.tangents.certain(ranked.some, ranked.order, survey)

    def _margins(self, ranked: Ranked) -> Float[Tensor, "b d d"]:
        """(sigma(s_i - s_j) - 1/2)^2 where that is positive, infinity above padding.

        Zero between documents of equal features: nobody can be certain of their order, whatever the last bits of their
        scores. Features are compared by a fixed random combination of them.
        """
        some, belief, order, scores, mask = ranked
        tangent = belief.tangent()
        assert isinstance(tangent, LayeredTangent)
        features = tangent.factors[0][1][some, : order.shape[1]].double()
        combined = (features * _combination(features.shape[2], features.device)).sum(2).gather(1, order)
        margins = (scores[:, :, None] - scores[:, None, :]).sigmoid_().sub_(0.5).clamp_(min=0).square_()
        margins.masked_fill_(combined[:, :, None] == combined[:, None, :], 0)
        return margins.masked_fill_(~mask[:, None, :], torch.inf)

    def get_extra_state(self) -> dict[str, Any]:
        """The covariance matrix in the form that it is kept in, and the pairs that still wait."""
        return {"tangents": self.tangents.state(), "waiting": list(self.waiting or ())}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over a checkpoint."""
        self.tangents.restore(state["tangents"])
        waiting = [values.to(self.tangents.device) for values in state["waiting"]]
        self.waiting = (waiting[0], waiting[1]) if waiting else None


@cache
def _combination(features: int, device: torch.device) -> Float[Tensor, "F"]:
    """Numbers such that different documents have different sums; shared, not to be written to."""
    return torch.rand(features, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
