"""Dueling bandit gradient descent and its multileaved form (Yue and Joachims, ICML 2009; Schuth et al., WSDM 2016);
document space projection of their steps (Wang et al., SIGIR 2019); and null space gradient descent (Wang, Langley,
Kim, McCord-Snook and Wang, SIGIR 2018).

NSGD: the paper's "Efficient Exploration of Gradient Space for Online Learning to Rank" gives the idea; what it leaves
open is as in the authors' code, HCDM/OnlineLearningToRank at bfb9d70, `algorithms/DBGD/tdNSGD.py`, but for its mistakes
(docs/algorithms/nsgd.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.config.ranges import Count, Positive, WholeNumber, check_settings
from ol2r_cli.interfaces import CREDIT, FEATURES, MEMBERS, Candidates, Interaction, Need, Oracle, Prediction, RunContext
from ol2r_cli.learning.model import Model
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import Decay, GradientRanker, directions_on_sphere
from ol2r_cli.tensor.gather import cached_arange, gather
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
        super().setup(context, features)
        self.positions = context.positions
        if self.space is not None:
            self.space.setup(context, features)
        shape = context.replicas, self.candidates, self.theta.shape[1]
        # Directions are drawn for one round alone: they are no state, hence no buffer.
        self.directions = torch.zeros(shape, dtype=context.dtype, device=context.device)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        self.directions = self.draw(candidates, random)
        return dataclasses.replace(super().predict(candidates, random), directions=self.directions)

    def draw(self, candidates: Candidates, random: Random) -> Float[Tensor, "B M P"]:
        """Return the directions of this round, of length 1: M = `candidates`, of P parameters."""
        return directions_on_sphere(random, self.candidates, self.theta.shape[1]).to(self.theta.dtype)

    def weights(self) -> Float[Tensor, "B N P"]:
        return torch.cat([self.theta[:, None], self.theta[:, None] + self.delta * self.directions], dim=1)

    def stages(self) -> Any:
        if type(self.model) is not Linear:
            return None
        state, is_projected = self.duel_state(), self.space is not None
        learn = loops.duels.learns_by_projected_duels if is_projected else loops.duels.learns_by_duels
        room = loops.duels.room_of_duels(self.candidates, self.candidates, self.theta.shape[1], self.projected_rows())
        stages = loops.duels.scores_of_members, learn, state, 1 + self.candidates, room
        return loops.rounds.RankerStages(*stages, by_theta=True)

    def duel_state(self) -> Any:
        """Return the state of a linear ranker for loops."""
        replicas, features = self.theta.shape
        directions = self.theta.new_empty(replicas, self.candidates, features)
        weights = self.theta.new_empty(replicas, 1 + self.candidates, features)
        settings = self.by_replica(self.decay), self.by_replica(self.delta)
        space = () if self.space is None else self.space.state()
        return loops.duels.DuelState(self.theta, self.theta, self.rate, *settings, directions, weights, space)

    def projected_rows(self) -> int:
        """Return how many documents the document space is of at most; 0 without a projection."""
        return 0 if self.space is None else self.space.earlier + self.positions

    def learn(self, interaction: Interaction, random: Random) -> None:
        assert interaction.prediction.directions is not None
        self.directions = interaction.prediction.directions
        won = self.winners(interaction, random)
        share = won.to(self.theta.dtype) / won.sum(1, keepdim=True).clamp(min=1)
        direction = torch.bmm(share[:, None], self.directions).squeeze(1)
        if self.space is not None:
            direction = self.space.project(direction, interaction)
        self.move(direction, won.any(1))

    def winners(self, interaction: Interaction, random: Random) -> Bool[Tensor, "B M"]:
        earned = self.earned(interaction)
        return torch.gt(earned[:, 1:], earned[:, :1])

    def earned(self, interaction: Interaction) -> Float[Tensor, "B N"]:
        """Return the clicks that each member is credited with in this round; member 0 is theta."""
        credit = interaction.proposal.credit
        assert credit is not None
        ranking = interaction.ranking[:, None].expand(-1, credit.shape[1], -1)
        return (credit.gather(2, ranking) * interaction.clicks[:, None]).sum(2)


TOLERANCE = 1e-6  # features are float32: what is shorter, relative to the first combination, is their rounding


def orthonormal_basis(vectors: Float[Tensor, "B M P"]) -> Float[Tensor, "B R P"]:
    """Return R = min(M, P) rows, float64: an orthonormal basis of the span of the vectors, and zeros.

    Vectors may be zero, equal or collinear. No value is read, so that no GPU is waited for: of random combinations of
    vectors whose span has r dimensions, the first r span it too (Halko, Martinsson and Tropp, "Finding structure with
    randomness", SIAM Review 2011, section 4).
    """
    mixed = vectors.mT.double() @ _combinations(vectors.shape[1], vectors.device)[:, : vectors.shape[2]]
    basis, factor = torch.linalg.qr(mixed)
    new = factor.diagonal(dim1=1, dim2=2).abs()  # length of each combination outside the span of those before it
    return (basis * (new > TOLERANCE * new[:, :1])[:, None]).mT


@cache
def _combinations(count: int, device: torch.device) -> Float[Tensor, "M M"]:
    """Return a fixed orthogonal matrix with the uniform distribution; a column has the weights of a combination."""
    normal = torch.randn(count, count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.linalg.qr(normal).Q.to(device)


class DocumentSpace(nn.Module):
    """The span of the documents at the places down to `below` places below the last click, and of the `earlier` newest
    such documents of earlier rounds: clicks say nothing about a direction that is orthogonal to all of them.

    A projected direction has length 1 with `normalise`, as in the authors' code; otherwise it is shortened.
    """

    recent: Tensor

    def __init__(self, below: WholeNumber, earlier: WholeNumber, normalise: bool):
        super().__init__()
        self.below, self.earlier, self.normalise = below, earlier, normalise

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        self.features = features.to(context.device)
        rows = torch.full((context.replicas, self.earlier), -1, dtype=torch.int64, device=context.device)
        self.register_buffer("recent", rows)  # rows of the document table, the newest last; -1 for none

    def state(self) -> Any:
        """Return the state for loops."""
        below, normalise = (self.recent.new_full((len(self.recent),), value) for value in (self.below, self.normalise))
        return loops.spans.DocumentSpaceState(below, normalise, self.recent)

    def project(self, direction: Float[Tensor, "B P"], interaction: Interaction) -> Float[Tensor, "B P"]:
        """Return the part of each direction in the document space of its round, which is zero without a click, and add
        the round's documents to those of earlier rounds."""
        place = cached_arange(interaction.clicks.shape[1], interaction.clicks.device) + 1
        last = (interaction.clicks * place).amax(1, keepdim=True)  # 0 without a click
        examined = interaction.shown & (place <= last + self.below) & (last > 0)
        shown = interaction.candidates.document.gather(1, interaction.ranking)
        row = torch.cat([self.recent, shown], dim=1)
        counts, row = torch.cat([self.recent >= 0, examined], dim=1), row.clamp(min=0)
        features = self.features.index_select(0, row.flatten()).double().unflatten(0, row.shape)
        basis = orthonormal_basis(features * counts[:, :, None])
        inside = (direction[:, None].double() @ basis.mT @ basis)[:, 0]
        if self.normalise:
            length = inside.norm(dim=1, keepdim=True)
            inside = inside / torch.where(length > 0, length, 1.0)
        newer = counts.flip(1).cumsum(1).flip(1)  # 1 for the newest document that counts
        kept = torch.where(counts & (newer <= self.earlier), self.earlier - newer, self.earlier)
        room = row.new_full((len(row), self.earlier + 1), -1)  # the last place is for the others
        self.recent.copy_(room.scatter_(1, kept, row)[:, :-1])
        return inside.to(direction.dtype)


WORST = 4  # members of a round that may be stored: those who earned no more than the fourth least


class NSGD(DuelingBandits):
    """Multileave gradient descent with directions in the null space of directions that lost.

    `drawn` directions are orthogonal to the `avoided` worst of the last `memory` that lost, at most one less than there
    are features. The `candidates` among them that differ most in the scores of the query's mean document are compared.
    Of several winners, the one that ranks stored queries best wins alone: see `DifficultQueries` with
    `difficult_queries` and `window`; with 0 queries theta moves to the mean of the winners. The other settings are
    those of `DuelingBandits`; the model is linear.
    """

    lost: Tensor
    loss: Tensor
    oldest: Tensor

    def __init__(
        self,
        learning_rate: Positive,
        decay: Decay,
        delta: Positive,
        candidates: Count,
        drawn: Count,
        memory: Count,
        avoided: WholeNumber,
        difficult_queries: WholeNumber,
        window: WholeNumber,
        projection: Projection,
        document_space: Mapping[str, Any],
    ):
        super().__init__(Linear(), learning_rate, decay, delta, candidates, projection, document_space)
        for name, value in {"drawn": drawn, "memory": memory}.items():
            if value < candidates:
                least = f"{self.setting('candidates')}, {candidates}"
                raise ValueError(f"{self.setting(name)} must be at least {least}, got {value}")
        if avoided > memory:
            most = f"{self.setting('memory')}, {memory}"
            raise ValueError(f"{self.setting('avoided')} must be at most {most}, got {avoided}")
        self.drawn, self.memory, self.avoided = drawn, memory, avoided
        self.queries = DifficultQueries(difficult_queries, window)

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        replicas, parameters = self.theta.shape
        self.register_buffer("lost", self.theta.new_zeros(replicas, self.memory, parameters))
        self.register_buffer("loss", self.theta.new_zeros(replicas, self.memory))  # clicks less those of theta
        self.register_buffer("oldest", torch.zeros(replicas, dtype=torch.int64, device=context.device))
        self.queries.setup(context, features)
        if self.avoided >= parameters:
            avoided = f"{self.setting('avoided')} is {self.avoided}"
            self.warnings = (f"{avoided}, but with {parameters} features {parameters - 1} directions are avoided",)

    def stages(self) -> Any:
        losers = loops.null_space.Losers(self.avoided, self.lost, self.loss, self.oldest)
        parts = *self.duel_state(), self.drawn, losers, self.queries.state()
        state = loops.null_space.NullSpaceState(*parts)
        room = loops.null_space.room_of_null_space(state, self.projected_rows())
        if self.space is None:
            learn = loops.null_space.learns_by_null_space
        else:
            learn = loops.null_space.learns_by_projected_null_space
        score = loops.null_space.scores_of_null_space
        return loops.rounds.RankerStages(score, learn, state, 1 + self.candidates, room)

    def draw(self, candidates: Candidates, random: Random) -> Float[Tensor, "B M P"]:
        """Return directions that are uniform in the null space, of which those are kept that the query can tell apart.

        They are in the order of |u.x|, where x is the mean of the documents' features, or as drawn if all are kept.
        """
        # The stored directions that lost most; of equal ones those at the last places of the ring.
        last = self.loss.flip(1).sort(dim=1, stable=True).indices[:, : min(self.avoided, self.theta.shape[1] - 1)]
        basis = orthonormal_basis(gather(self.lost, self.memory - 1 - last))
        directions = directions_on_sphere(random, self.drawn, self.theta.shape[1])
        for _ in range(2):  # the second time removes the rounding errors of the first
            directions = directions - directions @ basis.mT @ basis
            directions = directions / directions.norm(dim=2, keepdim=True)
        directions = directions.to(self.theta.dtype)
        if self.drawn == self.candidates:
            return directions
        mask = candidates.mask[:, :, None]
        mean = (candidates.features * mask).sum(1) / mask.sum(1)
        difference = (directions @ mean[:, :, None]).squeeze(2).abs().float()  # in which rounding errors are ties
        order = difference.sort(dim=1, descending=True, stable=True).indices
        return gather(directions, order[:, : self.candidates])

    def learn(self, interaction: Interaction, random: Random) -> None:
        super().learn(interaction, random)
        earned = self.earned(interaction)
        most = earned.sort(dim=1).values[:, : min(WORST, earned.shape[1])][:, -1:]
        loses = (earned[:, 1:] < earned[:, :1]) & (earned[:, 1:] <= most)
        place = (self.oldest[:, None] + loses.cumsum(1) - 1) % self.memory
        here = (place[:, :, None] == cached_arange(self.memory, place.device)) & loses[:, :, None]
        replaced, put = here.any(1), here.to(self.theta.dtype).mT  # [B memory], [B memory M]
        behind = (earned[:, 1:] - earned[:, :1]).to(self.theta.dtype)
        self.lost.copy_(torch.where(replaced[:, :, None], put @ self.directions, self.lost))
        self.loss.copy_(torch.where(replaced, (put @ behind[:, :, None]).squeeze(2), self.loss))
        self.oldest.copy_((self.oldest + loses.sum(1)) % self.memory)

    def winners(self, interaction: Interaction, random: Random) -> Bool[Tensor, "B M"]:
        """Return the candidate that theta moves to: of several that earned more than theta, the best at difficult
        queries."""
        won = super().winners(interaction, random)
        if not self.queries.room:
            return won
        self.queries.store(interaction, random.round)
        return self.queries.best(won, self.weights()[:, 1:])


class DifficultQueries(nn.Module):
    """Stores the `room` most difficult of recent queries, and says who ranks best what was clicked there.

    A query with clicks at ranks r has the ease sum 1/r: the less, the more difficult. One without a click is not
    stored. If there is no room, a query replaces the first that was stored more than `window` rounds ago; otherwise the
    easiest one, if it is easier.
    """

    ease: Tensor
    stored: Tensor
    document: Tensor
    length: Tensor
    clicked: Tensor

    def __init__(self, room: WholeNumber, window: WholeNumber):
        super().__init__()
        self.room, self.window = room, window

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        self.features, self.loops = features.to(context.device), context.loops
        shape, documents, device = (context.replicas, self.room), context.documents, context.device
        self.register_buffer("ease", torch.full(shape, torch.inf, dtype=torch.float64, device=device))  # if empty
        self.register_buffer("stored", torch.zeros(shape, dtype=torch.int64, device=device))  # in this round
        self.register_buffer("document", torch.zeros(*shape, documents, dtype=torch.int64, device=device))
        self.register_buffer("length", torch.zeros(shape, dtype=torch.int64, device=device))
        self.register_buffer("clicked", torch.zeros(*shape, documents, dtype=torch.bool, device=device))

    def state(self) -> Any:
        """Return the state for loops."""
        window = self.length.new_full((len(self.length),), self.window)
        buffers = self.ease, self.stored, self.document, self.length, self.clicked
        return loops.null_space.Difficult(window, *buffers)

    def store(self, interaction: Interaction, round: int) -> None:
        candidates, clicks = interaction.candidates, interaction.clicks
        ease = (clicks / (cached_arange(clicks.shape[1], clicks.device) + 1).double()).sum(1)
        ease = ease.float().double()  # 1 = 1/2 + 1/3 + 1/6 in whatever order they are added
        old = self.ease.isfinite() & (round - self.stored > self.window)
        easiest, place = self.ease.masked_fill(old, torch.finfo(torch.float64).max).max(1)
        replaced = (ease > 0) & (ease < easiest)
        replica, rows = cached_arange(len(place), place.device), torch.zeros_like(self.document[:, 0])
        rows[:, : candidates.document.shape[1]] = candidates.document
        clicked = torch.zeros_like(self.clicked[:, 0]).scatter_(1, interaction.ranking, clicks)
        for buffer, value in (
            (self.ease, ease),
            (self.stored, torch.full_like(place, round)),
            (self.document, rows),
            (self.length, candidates.mask.sum(1)),
            (self.clicked, clicked),
        ):
            before = buffer[replica, place]
            buffer[replica, place] = torch.where(replaced.view(-1, *[1] * (value.dim() - 1)), value, before)

    def best(self, won: Bool[Tensor, "B M"], weights: Float[Tensor, "B M P"]) -> Bool[Tensor, "B M"]:
        """Return which of the winners is best alone: with the largest sum of 1/rank over the documents clicked in the
        stored queries, the first of equal ones."""
        if self.loops and not (won.sum(1) > 1).any():
            return won
        document = self.document
        features = self.features.index_select(0, document.flatten()).to(weights.dtype).unflatten(0, (len(won), -1))
        scores = (weights @ features.mT).unflatten(2, document.shape[1:])  # [B M room D]
        slot = cached_arange(document.shape[2], document.device)
        there = (slot < self.length[:, :, None])[:, None]
        comparable = scores.float().masked_fill(~there, -torch.inf)  # equal documents tie
        ascending = comparable.sort(dim=3).values
        rank = 1 + len(slot) - torch.searchsorted(ascending, comparable, right=True)
        quality = (self.clicked[:, None] / rank.double()).sum((2, 3)).float()
        alone = quality.masked_fill(~won, -torch.inf).argmax(1, keepdim=True)
        only = torch.zeros_like(won).scatter_(1, alone, won.gather(1, alone))
        return torch.where(won.sum(1, keepdim=True) > 1, only, won)
