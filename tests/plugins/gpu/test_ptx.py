"""Loops compile for a GPU, also where there is none: what numba-cuda makes of them allocates no memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ol2r_cli import loops
from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lane_max, lane_sum, lanes
from tests.choices import Overrides, with_setting
from tests.loops import staged
from tests.loops.lanes_by_threads import keeping

pytestmark = pytest.mark.skipif(bool(loops.gpu_is_missing()), reason=f"{loops.gpu_is_missing()}: pip install '.[gpu]'")


def ptx_of(loop: Any, *arguments: Any) -> str:
    """The machine code of a loop for an H100, as text."""
    from ol2r_cli.plugins.gpu import gpu

    return gpu.ptx(loop, arguments)


def check(overrides: Overrides, **more: Any) -> None:
    """All loops that a run launches compile for a GPU."""
    launched: dict[Any, tuple[Any, ...]] = {}
    staged.played(overrides, keeping(launched), rounds=8, **more)
    assert launched, overrides
    for loop, arguments in launched.items():
        ptx = ptx_of(loop, *arguments)
        assert ptx.count(".visible .entry") == 1, overrides
        called = {line.split()[-1] for line in ptx.splitlines() if line.startswith(".extern .func")}
        assert called <= {"numba_attempt_nocopy_reshape"}, overrides  # not malloc, nor NRT_Allocate


def test_rounds_compile_for_a_gpu():
    check(("ranker=pdgd",))


@pytest.mark.slow
@pytest.mark.parametrize("overrides", staged.SETTINGS, ids=" ".join)
def test_rounds_of_settings_compile_for_a_gpu(overrides):
    check(overrides)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", staged.SINGLE, ids=" ".join)
def test_loops_of_single_rounds_compile_for_a_gpu(overrides):
    check(overrides, singly=True)


@pytest.mark.slow
@pytest.mark.parametrize("ranker", staged.staged("ranker"))
def test_a_ranker_compiles_for_a_gpu(ranker):
    """With the exploration it brings: a CPU plays it with every other, and what allocates is a loop, not a pair."""
    overrides = with_setting("ranker", ranker)
    if staged.has_stages(overrides):
        check(overrides)


@pytest.mark.slow
@pytest.mark.parametrize("exploration", staged.staged("exploration"))
def test_an_exploration_compiles_for_a_gpu(exploration):
    (overrides,) = (found for found in staged.explorations() if found[-1] == f"exploration={exploration}")
    check(overrides)


@pytest.mark.slow
@pytest.mark.parametrize("user", staged.USERS)
def test_every_stage_of_a_user_compiles_for_a_gpu(user):
    check(("ranker=pdgd", user))


@compiled
def uses_all_lanes(b, space, numbers):
    numbers[lane()] = lanes()
    barrier()
    numbers[0] = lane_sum(1.0, space) + lane_max(lane() + 0.0, space)


def test_lanes_are_threads_of_a_block():
    ptx = ptx_of(uses_all_lanes, np.zeros(3))
    assert all(word in ptx for word in ("%tid.x", "%ntid.x", "%ctaid.x", "bar.sync", "shfl.sync"))


@compiled
def allocates(b, space, numbers):
    numbers[0] = np.empty(4)[0]


@compiled
def allocates_as_much_as_it_is_told(b, space, numbers):
    numbers[0] = np.zeros(np.int64(numbers[0]))[0]


@compiled
def adds_arrays(b, space, numbers):
    numbers[0] = (numbers + numbers)[0]


@compiled
def copies_a_list(b, space, numbers):
    numbers[0] = np.array([numbers[0], 2.0])[0]


@pytest.mark.parametrize(
    "loop",
    [allocates, allocates_as_much_as_it_is_told, adds_arrays, copies_a_list],
    ids=lambda loop: loop.__name__,
)
def test_a_loop_that_allocates_does_not_compile(loop):
    from numba.core.errors import TypingError

    with pytest.raises(TypingError, match=r"empty|allocate|array"):
        ptx_of(loop, np.zeros(3))
