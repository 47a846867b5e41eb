"""The decorators of every compiled loop."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import numba
from numba.core import event

from ol2r_cli.loops.clock import clock

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
    outer = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = outer if FOLDER is None else str(FOLDER)
        return numba.njit(cache=FOLDER is not None, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = outer  # other functions, such as those of own rankers, are kept where they were


def _folder() -> Path | None:
    """The folder for the machine code of these sources and this numba, below the one that numba chooses; or None.

    Numba compiles a loop again when its own file changes, not when those change that it calls: they are linked into it.
    """
    try:
        chosen = Path(numba.njit(cache=True)(lambda: None).stats.cache_path)
    except RuntimeError:  # there is none that can be written
        return None
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    versions = f"{numba.__version__} {llvmlite.__version__}".encode()
    folder = chosen / f"ol2r-{sha256(sources + versions).hexdigest()[:16]}"
    with suppress(OSError):  # another process may remove the same ones
        for other in () if folder.exists() else chosen.glob("ol2r-*"):
            if time.time() - other.stat().st_mtime > _STALE:
                shutil.rmtree(other)
    return folder


_STALE = 30 * 24 * 3600  # seconds; a younger folder may be that of a running process, or of another environment
FOLDER = _folder()


class _CompilerLock(event.Listener):
    """Stops the clock while numba holds the lock under which it compiles, and loads what it has compiled before."""

    def on_start(self, event: event.Event) -> None:
        clock.stop()

    def on_end(self, event: event.Event) -> None:
        clock.start()


event.register("numba:compiler_lock", _CompilerLock())
