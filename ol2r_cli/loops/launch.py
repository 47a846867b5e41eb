"""The launch of a loop: it is played for every replica, on a CPU one after the other, on a GPU all at once."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from torch import Tensor

from ol2r_cli.loops.arguments import as_arrays, device_of
from ol2r_cli.loops.compile import compiled, keep_made_by
from ol2r_cli.loops.workspace import TOO_SMALL, Workspace, release


def launch(loop: Any, replicas: int, room: int, *arguments: Any) -> None:
    """Call `loop(b, space, *arguments)` for every replica b, where its tensors are.

    Arguments are tensors, numbers, and tuples of these; tensors are of one device. `room` is how many numbers the
    loop takes of its workspace at once.
    """
    device = device_of(arguments)
    if device is not None and device.type == "cuda":
        from ol2r_cli.loops import gpu

        gpu.launch(loop, replicas, room, arguments)
        return
    space = Workspace(np.empty(room), np.zeros(2, np.int64))
    for_each_replica(loop)(replicas, space, as_arrays(arguments, _array))
    if space.state[TOO_SMALL]:
        raise RuntimeError(f"{loop!r} needs a larger workspace than {room}")


@cache
def for_each_replica(loop: Any) -> Any:
    """Return what calls a loop for every replica on a CPU."""

    def each(replicas, space, arguments):
        for b in range(replicas):
            release(space, 0)
            loop(b, space, *arguments)

    return keep_made_by(compiled(each), "for_each_replica", loop)


def _array(tensor: Tensor) -> Any:
    return tensor.numpy()
