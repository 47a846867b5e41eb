"""Explore only uncertain pairs: PairRank's confidence intervals (WWW 2021, sections 3.2.2 and 3.2.3), or an ensemble
whose members disagree (P2NeurRank, SIGIR 2022, section 3.3)."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Positive
from ol2r_cli.exploration.confidence import agreement_loops, interval_loops
from ol2r_cli.exploration.divide_and_conquer import DivideAndConquer, ScoreOrder, Shuffle, Width
from ol2r_cli.interfaces import FEATURES, MEMBERS, Forgetting, Interaction, Need, Oracle, RunContext
from ol2r_cli.learning.covariance import remove_outer_products
from ol2r_cli.tensor.shapes import Bool, Float
from ol2r_cli.tensor.streams import Random

FORMS = ("full", "diagonal", "inverse_diagonal")  # of M^-1, as interval_loops.py numbers them


class Confidence(DivideAndConquer):
    """Document i is certainly above j if and only if sigma(s_i - s_j) - alpha |x_i - x_j|_{M^-1} > 1/2.

    M = l2 I + sum of x_ij x_ij^T over the preferences so far. `alpha` is a number, or `theory` for Lemma 2's alpha_t
    with R = 1/2, Q = 1, delta = 1/T, k_mu = 1/4 and c_mu = sigma'(Q max |x_ij|). `covariance` is `full`, `diagonal`
    (the diagonal of M^-1: the authors' PairRank-Diag) or `inverse_diagonal` (the inverse of the diagonal of M).
    `shuffle` and `transitive` as in `DivideAndConquer`.

    Where the ranker forgets (`RunContext.forgetting`), a pair counts w in M, by its age. With a window w is 0 or 1, and
    the norm is that of M^-1 as before. With a discount it is that of M^-1 M~ M^-1, where a pair counts w^2 in M~
    (D-LinUCB, Russac et al., NeurIPS 2019, Algorithm 1); of M and M~ only the diagonals count with `inverse_diagonal`.
    """

    needs = (Need(FEATURES, "exploration=neural_confidence"),)
    refresh = 256  # rounds between recomputations of M^-1, which stop the drift of its updates

    matrix: Tensor
    inverse: Tensor
    rounds: Tensor
    squared: Tensor  # M~, with a discount
    recent: Tensor  # with a window: the differences of its rounds' pairs, zeros where a round has fewer

    def __init__(
        self,
        alpha: Width | Literal["theory"],
        covariance: Literal["full", "diagonal", "inverse_diagonal"],
        shuffle: Shuffle,
        transitive: bool,
        l2: Positive,
    ):
        super().__init__(shuffle, transitive)
        self.alpha = alpha if isinstance(alpha, str) else float(alpha)  # the square of a whole number may be too large
        self.covariance, self.l2 = covariance, l2

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        identity = torch.eye(context.features, dtype=torch.float64, device=context.device)
        identity = identity.repeat(context.replicas, 1, 1)
        self.register_buffer("matrix", identity * self.l2)
        self.register_buffer("inverse", identity / self.l2)
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))
        self.window, self.discount = context.forgetting.window, context.forgetting.discount
        if self.window is not None:
            shape = context.replicas, min(self.window, context.rounds) + 1, context.pairs, context.features
            self.register_buffer("recent", torch.zeros(shape, dtype=torch.float64, device=context.device))
        if self.discount < 1:
            self.register_buffer("squared", self.matrix.clone())
        if context.forgetting != Forgetting() and self.alpha == "theory":
            raise ValueError(f"{self.setting('alpha')} must be a number where the ranker forgets pairs, got theory")
        of_discount = self.discount < 1 and self.covariance == "inverse_diagonal"
        self.form = FORMS.index("diagonal" if of_discount else self.covariance)  # what of `inverse`, or of M, is used
        self.horizon = context.rounds
        if self.alpha == "theory":
            span = features.amax(0) - features.amin(0)  # |x_ij| <= |span|
            slope = torch.sigmoid(span.double().norm())
            self.steepness = 2 * 0.25 / float(slope * (1 - slope))

    def stages(self) -> Any:
        if self.alpha == "theory" or self.window is not None or self.discount < 1:
            return None
        arrange, remember = interval_loops.arranges_by_intervals, interval_loops.remembers_pairs
        left = self.refresh - int(self.rounds) % self.refresh
        features = self.matrix.shape[1]

        def room(sizes: Any, documents: int) -> int:
            return int(interval_loops.room_of_intervals(documents, features, sizes.pairs))

        return loops.rounds.ExplorationStages(arrange, self._state(), remember, room, left)

    def _state(self) -> Any:
        """Return what the loops know of it."""
        if isinstance(self.alpha, str):
            scale = self._square_of_theory()
        else:
            scale = torch.full_like(self.matrix[:, 0, 0], self.alpha**2)
        return interval_loops.Intervals(self.matrix, self.inverse, scale, self.form, *self.how, *self.unrecorded)

    def after_loops(self, rounds: int, random: Random) -> None:
        self.rounds.add_(rounds)  # `+=` would go through Module.__setattr__, at several times the cost
        if not int(self.rounds) % self.refresh:
            self.inverse.copy_(torch.linalg.inv(self.matrix))

    def learn(self, interaction: Interaction, random: Random) -> None:
        rows = interaction.prediction.tangent().differences(interaction.preferences).double()
        if self.discount < 1:
            self._discount(rows)
            return
        room = interval_loops.room_of_intervals(0, rows.shape[2], rows.shape[1])
        written = rows.contiguous(), interaction.preferences.valid, self.matrix, self.inverse
        loops.launch.launch(interval_loops.adds_rows, len(rows), room, *written)
        self.after_loops(1, random)
        if self.window is not None:
            self._slide(int(self.rounds), rows)

    def _slide(self, rounds: int, rows: Float[Tensor, "B M F"]) -> None:
        """Take the pairs that leave the window after so many rounds out of M.

        M is added up again whenever all its pairs have left, so that what they leave by rounding stays small.
        """
        assert self.window is not None
        place = self.recent[:, (rounds - 1) % self.window]
        leaving = place.clone()
        place[:, : rows.shape[1]] = rows
        place[:, rows.shape[1] :] = 0
        if rounds <= self.window:
            return
        self.matrix.baddbmm_(leaving.mT, leaving, alpha=-1)
        if not rounds % self.window:
            recent = self.recent[:, : self.window].flatten(1, 2)
            torch.bmm(recent.mT, recent, out=self.matrix)
            self.matrix.diagonal(dim1=1, dim2=2).add_(self.l2)
        # Whether M^-1 can be brought up to date is read from it.
        if not rounds % self.refresh or not remove_outer_products(self.inverse, leaving):
            self.inverse.copy_(torch.linalg.inv_ex(self.matrix).inverse)

    def _discount(self, rows: Float[Tensor, "B M F"]) -> None:
        """Discount what M and M~ hold of earlier pairs, keep their l2, and add a round's pairs to both.

        `inverse` becomes M^-1 M~ M^-1. l2 keeps its full rank, so that M^-1 has no update of low rank.
        """
        for matrix, factor in (self.matrix, self.discount), (self.squared, self.discount**2):
            matrix.mul_(factor).baddbmm_(rows.mT, rows)
            matrix.diagonal(dim1=1, dim2=2).add_((1 - factor) * self.l2)
        if self.covariance == "inverse_diagonal":
            diagonal, squared = (matrix.diagonal(dim1=1, dim2=2) for matrix in (self.matrix, self.squared))
            self.inverse.diagonal(dim1=1, dim2=2).copy_(squared / diagonal.square())
            return
        root = torch.linalg.cholesky_ex(self.squared).L
        half = torch.cholesky_solve(root, torch.linalg.cholesky_ex(self.matrix).L)
        torch.bmm(half, half.mT, out=self.inverse)

    def certain(self, ranked: ScoreOrder) -> Bool[Tensor, "b d d"]:
        """Compare sigma(s_i - s_j) - 1/2 with alpha |x_ij|, both squared. Equal documents are never certain."""
        documents = ranked.prediction.tangent().dense()
        certain = ranked.mask.new_zeros(*ranked.order.shape, ranked.order.shape[1])
        room = interval_loops.room_of_intervals(documents.shape[1], documents.shape[2], 0)
        lists = documents.contiguous(), ranked.order, ranked.scores.double(), ranked.mask.sum(1)
        loops.launch.launch(interval_loops.compares_lists, len(certain), room, *lists, self._state(), certain)
        return certain

    def _square_of_theory(self) -> Float[Tensor, "B"]:
        """Return the square of Lemma 2's alpha_t."""
        growth = torch.linalg.slogdet(self.matrix).logabsdet - self.matrix.shape[1] * math.log(self.l2)
        spread = 0.5 * (growth + 2 * math.log(self.horizon)).sqrt()
        return (self.steepness * (spread + math.sqrt(self.l2))) ** 2


class Ensemble(DivideAndConquer):
    """Document i is certainly above j if and only if every member of the ranker scores it higher.

    `shuffle` as in `DivideAndConquer`. The relation is transitive, so there is nothing to close.
    """

    needs = (Need(MEMBERS, "ranker=pepairrank with ranker.members=2 or more"),)

    def __init__(self, shuffle: Shuffle):
        super().__init__(shuffle, transitive=False)

    def stages(self) -> Any:
        state = agreement_loops.Agreement(*self.how, *self.unrecorded)
        arrange, remember = agreement_loops.arranges_by_agreement, loops.rounds.nothing_to_remember
        return loops.rounds.ExplorationStages(arrange, state, remember, agreement_loops.room_of_agreement)

    def certain(self, ranked: ScoreOrder) -> Bool[Tensor, "b d d"]:
        members = ranked.prediction.scores[ranked.replicas, :, : ranked.order.shape[1]]
        members = members.gather(2, ranked.order[:, None].expand_as(members)).contiguous()
        replicas, _, documents = members.shape
        certain = ranked.mask.new_empty(replicas, documents, documents)
        room = agreement_loops.room_of_agreement(loops.rounds.Sizes(0, 0, 0), documents)
        loops.launch.launch(agreement_loops.compares_members, replicas, room, members, certain)
        return certain
