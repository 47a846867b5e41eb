"""From overrides to a configuration, and from a configuration node to the object it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omegaconf import DictConfig

ALIASES = {"click": {"per": "perfect", "nav": "navigational", "inf": "informational"}}


def config_dir() -> Path:
    """The configs that belong to this code: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parent
    beside = package.parent / "configs"
    # A checkout first: an editable install leaves a stale copy of configs/ elsewhere, never here.
    return beside if (beside / "run.yaml").exists() and (package.parent / "pyproject.toml").exists() else package / "configs"


def translate(arguments: list[str]) -> list[str]:
    """Replace the short names users bring (`click=per,nav`) so that run ids and folders agree."""

    def long(argument: str) -> str:
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

    rest, folders = _own_folders(overrides)
    search = [f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in folders)}]"] if folders else []
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        try:
            config = hydra.compose("run", translate(rest) + search, return_hydra_config=True)
        except (HydraException, OmegaConfBaseException) as error:
            raise ValueError(one_line(str(error))) from None
    with open_dict(config):
        config.choices = dict(config.hydra.runtime.choices)
        del config.hydra
    OmegaConf.set_readonly(config, True)
    return config


def _own_folders(overrides: list[str]) -> tuple[list[str], list[Path]]:
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


def build(node: Any, **more: Any) -> Any:
    """The object a node's `_target_` names, its settings as keywords; a bad setting is a ValueError of one line."""
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate

    try:
        return instantiate(node, _convert_="all", **more)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, ValueError):
            raise cause from None
        if isinstance(cause, TypeError) and "argument" in str(cause):
            raise ValueError(_about_keyword(str(cause), str(node.get("_target_")))) from None
        raise


def _about_keyword(message: str, target: str) -> str:
    """A TypeError about keywords, in terms of settings."""
    unknown = re.search(r"unexpected keyword argument '(\w+)'", message)
    name = target.rpartition(".")[2]
    return f"{name} has no setting '{unknown[1]}'" if unknown else f"{name}: {message}"


def one_line(message: str) -> str:
    """Hydra's and OmegaConf's messages without their trailing advice for programmers."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    kept = [line for line in lines if not re.match(r"(full_key|object_type|reference_type|Set the env|See https?:)", line)]
    return " ".join(kept)
