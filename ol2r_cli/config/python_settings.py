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
    of_objects: list[str] = []
    words = list(_words((*settings, more), of_objects))
    folder = [f"--config-dir={passed_objects.folder()}"] if of_objects else []
    return [*of_objects, *words, *folder]  # a setting that is typed decides over that of an object


def _words(settings: Iterable[Any], of_objects: list[str]) -> Iterator[str]:
    """The words of settings. Those that stand for objects are appended to `of_objects`."""
    for given in settings:
        if isinstance(given, str):
            yield checked(given)
        elif isinstance(given, Mapping):
            for name, value in given.items():
                yield from _setting(str(name), value, of_objects)
        elif group := passed_objects.group_of(given):
            yield from _setting(group, given, of_objects)
        elif isinstance(given, Iterable):
            yield from _words(given, of_objects)
        else:
            raise ValueError(f"a setting must be 'NAME=VALUE' or {{'NAME': value}}, got {given!r}")


def _setting(name: str, value: Any, of_objects: list[str]) -> Iterator[str]:
    """The words of one setting, as `_words`."""
    if name == "measures" and isinstance(value, list | tuple) and any(map(passed_objects.is_passed, value)):
        names = [passed_objects.as_measure(each) if passed_objects.is_passed(each) else each for each in value]
        of_objects.append(f"{name}={as_typed(names)}")
    elif name == "measure" and passed_objects.is_passed(value):
        of_objects.append(f"{name}={passed_objects.as_measure(value)}")
    elif "." not in name and passed_objects.is_passed(value):
        of_objects += passed_objects.as_choice(name, value)
    else:
        yield f"{name}={as_typed(value, name)}"
