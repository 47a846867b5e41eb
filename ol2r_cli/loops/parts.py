"""How numba compiles loops: in few passes, and those that only other loops call to LLVM's language, of which the
callers make machine code.

By itself numba optimises such a part, and makes machine code of it, as if it were called alone, and once more in every
loop that calls it, directly or not. That takes longer than all the rest. This uses numba's own classes of the versions
that pyproject.toml allows; tests/loops/test_loops.py notices if they change. Where a numba lacks one of them, loops are
compiled by itself: `lacking`.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any

from numba.core import codegen, dispatcher, typed_passes, types, untyped_passes
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typing.templates import make_intrinsic_template

_Library: Any = codegen.CPUCodeLibrary
_Codegen: Any = codegen.JITCPUCodegen
_Dispatcher: Any = dispatcher.Dispatcher

# What is used of these classes besides what numba documents.
_USED: dict[Any, tuple[str, ...]] = {
    _Library: (
        *("finalize", "_finalize_dynamic_globals", "_get_module_for_linking"),
        *("_finalized", "_linking_libraries", "_final_module", "_reload_init"),
    ),
    _Codegen: ("set_env", "_engine"),
    _Dispatcher: ("_compiler", "add_overload", "overloads"),
}


def lacking() -> list[str]:
    """Return what this numba lacks of its classes, such as `CPUCodeLibrary._reload_init` before version 0.63."""
    return [f"{cls.__name__}.{name}" for cls, names in _USED.items() for name in names if name not in _names_of(cls)]


def _names_of(cls: Any) -> set[str]:
    """Return the names of the attributes of a class, with those that its methods use."""
    methods = [value for base in cls.__mro__ for value in vars(base).values() if inspect.isfunction(value)]
    return {*dir(cls), *(name for method in methods for name in method.__code__.co_names)}


LACKING = lacking()

# Those of numba, without passes for closures, generators, comprehensions, expressions of whole arrays and objects.
_PASSES: tuple[Any, ...] = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class Passes(CompilerBase):
    """The passes in which a loop is compiled."""

    def define_pipelines(self) -> list[Any]:
        """Return the only list of passes."""
        passes: Any = PassManager("loops")
        for one in _PASSES:
            passes.add_pass(one, one.name())
        passes.finalize()
        return [passes]


class _Compiling(threading.local):
    """The names of the loops that this thread compiles, one while it compiles another, which are no parts."""

    def __init__(self) -> None:
        self.names: list[str] = []


_compiling = _Compiling()


def whole(dispatcher: Any) -> Any:
    """Return what numba.njit has made of a loop, of which machine code is made, with all that it calls."""
    compile_it = getattr(dispatcher, "compile", None)
    if compile_it is None:  # numba is turned off
        return dispatcher

    def compile_whole(signature: Any) -> Any:
        _compiling.names.append(dispatcher.py_func.__qualname__)
        try:
            return compile_it(signature)
        finally:
            _compiling.names.pop()

    dispatcher.compile = compile_whole
    return dispatcher


def part(dispatcher: Any) -> Any:
    """Return what numba.njit has made of a loop that is a part of others, once for all constants that it is given."""
    if not hasattr(dispatcher, "compile") or LACKING:
        return dispatcher

    def compile_part(signature: Any) -> Any:
        arguments = tuple(types.unliteral(type_) for type_ in signature)
        if arguments not in dispatcher.overloads:
            dispatcher.add_overload(dispatcher._compiler.compile(arguments, None))
        return dispatcher.overloads[arguments].entry_point

    dispatcher.compile = compile_part
    return dispatcher


def constant(loop: Any, value: int | None) -> Any:
    """Return the type of a loop without arguments whose calls are a constant, or with None nothing, on a CPU."""
    type_: Any = types.none if value is None else types.intp

    def definition(context: Any) -> Any:
        def constant_of(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.get_constant_generic(builder, type_, value)

        return type_(), constant_of

    return types.Function(make_intrinsic_template(loop, definition, loop.__name__))


def _is_part(library: Any) -> bool:
    """Return whether a library is that of a part, or of a function of numba that a loop calls."""
    return bool(_compiling.names) and library.name != _compiling.names[-1]


_finalize, _set_env = getattr(_Library, "finalize", None), getattr(_Codegen, "set_env", None)


def _link_only(library: Any) -> None:
    """Take the place of `CPUCodeLibrary.finalize`: of a part, link what it calls."""
    assert _finalize is not None
    if not _is_part(library):
        _finalize(library)
        return
    for called in dict.fromkeys(library._linking_libraries):
        library._reload_init.update(called._reload_init)
        library._final_module.link_in(called._get_module_for_linking(), preserve=True)
    library._finalize_dynamic_globals()
    library._finalized = True


def _set_env_of_machine_code(own: Any, name: Any, env: Any) -> None:
    """Take the place of `JITCPUCodegen.set_env`, which writes to the machine code."""
    assert _set_env is not None
    if not _compiling.names or own._engine.is_symbol_defined(name):
        _set_env(own, name, env)


if not LACKING:
    _Library.finalize, _Codegen.set_env = _link_only, _set_env_of_machine_code
