"""The decorators of every compiled loop."""

from __future__ import annotations

import gc
import inspect
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache, update_wrapper
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core import caching, event

from ol2r_cli.loops import clock, parts
from ol2r_cli.source import code_hash, is_changed, is_shipped

_CONFIG: Any = numba.config

# Settings of numba (NUMBA_OPT, ..) with which the same source is other machine code. Numba itself looks at the
# processor only.
_OF_MACHINE_CODE = (
    *("OPT", "CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DISABLE_INTEL_SVML"),
    *("BOUNDSCHECK", "FULL_TRACEBACKS", "DEBUGINFO_DEFAULT", "EXTEND_VARIABLE_LIFETIMES", "ENABLE_PROFILING"),
    *("LLVM_REFPRUNE_PASS", "LLVM_REFPRUNE_FLAGS", "DEBUG_NRT", "NRT_STATS", "JIT_COVERAGE", "PARFOR_MAX_TUPLE_SIZE"),
)

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile with numba when first called, for the types of that call, and keep the machine code on disk.

    Numba keeps it in NUMBA_CACHE_DIR, otherwise beside the source, or in the user's cache folder where that is
    read-only. Where none can be written, every process compiles anew, as it does with loops of others and those that
    contain one of these: nothing on disk tells what their code is. Division by zero gives infinity or NaN, as in numpy.
    """
    return cast(Function, _Loop(function, {}))


def compiled_sums(function: Function) -> Function:
    """Compile as `compiled` a loop whose sums may be added up in any order, which vectorises them.

    The order depends on the processor and on the length, not on the values or their place in memory.
    """
    return cast(Function, _Loop(function, {"fastmath": {"reassoc", "contract"}}))


def part_of_caller(function: Function) -> Function:
    """Compile as `compiled` a loop that one place calls, or that returns a part of an array: its statements are
    compiled as a part of the caller's. A GPU's compiler lets no other loop return an array."""
    return cast(Function, _Loop(function, {"inline": "always"}))


def constant(value: int | None) -> Callable[[Function], Function]:
    """Return a decorator: `part_of_caller`, for a loop that returns a constant, or nothing, and does nothing else."""

    def decorate(function: Function) -> Function:
        loop: Any = part_of_caller(function)
        loop.constant = parts.constant(loop, value)
        return cast(Function, loop)

    return decorate


class _Loop:
    """A loop in two forms, each compiled when first used: what Python calls, and what other loops call, without code
    that unpacks Python's arguments, and which is not kept on disk (loops/parts.py). Neither can be called from C.

    `function` is its source, from which loops/lanes.py makes other forms; `made_by` is how a function makes it that
    returns loops, and with which arguments. `constant` is the type of calls that are no calls, or None. `is_shipped` is
    whether it is of ol2r, with all loops that it is made of.
    """

    constant: Any = None

    def __init__(self, function: Callable[..., object], options: dict[str, Any]):
        update_wrapper(self, function)
        self.function, self.options = function, options
        self.made_by: tuple[object, ...] = function.__module__, function.__qualname__
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self.is_shipped = is_shipped(function.__module__) and all(map(_is_shipped, cells))
        whole = _jit(function, is_kept=self.is_shipped, no_cfunc_wrapper=True, **options)
        self.called_by_python = parts.whole(whole)
        inner = _jit(function, is_kept=False, no_cfunc_wrapper=True, no_cpython_wrapper=True, **options)
        self.inner = parts.part(inner)

    def __call__(self, *arguments: object) -> object:
        return self.called_by_python(*arguments)

    def __reduce__(self) -> tuple[object, ...]:
        """Return what numba hashes to find the machine code of a loop that has this one as a variable of its
        closure."""
        return str, (repr(self.made_by),)

    def __repr__(self) -> str:
        return repr(self.made_by)

    @property
    def _numba_type_(self) -> Any:  # what numba compiles a call of this object to
        return self.constant or self.inner._numba_type_


def made_by(*origin: object) -> Callable[[Function], Function]:
    """Return a decorator: `compiled`, for a loop that a function makes of other loops. `origin` is the name of that
    function and its arguments.

    They become a part of the loop's name. Numba tells loops of one name and one signature apart by a number that it
    counts in each process: without `origin`, loops of different processes would have the same symbol on disk, and of
    two that are loaded the second would be the first.
    """

    def decorate(function: Function) -> Function:
        function.__qualname__ += "." + sha256(repr(origin).encode()).hexdigest()[:16]
        loop: Any = compiled(function)
        loop.made_by = origin
        return cast(Function, loop)

    return decorate


def is_loop(value: object) -> bool:
    """Return whether a value is what one of these decorators has made of a function."""
    return isinstance(value, _Loop)


def _is_shipped(value: object) -> bool:
    """Return whether what a loop is made of is of ol2r, or no code at all."""
    return value.is_shipped if isinstance(value, _Loop) else not callable(value)


def _jit(function: Callable[..., object], is_kept: bool = True, **options: Any) -> Any:
    outer, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, FOLDER
    is_kept = is_kept and bool(FOLDER) and not _is_changed(Path(inspect.getfile(function)))
    try:
        options |= {"cache": is_kept, "error_model": "numpy", "pipeline_class": parts.Passes}
        made: Any = numba.njit(**options)(function)
        if is_kept:
            _verify(made)
        return made
    finally:
        _CONFIG.CACHE_DIR = outer  # where other functions are kept, such as those of own rankers


class _VerifiedFiles(caching.IndexDataCacheFile):
    """The files of a loop's machine code, with hashes of their content: what is damaged is compiled and written again.

    What cannot be written is compiled by every process.
    """

    def _dump(self, obj: Any) -> bytes:
        return pickle.dumps(_Hashed(super()._dump(obj)))

    def _load_index(self) -> Any:
        with suppress(Exception):  # of pickle, for any bytes
            return super()._load_index()
        return {}

    def load(self, key: Any) -> Any:
        with suppress(Exception):
            return super().load(key)
        return None

    def save(self, key: Any, data: Any) -> None:
        with suppress(OSError):
            super().save(key, data)


class _Hashed:
    """Bytes of pickle that are read only if they are those that were written."""

    def __init__(self, content: bytes):
        self.content = content

    def __reduce__(self) -> tuple[object, ...]:
        return _read, (self.content, sha256(self.content).digest())


def _read(content: bytes, digest: bytes) -> object:
    if sha256(content).digest() != digest:
        raise ValueError("the file was damaged")
    return pickle.loads(content)


def _verify(dispatcher: Any) -> None:
    """Let what numba.njit has made of a loop verify its files; numba itself executes what it finds in them."""
    files = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if type(files) is caching.IndexDataCacheFile:
        files.__class__ = _VerifiedFiles


_is_changed = cache(is_changed)  # once for all loops of a file, which are imported together


def _folder() -> str:
    """Return the folder for the machine code of these sources, this numba and its settings, below the one that numba
    chooses; "" for none.

    Numba compiles a loop again when its own file changes, not when those change that it calls: they are linked into it.
    These are in files of this package and in `.._loops.py`, of which the name of the folder is a hash.
    """
    if _CONFIG.DISABLE_JIT:
        return ""
    try:
        chosen = Path(str(numba.njit(cache=True)(lambda: None).stats.cache_path))
    except RuntimeError:  # there is none that can be written
        return ""
    settings = [f"{name}={getattr(_CONFIG, name, None)}" for name in _OF_MACHINE_CODE]
    decisive = " ".join([code_hash("loops", "_loops.py"), numba.__version__, llvmlite.__version__, *settings])
    return str(chosen / f"ol2r-{sha256(decisive.encode()).hexdigest()[:16]}")


FOLDER = _folder()


class _CompilerLock(event.Listener):
    """Stops the clock while numba holds the lock under which it compiles, and loads what it has compiled before.

    Meanwhile no garbage is collected: a collection goes through the objects of torch, a tenth of the time in all.
    """

    collecting = True

    def on_start(self, event: event.Event) -> None:
        if not clock.compiling:
            self.collecting = gc.isenabled()
        clock.stop()
        gc.disable()

    def on_end(self, event: event.Event) -> None:
        clock.start()
        if self.collecting and not clock.compiling:
            gc.enable()


if _CONFIG.DISABLE_JIT:  # loops are left to Python, and products of 32-bit words overflow aloud
    np.seterr(over="ignore")
event.register("numba:compiler_lock", _CompilerLock())
