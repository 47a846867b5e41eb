"""COLTR for one replica: steps, and which directions have less risk, as the tensors of ranker/counterfactual.py."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.updates import dot


@compiled
def step(theta, rate, decay, directions, won):
    """Move theta [F] to the mean of those directions [M, F] that `won` [M]."""
    winners = 0
    for each in won:
        winners += each
    if winners:
        for n in range(len(won)):
            if won[n]:
                for f in range(len(theta)):
                    theta[f] += rate[0] * directions[n, f] / winners
        rate[0] -= rate[0] * (1 - decay)


@compiled
def less_risk(directions, delta, variance_penalty, table, shown, clicks):
    """Return which of the directions [M, F] have less risk than theta itself: `counterfactual_risks`, for a list of the
    documents table[shown].

    A softmax over all documents has the same sum for all of them, which cancels as every common factor of the weights
    does: that of a document is e^(delta u.x).
    """
    places, features, won = len(shown), directions.shape[1], np.zeros(len(directions), np.bool_)
    loss, last = np.zeros(places), 0
    for place in range(places):
        if clicks[place]:
            last = place
    for place in range(last):
        loss[place] = not clicks[place]
    if not loss.any():
        return won
    listed = np.empty((places, features))
    for place in range(places):
        for f in range(features):
            listed[place, f] = table[shown[place], f]
    weight = np.ones(places)
    own = _risk(weight, loss, variance_penalty)
    for n in range(len(directions)):
        for place in range(places):
            weight[place] = delta * dot(directions[n], listed[place])
        most = weight.max()
        for place in range(places):
            weight[place] = np.exp(weight[place] - most)
        won[n] = _risk(weight, loss, variance_penalty) < own
    return won


@compiled
def _risk(weight, loss, variance_penalty):
    """Return the mean of the losses [K] with these weights, plus the penalty of their variance."""
    mean, total, variance, square = 0.0, 0.0, 0.0, 0.0
    for place in range(len(loss)):
        mean += weight[place] * loss[place]
        total += weight[place]
    mean /= total
    for place in range(len(loss)):
        variance += weight[place] ** 2 * (loss[place] - mean) ** 2
        square += weight[place] ** 2
    return mean + variance_penalty * np.sqrt(variance / square / len(loss))
