"""From settings to objects: `build` makes what `_target_` names, and `import_target` finds it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

from ol2r_cli.config.ranges import annotations_of, check_settings
from ol2r_cli.text.formatting import error_line, shown_path

_DEFERRED = "a part that its owner makes"
Deferred = Annotated[
    Mapping[str, Any], _DEFERRED
]  # of a constructor: it receives the settings of a part, with `_target_`


def build(settings: Any, group: str = "") -> Any:
    """Return the object that `_target_` of settings names, after its parts, with the others as its keywords.

    `group` is the name of the settings on the command line (`ranker.model`). A node of OmegaConf knows its name. The
    object gets containers of its own. ValueError, of one line that says what to type, for a bad setting.
    """
    if hasattr(settings, "_get_full_key"):
        from omegaconf import OmegaConf

        return build(OmegaConf.to_container(settings, resolve=True), settings._get_full_key(None))
    constructor = _constructor(settings, group)
    annotations = annotations_of(constructor)
    keywords = {
        name: value if annotations.get(name) == Deferred else _with_parts(value, f"{group}.{name}")
        for name, value in settings.items()
        if name != "_target_"
    }
    for name, annotation in annotations.items():
        if getattr(annotation, "_is_protocol", False):
            _check_part(keywords.get(name), annotation, f"{group}.{name}")
    check_settings(constructor, keywords, group)
    return constructor(**keywords)


def _constructor(settings: Mapping[str, Any], group: str) -> Callable[..., Any]:
    """Return the class or function that settings name; ValueError for one that cannot be imported or called."""
    target = str(settings.get("_target_"))
    message = f"{group}._target_ must be a class that can be imported, got {target}"
    try:
        constructor = import_target(target)
    except ImportError as error:
        raise ValueError(f"{message}: {error}") from None
    if not callable(constructor):
        raise ValueError(f"{message}, which is a {type(constructor).__name__}")
    return constructor


def _check_part(part: Any, protocol: type, place: str) -> None:
    """Raise ValueError unless a part, such as the model of a ranker, has the methods of a protocol."""
    methods = [name for name, member in vars(protocol).items() if inspect.isfunction(member) and name[0] != "_"]
    if not all(hasattr(part, method) for method in methods):
        choice = f"{place.replace('.', '/')}=CHOICE"
        raise ValueError(f"{place} must be chosen: type {choice}, with the methods {', '.join(methods)}, got {part!r}")


def _with_parts(value: Any, name: str) -> Any:
    """Return a setting in which mappings with a `_target_` are replaced by what they name."""
    if isinstance(value, list):
        return [_with_parts(entry, f"{name}[{index}]") for index, entry in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    if "_target_" in value:
        return build(value, name)
    return {key: _with_parts(entry, f"{name}.{key}") for key, entry in value.items()}


def import_target(target: str) -> Any:
    """Return what a dotted name stands for: a module, or what is in it. ImportError, of one line, says why it is none.

    The line has file and line number of an error in a module of the user's.
    """
    names = target.split(".")
    if not all(name.isidentifier() for name in names):
        raise ImportError("it must be names with dots between them")
    found: Any = None
    for count, name in enumerate(names, 1):
        module = ".".join(names[:count])
        try:
            found = import_module(module)
        except (Exception, SystemExit) as error:
            if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
                raise ImportError(_with_place(error)) from None
            if found is None:
                raise ImportError(f"there is no module {name}") from None
            if not hasattr(found, name):
                place = shown_path(getattr(found, "__file__", None) or names[count - 2])
                raise ImportError(f"{place} has no {name}") from None
            found = getattr(found, name)
    return found


def _with_place(error: BaseException) -> str:
    """Return an error with the place in a file at which it was raised: `mine.py, line 3: NameError: ..`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown_path(error.filename)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f"{shown_path(frames[-1].filename)}, line {frames[-1].lineno}: {error_line(error)}"
