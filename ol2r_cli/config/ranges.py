"""The settings that a class takes, which are its constructor's keywords, and the values that each may have, declared in
its annotation; and their check.

    class Steps(TypedDict):
        steps: Count
        learning_rate: Positive

    def __init__(self, l2: NonNegative, share: Share, pairs: Literal["all", "matching"], **steps: Unpack[Steps]): ...

takes the settings `l2`, `share`, `pairs`, `steps` and `learning_rate`: classes that pass settings on name them once, as
a record. `check_settings` words the error: "ranker.l2 must be 0 or more, got -1". YAML's whole numbers are numbers too.
A `float` without a range is any finite number.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Protocol

from ol2r_cli.text.formatting import nearest

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}


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

    def __contains__(self, value: float) -> bool:
        if abs(value) == math.inf and not self.infinite:
            return False
        above = value > self.least if self.open_below else value >= self.least
        return above and (self.most is None or value < self.most or (value == self.most and not self.open_above))

    def __str__(self) -> str:
        if self.most is None:
            return f"above {self.least:g}" if self.open_below else f"{self.least:g} or more"
        if self.open_below:
            between = f"between {self.least:g} and {self.most:g}"
            return between if self.open_above else f"above {self.least:g} and at most {self.most:g}"
        return f"from {self.least:g} to {self.most:g}"


Positive = Annotated[float, Range(0, open_below=True)]
NonNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
PositiveShare = Annotated[float, Range(0, 1, open_below=True)]
Count = Annotated[int, Range(1)]
WholeNumber = Annotated[int, Range(0)]
Steps = Annotated[int, Range(1, 100_000)]  # gradient steps of a round, whose random numbers are drawn at once


class Allowed(Protocol):
    """What an annotation allows: which values from YAML, and how these are called in an error."""

    def fits(self, value: Any, in_range: bool = True) -> bool:
        """Return whether a value has the right type and, with `in_range`, is one of those that are allowed."""

    def in_words(self, right_type: bool) -> str:
        """Return the allowed values in words: the type or, where the type of the value is right, the range."""


@dataclass(frozen=True)
class Anything:
    """A type that YAML cannot express: every value fits, also an object."""

    def fits(self, value: Any, in_range: bool = True) -> bool:
        return True

    def in_words(self, right_type: bool) -> str:
        return "any value"


@dataclass(frozen=True)
class Plain:
    """A truth value, a number, text or null. A number has to be finite, and may be a whole one."""

    type: type

    def fits(self, value: Any, in_range: bool = True) -> bool:
        if self.type is float and type(value) is float:
            return not in_range or math.isfinite(value)
        return type(value) is self.type or (self.type is float and type(value) is int)

    def in_words(self, right_type: bool) -> str:
        return _WORDS[self.type]


@dataclass(frozen=True)
class Ranged:
    """Numbers within all of some ranges, which say whether they have infinity."""

    number: Allowed
    ranges: tuple[Range, ...]

    def fits(self, value: Any, in_range: bool = True) -> bool:
        if not self.number.fits(value, in_range=False):
            return False
        return not in_range or all(value in limits for limits in self.ranges)

    def in_words(self, right_type: bool) -> str:
        return " and ".join(map(str, self.ranges)) if right_type else self.number.in_words(right_type)


@dataclass(frozen=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]

    def fits(self, value: Any, in_range: bool = True) -> bool:
        return isinstance(value, str) and (not in_range or value in self.words)

    def in_words(self, right_type: bool) -> str:
        return f"one of {', '.join(self.words)}" if len(self.words) > 1 else self.words[0]


@dataclass(frozen=True)
class ListOf:
    """A list whose entries are all allowed by one."""

    entry: Allowed

    def fits(self, value: Any, in_range: bool = True) -> bool:
        return isinstance(value, list | tuple) and all(self.entry.fits(entry, in_range) for entry in value)

    def in_words(self, right_type: bool) -> str:
        if isinstance(self.entry, Anything):
            return "a list [..,..]"
        return f"a list [..,..] of which each is {self.entry.in_words(right_type)}"


@dataclass(frozen=True)
class MappingOf:
    """A mapping whose values are all allowed by one."""

    entry: Allowed

    def fits(self, value: Any, in_range: bool = True) -> bool:
        return isinstance(value, Mapping) and all(self.entry.fits(entry, in_range) for entry in value.values())

    def in_words(self, right_type: bool) -> str:
        return "settings in quotes, '{name: value, ..}'"


@dataclass(frozen=True)
class Either:
    """A value that one of several allows; null is named first."""

    options: tuple[Allowed, ...]

    def fits(self, value: Any, in_range: bool = True) -> bool:
        return any(option.fits(value, in_range) for option in self.options)

    def in_words(self, right_type: bool) -> str:
        options = sorted(self.options, key=lambda option: option != Plain(type(None)))
        return " or ".join(option.in_words(right_type) for option in options)


def allowed_by(annotation: Any) -> Allowed:
    """Return what an annotation allows; text is no list."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return Either(tuple(map(allowed_by, arguments)))
    if origin is Annotated:
        number = allowed_by(arguments[0])
        ranges = tuple(limits for limits in annotation.__metadata__ if isinstance(limits, Range))
        return Ranged(number, ranges) if ranges else number
    if origin is Literal:
        return Word(arguments)
    if annotation in _WORDS:
        return Plain(annotation)
    container = origin or annotation
    entry = allowed_by(arguments[-1]) if arguments else Anything()
    if inspect.isclass(container) and issubclass(container, Mapping):
        return MappingOf(entry)
    if inspect.isclass(container) and issubclass(container, Sequence):
        return ListOf(entry)
    return Anything()


def settings_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a class or function, in which the keys of a record follow as keywords."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and (record := _record(function, parameters[-1])):
        keys = typing.get_type_hints(record, include_extras=True)
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters[-1:] = [inspect.Parameter(key, kind, annotation=keys[key]) for key in keys]
    return signature.replace(parameters=parameters)


def _record(function: Callable[..., Any], parameter: inspect.Parameter) -> type | None:
    """Return the record that a function takes as this parameter; None if it takes none, or it cannot be resolved."""
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
        return None
    constructor = function.__init__ if inspect.isclass(function) else function
    with suppress(NameError, TypeError):
        annotation = typing.get_type_hints(constructor, include_extras=True).get(parameter.name)
        if typing.get_origin(annotation) is typing.Unpack:
            return typing.get_args(annotation)[0]
    return None


def keywords(target: Any) -> dict[str, inspect.Parameter]:
    """Return the keywords of a class or function that have a name; ValueError for a class of C without a signature.

    A class that has only the constructor of torch's Module, or that of `object`, has none.
    """
    constructor = getattr(target, "__init__", None) if inspect.isclass(target) else target
    if constructor is object.__init__ or getattr(constructor, "__module__", "") == "torch.nn.modules.module":
        return {}
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = settings_signature(target).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind not in unnamed}


@cache
def annotations_of(target: Any) -> dict[str, Any]:
    """Return the annotation of every setting, with its range; empty where they cannot be resolved at run time."""
    try:
        annotations = typing.get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
        for name, annotation in list(annotations.items()):
            if typing.get_origin(annotation) is typing.Unpack:
                del annotations[name]
                annotations |= typing.get_type_hints(typing.get_args(annotation)[0], include_extras=True)
    except (NameError, TypeError):
        return {}
    return annotations


@cache
def _allowed(target: Any) -> dict[str, Allowed]:
    """Return what the constructor's keywords allow, by name, as far as they have annotations."""
    return {name: allowed_by(annotation) for name, annotation in annotations_of(target).items()}


def check_settings(target: Any, settings: Mapping[str, Any], group: str) -> None:
    """Raise ValueError when `settings` are not the keywords of `target`, or one is not of its annotated type or range.

    `group` is the prefix of the settings on the command line: `ranker` for `ranker.l2`; empty without a configuration.
    """
    prefix = f"{group}." if group else ""
    name = getattr(target, "__name__", str(target))
    try:
        parameters, allowed = keywords(target), _allowed(target)
    except ValueError:
        raise ValueError(f"{prefix}_target_ must be a class whose settings have names, got {name}") from None
    for key in settings:
        if key not in parameters:
            hint = nearest(str(key), parameters, prefix) or f": it has {', '.join(parameters) or 'none'}"
            raise ValueError(f"{name} has no setting '{key}'{hint}")
    for key, parameter in parameters.items():
        if key in settings:
            check_value(f"{prefix}{key}", settings[key], allowed.get(key, Anything()))
        elif parameter.default is parameter.empty:
            raise ValueError(f"{prefix}{key} is missing: {name} needs it, type {prefix}{key}=VALUE")


def check_value(place: str, value: Any, allowed: Allowed) -> None:
    """Raise ValueError unless a value is allowed; of a mapping that is one, for the entry that does not fit.

    `place` is its name on the command line, `ranker.l2`.
    """
    if allowed.fits(value):
        if not all(-(2**63) <= number < 2**63 for number in _numbers(value) if isinstance(number, int)):
            raise ValueError(f"{place} must be within 64 bits (below 9.2e18), got {value!r}")
        return
    for option in allowed.options if isinstance(allowed, Either) else (allowed,):
        if isinstance(option, MappingOf) and isinstance(value, Mapping):
            for key, entry in value.items():
                check_value(f"{place}.{key}", entry, option.entry)
    right_type = allowed.fits(value, in_range=False)
    is_infinite = right_type and math.inf in [abs(number) for number in _numbers(value)]
    is_whole = isinstance(value, float) and value.is_integer() and allowed.fits(int(value))  # as 1e3 is
    hint = f": type {place}={int(value)}" if is_whole else ""
    raise ValueError(
        f"{place} must be {'finite' if is_infinite else allowed.in_words(right_type)}, got {value!r}{hint}"
    )


def with_whole_numbers(value: Any) -> Any:
    """Return a value in which 1.0 is 1, at whatever depth: equal numbers have one text, and so one hash."""
    if isinstance(value, Mapping):
        return {key: with_whole_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [with_whole_numbers(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _numbers(value: Any) -> list[int | float]:
    """Return the numbers in a value, at whatever depth."""
    if isinstance(value, Mapping):
        return _numbers(list(value.values()))
    if isinstance(value, list | tuple):
        return [number for entry in value for number in _numbers(entry)]
    return [value] if isinstance(value, int | float) else []
