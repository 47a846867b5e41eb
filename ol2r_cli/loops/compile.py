"""The decorators of every compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import event

from ol2r_cli.loops.clock import clock

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile with numba when first called, for the types of that call, and keep the machine code on disk.

    Numba keeps it beside the source, or in the user's cache folder where that is read-only. Where neither can be
    written, every process compiles anew. Division by zero gives infinity or NaN, as in numpy.
    """
    return _compiled(function)


def compiled_sums(function: Function) -> Function:
    """`compiled`, for loops whose sums may be added up in any order, which vectorises them.

    The order depends on the processor and on the length, not on the values or their place in memory.
    """
    return _compiled(function, fastmath={"reassoc", "contract"})


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return numba.njit(cache=True, error_model="numpy", **options)(function)
    except RuntimeError:  # there is no folder for the machine code
        return numba.njit(error_model="numpy", **options)(function)


class _CompilerLock(event.Listener):
    """Stops the clock while numba holds the lock under which it compiles, and loads what it has compiled before."""

    def on_start(self, event: event.Event) -> None:
        clock.stop()

    def on_end(self, event: event.Event) -> None:
        clock.start()


event.register("numba:compiler_lock", _CompilerLock())
