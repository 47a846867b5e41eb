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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ol2r_cli.formatting import nearest

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

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return False
        if math.isinf(value) and not self.infinite:
            return False
        if value < self.least or (self.open_below and value == self.least):
            return False
        return self.most is None or value < self.most or (value == self.most and not self.open_above)

    def __str__(self) -> str:
        if self.most is None:
            return f"above {self.least:g}" if self.open_below else f"{self.least:g} or more"
        if self.open_below and self.open_above:
            return f"between {self.least:g} and {self.most:g}"
        if self.open_below:
            return f"above {self.least:g} and at most {self.most:g}"
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
        parameters = keywords(target)
    except ValueError:
        raise ValueError(f"{prefix}_target_ must be a class whose settings have names, got {name}") from None
    for key in settings:
        if key not in parameters:
            has = f": it has {', '.join(parameters) or 'none'}"
            raise ValueError(f"{name} has no setting '{key}'{nearest(key, parameters, prefix) or has}")
    kinds = kinds_of(target)
    for key, names in (parts or {}).items():
        if key not in parameters or _is_plain(kinds.get(key, Any)) or not _is_no_part(settings.get(key)):
            continue
        if key not in settings or settings[key] is not parameters[key].default:  # an own class may have None as default
            words = " or ".join(f"{group.replace('.', '/')}/{key}={name}" for name in names)
            got = f"got {settings[key]!r}" if key in settings else "got none"
            raise ValueError(f"{prefix}{key} must be chosen: type {words}, {got}")
    for key, parameter in parameters.items():
        if key not in settings and parameter.default is parameter.empty:
            raise ValueError(f"{prefix}{key} is missing: {name} needs it, type {prefix}{key}=VALUE")
    for key, kind in kinds.items():
        if key in settings and not _fits(settings[key], kind):
            place, value, kind = _misfit(f"{prefix}{key}", settings[key], kind)
            raise ValueError(f"{place} must be {_in_words(kind, value)}, got {value!r}")
        if key in settings and _beyond_64_bits(settings[key]):
            raise ValueError(f"{prefix}{key} must be within 64 bits (below 9.2e18), got {settings[key]!r}")


def _is_no_part(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "_target_" not in value
    return value is None or isinstance(value, bool | int | float | str | list | tuple)


def _beyond_64_bits(value: Any) -> bool:
    """Return whether a whole number, or one inside a list or mapping, is larger than tensors can hold."""
    if isinstance(value, Mapping | list | tuple):
        return any(map(_beyond_64_bits, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _fits(value: Any, kind: Any, in_range: bool = True) -> bool:
    """Return whether a value from YAML has the annotated type and, with `in_range`, is within its range.

    A number without a range has to be finite. Every value fits a type that YAML cannot express.
    """
    return not _is_plain(kind) or any(_fits_option(value, option, in_range) for option in _options(kind))


def _fits_option(value: Any, option: Any, in_range: bool) -> bool:
    if typing.get_origin(option) is Annotated:
        limits = _limits(option)
        of_type = _fits(value, option.__origin__, in_range and not limits)
        return of_type and (not in_range or all(value in limit for limit in limits))
    if typing.get_origin(option) is Literal:
        return isinstance(value, str) and (not in_range or value in typing.get_args(option))
    if isinstance(value, Mapping):
        return _is_a(option, Mapping) and _fit(value.values(), option, in_range)
    if isinstance(value, list | tuple):
        return _is_a(option, Sequence) and _fit(value, option, in_range)
    if type(value) is float and option is float:
        return not in_range or math.isfinite(value)
    return type(value) is option or (type(value) is int and option is float)


def _fit(values: Iterable[Any], kind: Any, in_range: bool) -> bool:
    """Return whether all entries fit the last argument of `Sequence[..]` or `Mapping[.., ..]`."""
    entry = typing.get_args(kind)[-1:]
    return not entry or all(_fits(value, entry[0], in_range) for value in values)


def _misfit(place: str, value: Any, kind: Any) -> tuple[str, Any, Any]:
    """Return name, value and kind of what does not fit: the entry of a mapping, if the mapping itself does."""
    entry = next((typing.get_args(option)[-1] for option in _options(kind) if _is_a(option, Mapping)), None)
    if entry is None or not isinstance(value, Mapping):
        return place, value, kind
    key = next(key for key in value if not _fits(value[key], entry))
    return _misfit(f"{place}.{key}", value[key], entry)


def _options(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union; any other type is its only member."""
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _limits(kind: Any) -> list[Range]:
    return [limit for limit in kind.__metadata__ if isinstance(limit, Range)]


def _is_a(kind: Any, container: type) -> bool:
    """Return whether an annotation is a kind of list or mapping; text is not a list."""
    origin = typing.get_origin(kind) or kind
    return inspect.isclass(origin) and issubclass(origin, container) and origin is not str


def _is_plain(kind: Any) -> bool:
    """Return whether YAML can express every value of an annotated type."""
    return all(
        option in _WORDS
        or typing.get_origin(option) in (Annotated, Literal)
        or _is_a(option, Sequence)
        or _is_a(option, Mapping)
        for option in _options(kind)
    )


def _in_words(kind: Any, value: Any) -> str:
    """Return the allowed values in words: the type or, where the type of `value` is right, the range."""
    right_type = _fits(value, kind, in_range=False)
    if right_type and _is_infinite(value):
        return "finite"
    options = sorted(_options(kind), key=lambda option: option is not type(None))
    return " or ".join(_option_in_words(option, right_type) for option in options)


def _is_infinite(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_infinite, value))
    return isinstance(value, float) and math.isinf(value)


def _option_in_words(kind: Any, right_type: bool) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    if typing.get_origin(kind) is Annotated:
        return " and ".join(map(str, _limits(kind))) if right_type else _option_in_words(kind.__origin__, right_type)
    if typing.get_origin(kind) is Literal:
        words = typing.get_args(kind)
        return f"one of {', '.join(words)}" if len(words) > 1 else str(words[0])
    if _is_a(kind, Mapping):
        return "settings in quotes, '{name: value, ..}'"
    entry = typing.get_args(kind)[-1:]
    each = " or ".join(_option_in_words(option, right_type) for option in _options(entry[0])) if entry else ""
    return f"a list [..,..] of which each is {each}" if each else "a list [..,..]"
