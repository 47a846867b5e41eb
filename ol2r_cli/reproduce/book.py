"""The recipes there are: configs/reproduce/<name>.yaml, and the datasets they name, in configs/reproduce/data/."""

from __future__ import annotations

import difflib
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml

from ol2r_cli.compose import RECIPES, config_dir
from ol2r_cli.reproduce.recipe import PAPERS, SCALES, Data, Recipe


def folder() -> Path:
    """Where the recipes are."""
    return config_dir() / RECIPES


def names() -> list[str]:
    """The names there are, paper by paper, tables and figures in their order."""
    order = list(PAPERS)
    found = [path.stem for path in folder().glob("*.yaml")]
    return sorted(found, key=lambda name: (order.index(name.partition("_")[0]), *_natural(name)))


def recipe(name: str) -> Recipe:
    """The recipe of this name; ValueError, with the nearest, where there is none, and for a mistake in its file."""
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, 3, 0.5)
        advice = f": did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"NAME must be one of those that `ol2r reproduce` lists, got {name}{advice}")
    content = read(folder() / f"{name}.yaml")
    if "like" in content:
        content = read(folder() / f"{content.pop('like')}.yaml") | content
    for left_out in content.pop("without", ()):
        if left_out not in content.get("competitors", {}):
            raise ValueError(f"{name}.yaml: without must name competitors, got {left_out}")
        del content["competitors"][left_out]
    found: Recipe = made(Recipe, {"name": name, **content}, f"{name}.yaml")
    _check(found)
    return found


def data(name: str) -> Data:
    """A dataset of the papers, by the name that recipes have for it."""
    found: Data = made(Data, {"name": name, **read(folder() / "data" / f"{name}.yaml")}, f"data/{name}.yaml")
    return found


def read(path: Path) -> dict[str, Any]:
    """What a file says."""
    return dict(yaml.safe_load(path.read_text()))


def made(kind: Any, content: Any, where: str) -> Any:
    """A record from a mapping, its parts made likewise; ValueError for keys and values that its fields do not allow."""
    if not isinstance(content, Mapping):
        raise ValueError(f"{where} must be a mapping of {', '.join(get_type_hints(kind))}, got {content!r}")
    hints = get_type_hints(kind)
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    for name in content:
        if name not in hints:
            raise ValueError(f"{where}: a key must be one of {', '.join(hints)}, got {name}")
    for name in needed:
        if name not in content:
            raise ValueError(f"{where}: {name} is missing")
    return kind(**{name: _value(hints[name], value, f"{where}: {name}") for name, value in content.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    kind, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return made(hint, value, where)
    if kind in (Union, types.UnionType):
        fitting = next((one for one in inner if isinstance(value, get_origin(one) or one)), inner[0])
        return _value(fitting, value, where)
    if kind is list and isinstance(value, list):
        return [_value(inner[0], item, f"{where} {place}") for place, item in enumerate(value)]
    if kind is dict and isinstance(value, Mapping):
        return {key: _value(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    numbers = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is Any or (numbers if hint is float else kind is None and type(value) is hint):
        return value
    raise ValueError(f"{where} must be {getattr(hint, '__name__', hint)}, got {value!r}")


def _check(found: Recipe) -> None:
    """What the fields alone do not say."""
    where = f"{found.name}.yaml"
    if found.paper not in PAPERS:
        raise ValueError(f"{where}: paper must be one of {', '.join(PAPERS)}, got {found.paper}")
    if set(found.scale) != set(SCALES):
        raise ValueError(f"{where}: scale must have {' and '.join(SCALES)}, got {', '.join(found.scale)}")
    for printed in found.printed:
        if printed.data not in found.data or (found.competitors and printed.competitor not in found.competitors):
            raise ValueError(f"{where}: printed must name data and competitors of the recipe, got {printed}")
    if any(one.grid for one in found.competitors.values()) and not found.choose:
        raise ValueError(f"{where}: choose must say how settings are chosen from the grids, got nothing")


def _natural(name: str) -> tuple[bool, list[int]]:
    """Tables first, figures by their number."""
    digits = "".join(letter if letter.isdigit() else " " for letter in name.partition("_")[2])
    return "table" not in name, [int(number) for number in digits.split()]
