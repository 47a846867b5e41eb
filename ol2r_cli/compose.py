"""From overrides to a configuration, and from a configuration node to the object it names."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig

RECIPES = "reproduce"  # a folder of configs/ that is no group of choices: see `ol2r reproduce`
ALIASES = {"click": {"per": "perfect", "nav": "navigational", "inf": "informational"}}


def config_dir() -> Path:
    """The configs that belong to this code: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    beside = package.parent / "configs"
    # A checkout first: an editable install leaves a stale copy of configs/ elsewhere, never here.
    return (
        beside
        if (beside / "run.yaml").exists() and (package.parent / "pyproject.toml").exists()
        else package / "configs"
    )


def translate(arguments: list[str]) -> list[str]:
    """Replace the short names users bring (`click=per,nav`) so that run ids and folders agree.

    `+launcher=slurm`, as one types it for programs without such a group, is `launcher=slurm`.
    """

    def long(argument: str) -> str:
        argument = argument.removeprefix("+") if argument.startswith("+launcher=") else argument
        group, equals, values = argument.partition("=")
        names = ALIASES.get(group, {})
        return group + equals + re.sub(r"\w+", lambda word: names.get(word[0], word[0]), values) if names else argument

    return [long(argument) for argument in arguments]


def compose(overrides: list[str]) -> DictConfig:
    """The configuration `ol2r run` would get from these overrides; ValueError when there is none.

    `--config-dir DIR` among them adds a folder of the user's own choices, as it does for `ol2r run`.
    """
    import hydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf, open_dict
    from omegaconf.errors import OmegaConfBaseException

    from ol2r_cli.complaint import explain

    rest, folders = own_folders(overrides)
    search = [f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in folders)}]"] if folders else []
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        try:
            config = hydra.compose("run", translate(rest) + search, return_hydra_config=True)
        except (HydraException, OmegaConfBaseException) as error:
            raise ValueError(explain(str(error), overrides)) from None
    with open_dict(config):
        config.choices = dict(config.hydra.runtime.choices)
        del config.hydra
    OmegaConf.set_readonly(config, True)
    return config


def own_folders(overrides: list[str]) -> tuple[list[str], list[Path]]:
    """The arguments without `--config-dir DIR`, and the folders it names."""
    rest, folders = [], []
    words = iter(overrides)
    for word in words:
        if word in ("--config-dir", "-cd"):
            folders.append(Path(next(words, ".")).expanduser().resolve())
        elif word.startswith("--config-dir="):
            folders.append(Path(word.partition("=")[2]).expanduser().resolve())
        else:
            rest.append(word)
    return rest, folders


def check(config: DictConfig, groups: Iterable[str]) -> None:
    """Raises ValueError when a setting of run.yaml is missing or unknown beside `groups`, or cannot be resolved."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from ol2r_cli.settings import nearest

    needed = _needed()
    for name in needed:
        if name not in config:
            raise ValueError(f"{name} is missing: leave out ~{name}")
    for name in map(str, config):
        if name not in needed and name not in groups:
            raise ValueError(f"there is no setting or group '{name}'{nearest(name, needed)}")
    try:
        OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ValueError(f"{error.full_key} cannot be resolved: {str(error).splitlines()[0]}") from None


def check_grid(grid: Iterable[str], preset: str | None, words: Iterable[str], advice: str) -> None:
    """Raises ValueError when a preset's grid is left unused, and the defaults would be run under its name.

    A job of a sweep has every setting of the grid among its words, and so has one that is run again by itself.
    """
    given = {word.partition("=")[0].lstrip("+") for word in words}
    unused = [name for name in grid if name not in given]
    if preset and unused:
        raise ValueError(f"experiment={preset} is a grid, several runs that differ in {', '.join(unused)}: {advice}")


@cache
def _needed() -> list[str]:
    """The settings of run.yaml, and the groups of which it has a choice."""
    from ol2r_cli.catalogue import Catalogue

    catalogue = Catalogue()
    return [*catalogue.root.values, *(group for group, choice in catalogue.defaults.items() if choice)]


def build(node: Any, **more: Any) -> Any:
    """The object a node's `_target_` names, its settings as keywords; a bad setting is a ValueError of one line."""
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    node = node if OmegaConf.is_config(node) else OmegaConf.create(node)
    _check_node(node, str(node._key() or ""), more)
    try:
        return instantiate(node, _convert_="all", **more)
    except InstantiationException as error:
        if isinstance(error.__cause__, ValueError):
            raise error.__cause__ from None
        raise


def _check_node(node: DictConfig, group: str, more: Mapping[str, Any]) -> None:
    """The settings of an object against its constructor, those of its parts first; `group` is how they are typed."""
    from omegaconf import OmegaConf

    from ol2r_cli.settings import check_settings

    target = node.get("_target_")
    try:
        constructor = pkgutil.resolve_name(str(target))
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{group}._target_ must be a class that can be imported, got {target} ({error})") from None
    given: dict[str, Any] = {}
    for key, value in node.items():
        name = str(key)
        if OmegaConf.is_dict(value) and "_target_" in value:
            _check_node(value, f"{group}.{name}", {})
        given[name] = OmegaConf.to_object(value) if OmegaConf.is_config(value) else value
    del given["_target_"]
    check_settings(constructor, given | dict(more), group, _parts(group))


def _parts(group: str) -> dict[str, list[str]]:
    """The groups right below a group, by the setting that they stand for, with the names of their choices."""
    folder = config_dir() / group.replace(".", "/")
    below = [path for path in folder.iterdir() if path.is_dir()] if group and folder.is_dir() else []
    return {path.name: sorted(choice.stem for choice in path.glob("*.yaml")) for path in below}
