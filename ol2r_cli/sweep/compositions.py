"""Configurations of many jobs: Hydra composes once for each set of choices; plain values are put in afterwards.

That is how Hydra itself goes about one configuration (its loader merges the files of the choices, then applies the
values), so the result is the same, in a tenth of the time.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ol2r_cli.compose import check, config_dir, own_folders, translate


@dataclass(frozen=True)
class Composition:
    """What a job's words come to: all settings, the choice of each group, the settings that a preset would sweep."""

    config: DictConfig
    choices: Mapping[str, str]
    grid: tuple[str, ...]


class Composer:
    """Turns the words of a job into its configuration; raises ValueError, in the words of the command line."""

    def __init__(self, loader: Any, name: str = "run", words: Sequence[str] = (), folders: Sequence[Path] = ()):
        self.folders = list(folders)
        self._loader, self._name, self._words = loader, name, list(words)
        self._bases: dict[tuple[str, ...], Composition] = {}
        self._parse = cache(OverridesParser.create(config_loader=loader).parse_override)
        self._is_group = cache(self._group_exists)

    @classmethod
    def of(cls, context: HydraContext, config: DictConfig) -> Composer:
        """For the jobs of a command line that Hydra has read."""
        words = list(config.hydra.overrides.hydra)
        own = [Path(source.path) for source in config.hydra.runtime.config_sources if source.provider == "command-line"]
        return cls(context.config_loader, config.hydra.job.config_name, words, own)

    @classmethod
    def alone(cls, words: Sequence[str] = ()) -> Composer:
        """For jobs out of a program. `--config-dir DIR` among the words adds a folder of the user's own choices."""
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
            loader = GlobalHydra.instance().config_loader()
        folders = own_folders(list(words))[1]
        search = [f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in folders)}]"] if folders else []
        return cls(loader, words=search, folders=folders)

    def __call__(self, words: Sequence[str]) -> Composition:
        """The configuration that `ol2r run WORDS` has."""
        try:
            overrides = [self._parse(word) for word in words]
            ConfigLoaderImpl.validate_sweep_overrides_legal(overrides, RunMode.RUN, from_shell=False)
            choosing = [one for one in overrides if self._chooses(one)]
            base = self._base(tuple(str(one.input_line) for one in choosing))
            config = copy.deepcopy(base.config)
            ConfigLoaderImpl._apply_overrides_to_config([one for one in overrides if not self._chooses(one)], config)
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            from ol2r_cli.complaint import explain

            raise ValueError(explain(str(error), [*words, *self.options()])) from None
        check(config, base.choices)
        OmegaConf.resolve(config)  # once: whoever reads it would parse every ${..} anew
        return Composition(config, base.choices, base.grid)

    def options(self) -> list[str]:
        """What has to be typed besides a job's words."""
        return [word for folder in self.folders for word in ("--config-dir", str(folder))]

    def _base(self, choosing: tuple[str, ...]) -> Composition:
        if choosing not in self._bases:
            whole = self._loader.load_configuration(self._name, [*self._words, *choosing], run_mode=RunMode.RUN)
            with open_dict(whole):
                hydra_node = whole.pop("hydra")
            choices = {group: name for group, name in hydra_node.runtime.choices.items() if name is not None}
            grid = tuple(map(str, hydra_node.sweeper.get("params") or ()))
            self._bases[choosing] = Composition(whole, choices, grid)
        return self._bases[choosing]

    def _chooses(self, override: Override) -> bool:
        """Whether it names a choice (or something of Hydra's own), as Hydra tells these from values."""
        key = str(override.key_or_group)
        return override.is_hydra_override() or (not isinstance(override.value(), dict) and self._is_group(key))

    def _group_exists(self, key: str) -> bool:
        return bool(self._loader.get_group_options(key, None, self._name, self._words))


def plain(config: DictConfig) -> dict[str, Any]:
    """All settings in plain containers, resolved."""
    settings = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(settings, dict)
    return {str(name): value for name, value in settings.items()}


def split_launcher(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Short names replaced; the words that say what a job is, and those that say where the jobs of a sweep run."""
    job: list[str] = []
    where: list[str] = []
    for word in translate(list(words)):
        name = word.lstrip("+~").partition("=")[0]
        (where if name == "launcher" or name.startswith("launcher.") else job).append(word)
    return job, where
