"""Roles, a dataset, measures and schedules that keep all laws, and those of which each breaks one."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.dataset.table import Dataset
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
    """Keeps all laws: adds up the features of what was clicked. `changed` changes its scores, `after` its weights."""

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
        self.after(interaction, random)

    def after(self, interaction: Interaction, random: Random) -> None:
        """What else is learnt from a round."""

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


def of(base: type, **parts: object) -> type:
    """A class that differs from another one in these parts."""
    return type(base)(f"Other{base.__name__}", (base,), {"__module__": __name__, **parts})


def flat(self, candidates, random):
    prediction = Sound.predict(self, candidates, random)
    object.__setattr__(prediction, "scores", prediction.scores[:, 0])  # a user has no shapes checked
    return prediction


FlatScores = of(Sound, predict=flat)
BareScores = of(Sound, predict=lambda self, *given: Sound.predict(self, *given).scores)
DividesByClicks = of(Sound, after=lambda self, one, random: self.weights.div_(one.clicks.sum(1, keepdim=True)))
DrawsElsewhere = of(Sound, changed=lambda self, scores, candidates: scores + torch.rand_like(scores))


class ReadsPadding(Sound):
    def changed(self, scores, candidates):
        centred = candidates.features * candidates.features.mean(1, keepdim=True).round(decimals=1)
        return (centred * self.weights[:, None]).sum(2)[:, None]


KeepsAttribute = of(
    Sound,
    offset=0,
    after=lambda self, one, random: setattr(self, "offset", self.offset + 1),
    changed=lambda self, scores, candidates: (scores * 10).sin() * (self.offset % 5),
)
AlwaysDouble = of(
    Sound,
    setup=lambda self, context, *given: Sound.setup(self, dataclasses.replace(context, dtype=torch.float64), *given),
)
MixesPrecision = of(
    Sound,
    after=lambda self, one, random: one.candidates.features[0] @ torch.zeros(self.context.features, 1).double(),
)
FewPlaces = of(
    Sound,
    changed=lambda self, scores, _: scores + torch.tensor(1.0 * self.context.documents - self.context.positions).log(),
)
DividesByLabels = of(
    Sound,
    needs_labels=True,
    changed=lambda self, scores, candidates: (self.oracle.labels.to(scores.dtype) / self.oracle.labels.max())[
        candidates.document
    ][:, None],
)


class DividesByAllClicks(Sound):
    def setup(self, context, features, oracle=None):
        super().setup(context, features)
        self.register_buffer("count", torch.zeros(context.replicas, dtype=context.dtype))

    def after(self, interaction, random):
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


class DeploysItself(Sound):
    def deploy(self):
        return self.weights


class Raises(Sound):
    def learn(self, interaction, random):
        if random.round == 4:
            _ = 1 // (random.round - 4)


RaisesValueError = of(Sound, setup=lambda self, *given: int("no number"))


class PlacesTwice(Exploration):
    def propose(self, prediction, candidates, random):
        order = torch.arange(candidates.mask.shape[1]).expand(candidates.mask.shape).clone()
        order[:, 1:2] = order[:, :1]
        return Proposal(order, prediction.scores.mean(1))


class SortsPadding(Exploration):
    def propose(self, prediction, candidates, random):
        scores = prediction.scores.mean(1) + random.uniform(candidates.mask.shape[1])
        places = min(self.ranking_depth, scores.shape[1])
        return Proposal(scores.topk(places).indices, scores)


PaddingFirst = of(Fairness, rerank=lambda self, proposal, candidates, random: proposal.order.flip(1))
ClicksEverywhere = of(ClickModel, click=lambda self, grades, shown, random: random.uniform(grades.shape[1]) < 0.5)
NumberOfClicks = of(ClickModel, click=lambda self, grades, shown, random: (grades * shown).long())


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
    """Keeps all laws: counts clicks, of earlier rounds, too."""

    trace = (Column("mine", summary="last"),)

    def setup(self, context, best):
        self.register_buffer("total", torch.zeros(context.replicas, dtype=torch.float64))

    def of_rounds(self, rounds):
        sums = self.total + rounds.clicks.sum(2).cumsum(0)
        self.total = sums[-1].clone()
        return {"mine": sums}


def counting(values) -> type:
    """A measure without state, of these values by round and replica."""
    return of(SoundMeasure, of_rounds=lambda self, rounds: {"mine": values(rounds)})


NoColumn = of(SoundMeasure, trace=())
Undeclared = of(SoundMeasure, of_rounds=lambda self, rounds: {"other": rounds.clicks.sum(2)})
OneForAll = counting(lambda rounds: rounds.clicks.sum((1, 2)))
Divides = counting(lambda rounds: rounds.shown.sum(2) / rounds.clicks.sum(2))
Accumulates = counting(lambda rounds: rounds.clicks.sum(2).cumsum(0))
MeanOfReplicas = counting(lambda rounds: rounds.clicks.sum(2).double().mean(1, keepdim=True).expand(rounds.query.shape))
WithoutLists = of(Measure, evaluation=(Column("mine"),))
CountsPlaces = of(WithoutLists, of_lists=lambda self, lists: {"mine": (lists.labels > 0).double().mean(-1)})


class AttributeTotal(SoundMeasure):
    """Its running total survives a call, and not a checkpoint."""

    def setup(self, context, best):
        self.total = torch.zeros(context.replicas, dtype=torch.float64)


class SoundSchedule(IntentSchedule):
    """Keeps the laws: half of the users have each of two intents."""

    largest = 2

    def shares(self, rounds):
        return np.full((len(rounds), 2), 0.5)


def late(rounds, values):
    """Shares that differ from a half by these values from round 31."""
    return 0.5 + (rounds >= 30)[:, None] * values


WithoutLargest = of(SoundSchedule, largest=1)
ColumnsOfRounds = of(SoundSchedule, shares=lambda self, rounds: np.full((2, len(rounds)), 0.5))
MoreThanAll = of(SoundSchedule, shares=lambda self, rounds: late(rounds, np.array([0.25, 0.25])))
BelowNothing = of(SoundSchedule, shares=lambda self, rounds: late(rounds, np.array([1, -1])))


class CountsCalls(SoundSchedule):
    calls = 0

    def shares(self, rounds):
        self.calls += 1
        return np.full((len(rounds), 2), [1 / self.calls, 1 - 1 / self.calls])


class SharesByPlace(SoundSchedule):
    """Takes the place in the argument for the round."""

    def shares(self, rounds):
        return np.eye(2, dtype=int)[(np.arange(len(rounds)) + 1) % 2]
