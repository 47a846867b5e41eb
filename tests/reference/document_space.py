"""Document space projection of the step of a dueling bandit.

Wang, Kim, McCord-Snook, Wu, Wang, Variance Reduction in Gradient Exploration for Online Learning to Rank (SIGIR 2019):
after the interleaved test the winning direction is projected onto the span of the documents that the user examined.
How many those are, and the documents of earlier rounds, are those of the authors' code: in a round with a click, the
places down to two below the last click, and the ten newest documents of earlier such rounds; the result has length 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.reference.arrays import Vector

LEAST = 1e-6  # of the largest singular value; a smaller one is rounding, and its vector outside the span


def examined(listed: Sequence[int], clicks: Sequence[bool], below: int) -> list[int]:
    """The documents of a list down to `below` places below the last click; none without a click."""
    clicked = [place for place, click in enumerate(clicks) if click]
    return list(listed[: clicked[-1] + 1 + below]) if clicked else []


def project(direction: Vector, documents: Sequence[Vector], normalise: bool) -> Vector:
    """The part of the direction in the span of the documents; with `normalise` of length 1, unless it is zero."""
    if not len(documents):
        return np.zeros_like(direction)
    left, sizes, _ = np.linalg.svd(np.array(documents, dtype=np.float64).T, full_matrices=False)
    basis = left[:, sizes > LEAST * sizes[0]]
    inside = sum((column @ direction * column for column in basis.T), np.zeros_like(direction))
    length = np.sqrt(inside @ inside)
    return inside / length if normalise and length > 0 else inside


def newest(earlier: Sequence[int], added: Sequence[int], room: int) -> list[int]:
    """First in, first out: the last `room` of the earlier documents and those that are added, the newest last."""
    together = [*earlier, *added]
    return together[max(0, len(together) - room) :]
