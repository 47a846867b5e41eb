"""The intervention-aware estimator and what is optimised with it, one query and one list at a time.

Oosterhuis and de Rijke, Unifying Online and Counterfactual Learning to Rank (WSDM 2021); the gradient in the form of
Oosterhuis, Computationally Efficient Optimization of Plackett-Luce Ranking Models (SIGIR 2021). Expectation
maximisation: Oosterhuis, Doubly-Robust Estimation (TOIS 2023), as in its code.

Documents are numbers; a list has the documents at its first places, and `scores` are those of all documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, sqrt

import numpy as np

from tests.reference.arrays import Vector
from tests.reference.objective import sigmoid


def at_next_place(above: Sequence[int], scores: Sequence[float]) -> list[float]:
    """The probability of every document at the place below these."""
    left = [document for document in range(len(scores)) if document not in above]
    return [
        1 / sum(exp(scores[other] - scores[document]) for other in left) if document in left else 0.0
        for document in range(len(scores))
    ]


def expected(lists: Sequence[Sequence[int]], scores: Sequence[float], values: Sequence[float]) -> list[float]:
    """The value of the place of each document, as the lists let us expect it: at every place, from what is above."""
    total = [0.0] * len(scores)
    for shown in lists:
        for place in range(len(shown)):
            for document, probability in enumerate(at_next_place(shown[:place], scores)):
                total[document] += probability * values[place] / len(lists)
    return total


def gradient(
    lists: Sequence[Sequence[int]], scores: Sequence[float], reward: Sequence[float], weight: Sequence[float]
) -> list[float]:
    """Of E[sum_k weight_k reward of the document at place k] with respect to each score, estimated from the lists.

    A document that is placed earns what comes below it; at every place down to its own, with the probability that it
    comes there, it earns its own reward in place of all that was earned from there on.
    """
    total = [0.0] * len(scores)
    for shown in lists:
        earned = [weight[place] * reward[document] for place, document in enumerate(shown)]
        for place, document in enumerate(shown):
            total[document] += sum(earned[place + 1 :]) / len(lists)
        for place in range(len(shown)):
            for document, probability in enumerate(at_next_place(shown[:place], scores)):
                gain = weight[place] * reward[document] - sum(earned[place:])
                total[document] += probability * gain / len(lists)
    return total


@dataclass
class Estimator:
    """What is known of each document of one query: clicks, and what was expected of every policy that served it."""

    documents: int
    rounds: int = 0
    clicks: list[float] = field(init=False)
    alpha: list[float] = field(init=False)
    beta: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.clicks, self.alpha, self.beta = ([0.0] * self.documents for _ in range(3))

    def add(self, clicked: Sequence[int], alpha: Sequence[float], beta: Sequence[float]) -> None:
        """One round with its clicked documents, and the expectations of alpha and beta under its policy."""
        self.rounds += 1
        for document in clicked:
            self.clicks[document] += 1
        for document in range(self.documents):
            self.alpha[document] += alpha[document]
            self.beta[document] += beta[document]

    def estimates(self, clip: float, rounds: int) -> list[float]:
        """The relevance of each document; `rounds` are those of all queries."""
        found = []
        for clicks, alpha, beta in zip(self.clicks, self.alpha, self.beta, strict=True):
            mean = max(alpha / self.rounds, min(clip / sqrt(rounds), 1))
            found.append((clicks / self.rounds - beta / self.rounds) / mean)
        return found


Log = Sequence[tuple[Sequence[Vector], Sequence[bool]]]  # of each round: the documents shown, and which were clicked


def posterior(relevance: float, clicked: bool, alpha: float, beta: float) -> float:
    """P(relevant | click or not) of a document at a place."""
    relevant = (alpha + beta if clicked else 1 - alpha - beta) * relevance
    other = (beta if clicked else 1 - beta) * (1 - relevance)
    return relevant / (relevant + other)


def propensities(log: Log, weights: Vector, alpha: Sequence[float], beta: Sequence[float]) -> list[tuple[float, float]]:
    """alpha and beta of each place: the shares of clicks among documents that are relevant, and that are not. One of
    each is added, with alpha = beta = 1 / (rank + 1)."""
    found = []
    for place in range(len(alpha)):
        clicks, shown = [2 / (place + 2), 1 / (place + 2)], [1.0, 1.0]
        for documents, clicked in log:
            if place < len(documents):
                relevance = sigmoid(float(weights[:-1] @ documents[place] + weights[-1]))
                after = posterior(relevance, clicked[place], alpha[place], beta[place])
                for kind, probability in enumerate((after, 1 - after)):
                    clicks[kind] += probability * clicked[place]
                    shown[kind] += probability
        relevant, other = (part / whole for part, whole in zip(clicks, shown, strict=True))
        found.append((relevant - other, other))
    return found


def relevance_gradient(batch: Log, weights: Vector, alpha: Sequence[float], beta: Sequence[float]) -> Vector:
    """Of the mean log-likelihood of the clicks on all documents of the batch, with respect to w and b."""
    total, shown = np.zeros_like(weights), 0
    for documents, clicks in batch:
        for place, (x, clicked) in enumerate(zip(documents, clicks, strict=True)):
            row = np.append(x, 1.0)
            r = sigmoid(float(weights @ row))
            likelihood = alpha[place] * r + beta[place]
            slope = alpha[place] / likelihood if clicked else -alpha[place] / (1 - likelihood)
            total += slope * r * (1 - r) * row
            shown += 1
    return total / shown
