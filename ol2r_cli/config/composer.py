"""From overrides to a configuration: the one place that composes.

The command line, sweeps, search, reproduce, bench, the Python API and the tests all use it. Hydra composes: its groups,
defaults lists, override grammar and search path are used through `hydra.compose` and `hydra.core.override_parser`, the
parts that Hydra documents for programs and sweeper plugins.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ol2r_cli.config.catalogue import MEASURE, Catalogue, Choice, circle, config_dir, dotted
from ol2r_cli.config.grammar import check_repeated, jobs_of, parse
from ol2r_cli.config.measures import measure_nodes
from ol2r_cli.config.mistyped import (
    bad_choice,
    check_words,
    measures_with,
    refused_by_hydra,
    several_values,
    unknown_name,
    unresolved,
)
from ol2r_cli.config.overrides import as_typed, escaped, full_names, name_of, split_search_path
from ol2r_cli.config.own_choices import as_options, check_modules, choice_folders, read_project
from ol2r_cli.plugins import added_lines
from ol2r_cli.text.formatting import one_line

_ALONE = ("dataset", "click", "fairness")  # groups whose choices bring no choices of other groups


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
        return OmegaConf.create(_as_text(self.settings))


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
        self._resolved: dict[str, Any] = {}  # settings without interpolations, by those that have some

    def __call__(self, overrides: Sequence[str]) -> Composition:
        """Return the configuration of `ol2r run OVERRIDES`; ValueError, of one line, for a bad one."""
        parsed = self._parsed(overrides)
        unresolved = self._unresolved(parsed)
        settings = self._without_interpolations(unresolved.settings)
        return replace(unresolved, settings=settings | self._measures(settings, parsed))

    def shown(self, overrides: Sequence[str], part: str) -> DictConfig:
        """Return the configuration as `--cfg PART` shows it: `job`, `hydra` (Hydra's own settings) or `all`."""
        parsed = self._parsed(overrides)
        settings = self._unresolved(parsed).settings
        measures = self._measures(self._without_interpolations(settings), parsed)
        if part == "job":
            return OmegaConf.create(settings | measures)
        whole = self._by_hydra(_words(parsed))
        return OmegaConf.create({"hydra": whole.hydra}) if part == "hydra" else whole

    def jobs(self, overrides: Sequence[str], paired: Iterable[Sequence[str]] = ()) -> list[list[str]]:
        """Return the overrides of every job of a sweep: the product of all values, the last one changing fastest.

        A preset's grid comes first, where it has one. The settings in each group of `paired` advance together.
        ValueError for an override that cannot be read, for a setting with several values that is there twice, and where
        paired settings have different numbers of values.
        """
        parsed = [parse(word) for word in self._typed(overrides)]
        grid = [parse(f"{name}={values}") for name, values in self._grid(parsed).items()]
        check_repeated(parsed)
        return jobs_of([*grid, *parsed], self.catalogue.choices, paired)

    def _grid(self, overrides: Sequence[Override]) -> Mapping[str, str]:
        """Return the values that the preset among overrides sweeps; none where presets are swept themselves."""
        presets = [word for word in overrides if word.key_or_group == "experiment" or word.is_hydra_override()]
        if any(preset.is_sweep_override() for preset in presets):
            return {}
        return self._base(presets).grid

    def _parsed(self, overrides: Sequence[str]) -> list[Override]:
        """Return the overrides of a job, after those of the project file; ValueError for one with several values."""
        typed = self._typed(overrides)
        of_project = self._project.overrides(with_launcher="launcher" not in map(name_of, typed))
        parsed = [parse(word) for word in (*of_project, *typed)]
        for override in parsed:
            if override.is_sweep_override():
                values = str(override.input_line).partition("=")[2]
                name = override.get_key_element().lstrip("+")
                raise ValueError(several_values(name, values, name in self.catalogue.choices))
        return parsed

    def _typed(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides as Hydra reads them, but for those of folders; ValueError for a mistake in them."""
        words = full_names(split_search_path(overrides)[0], self.catalogue.choices)
        check_words(words, self.catalogue)
        return words

    def _unresolved(self, parsed: Sequence[Override]) -> Composition:
        """Return the configuration with its interpolations, and without the settings of measures.

        ValueError for a name at the top that is missing, or neither a setting nor a group.
        """
        words = _words(parsed)
        composition = self._with_values([override for override in parsed if not _of_a_measure(override)], words)
        for name in self._needed:
            if name not in composition.settings:
                raise ValueError(f"{name} is missing: leave out ~{name}")
        for name in composition.settings:
            if name not in self._needed and name not in composition.choices:
                raise ValueError(unknown_name(name, words, self.catalogue))
        return composition

    def _without_interpolations(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings in which `${device.threads}` is the value of the setting that it names.

        OmegaConf resolves, among the settings that are named, and once for the same values of these: nodes of all
        settings would take most of the time in which a job is composed. ValueError for an interpolation that cannot be
        resolved, and for a missing value (`???`).
        """
        part = _needed(settings)
        key = repr(part)
        if key not in self._resolved:
            try:
                self._resolved[key] = OmegaConf.to_container(
                    OmegaConf.create(part), resolve=True, throw_on_missing=True
                )
            except OmegaConfBaseException as error:
                name = str(error.full_key)
                value = dict(dotted(part)).get(name)
                raise ValueError(unresolved(name, value, str(error).splitlines()[0])) from None
        resolved: dict[str, Any] = _merged(settings, self._resolved[key], "")
        return resolved

    def _measures(self, settings: Mapping[str, Any], parsed: Sequence[Override]) -> dict[str, Any]:
        """Return the settings of the measures of a run below `measure`; nothing for a root without measures."""
        if MEASURE not in self.catalogue.choices:
            return {}
        typed = {str(override.key_or_group): override.value() for override in parsed if _of_a_measure(override)}
        return {MEASURE: measure_nodes(settings["measures"], self.catalogue, typed)}

    def _with_values(self, overrides: Sequence[Override], words: Sequence[str]) -> Composition:
        """Return what Hydra composes for the choices among overrides, with the values of the others.

        Where a `+` or `~` is among them, Hydra sets the values, too. ValueError for a setting that does not exist.
        """
        only_changes = all(override.type == OverrideType.CHANGE for override in overrides)
        by_hydra = [override for override in overrides if self._is_read_by_hydra(override, only_changes)]
        base = self._base(by_hydra)
        settings = copy.deepcopy(base.settings)
        for override in overrides:
            if override not in by_hydra:
                try:
                    _set_value(settings, str(override.key_or_group), override.value())
                except KeyError as error:
                    raise ValueError(unknown_name(error.args[0], words, self.catalogue)) from None
        return replace(base, settings=settings)

    def _is_read_by_hydra(self, override: Override, only_changes: bool) -> bool:
        """Return whether Hydra reads an override: one that names a choice, or a setting of Hydra or of a package.

        Where others add or remove settings it reads all.
        """
        is_choice = str(override.key_or_group) in self.catalogue.choices and not isinstance(override.value(), dict)
        return not only_changes or is_choice or override.is_hydra_override() or override.package is not None

    def _base(self, choosing: Sequence[Override]) -> Composition:
        """Return what Hydra composes for a set of choices, before values are set; ValueError for a bad choice."""
        for override in choosing:
            self._check_choice(override)
        words = tuple(_words(choosing))
        if words not in self._bases:
            self._bases[words] = self._exchanged(choosing) or self._composed_by_hydra(words)
        return self._bases[words]

    def _composed_by_hydra(self, words: Sequence[str]) -> Composition:
        """Return what Hydra composes; ValueError where Python imports another class than that of an own choice."""
        settings: Any = OmegaConf.to_container(self._by_hydra(words), resolve=False)
        of_hydra = settings.pop("hydra")
        choices = {group: name for group, name in of_hydra["runtime"]["choices"].items() if name is not None}
        grid = {name: str(values) for name, values in (of_hydra["sweeper"].get("params") or {}).items()}
        for group, name in choices.items():
            choice = self.catalogue.choices.get(group, {}).get(name)
            if choice is not None and not choice.comes_along:
                check_modules(choice)
        return Composition(settings, choices, grid)

    def _exchanged(self, choosing: Sequence[Override]) -> Composition | None:
        """Return the base in which choices of ol2r that bring no others, such as click models, take the place of the
        defaults.

        So Hydra composes each ranker once and not for every click model and dataset. None where there is no such
        choice, and where others, such as a preset, may set anything in its group.
        """
        if not all(self._chooses_in_its_group(override) for override in choosing):
            return None
        alone: dict[str, Choice] = {}
        for override in choosing:
            group = str(override.key_or_group)
            if group in _ALONE:
                alone[group] = self.catalogue.choices[group][str(override.value())]
        if not alone or any(not choice.comes_along or "defaults" in choice.content for choice in alone.values()):
            return None
        base = self._base([override for override in choosing if str(override.key_or_group) not in alone])
        for group in alone:
            usual = self.catalogue.choices[group].get(base.choices.get(group, ""))
            if usual is None or base.settings[group] != usual.content:
                return None
        settings = {group: choice.content for group, choice in alone.items()}
        choices = {group: choice.name for group, choice in alone.items()}
        return Composition(base.settings | settings, {**base.choices, **choices}, base.grid)

    def _chooses_in_its_group(self, override: Override) -> bool:
        """Return whether an override names a choice that sets nothing outside its group, as a preset does."""
        group = str(override.key_or_group)
        is_plain = override.type == OverrideType.CHANGE and override.package is None
        return is_plain and group in self.catalogue.choices and group != "experiment"

    def _check_choice(self, override: Override) -> None:
        """Raise ValueError where an override of a group does not name one of its choices."""
        group, value, known = str(override.key_or_group), override.value(), self.catalogue.choices
        if group == MEASURE:
            raise ValueError(f"measures are chosen by a list: type {measures_with(str(value))}")
        is_choice = group in known and not isinstance(value, dict)  # a mapping has settings of the choice
        if not is_choice or override.is_delete() or (isinstance(value, str) and value in known[group]):
            return
        typed = str(override.input_line).partition("=")[2]
        raise ValueError(bad_choice(group, typed, known[group]))

    def _by_hydra(self, words: Sequence[str]) -> DictConfig:
        """Return what Hydra composes, with its own settings; ValueError, of one line, for what it refuses."""
        try:
            ConfigStore.instance().store("run_parts", yaml.safe_load("\n".join(added_lines().values())) or {})
            with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
                return hydra.compose(self.catalogue.root.name, [*self._search_path, *words], return_hydra_config=True)
        except yaml.YAMLError as error:
            raise ValueError(f"a file of the configuration must be YAML: {one_line(error)}") from None
        except RecursionError:
            choices = (choice for named in self.catalogue.choices.values() for choice in named.values())
            raise ValueError(circle(choices)) from None
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
    typed = {word.partition("=")[0].lstrip("+") for word in overrides}
    preset = composition.choices.get("experiment")
    unused = [name for name in composition.grid if name not in typed]
    if preset and unused:
        raise ValueError(f"experiment={preset} is a grid, several runs that differ in {', '.join(unused)}: {advice}")


def _words(overrides: Sequence[Override]) -> list[str]:
    return [str(override.input_line) for override in overrides]


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


def _needed(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that have interpolations or no value, and those that are named by them."""
    text = " ".join(re.findall(r"\$\{[^}]*|\?\?\?", str(settings)))
    may_name_all = re.search(r"\$\{\.|\[|\$\{\S*\$", text)  # relative ones, or an interpolation in another one
    return settings if may_name_all else _with_names(settings, set(re.findall(r"[\w.]+", text)))


def _with_names(settings: Mapping[str, Any], names: Collection[str], prefix: str = "") -> dict[str, Any]:
    """Return the nested settings with these names, and those that have an interpolation or no value."""
    kept: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            below = value if name in names else _with_names(value, names, f"{name}.")
            if below:
                kept[key] = below
        elif name in names or re.search(r"\$\{|\?\?\?", str(value)):
            kept[key] = value
    return kept


def _merged(present: Any, value: Any, name: str) -> Any:
    """Return a value in place of another one; of two mappings the union. KeyError for a key that is not there."""
    if not isinstance(present, dict) or not isinstance(value, dict):
        return value
    for key in value:
        if key not in present:
            raise KeyError(f"{name}.{key}")
    return present | {key: _merged(present[key], entry, f"{name}.{key}") for key, entry in value.items()}


def _as_text(value: Any) -> Any:
    """Return settings in which OmegaConf reads `${` as text."""
    if isinstance(value, Mapping):
        return {key: _as_text(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_as_text(entry) for entry in value]
    return escaped(value) if isinstance(value, str) else value
