"""The settings that a class or a function takes: its keywords, and the keys of a record that it takes as `**settings`.

    class Steps(TypedDict):
        steps: Count
        learning_rate: Positive

    def __init__(self, pairs: Pairs, **steps: Unpack[Steps]): ...

takes the settings `pairs`, `steps` and `learning_rate`. So classes that pass settings on name them once, as a record.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def settings_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a class or function, in which the keys of a record follow as keywords."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and (record := _record(function, parameters[-1])):
        keys = typing.get_type_hints(record, include_extras=True)
        keywords = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=keys[key]) for key in keys]
        parameters[-1:] = keywords
    return signature.replace(parameters=parameters)


def settings_annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotation of every setting, with its range. NameError if one cannot be resolved at run time."""
    annotations = typing.get_type_hints(function, include_extras=True)
    for name, annotation in list(annotations.items()):
        if typing.get_origin(annotation) is typing.Unpack:
            del annotations[name]
            annotations |= typing.get_type_hints(typing.get_args(annotation)[0], include_extras=True)
    return annotations


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
