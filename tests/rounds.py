"""What step-by-step tests share: worlds with lists of all lengths, proposals on chosen scores, and counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import chisquare

from ol2r_cli.interfaces import Candidates, Exploration, Interaction, Prediction, Proposal, RunContext
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.simulation import Simulation
from ol2r_cli.tensor.streams import Streams

LISTS = [
    [4],
    [0, 2],
    [1, 0, 3],
    [0, 4, 0, 1, 2, 0, 3],
    [0] * 6,
    [3, 1, 0, 0, 2, 4, 0, 1, 0],
    [0, 1, 2, 3, 4, 0, 1, 0, 2, 0, 1, 0],
]
SEEDS = [0, 1, 5]
REPLICAS = 5000  # of a count
LEAST_P = 1e-3  # p-value below which a count fails; all seeds are fixed


def rounds(simulation: Simulation) -> Iterator[tuple[int, Interaction]]:
    """All rounds by their number in the random streams, which is from 0, with nothing left to measure."""
    for t, interaction in simulation.play():
        yield t - 1, interaction
        if simulation.measurement.full():
            simulation.measurement.measures()


class Shown(NamedTuple):
    """What one replica was shown in a round, without padding."""

    features: np.ndarray  # of its candidates [D, F]
    scores: np.ndarray  # [members, D]
    ranking: list[int]
    clicks: list[bool]
    pairs: list[tuple[int, int]]  # winner and loser, by document

    @property
    def compared(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The features of winner and loser of every pair."""
        return [(self.features[winner], self.features[loser]) for winner, loser in self.pairs]


def replicas(one: Interaction) -> Iterator[tuple[int, Shown]]:
    """Every replica by its number."""
    for b, length in enumerate(one.candidates.mask.sum(1).tolist()):
        features, scores = one.candidates.features[b, :length].numpy(), one.prediction.scores[b, :, :length].numpy()
        ranking, clicks = (values[b, :length].tolist() for values in (one.ranking, one.clicks))
        sides = one.preferences.winner, one.preferences.loser
        pairs = zip(*(side[b][one.preferences.valid[b]].tolist() for side in sides), strict=True)
        yield b, Shown(features, scores, ranking, clicks, list(pairs))


def fresh(seeds: Sequence[int] = SEEDS) -> Streams:
    """The numbers of these seeds once more, drawn by nobody else and round by round."""
    return Streams(torch.tensor(list(seeds)), ahead=1)


def ranked(scores: Sequence[float], chance: Sequence[float]) -> list[int]:
    """Documents by score, best first; of equal ones first the one with the least chance."""
    return sorted(range(len(scores)), key=lambda document: (-scores[document], chance[document]))


def shown(order: torch.Tensor, lengths: Sequence[int]) -> list[list[int]]:
    """The real documents of each list; where padding goes below them is nobody's business."""
    return [documents[:length] for documents, length in zip(order.tolist(), lengths, strict=True)]


def some_scores(replicas: int, members: int, documents: int, seed: int, ties: bool = False) -> torch.Tensor:
    """[B N D] from a normal distribution, or whole numbers from -1 to 1."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(replicas, members, documents, generator=generator, dtype=torch.float64)
    return scores.round().clamp(-1, 1) if ties else scores


def propose(
    exploration: Exploration,
    scores: torch.Tensor,
    lengths: Sequence[int],
    positions: int,
    ranking_depth: int | None = None,
    round: int = 0,
) -> Proposal:
    """What is proposed on these scores [B N D] for seeds 0, 1, .. and queries of these lengths.

    Only `ranking_depth` places are looked at: all, unless given.
    """
    replicas, _, documents = scores.shape
    context = RunContext(replicas, documents, 1, positions, 1, 1, 5, ranking_depth or documents, scores.dtype)
    exploration.setup(context, torch.zeros(1, 1))
    mask = torch.arange(documents) < torch.tensor(list(lengths))[:, None]
    features = torch.zeros(replicas, documents, 1, dtype=scores.dtype)
    slots = torch.arange(documents).expand(replicas, -1)
    candidates = Candidates(torch.zeros(replicas, dtype=torch.int64), slots, features, mask)
    random = fresh(range(replicas)).at("explore", round)
    return exploration.propose(Prediction(scores, lambda: LinearTangent(features)), candidates, random)


def p_value(drawn: Sequence[Hashable], chances: Mapping[Hashable, float]) -> float:
    """How likely a count this far from its expectation is; 0 if something was drawn that has no chance."""
    counts, possible = Counter(drawn), {outcome: chance for outcome, chance in chances.items() if chance > 0}
    if not set(counts) <= set(possible):
        return 0.0
    expected = [chance * len(drawn) for chance in possible.values()]
    assert min(expected) > 4, "too few draws for this many outcomes"
    return float(chisquare([counts[outcome] for outcome in possible], expected).pvalue)
