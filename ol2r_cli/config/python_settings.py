"""Settings from Python as overrides, in all forms that the functions of `api` take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ol2r_cli.config import passed_objects
from ol2r_cli.config.overrides import as_typed, checked


def as_overrides(*settings: Any, **more: Any) -> list[str]:
    """Settings from Python as overrides: text stays, {"ranker.l2": 0.1} and rounds=500 are written out.

    Lists may hold both. A name with a dot has no form as a keyword and is a key of a mapping, so that a setting has one
    name everywhere. A role, a measure or a dataset, or a class of these, stands for a choice: `ranker=Mine(0.5)`, or
    `Mine(0.5)` alone. ValueError for text that is no setting, and for a value that has no form on the command line.
    """
    words = list(_words((*settings, more)))
    if any(word == _PASSED for word in words):
        words = [*(word for word in words if word != _PASSED), f"--config-dir={passed_objects.folder()}"]
    return words


_PASSED = "--passed"  # marks overrides among which an object was


def _words(settings: Iterable[Any]) -> Iterator[str]:
    for given in settings:
        if isinstance(given, str):
            yield checked(given)
        elif isinstance(given, Mapping):
            for name, value in given.items():
                yield from _setting(str(name), value)
        elif group := passed_objects.group_of(given):
            yield from _setting(group, given)
        elif isinstance(given, Iterable):
            yield from _words(given)
        else:
            raise ValueError(f"a setting must be 'NAME=VALUE' or {{'NAME': value}}, got {given!r}")


def _setting(name: str, value: Any) -> Iterator[str]:
    """The words of one setting, with the mark if an object is in it."""
    if name == "measures" and isinstance(value, list | tuple) and any(map(passed_objects.is_passed, value)):
        names = [passed_objects.as_measure(each) if passed_objects.is_passed(each) else each for each in value]
        yield from (f"{name}={as_typed(names)}", _PASSED)
    elif name == "measure" and passed_objects.is_passed(value):
        yield from (f"{name}={passed_objects.as_measure(value)}", _PASSED)
    elif "." not in name and passed_objects.is_passed(value):
        yield from (*passed_objects.as_choice(name, value), _PASSED)
    else:
        yield f"{name}={as_typed(value, name)}"
