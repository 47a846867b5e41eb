"""Base classes of rankers that score documents with a model: any model, linear scores, a step per round, a history. The
smallest ranker of a kind stands beside its base: random scores, true labels, and SGD RankNet."""

from __future__ import annotations

import math
from typing import Annotated, Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.ranges import Count, Positive, Range
from ol2r_cli.interfaces import FEATURES, TANGENT, Candidates, Interaction, Oracle, Prediction, Ranker, RunContext
from ol2r_cli.learning.feedback import learn_by_stage
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preferences import Pairs
from ol2r_cli.learning.tangents import LinearTangent, TableTangent
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.shapes import Bool, Float
from ol2r_cli.tensor.streams import Random

Decay = Annotated[float, Range(0, 1, open_below=True)]  # factor of a learning rate
Growth = Annotated[float, Range(1)]  # factor by which the number of rounds grows from one refit to the next


def predicted(
    scores: Float[Tensor, "B D"], candidates: Candidates, certain: Bool[Tensor, "B D D"] | None = None
) -> Prediction:
    """Return a prediction of one member, for explorations that learn from the features of documents."""
    return Prediction(scores[:, None], lambda: LinearTangent(candidates.features), certain)


class ParameterFree(Ranker):
    """A ranker that deploys nothing: to queries that it has not served all documents are alike."""

    nothing: Tensor

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        self.register_buffer("nothing", torch.zeros(context.replicas, 0, dtype=context.dtype, device=context.device))

    def deploy(self) -> Float[Tensor, "B P"]:
        return self.nothing

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        return candidates.features.new_zeros(len(deployed), *candidates.mask.shape)


class RandomRanker(ParameterFree):
    """Uniformly random scores every round; evaluated with all scores equal, so that ties are broken at random."""

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        return predicted(random.uniform(candidates.mask.shape[1]).to(candidates.features.dtype), candidates)


class OracleRanker(ParameterFree):
    """Scores every document by its relevance label. Its NDCG is 1 wherever a query has a relevant document."""

    needs_labels = True

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        if oracle is None:
            raise ValueError("ranker=oracle needs the labels of the dataset")
        super().setup(context, features)
        self.labels = oracle.labels.to(context.device, context.dtype)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        return predicted(self.labels[candidates.document], candidates)

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        return self.labels[candidates.document].expand(len(deployed), -1, -1)


class ModelRanker(Ranker):
    """Every member scores with the same model and parameters of its own; parameters are what is deployed."""

    def __init__(self, model: Model):
        super().__init__()
        self.model, self.linear, self.dtype = model, model.linear, model.dtype
        if not model.linear:
            self.offers = self.offers - {FEATURES} | {TANGENT}

    def size(self, features: int) -> int:
        return self.model.size(features)

    def weights(self) -> Float[Tensor, "B N P"]:
        """Return the parameters of every member, for the next round."""
        raise NotImplementedError

    def deploy(self) -> Float[Tensor, "B P"]:
        """Return a copy of the first member's parameters."""
        return self.weights()[:, 0].clone()

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Return every member's scores; those of a linear model need no features to be gathered."""
        weights = self.weights()
        if type(self.model) is not Linear:
            forward = self.model.forward(weights, candidates.features)
            return Prediction(forward.scores, forward.tangent)
        scores, tangent = linear_scores(weights, candidates), TableTangent(candidates, weights.dtype)
        return Prediction(scores, lambda: tangent)

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        """Return scores of every setting; where the parameters of several members are deployed, the mean of their
        scores."""
        documents = candidates.features.flatten(0, 1)[None]
        every = deployed.unflatten(1, (-1, self.model.size(documents.shape[2])))
        members = every.shape[1]
        at_once = len(deployed) if self.linear else 1  # a network's hidden layers should fit a cache
        parts = [self.model.forward(part.flatten(0, 1)[None], documents).scores[0] for part in every.split(at_once)]
        scores = (torch.cat(parts) if len(parts) > 1 else parts[0]).unflatten(1, candidates.mask.shape)
        return scores if members == 1 else scores.unflatten(0, (-1, members)).mean(1)


class LinearRanker(ModelRanker):
    """Scores theta.x."""

    def __init__(self) -> None:
        super().__init__(Linear())


def linear_scores(weights: Float[Tensor, "B N F"], candidates: Candidates) -> Float[Tensor, "B N D"]:
    """Return the scores by the weights of N members; 0 for padding.

    They are added up row by row, so that equal documents get equal scores to the last bit, and their order is never
    certain.
    """
    scores = weights.new_zeros(*weights.shape[:2], candidates.mask.shape[1])
    given = weights.contiguous(), *candidates.in_table(), scores
    loops.launch.launch(loops.single.score_documents, len(weights), 0, *given)
    return scores


def directions_on_sphere(random: Random, count: int, parameters: int) -> Float[Tensor, "B M P"]:
    """Return M = `count` directions, uniform on the unit sphere."""
    draw = random.draw()
    directions = torch.empty(len(draw.seeds), count, parameters, dtype=torch.float64, device=draw.seeds.device)
    room = loops.directions.room_of_directions(count, parameters)
    loops.launch.launch(loops.directions.draws_directions, len(directions), room, draw, directions)
    return directions


def mean_of_winners(won: Bool[Tensor, "B M"], directions: Float[Tensor, "B M P"]) -> Float[Tensor, "B P"]:
    """Return the mean of those directions that have won; zeros where none has."""
    share = won.to(directions.dtype) / won.sum(1, keepdim=True).clamp(min=1)
    return torch.bmm(share[:, None], directions).squeeze(1)


class GradientRanker(ModelRanker):
    """Takes a step per round, along a direction that its subclass finds, from the model's initial parameters.

    `learning_rate` is the length of the first step in units of the direction; it is multiplied by `decay` after every
    round that moved theta, and stays at `floor` times the first one once it has fallen to it.
    """

    starts = one_step = True
    floor = 0.0

    theta: Tensor
    rate: Tensor

    def __init__(self, model: Model, learning_rate: Positive, decay: Decay):
        super().__init__(model)
        self.learning_rate, self.decay = learning_rate, decay

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at the model's initial parameters: theta = 0 where it is linear."""
        initial = self.model.initial(context.random, context.features, 1)[..., 0, :]
        theta = initial.to(context.device, context.dtype).expand(context.replicas, -1).clone()
        self.register_buffer("theta", theta)
        self.register_buffer("rate", torch.full_like(theta[:, :1], self.learning_rate))

    def start_from(self, parameters: Float[Tensor, "B P"]) -> None:
        self.theta.copy_(parameters)

    def gradient_stages(self, learn: Any) -> Any:
        """Return the stages of a linear ranker that scores by theta and learns by this loop."""
        state = loops.gradient_steps.GradientState(self.theta, self.theta, self.rate_state())
        return loops.rounds.RankerStages(loops.gradient_steps.scores_by_theta, learn, state, by_theta=True)

    def rate_state(self) -> Any:
        """Return the learning rate as loops let it decay."""
        least = self.by_replica(self.floor * self.learning_rate)
        return loops.gradient_steps.LearningRate(self.rate, self.by_replica(self.decay), least)

    def by_replica(self, setting: float) -> Float[Tensor, "B"]:
        """Return a setting for each replica, as loops receive it."""
        return torch.full_like(self.rate[:, 0], setting, dtype=torch.float64)

    def learn_round(self, interaction: Interaction, random: Random) -> None:
        """Learn by the stage, where it stands for `learn`: to the last bit as in rounds that are played together."""
        stages = self.own_stages("learn")
        if stages is None:
            self.learn(interaction, random)
        else:
            self.learn_in_loops(stages, interaction, random)

    def learn_in_loops(self, stages: Any, interaction: Interaction, random: Random) -> None:
        """Learn from one round by these stages."""
        learn_by_stage(stages, interaction, interaction.candidates.in_table(), random)

    def learn(self, interaction: Interaction, random: Random) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define `learn`")

    def weights(self) -> Float[Tensor, "B N P"]:
        return self.theta[:, None]

    def gradient(self, features: Float[Tensor, "B X F"], weights: Float[Tensor, "B X"]) -> Float[Tensor, "B P"]:
        """Return the gradient of the weighted sum of these documents' scores, over the model's width m: theta follows
        it in the coordinates sqrt(m) theta, in which a network's tangent is as large as a linear model's features."""
        return self.model.forward(self.weights(), features).gradient(weights[:, None])[:, 0] / self.model.width

    def margins(self, interaction: Interaction) -> Float[Tensor, "B M"]:
        """Return the winner's less the loser's score of each of the round's preferences, valid or not."""
        scores, pairs = interaction.prediction.scores[:, 0], interaction.preferences
        return scores.gather(1, pairs.winner) - scores.gather(1, pairs.loser)

    def pair_gradient(self, interaction: Interaction, weights: Float[Tensor, "B M"]) -> Float[Tensor, "B P"]:
        """Return the `gradient` of the weighted sum of these margins."""
        pairs = interaction.preferences
        rows = gather(interaction.candidates.features, torch.cat([pairs.winner, pairs.loser], dim=1))
        return self.gradient(rows, torch.cat([weights, -weights], dim=1))

    def move(self, direction: Float[Tensor, "B P"], moved: Bool[Tensor, "B"]) -> None:
        """Take a step; `direction` must be zero where not `moved`."""
        self.theta.addcmul_(direction, self.rate)
        if self.decay < 1:
            self.rate.sub_(self.rate * moved[:, None], alpha=1 - self.decay)
            self.rate.clamp_(min=self.floor * self.learning_rate)


class SGDRankNet(GradientRanker):
    """One step per round down the sum of -log sigma(f(x_winner) - f(x_loser)) over the round's pairs.

    `learning_rate` and `decay` as in `GradientRanker`; `pairs` is how clicks become preferences.
    """

    def __init__(self, model: Model, learning_rate: Positive, decay: Decay, pairs: Pairs):
        super().__init__(model, learning_rate, decay)
        self.pairs = pairs

    def stages(self) -> Any:
        return self.gradient_stages(loops.gradient_steps.learns_by_ranknet) if type(self.model) is Linear else None

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Follow the pairs' gradients, each sigma(f(x_loser) - f(x_winner)) times that of f(x_winner) - f(x_loser)."""
        valid = interaction.preferences.valid
        pull = torch.sigmoid(-self.margins(interaction)) * valid
        self.move(self.pair_gradient(interaction, pull), valid.any(1))


class HistoryRanker(ModelRanker):
    """Fits its model to all feedback so far, from the model's initial parameters, or those of a warm start.

    A refit follows the last one after `every` rounds, or when the number of rounds has grown by the factor `growth`,
    whichever is later: with `growth` > 1 the cost of a round does not grow with the history. Where old pairs are
    forgotten, the number of rounds that grows is at most that of the window, or 1 / (1 - discount).
    """

    members = 1
    starts = True

    theta: Tensor
    start: Tensor
    rounds: Tensor
    due: Tensor  # the number of rounds after which the next refit may be

    def __init__(self, model: Model, every: Count, growth: Growth):
        super().__init__(model)
        self.every, self.growth = every, growth

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        initial = self.model.initial(context.random, context.features, self.members)
        theta = initial.to(context.device, context.dtype).expand(context.replicas, -1, -1).contiguous()
        self.register_buffer("start", theta)
        self.register_buffer("theta", theta.clone())
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))
        self.register_buffer("due", torch.full((), self.every))

    def weights(self) -> Float[Tensor, "B N P"]:
        return self.theta

    def start_from(self, parameters: Float[Tensor, "B P"]) -> None:
        """Begin all members with these, or each with its own; refits and penalties take them for theta_0."""
        self.start.copy_(parameters.unflatten(1, (-1, self.start.shape[2])))
        self.theta.copy_(self.start)

    def is_due(self) -> bool:
        """Count a round, and return whether it is time to refit."""
        self.rounds += 1
        rounds, memory = int(self.rounds), self.forgetting.memory
        if rounds < int(self.due):
            return False
        grown = rounds * self.growth if rounds <= memory else rounds + memory * (self.growth - 1)
        self.due.fill_(max(rounds + self.every, math.ceil(grown)))
        return True
