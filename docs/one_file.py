"""Online learning to rank in one file: what `ol2r run` computes, in numpy, to be read before anything else.

    python docs/one_file.py [FOLD] [pdgd | pairrank] [ROUNDS]

A user types a query and gets a list of ten documents. A click model decides what is clicked. The ranker learns from the
clicks and serves the next list. Read `play` first, at the end: it is the loop (docs/explanation/round.md has a picture
of it). Then read one of the two rankers.

FOLD is a folder with train.txt and test.txt in LETOR's format; without it, the one of the tests.
`tests/plugins/python/test_one_file.py` compares lists, clicks and measures with those of

    ol2r run dataset=letor dataset.path=FOLD ranker=pdgd save_interactions=true rounds=300

and of `ranker=pairrank ranker.solver=exact`. The default solver stops near the optimum.

Only the random numbers are ol2r's: each is a function of (seed, name of the stream, round, index), so that both meet
the same queries and the same users.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_svmlight_files

from ol2r_cli.tensor.streams import Streams

POSITIONS = 10  # documents shown, and the cutoff of NDCG
# The informational user, by the number of grades: P(click | grade), and P(stop | grade) after a click
# (PairRank, WWW 2021, table 1).
INFORMATIONAL = {
    2: ([0.4, 0.9], [0.1, 0.5]),
    3: ([0.4, 0.7, 0.9], [0.1, 0.3, 0.5]),
    5: ([0.4, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]),
}


class Query(NamedTuple):
    """The documents of a query."""

    features: np.ndarray  # [documents, features], each feature scaled to 0 .. 1 within the query
    grades: np.ndarray  # [documents], 0: not relevant


class Round(NamedTuple):
    """What happened in one round."""

    shown: np.ndarray  # the documents shown, best first
    clicks: np.ndarray  # whether each was clicked
    ndcg: float


def read(fold: Path) -> list[list[Query]]:
    """Return the queries of train.txt and of test.txt, lines `grade qid:QUERY 1:value 2:value ..`."""
    loaded = load_svmlight_files([fold / "train.txt", fold / "test.txt"], query_id=True)
    splits: list[list[Query]] = [[], []]
    for split, (rows, grades, numbers) in zip(splits, (loaded[:3], loaded[3:]), strict=True):
        for number in dict.fromkeys(numbers):
            x = rows[numbers == number].toarray()
            low, span = x.min(0), np.ptp(x, axis=0)
            scaled = (x - low) / np.where(span > 0, span, 1)  # 0 where all documents have one value
            split.append(Query(scaled.astype(np.float32).astype(float), grades[numbers == number].astype(int)))
    return splits


def dcg(grades: np.ndarray) -> float:
    """Return the sum of (2^grade - 1) / log2(rank + 1) over the first ten ranks."""
    top = grades[:POSITIONS]
    return float(((2.0**top - 1) / np.log2(np.arange(2, len(top) + 2))).sum())


def ndcg(grades: np.ndarray) -> float:
    """Return DCG of all documents in the order of a list over that of their best order; 0 if none is relevant."""
    ideal = dcg(-np.sort(-grades))
    return dcg(grades) / ideal if ideal else 0.0


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def examined(clicks: np.ndarray) -> int:
    """Return how many documents were examined: down to the one below the last click; 0 without a click."""
    return min(int(clicks.nonzero()[0][-1]) + 2, len(clicks)) if clicks.any() else 0


class PDGD:
    """Pairwise Differentiable Gradient Descent (Oosterhuis and de Rijke, CIKM 2018)."""

    def __init__(self, features: int, rate: float = 0.1, decay: float = 0.999977):
        self.theta, self.rate, self.decay = np.zeros(features), rate, decay

    def rank(self, x: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """Draw documents one after the other, each with probability proportional to e^score of those left.

        Clocks that ring at exponential times with rate e^score ring in such an order.
        """
        return np.argsort(-(x @ self.theta - np.log(-np.log(chance))))

    def learn(self, x: np.ndarray, order: np.ndarray, clicks: np.ndarray, _: np.ndarray) -> None:
        """Raise each clicked document against each examined one without a click (equations 5 to 8)."""
        won, lost = clicks.nonzero()[0], (~clicks[: examined(clicks)]).nonzero()[0]
        gradient = np.zeros_like(self.theta)
        for winner in won:
            for loser in lost:
                swapped = order.copy()
                swapped[[winner, loser]] = order[[loser, winner]]
                scores, other = x[order] @ self.theta, x[swapped] @ self.theta
                rho = sigmoid(log_probability(other, len(clicks)) - log_probability(scores, len(clicks)))
                above = sigmoid(scores[winner] - scores[loser])
                gradient += rho * above * (1 - above) * (x[order[winner]] - x[order[loser]])
        self.theta = self.theta + self.rate * gradient
        if len(won) and len(lost):
            self.rate *= self.decay


def log_probability(scores: np.ndarray, shown: int) -> np.float64:
    """Return log P of the first `shown` ranks of a list, from the scores of all documents in its order."""
    return np.sum([scores[rank] - np.logaddexp.reduce(scores[rank:]) for rank in range(shown)])


class PairRank:
    """PairRank_C (Jia, Wang, Guo and Wang, WWW 2021): shuffles only documents whose order is uncertain.

    docs/explanation/round.md has a picture of certain pairs and blocks.
    """

    def __init__(self, features: int, l2: float = 0.01, alpha: float = 0.1):
        self.theta, self.l2, self.alpha = np.zeros(features), l2, alpha
        self.matrix = l2 * np.eye(features)  # M of Lemma 2
        self.pairs = np.zeros((0, features))  # features of the winner less those of the loser, of all rounds

    def rank(self, x: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """Divide the documents into blocks whose order is certain, and shuffle each block (section 3.2.3)."""
        order = np.argsort(-(x @ self.theta), kind="stable")
        x, scores, clock = x[order], x[order] @ self.theta, -np.log(chance[order])
        difference = x[:, None] - x
        width = np.sqrt(np.einsum("ijf,fg,ijg->ij", difference, np.linalg.inv(self.matrix), difference).clip(min=0))
        certain = np.triu(sigmoid(scores[:, None] - scores) - self.alpha * width > 0.5)
        for middle in range(len(x)):  # a chain: i above the middle one, and this one above j
            certain |= certain[:, middle, None] & certain[middle]
        ends = np.array([certain[:end, end:].all() for end in range(len(x))])  # a block ends before these documents
        block = ends.cumsum()
        rings = clock.copy()  # a clock starts when those of all documents certainly above, in its block, have rung
        for j in range(len(x)):
            rings[j] += max((rings[i] for i in range(j) if certain[i, j] and block[i] == block[j]), default=0)
        return order[np.lexsort((rings, block))]

    def learn(self, x: np.ndarray, order: np.ndarray, clicks: np.ndarray, chance: np.ndarray) -> None:
        """Match winners and losers at random, and find the optimum of cross-entropy for all pairs so far."""
        by_chance = np.argsort(chance[: examined(clicks)])
        won, lost = by_chance[clicks[by_chance]], by_chance[~clicks[by_chance]]
        added = [x[order[winner]] - x[order[loser]] for winner, loser in zip(won, lost, strict=False)]
        if not added:
            return
        self.pairs = np.concatenate([self.pairs, added])
        self.matrix += np.transpose(added) @ added
        step = np.ones(1)
        while np.abs(step).max() > 1e-12:  # Newton's method for mean cross-entropy + l2 |theta|^2
            wrong = sigmoid(-self.pairs @ self.theta)
            gradient = 2 * self.l2 * self.theta - wrong @ self.pairs / len(self.pairs)
            weighted = (wrong * (1 - wrong) / len(self.pairs))[:, None] * self.pairs
            step = -np.linalg.solve(self.pairs.T @ weighted + 2 * self.l2 * np.eye(len(self.theta)), gradient)
            longest = np.abs(self.pairs @ step).max()
            self.theta = self.theta + step * (np.log1p(longest) / longest if longest > 0.3 else 1)


def play(
    queries: list[Query], ranker: PDGD | PairRank, rounds: int, uniform: Callable[[str, int, int], np.ndarray]
) -> Iterator[Round]:
    """Serve one query in each round: the loop. `uniform` returns so many random numbers of a stream in a round."""
    grades = 1 + max(int(query.grades.max()) for query in queries)
    p_click, p_stop = INFORMATIONAL[grades]
    for t in range(rounds):
        query = queries[int(uniform("query/", t, 1)[0] * len(queries))]
        order = ranker.rank(query.features, uniform("explore/", t, len(query.grades)))
        shown, chance = order[:POSITIONS], uniform("click/", t, 2 * POSITIONS)
        clicks = np.zeros(len(shown), dtype=bool)
        for rank, grade in enumerate(query.grades[shown]):  # the user reads from the top; ranks from 0
            clicks[rank] = chance[2 * rank] < p_click[grade]
            if clicks[rank] and chance[2 * rank + 1] < p_stop[grade]:
                break
        ranker.learn(query.features, order, clicks, uniform("pairs/", t, POSITIONS))
        yield Round(shown, clicks, ndcg(query.grades[order]))


def main(fold: str = "tests/data/tiny/Fold1", name: str = "pairrank", rounds: str = "300") -> None:
    """Play, and print cumulative NDCG of the lists shown, and NDCG@10 of test queries in the order of scores."""
    queries, test = read(Path(fold))
    ranker = {"pdgd": PDGD, "pairrank": PairRank}[name](queries[0].features.shape[1])
    streams = Streams(torch.tensor([0]))
    played = list(play(queries, ranker, int(rounds), lambda *draw: streams.uniform(*draw)[0].numpy()))
    cumulative = sum(0.9995**t * round.ndcg for t, round in enumerate(played))
    offline = np.mean([ndcg(query.grades[np.argsort(-(query.features @ ranker.theta))]) for query in test])
    print(f"cumulative NDCG {cumulative:.2f}, test NDCG@10 {offline:.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
