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
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.config.ranges import Count, Positive, WholeNumber, check_settings
from ol2r_cli.interfaces import (
    CREDIT,
    FEATURES,
    MEMBERS,
    Candidates,
    Interaction,
    Need,
    Oracle,
    Prediction,
    Rows,
    RunContext,
)
from ol2r_cli.learning.feedback import learn_by_stage, rows_of_documents
from ol2r_cli.learning.model import Model
from ol2r_cli.ranker.dueling_bandits import duel_loops, null_space_loops, span_loops
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import Decay, GradientRanker, directions_on_sphere, mean_of_winners
from ol2r_cli.tensor.shapes import Bool, Float
from ol2r_cli.tensor.streams import Random

Projection = Literal["none", "document_space"]  # of a step


class Duels(TypedDict):
    """How directions are compared, and the step that follows: the settings of `DuelingBandits` without its model."""

    learning_rate: Positive
    decay: Decay
    delta: Positive
    candidates: Count
    projection: Projection
    document_space: Mapping[str, Any]


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
        if projection != "none" and type(model) is not Linear:
            raise ValueError(f"{self.setting('projection')}={projection} needs a linear model: use ranker/model=linear")
        self.space = None if projection == "none" else DocumentSpace(**dict[str, Any](document_space))

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        self.positions, self.table = context.positions, features
        if self.space is not None:
            self.space.setup(context)
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
        return self.duels() if type(self.model) is Linear else None

    def duels(self) -> Any:
        """Return the stages of a linear ranker."""
        state, learn = self.duel_state(), duel_loops.learns_by_duels(self.move_of_loops())
        room = duel_loops.room_of_duels(self.candidates, self.candidates, self.theta.shape[1], self.projected_rows())
        stages = duel_loops.scores_of_members, learn, state, 1 + self.candidates, room
        return loops.rounds.RankerStages(*stages, by_theta=True)

    def move_of_loops(self) -> Any:
        """Return the loop that moves theta."""
        return loops.directions.move_to_winners if self.space is None else duel_loops.move_in_document_space

    def duel_state(self) -> Any:
        """Return the state of a linear ranker for loops."""
        replicas, features = self.theta.shape
        directions = self.theta.new_empty(replicas, self.candidates, features)
        weights = self.theta.new_empty(replicas, 1 + self.candidates, features)
        rate, delta = self.rate_state(), self.by_replica(self.delta)
        space = () if self.space is None else self.space.state()
        return duel_loops.DuelState(self.theta, self.theta, rate, delta, directions, weights, space)

    def projected_rows(self) -> int:
        """Return how many documents the document space is of at most; 0 without a projection."""
        return 0 if self.space is None else self.space.earlier + self.positions

    def learn_in_loops(self, stages: Any, interaction: Interaction, random: Random) -> None:
        """Learn from one round by these stages, with the directions of that round."""
        self.directions = served_directions(interaction)
        state = stages.state._replace(directions=self.directions, weights=self.weights())
        rows = rows_of_documents(self.table, interaction.candidates)
        learn_by_stage(stages._replace(state=state), interaction, rows, random)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the mean of the winners, or to its part in the document space."""
        self.directions = served_directions(interaction)
        won = self.winners(interaction, random)
        direction = mean_of_winners(won, self.directions)
        if self.space is not None:
            rows = rows_of_documents(self.table, interaction.candidates)
            direction = self.space.project(direction, interaction, rows, random)
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


def served_directions(interaction: Interaction) -> Float[Tensor, "B M P"]:
    """Return the directions by which the members of a round differ from theta."""
    directions = interaction.prediction.directions
    assert directions is not None
    return directions


class DocumentSpace(nn.Module):
    """The span of the documents at the places down to `below` places below the last click, and of the `earlier` newest
    such documents of earlier rounds: clicks say nothing about a direction that is orthogonal to all of them.

    A projected direction has length 1 with `normalise`, as in the authors' code; otherwise it is shortened.
    """

    recent: Tensor

    def __init__(self, below: WholeNumber, earlier: WholeNumber, normalise: bool):
        super().__init__()
        self.below, self.earlier, self.normalise = below, earlier, normalise

    def setup(self, context: RunContext) -> None:
        """Start without documents."""
        rows = torch.full((context.replicas, self.earlier), -1, dtype=torch.int64, device=context.device)
        self.register_buffer("recent", rows)  # rows of the document table, the newest last; -1 for none

    def state(self) -> Any:
        """Return the state for loops."""
        below, normalise = (self.recent.new_full((len(self.recent),), value) for value in (self.below, self.normalise))
        return span_loops.DocumentSpaceState(below, normalise, self.recent)

    def project(
        self, direction: Float[Tensor, "B F"], interaction: Interaction, rows: Rows, random: Random
    ) -> Float[Tensor, "B F"]:
        """Return the part of directions in the space of this round, and add its documents to the earlier ones. `rows`
        are those of the candidates."""
        projected = direction.double().contiguous()
        features, documents = projected.shape[1], self.earlier + interaction.ranking.shape[1]
        room = span_loops.room_of_projection(documents, features)
        state = span_loops.ProjectedDirection(self.state(), projected)
        learn_by_stage(
            loops.rounds.RankerStages(None, span_loops.projects, state, room=room), interaction, rows, random
        )
        return projected.to(direction.dtype)


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
        drawn: Count,
        memory: Count,
        avoided: WholeNumber,
        difficult_queries: WholeNumber,
        window: WholeNumber,
        **duels: Unpack[Duels],
    ):
        super().__init__(Linear(), **duels)
        candidates = duels["candidates"]
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
        for name in ("winners", "earned", "move"):
            if type(self).learn is NSGD.learn and getattr(type(self), name) is not getattr(DuelingBandits, name):
                must = f"must define learn where it defines {name}, which loops do not call"
                raise ValueError(f"{type(self).__name__} {must}")
        replicas, parameters = self.theta.shape
        self.register_buffer("lost", self.theta.new_zeros(replicas, self.memory, parameters))
        self.register_buffer("loss", self.theta.new_zeros(replicas, self.memory))  # clicks less those of theta
        self.register_buffer("oldest", torch.zeros(replicas, dtype=torch.int64, device=context.device))
        self.queries.setup(context)
        if self.avoided >= parameters:
            avoided = f"{self.setting('avoided')} is {self.avoided}"
            self.warnings = (f"{avoided}, but with {parameters} features {parameters - 1} directions are avoided",)

    def stages(self) -> Any:
        return self.duels()

    def duels(self) -> Any:
        state, null_space = self.null_space(), null_space_loops
        room = null_space.room_of_null_space(state, self.projected_rows())
        learn = null_space.learns_by_null_space(self.move_of_loops())
        return loops.rounds.RankerStages(null_space.scores_of_null_space, learn, state, 1 + self.candidates, room)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the winner that ranks stored queries best, and store the query and who lost: by loops in any case."""
        self.learn_in_loops(self.duels(), interaction, random)

    def null_space(self) -> Any:
        """Return the state for loops."""
        losers = null_space_loops.Losers(self.avoided, self.lost, self.loss, self.oldest)
        parts = *self.duel_state(), self.drawn, losers, self.queries.state()
        return null_space_loops.NullSpaceState(*parts)

    def draw(self, candidates: Candidates, random: Random) -> Float[Tensor, "B M P"]:
        """Return directions that are uniform in the null space, of which those are kept that the query can tell apart.

        They are in the order of |u.x|, where x is the mean of the documents' features, or as drawn if all are kept.
        """
        state, room = self.null_space(), null_space_loops.room_of_null_space(self.null_space(), 0)
        table, start, length = candidates.in_table()
        given = random.draw(), table, start, length, state
        loops.launch.launch(null_space_loops.draws_in_null_space, len(start), room, *given)
        return state.directions


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

    def setup(self, context: RunContext) -> None:
        """Reserve room for queries of any length."""
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
        return null_space_loops.Difficult(window, *buffers)
