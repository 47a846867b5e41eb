"""Memory for what a loop computes on its way: it is allocated once, and loops take parts of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.loops.compile import compiled, part_of_caller
from ol2r_cli.loops.lanes import of_many_lanes

USED, TOO_SMALL = range(2)


class Workspace(NamedTuple):
    """The memory of one replica, float64 `memory` [n], and `state` [2], which every lane keeps for itself: how much is
    used, and 1 if a part was larger than what was left. `tiles` is fast memory of a GPU for products of matrices."""

    memory: Any
    state: Any
    tiles: Any = None


@part_of_caller
def take(space, count):
    """Return `count` numbers that nothing else uses until the space is released to a mark before them."""
    first = _reserved(space, count)
    return space.memory[first : first + count]


@part_of_caller
def take_integers(space, count):
    """Return `count` int64 integers, as `take`."""
    first = _reserved(space, count)
    return space.memory[first : first + count].view(np.int64)


@part_of_caller
def take_matrix(space, rows, columns):
    """Return numbers [rows, columns], as `take`."""
    return take(space, rows * columns).reshape((rows, columns))


@part_of_caller
def take_integer_matrix(space, rows, columns):
    """Return int64 integers [rows, columns], as `take`."""
    return take_integers(space, rows * columns).reshape((rows, columns))


@compiled
def _reserved(space, count):
    first = space.state[USED]
    if first + count > len(space.memory):
        raise RuntimeError("a loop needs a larger workspace than it states")
    space.state[USED] = first + count
    return first


@of_many_lanes(_reserved)
@compiled
def _reserved_or_not(space, count):
    """Do what `_reserved` does on a GPU, where loops raise nothing: a launch finds out afterwards."""
    first = space.state[USED]
    if first + count > len(space.memory):
        space.state[TOO_SMALL], first = 1, 0
    space.state[USED] = first + count
    return first


@compiled
def mark(space):
    """Return how much of the space is used, for `release`."""
    return space.state[USED]


@compiled
def release(space, mark):
    """Give back all that was taken since the mark."""
    space.state[USED] = mark
