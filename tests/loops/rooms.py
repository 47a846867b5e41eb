"""How many numbers of the workspace loops take at once, and how many a launch states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ol2r_cli.loops import workspace
from ol2r_cli.loops.launch import for_each_replica as compiled_for_each
from ol2r_cli.loops.workspace import USED, Workspace
from tests.loops.lanes_by_threads import Lanes

_UNUSED = -0x7A_5A_5A_5A_5A_5A_5A  # bits that no loop writes


class Rooms:
    """The largest share that was taken of what was stated, and its numbers, by loop.

    It is measured where a loop of two lanes takes memory, of the forms that a GPU has, by `of_gpu`, and by what
    compiled loops have written, by `of_cpu`.
    """

    def __init__(self) -> None:
        self.taken, self.stated = dict[Any, int](), dict[Any, int]()

    def add(self, loop: Any, taken: int, stated: int) -> None:
        """Keep what a launch has taken."""
        self.taken[loop] = max(taken, self.taken.get(loop, 0))
        self.stated[loop] = max(stated, self.stated.get(loop, 0))

    def of_gpu(self, loop: Any) -> Callable[..., None]:
        """Return what plays a loop as the lanes of a GPU do."""
        most = [0]

        def reserved(space: Workspace, count: int) -> int:
            first = int(space.state[USED])
            space.state[USED] = first + count
            most[0] = max(most[0], first + int(count))
            return first

        lanes = Lanes(2)  # one lane alone plays other branches
        lanes.more = {workspace._reserved: reserved}
        play = lanes(loop)

        def for_each_replica(replicas: int, space: Workspace, arguments: tuple[Any, ...]) -> None:
            most[0] = 0
            play(replicas, Workspace(np.empty(4 * len(space.memory) + 10_000), space.state), arguments)
            self.add(loop, most[0], len(space.memory))

        return for_each_replica

    def of_cpu(self, loop: Any) -> Callable[..., None]:
        """Return what plays a compiled loop."""
        play = compiled_for_each(loop)

        def for_each_replica(replicas: int, space: Workspace, arguments: tuple[Any, ...]) -> None:
            bits = space.memory.view(np.int64)
            bits.fill(_UNUSED)
            play(replicas, space, arguments)
            written = np.flatnonzero(bits != _UNUSED)
            self.add(loop, int(written[-1]) + 1 if len(written) else 0, len(bits))

        return for_each_replica
