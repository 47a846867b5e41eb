"""Lengths of steps down a convex objective (learning/perturbed_optima.py)."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled_sums


@compiled_sums
def step_length(scores, change, weights, slope, bend, flat):
    """Return a > 0 where an objective, as a function of the length a of a step, has a slope of at most `flat`.

    A step changes the scores [n] of pairs with these weights by -change [n] per unit, in learning/perturbed_optima.py.
    This is Newton's method in one dimension, kept between the lengths known to be too short and too long.
    """
    length, short, long = 1.0, 0.0, np.inf
    for _ in range(60):
        rise, curvature = slope + length * bend, bend
        for i in range(len(scores)):
            push = 1 / (1 + np.exp(scores[i] - length * change[i]))
            rise += weights[i] * push * change[i]
            curvature += weights[i] * push * (1 - push) * change[i] * change[i]
        if abs(rise) <= flat:
            break
        if rise < 0:
            short = length
        else:
            long = length
        length -= rise / curvature
        if not short < length < long:
            length = 2 * short if long == np.inf else (short + long) / 2
    return length
