"""A ranker and a dataset that keep all laws, and choices of which each breaks one for its usual cause."""

from __future__ import annotations

import dataclasses
import sys

import torch
from torch import Tensor

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.exploration.order import best
from ol2r_cli.interfaces import (
    Candidates,
    ClickModel,
    Exploration,
    Fairness,
    Interaction,
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
    """Keeps all laws: adds up the features of what was clicked."""

    pairs = "none"
    linear = True

    def setup(self, context: RunContext, features: Tensor, oracle: Oracle | None = None) -> None:
        self.context = context
        self.register_buffer("weights", torch.zeros(context.replicas, context.features, dtype=context.dtype))

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        scores = (candidates.features * self.weights[:, None]).sum(2)
        return Prediction(scores[:, None], lambda: LinearTangent(candidates.features))

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
    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        return dataclasses.replace(prediction, scores=prediction.scores + torch.rand_like(prediction.scores))


class SharesState(Sound):
    clicked: dict[int, float] = {}  # noqa: RUF012

    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.clicked[0] = self.clicked.get(0, 0.0) + 1

    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        turned = (-1) ** int(self.clicked.get(0, 0.0) // 7)
        return dataclasses.replace(prediction, scores=prediction.scores * turned)


class ReadsPadding(Sound):
    def predict(self, candidates, random):
        centred = dataclasses.replace(
            candidates, features=candidates.features * candidates.features.mean(1, keepdim=True).round(decimals=1)
        )
        return super().predict(centred, random)


class ReadsOtherReplicas(Sound):
    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.weights -= self.weights.mean(0)


class TiesByRounding(Sound):
    """Scores that are equal but for what rounding leaves in products of this shape."""

    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        replicas, _, documents = prediction.scores.shape
        rounding = torch.arange(documents, dtype=torch.float64) * (replicas + documents) % 7 * 3e-6
        return dataclasses.replace(prediction, scores=prediction.scores.round() + 10 + rounding)


class KeepsAttribute(Sound):
    sign = 1.0

    def learn(self, interaction, random):
        super().learn(interaction, random)
        self.sign = -self.sign if interaction.clicks[0].any() else self.sign
        self.offset = getattr(self, "offset", 0) + 1

    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        offset = getattr(self, "offset", 0)
        return dataclasses.replace(prediction, scores=(prediction.scores * 10).sin() * (offset % 5))


class AlwaysDouble(Sound):
    def setup(self, context, features, oracle=None):
        super().setup(dataclasses.replace(context, dtype=torch.float64), features)


class MixesPrecision(Sound):
    def learn(self, interaction, random):
        torch.zeros(1, self.context.features, dtype=torch.float64) @ interaction.candidates.features[0].mT


class FewPlaces(Sound):
    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        room = torch.tensor(float(self.context.documents - self.context.positions)).log()
        return dataclasses.replace(prediction, scores=prediction.scores + room)


class DividesByLabels(Sound):
    needs_labels = True

    def setup(self, context, features, oracle=None):
        super().setup(context, features)
        self.worth = oracle.labels.to(context.dtype) / oracle.labels.max()

    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        return dataclasses.replace(prediction, scores=self.worth[candidates.document][:, None])


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

    def predict(self, candidates, random):
        prediction = super().predict(candidates, random)
        frame = sys._getframe()
        while "labels" not in frame.f_locals:
            frame = frame.f_back
        return dataclasses.replace(prediction, scores=frame.f_locals["labels"][:, None].to(self.context.dtype))


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
        scores = prediction.scores.mean(1)
        chance = random.uniform(candidates.mask.shape[1]).flip(1).masked_fill(~candidates.mask, -1)
        return Proposal(best(chance, self.ranking_depth), scores)


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


LISTS = [[0, 1, 2], [2, 0], [1, 0, 4, 0], [1], [0, 3]]
TRAIN, VALIDATION, TEST = torch.tensor([0, 2, 4]), torch.tensor([1]), torch.tensor([3])


class Data:
    """A dataset that keeps all laws, unless `fault` names the one that it breaks."""

    def __init__(self, fault: str, seed: int, switch: bool):
        self.fault, self.seed, self.switch = fault, seed, switch

    def load(self) -> Dataset:
        table = handmade(LISTS, seed=self.seed)
        labels, features, offsets = table.labels.clone(), table.features.clone(), table.offsets.clone()
        splits = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
        fingerprint, group = f"data-{self.seed}-{self.switch}", None
        if self.switch:
            labels[0] = 1
        if self.fault == "frame":
            return features
        if self.fault == "double":
            features = features.double()
        if self.fault == "offsets":
            offsets = offsets[1:]
        if self.fault == "empty":
            offsets[1] = 0
        if self.fault == "overlap":
            splits["test"] = torch.tensor([2])
        if self.fault == "beyond":
            splits["test"] = torch.tensor([5])
        if self.fault == "untrained":
            splits["train"] = splits["train"][:0]
        if self.fault == "label":
            labels[3] = -1
        if self.fault == "unknown":
            features[2, 1] = torch.nan
        if self.fault == "group":
            group = torch.full((len(labels),), -1, dtype=torch.int8)
        if self.fault == "groups":
            group = (torch.arange(len(labels)) % 3).to(torch.int8)
        if self.fault == "random":
            features = torch.rand_like(features)
        if self.fault == "constant":
            fingerprint = "always"
        number = len(offsets) - 1
        return dataclasses.replace(
            table,
            fingerprint=fingerprint,
            features=features,
            labels=labels,
            offsets=offsets,
            splits=splits,
            group=group,
            query_ids=table.query_ids[:number],
        )
