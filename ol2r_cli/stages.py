"""Which methods compiled stages of a round stand for. A copy, a subclass or an object may have others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

from ol2r_cli.source import is_shipped


def other_method(of: Any, method: str, loop: Any = None) -> str:
    """Return the name of a method of an object that is not the one for which a loop stands; "" if there is none.

    A loop of ol2r stands for a method of ol2r with all methods that it calls, and one that is not of ol2r for a method
    that is not either. None stands for what an object has in place of a method of its class. Without a loop, ol2r
    itself does what a method of ol2r does.
    """
    cls: Any = type(of)
    names, bases, own = _with_all_it_calls(cls, method), _bases(cls), getattr(of, "__dict__", {})
    for name in names:
        if name in own:
            return name
    if loop is not None and not getattr(loop, "is_shipped", is_shipped(loop.__module__)):
        return method if is_shipped(getattr(cls, method).__module__) else ""
    for base in bases:
        defined = vars(base)
        for name in names:
            if name in defined and not all(map(is_shipped, _modules(base, defined[name]))):
                return name
    return ""


def _modules(base: type, attribute: Any) -> list[str]:
    """Return the modules of a class and of the functions of one of its attributes, which may have been set later."""
    return [base.__module__, *(each.__module__ for each in _functions(attribute))]


@cache
def _bases(cls: type) -> tuple[type, ...]:
    """Return a class and those it inherits from, but for those of torch and Python."""
    return tuple(base for base in cls.__mro__ if base.__module__.partition(".")[0] not in ("torch", "builtins"))


@cache
def _with_all_it_calls(cls: type, method: str) -> tuple[str, ...]:
    """Return the names of a method, and of the methods and properties that it may call, directly or through others.

    A name counts wherever code has it, and so may be that of something else.
    """
    found: dict[str, None] = {}
    waiting = [method]
    while waiting:
        name = waiting.pop()
        functions = [each for base in _bases(cls) if name in vars(base) for each in _functions(vars(base)[name])]
        if functions and name not in found:
            found[name] = None
            waiting += [used for each in functions for used in _names_in(unwrap(each).__code__)]
    return tuple(found)


def _functions(attribute: Any) -> list[FunctionType]:
    """Return the functions that are called where an attribute of a class is used; none for a value."""
    parts = attribute
    if isinstance(attribute, property):
        parts = attribute.fget
    elif isinstance(attribute, cached_property):
        parts = attribute.func
    elif isinstance(attribute, staticmethod | classmethod):
        parts = attribute.__func__
    return [parts] if isinstance(parts, FunctionType) else []


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of attributes and global variables in code, with that of functions inside of it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
