"""Launches of several runs as one: their replicas side by side, each with the state and the settings of its run.

This is for a GPU, where a launch plays a thousand replicas nearly as fast as one. The tensors of the runs are copied
together, and what the loop has written is copied back.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.loops.rounds import RoundsLaunch


def play_jointly(launches: Sequence[RoundsLaunch]) -> None:
    """Play the rounds of launches with the same key as one launch."""
    first = launches[0]
    if len(launches) == 1:
        first.play()
        return
    replicas = [len(launch.seeds) for launch in launches]
    by_replica = [(launch.seeds, launch.user, launch.exploration, launch.ranker) for launch in launches]
    by_round = [(launch.intents, launch.record, launch.reasons) for launch in launches]
    seeds, user, exploration, ranker = _side_by_side(by_replica, 0, replicas, {})
    intents, record, reasons = _side_by_side(by_round, 1, replicas, {})
    room = max(launch.room for launch in launches)
    joint = first._replace(room=room, intents=intents, seeds=seeds, user=user, exploration=exploration, ranker=ranker)
    joint._replace(record=record, reasons=reasons).play()
    _copy_back((seeds, user, exploration, ranker), by_replica, 0, replicas)
    _copy_back((intents, record, reasons), by_round, 1, replicas)


def _side_by_side(parts: Sequence[Any], axis: int, replicas: Sequence[int], made: dict[Hashable, Tensor]) -> Any:
    """Return values of several runs as one, with replicas along this axis of every tensor. A tensor of one row is that
    of all replicas of its run. `made` has the tensors that were put together: what is one memory stays one."""
    first = parts[0]
    if isinstance(first, Tensor):
        memory = tuple((part.data_ptr(), part.shape, part.stride()) for part in parts)
        if memory not in made:
            rows = [
                part.expand(count, *part.shape[1:]) if axis == 0 and len(part) == 1 else part  # a row for each replica
                for part, count in zip(parts, replicas, strict=True)
            ]
            made[memory] = torch.cat(rows, axis)
        return made[memory]
    if isinstance(first, tuple):
        columns = [_side_by_side(column, axis, replicas, made) for column in zip(*parts, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    return first


def _copy_back(joint: Any, parts: Sequence[Any], axis: int, replicas: Sequence[int]) -> None:
    """Copy what `_side_by_side` has put together back to the runs."""
    if isinstance(joint, Tensor):
        if joint.shape[axis] != sum(replicas):  # there is nothing, as where blocks are not recorded
            return
        pieces = zip(parts, joint.split(list(replicas), axis), strict=True)
        written = [(part, piece) for part, piece in pieces if part.shape == piece.shape]
        if written:
            torch._foreach_copy_([part for part, _ in written], [piece for _, piece in written])
    elif isinstance(joint, tuple):
        for column, *of_parts in zip(joint, *parts, strict=True):
            _copy_back(column, of_parts, axis, replicas)
