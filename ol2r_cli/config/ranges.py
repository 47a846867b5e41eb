"""The values that a setting may have, declared in the annotation of the constructor's keyword, and their check.

    def __init__(self, l2: NonNegative, share: Share, batch: Count | None, pairs: Literal["all", "matching"]): ...

`check_settings` words the error: "ranker.l2 must be 0 or more, got -1". YAML's whole numbers are numbers too. A `float`
without a range is any finite number.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from ol2r_cli.formatting import nearest

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}
_PLAIN = (bool, int, float, str, list, tuple, type(None))


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`; None is no limit, and an open end is not included.

    NaN is in no range, and infinity only with `infinite`.
    """

    least: float
    most: float | None = None
    open_below: bool = False
    open_above: bool = False
    infinite: bool = False

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or (math.isinf(value) and not self.infinite):
            return False
        above = value > self.least if self.open_below else value >= self.least
        return above and (self.most is None or value < self.most or (value == self.most and not self.open_above))

    def __str__(self) -> str:
        if self.most is None:
            return f"above {self.least:g}" if self.open_below else f"{self.least:g} or more"
        if self.open_below:
            between = f"between {self.least:g} and {self.most:g}"
            return between if self.open_above else f"above {self.least:g} and at most {self.most:g}"
        return f"from {self.least:g} to {'below ' * self.open_above}{self.most:g}"


Positive = Annotated[float, Range(0, open_below=True)]
NonNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
PositiveShare = Annotated[float, Range(0, 1, open_below=True)]
Count = Annotated[int, Range(1)]
WholeNumber = Annotated[int, Range(0)]
Steps = Annotated[int, Range(1, 100_000)]  # gradient steps of a round, whose random numbers are drawn at once


def keywords(target: Any) -> dict[str, inspect.Parameter]:
    """Return the keywords of a class or function that have a name; ValueError for a class of C without a signature.

    A class that has only the constructor of torch's Module, or that of `object`, has none.
    """
    constructor = getattr(target, "__init__", None) if inspect.isclass(target) else target
    if constructor is object.__init__ or getattr(constructor, "__module__", "") == "torch.nn.modules.module":
        return {}
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(target).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind not in unnamed}


@cache
def kinds_of(target: Any) -> dict[str, Any]:
    """Return the annotations of the constructor, with ranges; empty where they cannot be resolved at run time."""
    try:
        return typing.get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    except (NameError, TypeError):
        return {}


def check_settings(
    target: Any, settings: Mapping[str, Any], group: str, parts: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Raise ValueError when `settings` are not the keywords of `target`, or one is not of its annotated kind or range.

    `group` is the prefix of the settings on the command line: `ranker` for `ranker.l2`; empty without a configuration.
    `parts` are the settings that are chosen from a group, with their choices: {"model": ["linear", "mlp"]}.
    """
    prefix, name = f"{group}." if group else "", getattr(target, "__name__", str(target))
    try:
        parameters, kinds = keywords(target), kinds_of(target)
    except ValueError:
        raise ValueError(f"{prefix}_target_ must be a class whose settings have names, got {name}") from None
    if unknown := [str(key) for key in settings if key not in parameters]:
        hint = nearest(unknown[0], parameters, prefix) or f": it has {', '.join(parameters) or 'none'}"
        raise ValueError(f"{name} has no setting '{unknown[0]}'{hint}")
    for key, parameter in parameters.items():
        value, kind, place = settings.get(key), kinds.get(key, Any), f"{prefix}{key}"
        choices = (parts or {}).get(key) if _fits(object(), kind) else None  # of an object, which YAML cannot write
        plain = "_target_" not in value if isinstance(value, Mapping) else isinstance(value, _PLAIN)
        if choices is not None and plain and (key not in settings or value is not parameter.default):
            words = " or ".join(f"{group.replace('.', '/')}/{key}={choice}" for choice in choices)
            raise ValueError(f"{place} must be chosen: type {words}, got {repr(value) if key in settings else 'none'}")
        if key in settings:
            _check(place, value, kind)
        elif parameter.default is parameter.empty:
            raise ValueError(f"{place} is missing: {name} needs it, type {place}=VALUE")


def _check(place: str, value: Any, kind: Any) -> None:
    """Raise ValueError unless a value fits an annotation; of a mapping that is one, for the entry that does not fit."""
    if _fits(value, kind):
        if not all(-(2**63) <= number < 2**63 for number in _numbers(value) if isinstance(number, int)):
            raise ValueError(f"{place} must be within 64 bits (below 9.2e18), got {value!r}")
        return
    for option in typing.get_args(kind) if _is_union(kind) else (kind,):
        if isinstance(value, Mapping) and _container(option) is Mapping:
            for key, entry in value.items():
                _check(f"{place}.{key}", entry, typing.get_args(option)[-1])
    right_type = _fits(value, kind, in_range=False)
    infinite = right_type and math.inf in [abs(each) for each in _numbers(value)]
    raise ValueError(f"{place} must be {'finite' if infinite else _in_words(kind, right_type)}, got {value!r}")


def _numbers(value: Any) -> list[int | float]:
    """Return the numbers in a value, at whatever depth."""
    if isinstance(value, Mapping | list | tuple):
        values = value.values() if isinstance(value, Mapping) else value
        return [number for each in values for number in _numbers(each)]
    return [value] if isinstance(value, int | float) else []


def _fits(value: Any, kind: Any, in_range: bool = True) -> bool:
    """Return whether a value from YAML has the annotated type and, with `in_range`, is within its range.

    A number without a range has to be finite. Every value, also an object, fits a type that YAML cannot express.
    """
    arguments = typing.get_args(kind)
    if _is_union(kind):
        return any(_fits(value, option, in_range) for option in arguments)
    if typing.get_origin(kind) is Annotated:
        limits = _limits(kind)
        within = not in_range or all(value in limit for limit in limits)
        return within and _fits(value, arguments[0], in_range and not limits)
    if typing.get_origin(kind) is Literal:
        return isinstance(value, str) and (not in_range or value in arguments)
    if container := _container(kind):
        if not isinstance(value, Mapping if container is Mapping else list | tuple):
            return False
        entries = value.values() if isinstance(value, Mapping) else value
        return not arguments or all(_fits(entry, arguments[-1], in_range) for entry in entries)
    if kind is float and type(value) is float:
        return not in_range or math.isfinite(value)
    return kind not in _WORDS or type(value) is kind or (kind is float and type(value) is int)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _limits(kind: Any) -> list[Range]:
    return [limit for limit in kind.__metadata__ if isinstance(limit, Range)]


def _container(kind: Any) -> type | None:
    """Return Mapping or Sequence where an annotation is a kind of these; text is neither."""
    origin = typing.get_origin(kind) or kind
    kinds = (Mapping, Sequence) if inspect.isclass(origin) and origin is not str else ()
    return next((container for container in kinds if issubclass(origin, container)), None)


def _in_words(kind: Any, right_type: bool) -> str:
    """Return the allowed values in words: the type or, where the type of the value is right, the range."""
    arguments = typing.get_args(kind)
    if _is_union(kind):
        options = sorted(arguments, key=lambda option: option is not type(None))
        return " or ".join(_in_words(option, right_type) for option in options)
    if typing.get_origin(kind) is Annotated:
        return " and ".join(map(str, _limits(kind))) if right_type else _in_words(arguments[0], right_type)
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(arguments)}" if len(arguments) > 1 else str(arguments[0])
    if _container(kind) is Mapping:
        return "settings in quotes, '{name: value, ..}'"
    if _container(kind) is Sequence:
        return "a list [..,..]" + (f" of which each is {_in_words(arguments[-1], right_type)}" if arguments else "")
    return _WORDS[kind]
