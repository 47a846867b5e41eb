"""The speed of a straightforward numpy loop for the simple linear rankers, as a reference for `ol2r bench`.

    python scripts/plain_numpy.py [ROUNDS]

One seed, one query after the other, on the data of `ol2r bench`: informational users, NDCG@10 of 2,000 test queries
every 100 rounds. The code is plain but not wasteful; of `ol2r` it uses only the data.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from ol2r_cli.commands.bench import DATASET
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build

CLICK = np.array([0.4, 0.6, 0.7, 0.8, 0.9])
STOP = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
K = 10


def user(grades, rng):
    """Clicks of the informational dependent click model."""
    clicks = np.zeros(len(grades), dtype=bool)
    for place, grade in enumerate(grades):
        clicks[place] = rng.random() < CLICK[grade]
        if clicks[place] and rng.random() < STOP[grade]:
            break
    return clicks


def pairs(clicks):
    """Every clicked place against every examined place without a click."""
    if not clicks.any():
        return []
    last = min(np.flatnonzero(clicks)[-1] + 2, len(clicks))
    return [(i, j) for i in np.flatnonzero(clicks) for j in range(last) if not clicks[j]]


def sgd_ranknet(theta, x, grades, rng, epsilon=0.0):
    scores, remaining, shown = x @ theta, list(range(len(x))), []
    if epsilon:
        order = list(np.argsort(-scores))
        for _ in range(min(K, len(x))):
            explores = rng.random() < epsilon
            document = remaining[rng.integers(len(remaining))] if explores else next(d for d in order if d in remaining)
            remaining.remove(document)
            shown.append(document)
    else:
        shown = list(np.argsort(-scores)[:K])
    for i, j in pairs(user(grades[shown], rng)):
        row = x[shown[i]] - x[shown[j]]
        theta = theta + 0.1 * row / (1 + np.exp(row @ theta))
    return theta


def epsilon_greedy(theta, x, grades, rng):
    return sgd_ranknet(theta, x, grades, rng, epsilon=0.1)


def pdgd(theta, x, grades, rng):
    scores = x @ theta
    weights = np.exp(scores - scores.max())
    shown = list(np.argsort(-(scores + rng.gumbel(size=len(x))))[:K])

    def chance(ranking):
        left, product = weights.sum(), 1.0
        for document in ranking:
            product *= weights[document] / left
            left -= weights[document]
        return product

    before, step = chance(shown), np.zeros_like(theta)
    for i, j in pairs(user(grades[shown], rng)):
        swapped = shown.copy()
        swapped[i], swapped[j] = shown[j], shown[i]
        after = chance(swapped)
        winner, loser = shown[i], shown[j]
        above = weights[winner] / (weights[winner] + weights[loser])
        step += after / (before + after) * above * (1 - above) * (x[winner] - x[loser])
    return theta + 0.1 * step


def dbgd(theta, x, grades, rng):
    direction = rng.normal(size=len(theta))
    direction /= np.linalg.norm(direction)
    rankings = [list(np.argsort(-(x @ theta))), list(np.argsort(-(x @ (theta + direction))))]
    shown, teams = [], []
    while len(shown) < min(K, len(x)):
        for team in rng.permutation(2):
            document = next(d for d in rankings[team] if d not in shown)
            shown.append(document)
            teams.append(team)
    clicks = user(grades[shown[:K]], rng)
    credit = np.bincount(np.array(teams[: len(clicks)]), clicks, minlength=2)
    return theta + 0.01 * direction if credit[1] > credit[0] else theta


def evaluate(theta, queries):
    discount, total = 1 / np.log2(np.arange(2, K + 2)), 0.0
    for x, grades in queries:
        top, best = grades[np.argsort(-(x @ theta))[:K]], np.sort(grades)[::-1][:K]
        ideal = ((2.0**best - 1) * discount[: len(best)]).sum()
        total += ((2.0**top - 1) * discount[: len(top)]).sum() / ideal if ideal else 0.0
    return total / len(queries)


def main(rounds: int) -> None:
    dataset = build(compose([DATASET]).config.dataset).load()
    features, labels = dataset.features.numpy().astype(float), dataset.labels.numpy().astype(int)
    rows = [slice(a, b) for a, b in zip(dataset.offsets[:-1], dataset.offsets[1:], strict=True)]
    train, test = (
        [(features[rows[q]], labels[rows[q]]) for q in dataset.splits[split].tolist()] for split in ("train", "test")
    )
    for ranker in (sgd_ranknet, pdgd, dbgd, epsilon_greedy):
        rng, theta, start = np.random.default_rng(0), np.zeros(features.shape[1]), time.perf_counter()
        for t in range(1, rounds + 1):
            theta = ranker(theta, *train[rng.integers(len(train))], rng)
            if t % 100 == 0:
                ndcg = evaluate(theta, test)
        seconds = time.perf_counter() - start
        print(f"{ranker.__name__:15} {rounds / seconds:6,.0f} rounds/s, test NDCG@10 {ndcg:.3f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
