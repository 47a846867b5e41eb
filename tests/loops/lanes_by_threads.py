"""Lanes as threads of Python, so that a GPU's races are found without one.

`Lanes` plays a loop with several lanes. Between two barriers one lane runs after the other, in an order of choice: what
a lane reads before the lane that writes it has come to a barrier is stale in some order. At every barrier all memory
that is not in use becomes NaN. A lane that waits where others do not, and one that has taken another amount of memory,
are failures. Products of matrices are those of a GPU.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import FrameType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from ol2r_cli.loops import dense, lanes, launch
from ol2r_cli.loops.workspace import TOO_SMALL, USED, Workspace

ORDERS = ("forward", "backward", "random")
_PRODUCTS = ("times", "times_transposed", "few_times", "add_products", "difference", "keep_difference")
_PARTS = 32  # numbers that gpu.py takes where lanes add up
_OF_THREADING = 3  # frames of a thread outside of the loop
_own = threading.local()

Place = tuple[tuple[str, int], ...]  # the lines of a lane, from a barrier outwards


class _Stopped(BaseException):
    """Ends a lane after another one has failed."""


class Lanes:
    """Calls loops with so many lanes, as `launch.for_each_replica` does with one.

    `skipped` is a barrier that has no effect, as the name of its function and its number there, from 0.
    """

    def __init__(self, lanes: int, order: str = "forward", skipped: tuple[str, int] | None = None):
        self.lanes, self.order, self.skipped = lanes, order, skipped
        self.random = Random(lanes)
        self.products = _products(lanes, self._barrier)
        self.met = 0  # barriers to which all lanes have come
        self.more: dict[Any, Any] = {}  # further forms of loops

    def __call__(self, loop: Any) -> Callable[..., None]:
        """Return what calls a loop for every replica."""
        forms = self._forms()
        form = lanes.rebound(loop, forms, lambda loop, function: function)
        self.skipped_line = self._line(forms) if self.skipped else None

        def for_each_replica(replicas: int, space: Workspace, arguments: tuple[Any, ...]) -> None:
            for b in range(replicas):
                self._play(lambda space, b=b: form(b, space, *arguments), space)

        return for_each_replica

    def _line(self, forms: Mapping[Any, Any]) -> tuple[str, int]:
        """Return the function and the line of the barrier that is skipped."""
        name, number = self.skipped
        functions = [*(loop.function for loop in forms), self.products["_products"](None)]
        (function,) = (function for function in functions if function.__name__ == name)
        return name, barriers(function)[number]

    def _forms(self) -> dict[Any, Any]:
        forms = {
            lanes.lane: lambda: _own.lane,
            lanes.lanes: lambda: self.lanes,
            lanes.barrier: self._barrier,
            lanes.lane_sum: lambda value, space: self._over_lanes(value, space, sum),
            lanes.lane_max: lambda value, space: self._over_lanes(value, space, max),
        }
        forms |= self.more
        return forms if self.lanes == 1 else forms | {getattr(dense, name): self.products[name] for name in _PRODUCTS}

    def _play(self, play: Callable[[Workspace], None], space: Workspace) -> None:
        """Play a loop with all lanes in the memory of `space`; raises what a lane raises, or AssertionError."""
        self.memory = space.memory
        self.memory.fill(np.nan)
        tiles = np.full(self.products["TILES"], np.nan)
        self.spaces = [Workspace(space.memory, np.zeros(2, np.int64), tiles) for _ in range(self.lanes)]
        self.turns = [threading.Lock() for _ in range(self.lanes)]
        self.places: list[Place | None] = [None] * self.lanes  # where each lane waits; None: it has ended
        self.failure: BaseException | None = None
        for turn in self.turns:
            turn.acquire()
        threads = [threading.Thread(target=self._lane, args=(lane, play), daemon=True) for lane in range(self.lanes)]
        for thread in threads:
            thread.start()
        self._new_order()
        self.turns[self.left[0]].release()
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure
        space.state[TOO_SMALL] |= max(lane.state[TOO_SMALL] for lane in self.spaces)

    def _lane(self, lane: int, play: Callable[[Workspace], None]) -> None:
        _own.lane = lane
        self.turns[lane].acquire()
        try:
            with np.errstate(over="ignore"):
                play(self.spaces[lane])
            self.places[lane] = None
            self._next()
        except _Stopped:
            pass
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        for turn in self.turns:
            if turn.locked():
                turn.release()

    def _barrier(self) -> None:
        place = _place(sys._getframe(1))
        if place[0] == self.skipped_line:
            return
        lane = _own.lane
        self.places[lane] = place
        self._next()
        self.turns[lane].acquire()
        if self.failure is not None:
            raise _Stopped

    def _next(self) -> None:
        """Let the next lane run, or all of them from where they have met."""
        del self.left[0]
        if not self.left:
            if self.places == [None] * self.lanes:
                return
            self._meet()
            self._new_order()
        self.turns[self.left[0]].release()

    def _meet(self) -> None:
        places = {place: [lane for lane in range(self.lanes) if self.places[lane] == place] for place in self.places}
        assert len(places) == 1, "; ".join(
            f"lanes {numbers} {'have ended' if place is None else f'wait in {_words(place)}'}"
            for place, numbers in places.items()
        )
        used = [int(space.state[USED]) for space in self.spaces]
        assert len(set(used)) == 1, (
            f"lanes have taken {used} numbers of the workspace in {_words(self.places[0] or ())}"
        )
        self.memory[used[0] :] = np.nan
        self.met += 1

    def _new_order(self) -> None:
        self.left = list(range(self.lanes))
        if self.order == "backward":
            self.left.reverse()
        if self.order == "random":
            self.random.shuffle(self.left)

    def _over_lanes(self, value: Any, space: Workspace, combine: Callable[[Sequence[float]], float]) -> float:
        first = int(space.state[USED])
        assert first + _PARTS <= len(space.memory), f"no room for {_PARTS} numbers of the lanes"
        space.state[USED] += _PARTS
        parts = space.memory[first : first + self.lanes]
        parts[_own.lane] = value
        self._barrier()
        result = combine(parts.tolist())
        self._barrier()
        space.state[USED] -= _PARTS
        return result


def barriers(function: Callable[..., Any]) -> list[int]:
    """Return the lines of a function that are barriers."""
    instructions = dis.get_instructions(function)
    return [one.positions.lineno for one in instructions if one.argval in ("barrier", "syncthreads")]


class _ThreadIdx:
    @property
    def x(self) -> int:
        return _own.lane


def _products(threads: int, barrier: Callable[[], None]) -> dict[str, Any]:
    """Return what plugins/gpu/gpu_dense.py defines, with its functions in Python, for so many threads, two of them side
    by side."""
    path = Path(dense.__file__).parents[1] / "plugins" / "gpu" / "gpu_dense.py"
    source = path.read_text()
    for constant, value in (("THREADS = 128", f"THREADS = {threads}"), ("SIDE = 16", "SIDE = 2")):
        assert source.count(f"\n{constant}") == 1
        source = source.replace(constant, value)
    cuda = SimpleNamespace(
        jit=lambda **options: lambda function: function,
        threadIdx=_ThreadIdx(),
        blockDim=SimpleNamespace(x=threads),
        syncthreads=barrier,
        local=SimpleNamespace(array=lambda shape, dtype: np.full(shape, np.nan)),
    )
    names: dict[str, Any] = {"__name__": "gpu_dense"}
    with patch("importlib.import_module", lambda name: cuda):
        exec(compile(source, str(path), "exec"), names)
    return names


def _place(frame: FrameType | None) -> Place:
    lines = []
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            lines.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines[:-_OF_THREADING])


def _words(place: Place) -> str:
    return ", called by ".join(f"{name} (line {line})" for name, line in place)


def one_lane(loop: Any) -> Callable[..., None]:
    """Return what calls a loop, not compiled, for every replica with one lane."""
    return Lanes(1)(loop)


def loops_by(by: Callable[[Any], Callable[..., None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets what calls loops take the place of compiled code."""
    monkeypatch.setattr(launch, "for_each_replica", by)


def keeping(found: dict[Any, tuple[Any, ...]]) -> Callable[[Any], Callable[..., None]]:
    """Return `one_lane` that also keeps the arguments of every loop."""

    def one_lane_kept(loop: Any) -> Callable[..., None]:
        def for_each_replica(replicas: int, space: Workspace, arguments: tuple[Any, ...]) -> None:
            found[loop] = arguments
            one_lane(loop)(replicas, space, arguments)

        return for_each_replica

    return one_lane_kept
