"""Dueling bandit gradient descent and its multileaved form: what is compared, and who has won.

Yue and Joachims, Interactively Optimizing Information Retrieval Systems as a Dueling Bandits Problem (ICML 2009),
Algorithm 1; Schuth, Oosterhuis, Whiteson, de Rijke, Multileave Gradient Descent for Fast Online Learning to Rank
(WSDM 2016), with the mean of the winners. DBGD is the case of one candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.arrays import Vector


def unit(normals: Vector) -> Vector:
    """A direction drawn uniformly from the unit sphere, if `normals` are independent standard normals."""
    return normals / np.sqrt(sum(n**2 for n in normals))


def members(theta: Vector, delta: float, directions: Sequence[Vector]) -> list[Vector]:
    """The members that are compared: member 0 is the current ranker, member n is theta + delta times direction n."""
    return [theta, *(theta + delta * direction for direction in directions)]


def winners(credit: Sequence[float]) -> list[int]:
    """The members that were given more credit than member 0; a tie with it is no win."""
    return [member for member in range(1, len(credit)) if credit[member] > credit[0]]
