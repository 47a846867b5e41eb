"""The launch of a loop: it is played for every replica, on a CPU one after the other, on a GPU all at once."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor

from ol2r_cli.loops.arguments import as_arrays, device_of
from ol2r_cli.loops.compile import made_by
from ol2r_cli.loops.workspace import TOO_SMALL, Workspace, release
from ol2r_cli.plugins import launching


def launch(loop: Any, replicas: int, room: int, *arguments: Any) -> None:
    """Call `loop(b, space, *arguments)` for every replica b, where its tensors are.

    Arguments are tensors, numbers, and tuples of these; tensors are of one device. `room` is how many numbers the
    loop takes of its workspace at once.
    """
    device = device_of(arguments)
    if device is not None and device.type == "cuda":
        of_gpu = launching()
        if of_gpu is None:
            raise ValueError("device=cuda needs the plug-in for GPUs, which is not installed: type device=cpu")
        of_gpu.launch(loop, replicas, room, arguments)
        return
    space = _own.workspace(room)
    for_each_replica(loop)(replicas, space, as_arrays(arguments, Tensor.numpy))
    if space.state[TOO_SMALL]:
        space.state[TOO_SMALL] = 0
        raise RuntimeError(f"{loop!r} needs a larger workspace than {room}")


def unchanging(value: Any) -> Any:
    """Return what a run gives to many launches as these take it, with arrays in place of tensors on a CPU.

    A tensor costs a launch half a microsecond, as much as a loop for a short list.
    """
    device = device_of(value)
    return as_arrays(value, Tensor.numpy) if device is not None and device.type == "cpu" else value


class _Own(threading.local):
    """The workspaces of a thread: the first numbers of one memory, which grows."""

    def __init__(self) -> None:
        self.memory, self.of_room = np.empty(0), dict[int, Workspace]()

    def workspace(self, room: int) -> Workspace:
        """Return a workspace of so many numbers. It is free for the next launch when a loop returns."""
        if room not in self.of_room:
            if room > len(self.memory):
                self.memory, self.of_room = np.empty(room), {}
            self.of_room[room] = Workspace(self.memory[:room], np.zeros(2, np.int64))
        return self.of_room[room]


_own = _Own()


@cache
def for_each_replica(loop: Any) -> Any:
    """Return what calls a loop for every replica on a CPU."""

    @made_by("for_each_replica", loop)
    def each(replicas, space, arguments):
        for b in range(replicas):
            release(space, 0)
            loop(b, space, *arguments)

    return each
