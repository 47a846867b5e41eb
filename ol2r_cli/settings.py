"""Settings against the constructor that will receive them, so that a slip is told in the words of the command line."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}


def check_settings(
    target: Any, settings: Mapping[str, Any], group: str, parts: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Raises ValueError when `settings` are not the keywords of `target`, or one is not of its annotated kind.

    `group` is how the settings are typed: `ranker` for `ranker.l2`; empty for an object apart from any configuration.
    `parts` are those settings that are chosen and not typed, with the names of their choices: model, (linear, mlp).
    """
    parameters = _parameters(target)
    prefix, name = f"{group}." if group else "", getattr(target, "__name__", str(target))
    for key in settings:
        if key not in parameters:
            has = f": it has {', '.join(parameters) or 'none'}"
            raise ValueError(f"{name} has no setting '{key}'{nearest(key, parameters, prefix) or has}")
    kinds = _annotations(target)
    for key, names in (parts or {}).items():
        if key in parameters and not _is_plain(kinds.get(key, Any)) and _is_no_part(settings.get(key)):
            got = f"got {settings[key]!r}" if key in settings else "got none"
            raise ValueError(f"{prefix}{key} must be chosen: type {_typed_choice(group, key, names)}, {got}")
    for key, default in parameters.items():
        if key not in settings and default is inspect.Parameter.empty:
            raise ValueError(f"{prefix}{key} is missing: {name} needs it, type {prefix}{key}=VALUE")
    for key, kind in kinds.items():
        if key in settings and not _fits(settings[key], kind):
            raise ValueError(f"{prefix}{key} must be {_in_words(kind)}, got {settings[key]!r}")


def _is_no_part(value: Any) -> bool:
    """Whether a value is plain, and not the settings of an object or the object itself."""
    if isinstance(value, Mapping):
        return "_target_" not in value
    return value is None or isinstance(value, bool | int | float | str | list | tuple)


def _typed_choice(group: str, key: str, names: Sequence[str]) -> str:
    return " or ".join(f"{group.replace('.', '/')}/{key}={name}" for name in names)


def nearest(name: str, names: Collection[str], prefix: str = "") -> str:
    """`: did you mean X?` for the name that is spelt most alike; empty where none is."""
    near = difflib.get_close_matches(name, names, n=1)
    return f": did you mean {prefix}{near[0]}?" if near else ""


def _parameters(target: Any) -> dict[str, Any]:
    """Keywords and their defaults. Torch's Module takes anything, only to refuse it: a class that leaves it at that
    has no settings."""
    if inspect.isclass(target) and getattr(target.__init__, "__module__", "").startswith("torch."):
        return {}
    return {name: parameter.default for name, parameter in inspect.signature(target).parameters.items()}


def _annotations(target: Any) -> dict[str, Any]:
    """Those of the constructor; none where they cannot be resolved at run time."""
    try:
        return typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except (NameError, TypeError):
        return {}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value out of YAML is of an annotated kind; kinds that YAML cannot express fit everything."""
    options = _options(kind)
    if not _is_plain(kind):
        return True
    if isinstance(value, Mapping):
        return any(_fits_all(value.values(), option) for option in options if _is_a(option, Mapping))
    if isinstance(value, list | tuple):
        return any(_fits_all(value, option) for option in options if _is_a(option, Sequence))
    return type(value) in options or (type(value) is int and float in options)


def _is_plain(kind: Any) -> bool:
    """Whether YAML can express all that an annotation allows."""
    return all(option in _WORDS or _is_a(option, Sequence) or _is_a(option, Mapping) for option in _options(kind))


def _fits_all(values: Iterable[Any], kind: Any) -> bool:
    """Whether the entries are of the kind that the last argument of `Sequence[..]` or `Mapping[.., ..]` names."""
    entry = typing.get_args(kind)[-1:]
    return not entry or all(_fits(value, entry[0]) for value in values)


def _options(kind: Any) -> tuple[Any, ...]:
    """The members of a union, of anything else the thing itself."""
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _is_a(kind: Any, container: type) -> bool:
    """Whether an annotation means a list or a mapping; a word is no list."""
    origin = typing.get_origin(kind) or kind
    return inspect.isclass(origin) and issubclass(origin, container) and origin is not str


def _in_words(kind: Any) -> str:
    return " or ".join(map(_option_in_words, sorted(_options(kind), key=lambda option: option is not type(None))))


def _option_in_words(kind: Any) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    entry = typing.get_args(kind)[-1:]
    if _is_a(kind, Mapping):
        return "settings {name:value,..}"
    return f"a list [..,..] of which each is {_in_words(entry[0])}" if entry else "a list [..,..]"
