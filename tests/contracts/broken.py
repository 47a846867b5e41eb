"""Roles, a dataset, measures and schedules that keep all laws, and those of which each breaks one."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.exploration.order import best
from ol2r_cli.interfaces import (
    Candidates,
    ClickModel,
    Exploration,
    Fairness,
    IntentSchedule,
    Interaction,
    Measure,
    Oracle,
    Prediction,
    Proposal,
    Ranker,
    RunContext,
)
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.streams import Random
from tests.worlds import handmade


class Sound(Ranker):
    """Keeps all laws: adds up the features of what was clicked. `changed` changes its scores."""

    pairs = "none"
    linear = True

    def setup(self, context: RunContext, features: Tensor, oracle: Oracle | None = None) -> None:
        self.context, self.oracle = context, oracle
        self.register_buffer("weights", torch.zeros(context.replicas, context.features, dtype=context.dtype))

    def changed(self, scores: Tensor, candidates: Candidates) -> Tensor:
        return scores

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        scores = (candidates.features * self.weights[:, None]).sum(2)[:, None]
        return Prediction(self.changed(scores, candidates), lambda: LinearTangent(candidates.features))

    def learn(self, interaction: Interaction, random: Random) -> None:
        rows = interaction.candidates.features.gather(
            1, interaction.ranking[:, :, None].expand(-1, -1, self.context.features)
        )
        self.weights += (rows * interaction.clicks[:, :, None]).sum(1)

    def deploy(self) -> Tensor:
        return self.weights.clone()

    def score(self, deployed: Tensor, candidates: Candidates) -> Tensor:
        return (candidates.features * deployed[:, None, None]).sum(3)


class Backwards(Sound):
    """Keeps all laws, and takes a click for a reason against a document."""

    def learn(self, interaction: Interaction, random: Random) -> None:
        before = self.weights.clone()
        super().learn(interaction, random)
        self.weights.copy_(2 * before - self.weights)


class Unlisted(Sound):
    """Has a keyword that is not in its YAML file."""

    def __init__(self, rate: float = 0.5):
        super().__init__()


class FlatScores(Sound):
    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        object.__setattr__(prediction, "scores", prediction.scores[:, 0])  # a user has no shapes checked
        return prediction


class BareScores(Sound):
    def predict(self, candidates, random):
        return super().predict(candidates, random).scores


class DividesByClicks(Sound):
    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.weights /= interaction.clicks.sum(1, keepdim=True)


class DrawsElsewhere(Sound):
    def changed(self, scores, candidates):
        return scores + torch.rand_like(scores)


class SharesState(Sound):
    clicked: dict[int, float] = {}  # noqa: RUF012

    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.clicked[0] = self.clicked.get(0, 0.0) + 1

    def changed(self, scores, candidates):
        return scores * (-1) ** int(self.clicked.get(0, 0.0) // 7)


class ReadsPadding(Sound):
    def changed(self, scores, candidates):
        centred = candidates.features * candidates.features.mean(1, keepdim=True).round(decimals=1)
        return (centred * self.weights[:, None]).sum(2)[:, None]


class ReadsOtherReplicas(Sound):
    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.weights -= self.weights.mean(0)


class TiesByRounding(Sound):
    """Scores that are equal but for what rounding leaves in products of this shape."""

    def changed(self, scores, candidates):
        replicas, _, documents = scores.shape
        return scores.round() + 10 + torch.arange(documents, dtype=torch.float64) * (replicas + documents) % 7 * 3e-6


class KeepsAttribute(Sound):
    offset = 0

    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.offset += 1

    def changed(self, scores, candidates):
        return (scores * 10).sin() * (self.offset % 5)


class AlwaysDouble(Sound):
    def setup(self, context, features, oracle=None):
        super().setup(dataclasses.replace(context, dtype=torch.float64), features)


class MixesPrecision(Sound):
    def learn(self, interaction, random):
        torch.zeros(1, self.context.features, dtype=torch.float64) @ interaction.candidates.features[0].mT


class FewPlaces(Sound):
    def changed(self, scores, candidates):
        return scores + torch.tensor(float(self.context.documents - self.context.positions)).log()


class DividesByLabels(Sound):
    needs_labels = True

    def changed(self, scores, candidates):
        worth = self.oracle.labels.to(self.context.dtype) / self.oracle.labels.max()
        return worth[candidates.document][:, None]


class DividesByAllClicks(Sound):
    def setup(self, context, features, oracle=None):
        super().setup(context, features)
        self.register_buffer("count", torch.zeros(context.replicas, dtype=context.dtype))

    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.count += interaction.clicks.sum(1)
        if random.round == 9:
            self.weights /= self.count[:, None]


class Peeks(Sound):
    """Finds the labels in the frames of its callers."""

    def changed(self, scores, candidates):
        frame = sys._getframe()
        while "labels" not in frame.f_locals:
            frame = frame.f_back
        return frame.f_locals["labels"][:, None].to(self.context.dtype)


class MixesSnapshots(Sound):
    def score(self, deployed, candidates):
        return super().score(deployed, candidates) - super().score(deployed, candidates).mean(1, keepdim=True)


class ScoresByPlace(Sound):
    def score(self, deployed, candidates):
        return super().score(deployed, candidates) + torch.arange(candidates.mask.shape[1])


class CountsSnapshots(Sound):
    taken = 0

    def deploy(self):
        self.taken += 1
        return self.weights + self.taken


class Raises(Sound):
    def learn(self, interaction, random):
        if random.round == 4:
            _ = 1 // (random.round - 4)


class RaisesValueError(Sound):
    def setup(self, context, features, oracle=None):
        super().setup(context, features)
        int("no number")


class PlacesTwice(Exploration):
    def propose(self, prediction, candidates, random):
        order = torch.arange(candidates.mask.shape[1]).expand(candidates.mask.shape).clone()
        order[:, 1:2] = order[:, :1]
        return Proposal(order, prediction.scores.mean(1))


class SortsPadding(Exploration):
    def propose(self, prediction, candidates, random):
        scores = prediction.scores.mean(1) + random.uniform(candidates.mask.shape[1])
        return Proposal(best(scores, self.ranking_depth), scores)


class DrawsByLength(Exploration):
    def propose(self, prediction, candidates, random):
        chance = random.uniform(candidates.mask.shape[1]).flip(1).masked_fill(~candidates.mask, -1)
        return Proposal(best(chance, self.ranking_depth), prediction.scores.mean(1))


class HalfOrder(Exploration):
    def propose(self, prediction, candidates, random):
        scores = prediction.scores.mean(1).masked_fill(~candidates.mask, -1)
        proposal = Proposal(best(scores, 1), scores)
        object.__setattr__(proposal, "order", proposal.order.float())  # a user has no dtypes checked
        return proposal


class PaddingFirst(Fairness):
    def rerank(self, proposal, candidates, random):
        return proposal.order.flip(1)


class ClicksEverywhere(ClickModel):
    def click(self, grades, shown, random):
        return random.uniform(grades.shape[1]) < 0.5


class NumberOfClicks(ClickModel):
    def click(self, grades, shown, random):
        return (grades * shown).long()


class Data:
    """A dataset that keeps all laws, unless `fault` names the one that it breaks."""

    def __init__(self, fault: str, seed: int, switch: bool):
        self.fault, self.seed, self.switch = fault, seed, switch

    def load(self) -> Dataset:
        table = handmade([[0, 1, 2], [2, 0], [1, 0, 4, 0], [1], [0, 3]], seed=self.seed)
        numbers = {"train": [0, 2, 4], "validation": [1], "test": [3]}
        numbers |= {"overlap": {"test": [2]}, "beyond": {"test": [5]}, "untrained": {"train": []}}.get(self.fault, {})
        splits = {name: torch.tensor(queries, dtype=torch.int64) for name, queries in numbers.items()}
        parts = {"fingerprint": f"data-{self.seed}-{self.switch}", "splits": splits}
        labels, features, offsets = table.labels.clone(), table.features.clone(), table.offsets.clone()
        labels[0] += self.switch
        if self.fault == "frame":
            return features
        if self.fault == "empty":
            offsets[1] = 0
        if self.fault == "label":
            labels[3] = -1
        if self.fault == "unknown":
            features[2, 1] = torch.nan
        parts |= {"labels": labels, "features": features, "offsets": offsets}
        parts |= {
            "double": {"features": features.double()},
            "offsets": {"offsets": offsets[1:], "query_ids": table.query_ids[1:]},
            "group": {"group": torch.full((len(labels),), -1, dtype=torch.int8)},
            "groups": {"group": (torch.arange(len(labels)) % 3).to(torch.int8)},
            "random": {"features": torch.rand_like(features)},
            "constant": {"fingerprint": "always"},
        }.get(self.fault, {})
        return dataclasses.replace(table, **parts)


class SoundMeasure(Measure):
    """Keeps all laws: counts clicks. `counts` and `total` are what the others change."""

    trace = (Column("mine", summary="last"),)

    def setup(self, context, best):
        self.register_buffer("total", torch.zeros(context.replicas, dtype=torch.float64))

    def of_rounds(self, rounds):
        sums = self.total + rounds.clicks.sum(2).cumsum(0)
        self.total = sums[-1].clone()
        return {"mine": sums}


class NoColumn(SoundMeasure):
    trace = ()


class Undeclared(SoundMeasure):
    def of_rounds(self, rounds):
        return {"other": rounds.clicks.sum(2)}


class OneForAll(SoundMeasure):
    def of_rounds(self, rounds):
        return {"mine": rounds.clicks.sum((1, 2))}


class WithoutLists(Measure):
    evaluation = (Column("mine"),)


class Divides(SoundMeasure):
    def of_rounds(self, rounds):
        return {"mine": rounds.shown.sum(2) / rounds.clicks.sum(2)}


class Accumulates(SoundMeasure):
    def of_rounds(self, rounds):
        return {"mine": rounds.clicks.sum(2).cumsum(0)}


class MeanOfReplicas(SoundMeasure):
    def of_rounds(self, rounds):
        return {"mine": rounds.clicks.sum(2).double().mean(1, keepdim=True).expand(rounds.query.shape)}


class CountsPlaces(Measure):
    evaluation = (Column("mine"),)

    def of_lists(self, lists):
        return {"mine": (lists.labels > 0).double().mean(-1)}


class AttributeTotal(SoundMeasure):
    """Its running total survives a call, and not a checkpoint."""

    def setup(self, context, best):
        self.total = torch.zeros(context.replicas, dtype=torch.float64)


class SoundSchedule(IntentSchedule):
    """Keeps the laws: half of the users have each of two intents."""

    largest = 2

    def shares(self, rounds):
        return np.full((len(rounds), 2), 0.5)


class WithoutLargest(SoundSchedule):
    largest = 1


class ColumnsOfRounds(SoundSchedule):
    def shares(self, rounds):
        return super().shares(rounds).T


class MoreThanAll(SoundSchedule):
    def shares(self, rounds):
        return super().shares(rounds) * np.where(rounds < 30, 1, 1.5)[:, None]


class BelowNothing(SoundSchedule):
    def shares(self, rounds):
        return super().shares(rounds) + np.where(rounds < 30, 0, 1)[:, None] * [1, -1]


class CountsCalls(SoundSchedule):
    calls = 0

    def shares(self, rounds):
        self.calls += 1
        return np.stack([np.full(len(rounds), 1 / self.calls), np.full(len(rounds), 1 - 1 / self.calls)], 1)


class SharesByPlace(SoundSchedule):
    """Takes the place in the argument for the round."""

    def shares(self, rounds):
        first = np.arange(len(rounds)) % 2
        return np.stack([first, 1 - first], 1)
