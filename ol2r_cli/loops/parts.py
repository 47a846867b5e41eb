"""How numba compiles a loop that only other loops call: to LLVM's language, of which the callers make machine code.

By itself numba optimises such a loop, and makes machine code of it, as if it were called alone, and once more in every
loop that calls it, directly or not. That takes longer than all the rest. This uses numba's own classes of the versions
that pyproject.toml allows; tests/loops/test_loops.py notices if they change.
"""

from __future__ import annotations

import threading
from typing import Any

from numba.core import codegen

_Library: Any = codegen.CPUCodeLibrary
_Codegen: Any = codegen.JITCPUCodegen
_finalize, _set_env = _Library.finalize, _Codegen.set_env


class _Compiling(threading.local):
    """Whether each of the loops that this thread compiles, which are in one another, is a part."""

    def __init__(self) -> None:
        self.are_parts: list[bool] = []


_compiling = _Compiling()


def mark(dispatcher: Any, is_part: bool) -> Any:
    """Return what numba.njit has made of a loop, which knows that it is a part, or that it is not."""
    compile_whole = getattr(dispatcher, "compile", None)
    if compile_whole is None:  # numba is turned off
        return dispatcher

    def compile_marked(signature: Any) -> Any:
        _compiling.are_parts.append(is_part)
        try:
            return compile_whole(signature)
        finally:
            _compiling.are_parts.pop()

    dispatcher.compile = compile_marked
    return dispatcher


def _is_part() -> bool:
    return bool(_compiling.are_parts) and _compiling.are_parts[-1]


def _link_only(library: Any) -> None:
    """Take the place of `CPUCodeLibrary.finalize`: of a part, link what it calls."""
    if not _is_part():
        _finalize(library)
        return
    for called in dict.fromkeys(library._linking_libraries):
        library._reload_init.update(called._reload_init)
        library._final_module.link_in(called._get_module_for_linking(), preserve=True)
    library._finalize_dynamic_globals()
    library._finalized = True


def _set_env_of_machine_code(own: Any, name: Any, env: Any) -> None:
    """Take the place of `JITCPUCodegen.set_env`, which writes to the machine code."""
    if not _is_part():
        _set_env(own, name, env)


_Library.finalize, _Codegen.set_env = _link_only, _set_env_of_machine_code
