"""Explore only where the ranker is uncertain: PairRank's confidence intervals (WWW 2021, sections 3.2.2 and 3.2.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ol2r_cli.exploration.divide import DivideAndConquer, Ranked
from ol2r_cli.interfaces import FEATURES, Interaction, Need, Oracle, Sizes
from ol2r_cli.learning.inverse import add_outer_products
from ol2r_cli.random import Random
from ol2r_cli.rows import pick
from ol2r_cli.shapes import Bool, Float


class Confidence(DivideAndConquer):
    """Blocks of documents whose mutual order is uncertain, shuffled inside, in certain order across.

    i ranks certainly above j iff sigma(s_i - s_j) - alpha |x_i - x_j|_{M^-1} > 1/2, with M = l2 I + sum of x_ij x_ij^T
    over the preferences so far. `alpha` >= 0, or `theory` for Lemma 2's alpha_t with R = 1/2, Q = 1, delta = 1/T,
    k_mu = 1/4 and c_mu = sigma'(Q max |x_ij|). `covariance` is `full`, `diagonal` (only the diagonal of M^-1, the
    authors' PairRank-Diag) or `inverse_diagonal` (the inverse of the diagonal of M, which needs no matrix at all).
    `shuffle` and `transitive` as in `DivideAndConquer`.
    """

    needs = (Need(FEATURES, "exploration=neural_confidence"),)
    refresh = 256  # rounds between recomputations of M^-1, against the drift of its updates

    matrix: Tensor
    inverse: Tensor
    rounds: Tensor

    def __init__(self, alpha: float | str, covariance: str, shuffle: str, transitive: bool, l2: float):
        super().__init__(shuffle, transitive)
        if alpha != "theory" and not (isinstance(alpha, int | float) and alpha >= 0):
            raise ValueError(f"exploration.alpha must be a number from 0 up or 'theory', got {alpha!r}")
        if covariance not in ("full", "diagonal", "inverse_diagonal"):
            raise ValueError(
                f"exploration.covariance must be 'full', 'diagonal' or 'inverse_diagonal', got {covariance!r}"
            )
        if not l2 > 0:
            raise ValueError(f"exploration.l2 must be above 0, got {l2}")
        self.alpha, self.covariance, self.l2 = alpha, covariance, l2
        self.foresees = "exploration.alpha=theory" if alpha == "theory" else ""

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with M = l2 I."""
        super().setup(sizes, features)
        identity = torch.eye(sizes.features, dtype=sizes.dtype, device=sizes.device).repeat(sizes.replicas, 1, 1)
        self.register_buffer("matrix", identity * self.l2)
        self.register_buffer("inverse", identity / self.l2)
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))
        self.horizon = sizes.rounds
        if self.alpha == "theory":
            span = features.amax(0) - features.amin(0)  # |x_ij| is at most its length
            slope = torch.sigmoid(span.double().norm())
            self.steepness = 2 * 0.25 / float(slope * (1 - slope))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the round's pairs to M."""
        rows = interaction.belief.tangent().differences(interaction.preferences)
        self.matrix.baddbmm_(rows.mT, rows)
        self.rounds += 1
        if int(self.rounds) % self.refresh:
            add_outer_products(self.inverse, rows)
        else:
            self.inverse.copy_(torch.linalg.inv(self.matrix))

    def certain(self, ranked: Ranked) -> Bool[Tensor, "b d d"]:
        """sigma(s_i - s_j) - 1/2 > alpha |x_ij|, both sides squared; equal documents are never certain."""
        some, belief, order, scores, _ = ranked
        tangent = pick(belief.tangent().dense()[some, : order.shape[1]], order)
        margin = (scores[:, :, None] - scores[:, None, :]).sigmoid_().sub_(0.5).clamp_(min=0).square_()
        return margin > self._widths(some, tangent).mul_(self._alpha(some) ** 2).clamp_(min=0)

    def _widths(self, some: Tensor | slice, x: Float[Tensor, "b d P"]) -> Float[Tensor, "b d d"]:
        """|x_i - x_j|^2 in the norm of M^-1 = K_ii + K_jj - 2 K_ij with K = X M^-1 X^T: products, not D^2 solves."""
        if self.covariance == "full":
            projected = torch.bmm(x, self.inverse[some])
        elif self.covariance == "diagonal":
            projected = x * self.inverse[some].diagonal(dim1=1, dim2=2)[:, None]
        else:
            projected = x / self.matrix[some].diagonal(dim1=1, dim2=2)[:, None]
        own = (projected * x).sum(2)
        return torch.bmm(projected.mul_(-2), x.mT).add_(own[:, :, None]).add_(own[:, None, :])

    def _alpha(self, some: Tensor | slice) -> float | Float[Tensor, "b 1 1"]:
        """The width's multiplier: a constant, or Lemma 2's alpha_t with R = 1/2, Q = 1, delta = 1/T."""
        if isinstance(self.alpha, int | float):
            return self.alpha
        growth = torch.linalg.slogdet(self.matrix[some]).logabsdet - self.matrix.shape[1] * math.log(self.l2)
        spread = 0.5 * (growth + 2 * math.log(self.horizon)).sqrt()
        return (self.steepness * (spread + math.sqrt(self.l2)))[:, None, None]
