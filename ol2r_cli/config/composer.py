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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import hydra
import yaml
from hydra.core.override_parser import overrides_parser, overrides_visitor
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ol2r_cli.config.catalogue import (
    MEASURE,
    Catalogue,
    Choice,
    as_options,
    check_modules,
    choice_folders,
    config_dir,
    dotted,
    measure_nodes,
    read_project,
)
from ol2r_cli.config.mistyped import (
    bad_choice,
    check_words,
    refused_by_hydra,
    several_values,
    unknown_name,
    unreadable,
    unresolved,
)
from ol2r_cli.config.overrides import as_typed, escaped, split_search_path
from ol2r_cli.formatting import nearest

_ALONE = ("dataset", "click", "fairness")  # groups whose choices bring no choices of other groups

if not __debug__:  # Hydra's parser takes steps in assert statements, which PYTHONOPTIMIZE leaves out
    source = inspect.getsource(overrides_visitor)
    exec(compile(source, str(overrides_visitor.__file__), "exec", optimize=0), vars(overrides_visitor))
    vars(overrides_parser)["HydraOverrideVisitor"] = overrides_visitor.HydraOverrideVisitor


@dataclass(frozen=True)
class Composition:
    """A composed configuration.

    settings: all settings, without Hydra's own, interpolations replaced by their values. choices: the choice of each
    group (`ranker`, `ranker/model`); groups without a choice are absent. grid: the settings that a preset sweeps, with
    their values as typed, such as {"ranker.l2": "0.1,0.01"}.
    """

    settings: dict[str, Any]
    choices: Mapping[str, str]
    grid: Mapping[str, str]

    @cached_property
    def config(self) -> DictConfig:
        """Return the settings as nodes, which know their names; what is left of `${` in them is text."""
        return OmegaConf.create(_escaped(self.settings))


class Composer:
    """Composes any number of configurations from the same configuration folders.

    `overrides` may contain `--config-dir DIR` and `hydra.searchpath=[..]`, which name folders with the user's own
    choices; everything else in them is ignored. `catalogue.py` says where else folders are named, and the settings of
    the project file come before those that are typed. Hydra composes once for each set of choices. Values are set on a
    copy of the result, which takes a tenth of the time and gives the same configuration; where a `+` or `~` is typed,
    Hydra sets them. ValueError for a folder that does not exist, for an own choice with the name of another one, and
    for a bad project file. `root` is the root configuration and the command: `run`, or another file of configs/.
    """

    def __init__(self, overrides: Sequence[str] = (), root: str = "run"):
        folders = choice_folders(split_search_path(overrides)[1])
        # With these options the command of a job works anywhere; installed distributions are found anywhere.
        self.options = as_options(folder.path for folder in folders if not folder.package)
        self._project = read_project()
        searched = ",".join(as_typed(f"file://{folder.path}") for folder in folders)
        self._search_path = [f"hydra.searchpath=[{searched}]"] if searched else []
        self.catalogue = Catalogue([folder.path for folder in folders], root)
        for path, other in self.catalogue.collisions:
            raise ValueError(f"{path} must not have the name of {other}: rename it")
        chosen = (group for group, choice in self.catalogue.defaults.items() if choice)
        self._needed = [*self.catalogue.root.values, *chosen]
        self._bases: dict[tuple[str, ...], Composition] = {}
        self._resolved_parts: dict[str, Any] = {}

    def __call__(self, overrides: Sequence[str]) -> Composition:
        """Return the configuration of `ol2r run OVERRIDES`; ValueError, of one line, for a bad one."""
        settings, _, base = self._composed(overrides)
        return Composition(settings, base.choices, base.grid)

    def shown(self, overrides: Sequence[str], part: str) -> DictConfig:
        """Return the configuration as `--cfg PART` shows it: `job`, `hydra` (Hydra's own settings) or `all`."""
        _, settings, _ = self._composed(overrides)
        if part == "job":
            return OmegaConf.create(settings)
        whole = self._by_hydra(self._words(overrides))
        return OmegaConf.create({"hydra": whole.hydra}) if part == "hydra" else whole

    def jobs(self, overrides: Sequence[str], paired: Iterable[Sequence[str]] = ()) -> list[list[str]]:
        """Return the overrides of every job of a sweep: the product of all values, the last one changing fastest.

        A preset's grid comes first, where it has one. The settings in each group of `paired` advance together.
        ValueError for an override that cannot be read, for a setting with several values that is there twice, and where
        paired settings have different numbers of values.
        """
        parsed = [_parse(word) for word in self._typed(overrides)]
        presets = [one for one in parsed if one.key_or_group == "experiment" or one.is_hydra_override()]
        swept = any(override.is_sweep_override() for override in presets)
        grid = {} if swept else self._base(presets).grid
        _check_repeated(parsed)
        values: dict[str, list[str]] = {}  # of each setting, as overrides
        for override in [*(_parse(f"{name}={each}") for name, each in grid.items()), *parsed]:
            choices = sorted(self.catalogue.choices.get(str(override.key_or_group), {}))
            values[override.get_key_element()] = _values(override, choices)
        together = _together(paired, values)
        axes = dict.fromkeys(together.get(name, (name,)) for name in values)
        rows = [list(zip(*map(values.__getitem__, axis), strict=True)) for axis in axes]
        names = [name for axis in axes for name in axis]
        jobs = [dict(zip(names, itertools.chain(*parts), strict=True)) for parts in itertools.product(*rows)]
        return [[job[key] for key in values] for job in jobs]

    def _words(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides of a job, after those of the project file."""
        typed = self._typed(overrides)
        return [*self._project.overrides(typed), *typed]

    def _typed(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides as Hydra reads them, but for those of folders; ValueError for a mistake in them."""
        words = self.catalogue.full_names(split_search_path(overrides)[0])
        check_words(words, self.catalogue)
        return words

    def _composed(self, overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any], Composition]:
        """Return the settings, the same with interpolations, and what Hydra has composed; ValueError as above."""
        words = self._words(overrides)
        parsed = [_parse(word) for word in words]
        for override in parsed:
            if override.is_sweep_override():
                values = str(override.input_line).partition("=")[2]
                raise ValueError(several_values(override.get_key_element().lstrip("+"), values, self.catalogue))
        of_measures = {str(each.key_or_group): each.value() for each in parsed if _of_a_measure(each)}
        parsed = [each for each in parsed if not _of_a_measure(each)]
        by_hydra = any(each.type != OverrideType.CHANGE for each in parsed)
        base = self._base([each for each in parsed if by_hydra or self._chooses(each)])
        settings = copy.deepcopy(base.settings)
        try:
            for override in [] if by_hydra else parsed:
                if not self._chooses(override):
                    _set_value(settings, str(override.key_or_group), override.value())
        except KeyError as error:
            raise ValueError(unknown_name(error.args[0], words, self.catalogue)) from None
        if missing := [name for name in self._needed if name not in settings]:
            raise ValueError(f"{missing[0]} is missing: leave out ~{missing[0]}")
        if unknown := [name for name in settings if name not in self._needed and name not in base.choices]:
            raise ValueError(unknown_name(unknown[0], words, self.catalogue))
        resolved = self._resolved(settings)
        if MEASURE not in self.catalogue.choices:
            return resolved, settings, base
        nodes = {MEASURE: measure_nodes(resolved["measures"], self.catalogue, of_measures)}
        return resolved | nodes, settings | nodes, base

    def _chooses(self, override: Override) -> bool:
        """Return whether an override names a choice, or a setting of Hydra or of a package."""
        is_choice = str(override.key_or_group) in self.catalogue.choices and not isinstance(override.value(), dict)
        return is_choice or override.is_hydra_override() or override.package is not None

    def _resolved(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings with interpolations replaced by their values.

        OmegaConf resolves them among the settings that they name, once for the same values of these: nodes of all
        settings would take most of the time in which a job is composed. ValueError for an interpolation that cannot be
        resolved, and for a missing value (`???`).
        """
        text = " ".join(re.findall(r"\$\{[^}]*|\?\?\?", str(settings)))
        any_name = re.search(r"\$\{\.|\[|\$\{\S*\$", text)  # relative ones, or an interpolation in another one
        part = settings if any_name else _named(settings, set(re.findall(r"[\w.]+", text)))
        if (key := repr(part)) not in self._resolved_parts:
            config = OmegaConf.create(part)
            try:
                self._resolved_parts[key] = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
            except OmegaConfBaseException as error:
                name = str(error.full_key)
                value = dict(dotted(part)).get(name)
                raise ValueError(unresolved(name, value, str(error).splitlines()[0])) from None
        merged: dict[str, Any] = _merged(settings, self._resolved_parts[key], "")
        return merged

    def _base(self, choosing: Sequence[Override]) -> Composition:
        """Return what Hydra composes for a set of choices, before values are set; ValueError for a bad choice."""
        for override in choosing:
            self._check_choice(override)
        words = tuple(str(override.input_line) for override in choosing)
        if words not in self._bases and (exchanged := self._exchanged(choosing)):
            self._bases[words] = exchanged
        if words not in self._bases:
            settings: Any = OmegaConf.to_container(self._by_hydra(words), resolve=False)
            of_hydra = settings.pop("hydra")
            choices = {group: name for group, name in of_hydra["runtime"]["choices"].items() if name is not None}
            grid = {name: str(values) for name, values in (of_hydra["sweeper"].get("params") or {}).items()}
            for group, name in choices.items():
                choice = self.catalogue.choices.get(group, {}).get(name)
                if choice is not None and not self.catalogue.comes_along(choice):
                    check_modules(choice)
            self._bases[words] = Composition(settings, choices, grid)
        return self._bases[words]

    def _exchanged(self, choosing: Sequence[Override]) -> Composition | None:
        """Return the base in which choices that bring nothing, such as click models, take the place of the defaults.

        So Hydra composes each ranker once and not for every click model and dataset. None where there is no such
        choice, and where others, such as a preset, may set anything in its group.
        """
        known, named = self.catalogue.choices, [(str(each.key_or_group), each) for each in choosing]
        for group, override in named:
            is_plain = override.type == OverrideType.CHANGE and override.package is None
            if group not in known or group == "experiment" or not is_plain:
                return None
        alone = {group: known[group][str(override.value())] for group, override in named if group in _ALONE}
        stand = (self.catalogue.comes_along(each) and "defaults" not in each.content for each in alone.values())
        if not alone or not all(stand):
            return None
        base = self._base([override for group, override in named if group not in alone])
        for group in alone:
            usual = known[group].get(base.choices.get(group, ""))
            if usual is None or base.settings[group] != _loaded(usual):
                return None
        settings = {group: _loaded(choice) for group, choice in alone.items()}
        choices = {group: choice.name for group, choice in alone.items()}
        return Composition(base.settings | settings, {**base.choices, **choices}, base.grid)

    def _check_choice(self, override: Override) -> None:
        """Raise ValueError where an override of a group does not name one of its choices."""
        group, value, known = str(override.key_or_group), override.value(), self.catalogue.choices
        if group == MEASURE:
            names = dict.fromkeys(["ndcg", str(value)])
            raise ValueError(f"measures are chosen by a list: type 'measures=[{','.join(names)}]'")
        is_choice = group in known and not isinstance(value, dict)  # a mapping has settings of the choice
        if not is_choice or override.is_delete() or (isinstance(value, str) and value in known[group]):
            return
        typed = str(override.input_line).partition("=")[2]
        raise ValueError(bad_choice(group, typed, value, known[group]))

    def _by_hydra(self, words: Sequence[str]) -> DictConfig:
        """Return what Hydra composes, with its own settings; ValueError, of one line, for what it refuses."""
        try:
            with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
                return hydra.compose(self.catalogue.root.name, [*self._search_path, *words], return_hydra_config=True)
        except yaml.YAMLError as error:
            for choice in (choice for known in self.catalogue.choices.values() for choice in known.values()):
                _ = choice.content  # ValueError, which names the file
            raise ValueError(f"a file of the configuration must be YAML: {' '.join(str(error).split())}") from None
        except (HydraException, OmegaConfBaseException) as error:
            raise ValueError(refused_by_hydra(str(error), words, self.catalogue)) from None


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
    if word.splitlines() not in ([word], []):
        raise ValueError(f"{word!r} must be one line: leave out the line break")
    if not word.lstrip("+~").partition("=")[0]:
        raise ValueError(unreadable(word))
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException:
        raise ValueError(unreadable(word)) from None


@cache
def _loaded(choice: Choice) -> Any:
    """Return the content of a choice as Hydra reads it: 1e-3 is a number."""
    return OmegaConf.to_container(OmegaConf.load(choice.path))


def _escaped(value: Any) -> Any:
    """Return settings in which OmegaConf reads `${` as text."""
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return escaped(value) if isinstance(value, str) else value


def _named(settings: Mapping[str, Any], names: Collection[str], prefix: str = "") -> dict[str, Any]:
    """Return the nested settings with these names, and those that have an interpolation or no value."""
    kept = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in names:
            value = _named(value, names, f"{name}.")
        if value if isinstance(value, Mapping) else name in names or re.search(r"\$\{|\?\?\?", str(value)):
            kept[key] = value
    return kept


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


def _check_repeated(overrides: Sequence[Override]) -> None:
    """Raise ValueError for a setting that is there twice, of which one has several values: they would be dropped."""
    earlier: dict[str, Override] = {}
    for override in overrides:
        name = override.get_key_element().lstrip("+")
        before = earlier.get(name)
        differs = before is not None and before.input_line != override.input_line
        if before is not None and differs and (before.is_sweep_override() or override.is_sweep_override()):
            both = f"{before.input_line} and {override.input_line}"
            raise ValueError(f"{name} is typed twice, {both}: type all its values at once, or leave one out")
        earlier[name] = override


def _of_a_measure(override: Override) -> bool:
    """Return whether an override is a setting of a measure, which Hydra does not know."""
    return str(override.key_or_group).startswith(f"{MEASURE}.")


def _set_value(settings: dict[str, Any], name: str, value: Any) -> None:
    """Apply `name=value` as Hydra does; KeyError for a name that is not there."""
    *above, last = name.split(".")
    node: Any = settings
    for key in above:
        node = node.get(key)
        if not isinstance(node, dict):
            raise KeyError(name)
    if last not in node:
        raise KeyError(name)
    node[last] = _merged(node[last], value, name)


def _merged(present: Any, value: Any, name: str) -> Any:
    """Return a value in place of another one; of two mappings the union. KeyError for a key that is not there."""
    if not isinstance(present, dict) or not isinstance(value, dict):
        return value
    for key in value:
        if key not in present:
            raise KeyError(f"{name}.{key}")
    return present | {key: _merged(present[key], each, f"{name}.{key}") for key, each in value.items()}


def _together(paired: Iterable[Sequence[str]], values: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the settings of a sweep that advance together, by each of their names."""
    together: dict[str, tuple[str, ...]] = {}
    for names in paired:
        for name in names:
            if name not in values:
                near = nearest(name, [each for each in values if len(values[each]) > 1])
                raise ValueError(f"--paired {','.join(names)}: there is no {name}=.. in this sweep{near}")
            if name in together or names.count(name) > 1:
                raise ValueError(f"--paired may name {name} once: type --paired with all that go together")
        if len({len(values[name]) for name in names}) > 1:
            counts = ", ".join(f"{name} has {len(values[name])}" for name in names)
            raise ValueError(f"--paired {','.join(names)} must have equally many values: {counts}")
        together |= dict.fromkeys(names, tuple(name for name in values if name in names))
    return together
