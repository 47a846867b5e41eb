"""FairCo: exposure in proportion to merit by a proportional controller, over relevance estimated from clicks.

Morik, Singh, Hong, Joachims: Controlling Fairness and Bias in Dynamic Learning-to-Rank (SIGIR 2020): the controller,
and the regression whose loss is unbiased although only examined documents are clicked. As a baseline of FairExp:
Jia and Wang (2021), section 5.1.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.arrays import Documents, Vector
from tests.reference.shuffles import Order


def errors(history: Sequence[Sequence[float]], merit: Sequence[float]) -> list[float]:
    """err_t of the documents of every group: (t - 1) max over groups i of Exp_i/Merit_i - Exp_g/Merit_g.

    `history[s][g]` is the exposure that group g received in round s, for the t - 1 rounds before t; Exp is its mean
    over these rounds. The paper divides both exposure and merit by the size of the group, which cancels while the
    documents stay the same; over queries of other documents it does not, and the caller says which is meant. Before
    round 1 all errors are 0, and they are never negative, because a group is compared with itself, too.
    """
    if not history:
        return [0.0] * len(merit)
    rounds = len(history)
    share = [sum(exposures[g] for exposures in history) / rounds / merit[g] for g in range(len(merit))]
    return [rounds * max(other - own for other in share) for own in share]


def rerank(estimates: Sequence[float], group: Sequence[int], error: Sequence[float], gain: float) -> Order:
    """Documents by relevance estimate + gain x err of their group, best first; level ones by number.

    `gain` is the lambda of the controller.
    """
    boosted = [estimate + gain * error[g] for estimate, g in zip(estimates, group, strict=True)]
    return tuple(sorted(range(len(boosted)), key=lambda d: (-boosted[d], d)))


def gradient(
    weights: Vector,
    features: Documents,
    clicks: Sequence[int],
    propensity: Sequence[float],
) -> Vector:
    """The gradient of the sum over shown documents of r^2 + c/p (1 - 2 r), where r = x . w: the sum of 2 (r - c/p) x.

    c in {0, 1} is the click, p the probability of examination. With P(c = 1) = p R the expectation of that sum is the
    sum of (r - R)^2 + R (1 - R).
    """
    total = np.zeros_like(weights)
    for x, c, p in zip(features, clicks, propensity, strict=True):
        total += 2 * (x @ weights - c / p) * x
    return total
