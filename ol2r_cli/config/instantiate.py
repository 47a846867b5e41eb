"""From the node of a configuration to the object that its `_target_` names.

Settings are checked against the constructor's signature first: names, types and ranges (`ranges.py`). A mistake is a
ValueError of one line in the words of the command line.
"""

from __future__ import annotations

import inspect
import math
import sys
import traceback
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.moved_classes import MOVED_TO
from ol2r_cli.config.ranges import Range
from ol2r_cli.formatting import error_line, nearest, shown_path

if TYPE_CHECKING:
    from omegaconf import DictConfig

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}


def build(node: Any, **more: Any) -> Any:
    """The object that a node's `_target_` names, with its settings as keywords; `more` are further keywords.

    ValueError, of one line that says what to type, for a bad setting.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    node = node if OmegaConf.is_config(node) else OmegaConf.create(node)
    if node.get("_target_") in MOVED_TO:
        node = OmegaConf.merge(node, {"_target_": MOVED_TO[node._target_]})
    _check_node(node, str(node._get_full_key(None)), more)
    try:
        return instantiate(node, _convert_="all", **more)
    except InstantiationException as error:
        if isinstance(error.__cause__, ValueError):
            raise error.__cause__ from None
        raise


def _check_node(node: DictConfig, group: str, more: Mapping[str, Any]) -> None:
    """Check the settings of an object against its constructor, those of its parts first.

    `group` is the name of the node on the command line.
    """
    from omegaconf import OmegaConf

    target = str(node.get("_target_"))
    told = f"{group}._target_ must be a class that can be imported, got {target}"
    try:
        constructor = import_target(target)
    except ImportError as error:
        raise ValueError(f"{told}: {error}") from None
    if not callable(constructor):
        raise ValueError(f"{told}, which is a {type(constructor).__name__}")
    given: dict[str, Any] = {}
    kinds = _annotations(constructor)
    for key, value in node.items():
        name = str(key)
        if OmegaConf.is_dict(value) and "_target_" in value:
            _check_node(value, f"{group}.{name}", {})
            _check_methods(value["_target_"], kinds.get(name), f"{group}.{name}")
        given[name] = OmegaConf.to_object(value) if OmegaConf.is_config(value) else value
    del given["_target_"]
    check_settings(constructor, given | dict(more), group, _parts(group))


def import_target(target: str) -> Any:
    """What a dotted name stands for: a module, or what is in it. ImportError, of one line, says why it is nothing.

    An error in a module of the user's is told with its file and line.
    """
    names = target.split(".")
    if not all(name.isidentifier() for name in names):
        raise ImportError("it must be names with dots between them")
    found: Any = None
    for count, name in enumerate(names, 1):
        module = ".".join(names[:count])
        if _is_module(module, found):
            try:
                found = import_module(module)
            except (Exception, SystemExit) as error:
                raise ImportError(_with_place(error)) from None
        elif found is None:
            raise ImportError(f"there is no module {name}")
        elif not hasattr(found, name):
            raise ImportError(f"{shown_path(getattr(found, '__file__', None) or names[count - 2])} has no {name}")
        else:
            found = getattr(found, name)
    return found


def _is_module(name: str, package: Any) -> bool:
    """Whether a name is that of a module; `package` is what the name before its last dot stands for, None if none."""
    if name in sys.modules:
        return sys.modules[name] is not None
    may_contain = package is None or (inspect.ismodule(package) and hasattr(package, "__path__"))
    return may_contain and find_spec(name) is not None


def _with_place(error: BaseException) -> str:
    """An error with the place in a file at which it was raised: `mine.py, line 3: NameError: ..`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown_path(error.filename)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f"{shown_path(frames[-1].filename)}, line {frames[-1].lineno}: {error_line(error)}"


def _check_methods(target: str, kind: Any, name: str) -> None:
    """ValueError if `kind`, the annotation of a part, is a protocol of which the part's class lacks a method."""
    if not getattr(kind, "_is_protocol", False):
        return
    methods = [each for each, member in vars(kind).items() if inspect.isfunction(member) and not each.startswith("_")]
    if not all(hasattr(import_target(target), each) for each in methods):
        raise ValueError(f"{name}._target_ must be a class with the methods {', '.join(methods)}, got {target}")


def _parts(group: str) -> dict[str, list[str]]:
    """The groups directly below a group, by the setting that they choose, with the names of their choices."""
    folder = config_dir() / group.replace(".", "/")
    below = [path for path in folder.iterdir() if path.is_dir()] if group and folder.is_dir() else []
    return {path.name: sorted(choice.stem for choice in path.glob("*.yaml")) for path in below}


def check_settings(
    target: Any, settings: Mapping[str, Any], group: str, parts: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Raises ValueError when `settings` are not the keywords of `target`, or one is not of its annotated kind or range.

    `group` is the prefix of the settings on the command line: `ranker` for `ranker.l2`; empty without a configuration.
    `parts` are the settings that are chosen from a group, with their choices: {"model": ["linear", "mlp"]}.
    """
    prefix, name = f"{group}." if group else "", getattr(target, "__name__", str(target))
    try:
        parameters = _parameters(target)
    except ValueError:  # some types of Python have no signature
        raise ValueError(f"{prefix}_target_ must be a class whose settings have names, got {name}") from None
    for key in settings:
        if key not in parameters:
            has = f": it has {', '.join(parameters) or 'none'}"
            raise ValueError(f"{name} has no setting '{key}'{nearest(key, parameters, prefix) or has}")
    kinds = _annotations(target)
    for key, names in (parts or {}).items():
        is_default = key in settings and settings[key] is parameters.get(key)  # an own class may have None, for example
        if (
            key in parameters
            and not _is_plain(kinds.get(key, Any))
            and _is_no_part(settings.get(key))
            and not is_default
        ):
            got = f"got {settings[key]!r}" if key in settings else "got none"
            raise ValueError(f"{prefix}{key} must be chosen: type {_typed_choice(group, key, names)}, {got}")
    for key, default in parameters.items():
        if key not in settings and default is inspect.Parameter.empty:
            raise ValueError(f"{prefix}{key} is missing: {name} needs it, type {prefix}{key}=VALUE")
    for key, kind in kinds.items():
        if key in settings and not _fits(settings[key], kind):
            place, value, kind = _misfit(f"{prefix}{key}", settings[key], kind)
            raise ValueError(f"{place} must be {_in_words(kind, value)}, got {value!r}")
        if key in settings and _beyond_64_bits(settings[key]):
            raise ValueError(f"{prefix}{key} must be within 64 bits (below 9.2e18), got {settings[key]!r}")


def _is_no_part(value: Any) -> bool:
    """Whether a value is plain, rather than an object or the settings of one."""
    if isinstance(value, Mapping):
        return "_target_" not in value
    return value is None or isinstance(value, bool | int | float | str | list | tuple)


def _typed_choice(group: str, key: str, names: Sequence[str]) -> str:
    return " or ".join(f"{group.replace('.', '/')}/{key}={name}" for name in names)


def _parameters(target: Any) -> dict[str, Any]:
    """Keywords that have a name, with their defaults; none for a class with only the constructor of torch's Module."""
    if inspect.isclass(target) and getattr(target.__init__, "__module__", "") == "torch.nn.modules.module":
        return {}
    parameters = inspect.signature(target).parameters.values()
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind not in unnamed}


def _annotations(target: Any) -> dict[str, Any]:
    """The annotations of the constructor, with ranges; empty where they cannot be resolved at run time."""
    try:
        return typing.get_type_hints(target.__init__ if inspect.isclass(target) else target, include_extras=True)
    except (NameError, TypeError):
        return {}


def _beyond_64_bits(value: Any) -> bool:
    """Whether a whole number, or one inside a list or mapping, is larger than tensors can hold."""
    if isinstance(value, Mapping | list | tuple):
        return any(map(_beyond_64_bits, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _fits(value: Any, kind: Any, in_range: bool = True) -> bool:
    """Whether a value from YAML has the annotated type and, with `in_range`, is within its range.

    A number without a range has to be finite. Every value fits a type that YAML cannot express.
    """
    if not _is_plain(kind):
        return True
    return any(_fits_option(value, option, in_range) for option in _options(kind))


def _fits_option(value: Any, option: Any, in_range: bool) -> bool:
    if typing.get_origin(option) is Annotated:
        limits = [limit for limit in option.__metadata__ if isinstance(limit, Range)]
        of_type = _fits(value, option.__origin__, in_range and not limits)
        return of_type and (not in_range or all(value in limit for limit in limits))
    if typing.get_origin(option) is Literal:
        return isinstance(value, str) and (not in_range or value in typing.get_args(option))
    if isinstance(value, Mapping):
        return _is_a(option, Mapping) and _fits_all(value.values(), option, in_range)
    if isinstance(value, list | tuple):
        return _is_a(option, Sequence) and _fits_all(value, option, in_range)
    if type(value) is float and option is float:
        return not in_range or math.isfinite(value)
    return type(value) is option or (type(value) is int and option is float)


def _misfit(place: str, value: Any, kind: Any) -> tuple[str, Any, Any]:
    """Name, value and kind of what does not fit: the entry of a mapping, if the mapping itself does."""
    entry = next((typing.get_args(option)[-1] for option in _options(kind) if _is_a(option, Mapping)), None)
    if entry is None or not isinstance(value, Mapping):
        return place, value, kind
    key = next(key for key in value if not _fits(value[key], entry))
    return _misfit(f"{place}.{key}", value[key], entry)


def _fits_all(values: Iterable[Any], kind: Any, in_range: bool) -> bool:
    """Whether all entries fit the last argument of `Sequence[..]` or `Mapping[.., ..]`."""
    entry = typing.get_args(kind)[-1:]
    return not entry or all(_fits(value, entry[0], in_range) for value in values)


def _is_plain(kind: Any) -> bool:
    """Whether YAML can express every value of an annotated type."""
    return all(
        option in _WORDS
        or typing.get_origin(option) in (Annotated, Literal)
        or _is_a(option, Sequence)
        or _is_a(option, Mapping)
        for option in _options(kind)
    )


def _options(kind: Any) -> tuple[Any, ...]:
    """The members of a union; any other type is its only member."""
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _is_a(kind: Any, container: type) -> bool:
    """Whether an annotation is a kind of list or mapping; text is not a list."""
    origin = typing.get_origin(kind) or kind
    return inspect.isclass(origin) and issubclass(origin, container) and origin is not str


def _in_words(kind: Any, value: Any) -> str:
    """The allowed values in words: the type or, where the type of `value` is right, the range."""
    if _is_infinite(value) and _fits(value, kind, in_range=False):
        return "finite"
    options = sorted(_options(kind), key=lambda option: option is not type(None))
    right_type = _fits(value, kind, in_range=False)
    return " or ".join(_option_in_words(option, right_type) for option in options)


def _is_infinite(value: Any) -> bool:
    """Whether a number, or one inside a list, is infinite."""
    if isinstance(value, list | tuple):
        return any(map(_is_infinite, value))
    return isinstance(value, float) and math.isinf(value)


def _option_in_words(kind: Any, right_type: bool) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    entry = typing.get_args(kind)[-1:]
    if typing.get_origin(kind) is Annotated:
        limits = " and ".join(str(limit) for limit in kind.__metadata__ if isinstance(limit, Range))
        return limits if right_type else _option_in_words(kind.__origin__, right_type)
    if typing.get_origin(kind) is Literal:
        words = typing.get_args(kind)
        return f"one of {', '.join(words)}" if len(words) > 1 else str(words[0])
    if _is_a(kind, Mapping):
        return "settings in quotes, '{name: value, ..}'"
    each = " or ".join(_option_in_words(option, right_type) for option in _options(entry[0])) if entry else ""
    return f"a list [..,..] of which each is {each}" if each else "a list [..,..]"
