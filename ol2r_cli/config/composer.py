"""From overrides to a configuration: the one place that composes.

The command line, sweeps, search, reproduce, bench, the Python API and the tests all use it. Hydra composes: its groups,
defaults lists, override grammar and search path are used through `hydra.compose` and `hydra.core.override_parser`, the
parts that Hydra documents for programs and sweeper plugins.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import hydra
import yaml
from hydra.core.override_parser import overrides_parser, overrides_visitor
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from ol2r_cli.config.catalogue import MEASURE, Catalogue, config_dir, measure_nodes
from ol2r_cli.config.errors import explain, has_a_value, misplaced, several_values, unknown_name, unreadable
from ol2r_cli.config.instantiate import targets
from ol2r_cli.config.overrides import as_typed, split_search_path, translate
from ol2r_cli.config.own_choices import as_options, check_modules, read_project, use_choices
from ol2r_cli.formatting import nearest

if not __debug__:  # Hydra's parser takes steps in assert statements, which PYTHONOPTIMIZE leaves out
    source = inspect.getsource(overrides_visitor)
    exec(compile(source, str(overrides_visitor.__file__), "exec", optimize=0), vars(overrides_visitor))
    vars(overrides_parser)["HydraOverrideVisitor"] = overrides_visitor.HydraOverrideVisitor


@dataclass(frozen=True)
class Composition:
    """A composed configuration.

    config: all settings, without Hydra's own, interpolations replaced by their values. settings: the same in plain
    containers. choices: the choice of each group (`ranker`, `ranker/model`); groups without a choice are absent. grid:
    the settings that a preset sweeps, with their values as typed, such as {"ranker.l2": "0.1,0.01"}.
    """

    config: DictConfig
    settings: dict[str, Any]
    choices: Mapping[str, str]
    grid: Mapping[str, str]


class Composer:
    """Composes any number of configurations from the same configuration folders.

    `overrides` may contain `--config-dir DIR` and `hydra.searchpath=[..]`, which name folders with the user's own
    choices; everything else in them is ignored. `own_choices.py` says where else folders are named, and the settings of
    the project file come before those that are typed. Hydra composes once for each set of choices. Plain values are set
    on a copy of the result, which takes a tenth of the time and gives the same configuration. ValueError for a folder
    that does not exist, for an own choice with the name of another one, and for a bad project file.
    """

    def __init__(self, overrides: Sequence[str] = ()):
        self._folders = use_choices(split_search_path(overrides)[1])
        self._project = read_project()
        searched = ",".join(as_typed(f"file://{folder.path}") for folder in self._folders)
        self._search_path = [f"hydra.searchpath=[{searched}]"] if searched else []
        self.catalogue = Catalogue([folder.path for folder in self._folders])
        for path, other in self.catalogue.collisions:
            raise ValueError(f"{path} must not have the name of {other}: rename it")
        chosen = (group for group, choice in self.catalogue.defaults.items() if choice)
        self._needed = [*self.catalogue.root.values, *chosen]
        self._bases: dict[tuple[str, ...], Composition] = {}

    @property
    def options(self) -> list[str]:
        """Return `--config-dir DIR` for each folder, with which the command of a job works anywhere.

        Those of installed distributions are found anywhere.
        """
        return as_options(folder.path for folder in self._folders if not folder.package)

    def __call__(self, overrides: Sequence[str]) -> Composition:
        """Return the configuration of `ol2r run OVERRIDES`; ValueError, of one line, for a bad one."""
        composed = self._composed(overrides)
        return replace(composed, settings=_resolved(composed.config))

    def shown(self, overrides: Sequence[str], part: str) -> DictConfig:
        """Return the configuration as `--cfg PART` shows it: `job`, `hydra` (Hydra's own settings) or `all`."""
        config = self._composed(overrides).config
        _resolved(copy.deepcopy(config))
        if part == "job":
            return config
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
            words = [*self._search_path, *self._words(overrides)]
            whole = hydra.compose("run", words, return_hydra_config=True)
        return OmegaConf.create({"hydra": whole.hydra}) if part == "hydra" else whole

    def _composed(self, overrides: Sequence[str]) -> Composition:
        """Return the composition with interpolations and without `settings`; ValueError as above."""
        words = self._words(overrides)
        parsed = [_parse(word) for word in words]
        for override in parsed:
            if override.is_sweep_override():
                name, _, values = str(override.input_line).partition("=")
                raise ValueError(several_values(name.lstrip("+"), values, self.catalogue))
        try:
            choosing = [override for override in parsed if self._chooses(override)]
            for override in choosing:
                self._check_choice(override)
            base = self._base(tuple(str(override.input_line) for override in choosing))
            config = copy.deepcopy(base.config)
            of_measures = [override for override in parsed if str(override.key_or_group).startswith(f"{MEASURE}.")]
            for override in parsed:
                if not self._chooses(override) and override not in of_measures:
                    _set_value(config, override, words)
        except yaml.YAMLError as error:
            for choice in (choice for known in self.catalogue.choices.values() for choice in known.values()):
                _ = choice.content  # ValueError, which names the file
            raise ValueError(f"a file of the configuration must be YAML: {' '.join(str(error).split())}") from None
        except KeyError as error:
            raise ValueError(unknown_name(error.args[0], words, self.catalogue)) from None
        except (HydraException, OmegaConfBaseException) as error:
            raise ValueError(explain(str(error), words, self.catalogue)) from None
        for name in self._needed:
            if name not in config:
                raise ValueError(f"{name} is missing: leave out ~{name}")
        for name in map(str, config):
            if name not in self._needed and name not in base.choices:
                raise ValueError(unknown_name(name, words, self.catalogue))
        self._add_measures(config, {str(override.key_or_group): override.value() for override in of_measures})
        return replace(base, config=config)

    def _add_measures(self, config: DictConfig, typed: Mapping[str, Any]) -> None:
        """Add the node `measure`, and let trace_regret and trace_blocks say whether these two are taken."""
        names = ["measures", "trace_regret", "trace_blocks"]
        try:
            settings: Any = OmegaConf.to_container(OmegaConf.masked_copy(config, names), resolve=True)
        except OmegaConfBaseException as error:
            raise ValueError(str(error).splitlines()[0]) from None
        nodes = measure_nodes(settings, self.catalogue, typed)
        with open_dict(config):
            config[MEASURE] = nodes
            config.trace_regret, config.trace_blocks = "regret" in nodes, "blocks" in nodes

    def _words(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides of a job, after those of the project file."""
        typed = self._typed(overrides)
        return [*self._project.overrides(typed), *typed]

    def _typed(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides as Hydra reads them, but for those of folders; ValueError for misplaced blanks."""
        words = translate(split_search_path(overrides)[0])
        if typed := misplaced(words, {*self.catalogue.choices, *self.catalogue.root.values}):
            raise ValueError(f"{shlex.join(words)} has blanks or quotes in the wrong places: type {typed}")
        return words

    def jobs(self, overrides: Sequence[str], paired: Iterable[Sequence[str]] = ()) -> list[list[str]]:
        """Return the overrides of every job of a sweep: the product of all values, the last one changing fastest.

        A preset's grid comes first, where it has one. The settings in each group of `paired` advance together.
        ValueError for an override that cannot be read, and where paired settings have different numbers of values.
        """
        words = self._typed(overrides)
        parsed = [_parse(word) for word in words]
        presets = [one for one in parsed if one.key_or_group == "experiment" or one.is_hydra_override()]
        grid: Mapping[str, str] = {}
        if not any(override.is_sweep_override() for override in presets):
            for override in presets:
                self._check_choice(override)
            try:
                grid = self._base(tuple(str(override.input_line) for override in presets)).grid
            except HydraException as error:
                raise ValueError(explain(str(error), words, self.catalogue)) from None
        swept = [_parse(f"{name}={values}") for name, values in grid.items()]
        return self._product([*swept, *parsed], paired)

    def _base(self, choosing: tuple[str, ...]) -> Composition:
        """Return what Hydra composes for a set of choices, before values are set."""
        if choosing not in self._bases:
            with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
                whole = hydra.compose("run", [*self._search_path, *choosing], return_hydra_config=True)
            OmegaConf.set_readonly(whole, False)
            with open_dict(whole):
                hydra_node = whole.pop("hydra")
            choices = {group: name for group, name in hydra_node.runtime.choices.items() if name is not None}
            grid = {str(name): str(values) for name, values in (hydra_node.sweeper.get("params") or {}).items()}
            for group, name in choices.items():
                choice = self.catalogue.choices.get(group, {}).get(name)
                if choice is not None and not self.catalogue.comes_along(choice):
                    check_modules(targets(choice.content), choice.folder, choice.node)
            self._bases[choosing] = Composition(whole, {}, choices, grid)
        return self._bases[choosing]

    def _chooses(self, override: Override) -> bool:
        """Return whether an override names a choice, or a setting of Hydra, rather than a value."""
        if override.is_hydra_override() or override.package is not None:
            return True
        return override.key_or_group in self.catalogue.choices and not isinstance(override.value(), dict)

    def _check_choice(self, override: Override) -> None:
        """Raise ValueError where a number, a list or an interpolation stands instead of the name of a choice."""
        group, value = str(override.key_or_group), override.value()
        if group == MEASURE:
            raise ValueError(f"measures are chosen by a list: type measures=[ndcg,{value}]")
        named = isinstance(value, str) and "${" not in value
        if group in self.catalogue.choices and not override.is_delete() and not named:
            typed = str(override.input_line).partition("=")[2]
            raise ValueError(f"{group} must be one of {', '.join(self.catalogue.choices[group])}, got {typed}")

    def _product(self, overrides: Sequence[Override], paired: Iterable[Sequence[str]]) -> list[list[str]]:
        values: dict[str, list[str]] = {}
        for override in overrides:
            choices = sorted(self.catalogue.choices.get(str(override.key_or_group), {}))
            values[override.get_key_element()] = _values(override, choices)
        axes = [[key] for key in values]
        for names in paired:
            axes = _joined(axes, names, values)
        rows = [
            [dict(zip(axis, row, strict=True)) for row in zip(*map(values.__getitem__, axis), strict=True)]
            for axis in axes
        ]
        jobs = [{key: word for part in parts for key, word in part.items()} for parts in itertools.product(*rows)]
        return [[job[key] for key in values] for job in jobs]


def compose(overrides: Sequence[str] = ()) -> Composition:
    """Return the configuration of `ol2r run OVERRIDES`, which may have `--config-dir DIR`; ValueError if bad."""
    return Composer(overrides)(overrides)


def check_grid(composition: Composition, overrides: Iterable[str], advice: str) -> None:
    """Raise ValueError, ending in `advice`, when a preset has a grid of which some settings are not in `overrides`.

    Otherwise the defaults would be run under the name of the preset. A job of a sweep has every setting of the grid
    among its overrides.
    """
    given = {word.partition("=")[0].lstrip("+") for word in overrides}
    preset = composition.choices.get("experiment")
    unused = [name for name in composition.grid if name not in given]
    if preset and unused:
        raise ValueError(f"experiment={preset} is a grid, several runs that differ in {', '.join(unused)}: {advice}")


def expand(word: str) -> list[str]:
    """Return the overrides with one value each that an override with several values (`seed=1,2`) stands for.

    ValueError for an override that cannot be read.
    """
    return _values(_parse(word))


@cache
def _parse(word: str) -> Override:
    if re.match(r"[+~]*hydra/(launcher|sweeper)\b", word):
        raise ValueError(f"{word} has no effect: sweeps run where launcher=processes or launcher=slurm says")
    if word.splitlines() not in ([word], []):
        raise ValueError(f"{word!r} must be one line: leave out the line break")
    if not word.lstrip("+~").partition("=")[0]:
        raise ValueError(unreadable(word))
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException:
        raise ValueError(unreadable(word)) from None


def _resolved(config: DictConfig) -> dict[str, Any]:
    """Replace interpolations by their values, in place, and return all settings in plain containers.

    ValueError for an interpolation that cannot be resolved, and for a value that is missing (`???`).
    """
    with suppress(OmegaConfBaseException):  # `to_container` raises it as well, and names the setting
        OmegaConf.resolve(config)
    try:
        settings = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ValueError(f"{error.full_key} cannot be resolved: {str(error).splitlines()[0]}") from None
    assert isinstance(settings, dict)
    return {str(name): value for name, value in settings.items()}


def _values(override: Override, choices: Sequence[str] = ()) -> list[str]:
    """Return one override for each value; `choices` are the names among which `glob(..)` selects."""
    key = override.get_key_element()
    value: Any = override.value()
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if isinstance(value, Glob):
        return [f"{key}={name}" for name in value.filter(list(choices))]
    if override.is_discrete_sweep():
        return [f"{key}={each}" for each in override.sweep_string_iterator()]
    raise ValueError(f"{override.input_line} must list its values, as in {key}=1,2,3: `ol2r search` tries ranges")


def _set_value(config: DictConfig, override: Override, words: Sequence[str]) -> None:
    """Apply `key=value`, `+key=value`, `++key=value` or `~key[=value]` as Hydra does.

    KeyError for a key that is not there; ValueError, with the line to type among `words`, for one that is.
    """
    key, value = str(override.key_or_group), override.value()
    present = OmegaConf.select(config, key, throw_on_missing=False)
    if override.is_delete():
        if present is None or (value is not None and value != present):
            raise KeyError(key)
        above, _, last = key.rpartition(".")
        node = OmegaConf.select(config, above) if above else config
        with open_dict(node):
            del node[last]
    elif override.is_add() or override.is_force_add():
        if override.is_add() and present is not None and not isinstance(value, dict | list):
            raise ValueError(has_a_value(key, words))
        OmegaConf.update(config, key, value, merge=True, force_add=True)
    else:
        try:
            OmegaConf.update(config, key, value, merge=True)
        except (ConfigAttributeError, ConfigKeyError) as error:
            inside = str(error.full_key or "")  # fairness.x where a key of fairness={x:1} is not there
            raise KeyError(inside if inside.startswith(f"{key}.") else key) from None


def _joined(axes: list[list[str]], names: Sequence[str], values: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the axes of a sweep after the settings `names` became one axis, at the place of the first of them."""
    swept = [key for key in values if len(values[key]) > 1]
    for name in names:
        if name not in values:
            raise ValueError(f"--paired {','.join(names)}: there is no {name}=.. in this sweep{nearest(name, swept)}")
        if any(name in axis for axis in axes if len(axis) > 1):
            raise ValueError(f"--paired may name {name} once: type --paired with all that go together")
    lengths = [len(values[name]) for name in names]
    if len(set(lengths)) > 1:
        counts = ", ".join(f"{name} has {length}" for name, length in zip(names, lengths, strict=True))
        raise ValueError(f"--paired {','.join(names)} must have equally many values: {counts}")
    first = next(name for name in values if name in names)
    kept = [axis for axis in axes if axis == [first] or not set(axis) & set(names)]
    return [[name for name in values if name in names] if axis == [first] else axis for axis in kept]
