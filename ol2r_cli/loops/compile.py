"""The decorators of every compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba
from numba.core import event

from ol2r_cli.loops import clock

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile with numba when first called, for the types of that call, and keep the machine code on disk.

    Numba keeps it in NUMBA_CACHE_DIR, otherwise beside the source, or in the user's cache folder where that is
    read-only. Where none can be written, every process compiles anew. Division by zero gives infinity or NaN, as in
    numpy.
    """
    return _compiled(function)


def compiled_sums(function: Function) -> Function:
    """`compiled`, for loops whose sums may be added up in any order, which vectorises them.

    The order depends on the processor and on the length, not on the values or their place in memory.
    """
    return _compiled(function, fastmath={"reassoc", "contract"})


def _compiled(function: Function, **options: Any) -> Function:
    config: Any = numba.config
    outer, config.CACHE_DIR = config.CACHE_DIR, FOLDER
    try:
        return numba.njit(cache=bool(FOLDER), error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = outer  # where other functions are kept, such as those of own rankers


def _folder() -> str:
    """The folder for the machine code of these sources and this numba, below the one that numba chooses; "" for none.

    Numba compiles a loop again when its own file changes, not when those change that it calls: they are linked into it.
    """
    try:
        chosen = Path(str(numba.njit(cache=True)(lambda: None).stats.cache_path))
    except RuntimeError:  # there is none that can be written
        return ""
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    versions = f"{numba.__version__} {llvmlite.__version__}".encode()
    return str(chosen / f"ol2r-{sha256(sources + versions).hexdigest()[:16]}")


FOLDER = _folder()


class _CompilerLock(event.Listener):
    """Stops the clock while numba holds the lock under which it compiles, and loads what it has compiled before."""

    def on_start(self, event: event.Event) -> None:
        clock.stop()

    def on_end(self, event: event.Event) -> None:
        clock.start()


event.register("numba:compiler_lock", _CompilerLock())
