"""Settings in which interpolations, `${device.threads}`, are replaced by the values of the settings that they name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.mistyped import unresolved
from ol2r_cli.config.overrides import escaped


class Resolver:
    """Resolves interpolations by OmegaConf, among the settings that they name, once for the same values of these:
    nodes of all settings would take most of the time in which a job is composed."""

    def __init__(self) -> None:
        self._resolved: dict[str, Any] = {}  # by the settings among which they are

    def __call__(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return nested settings without interpolations.

        ValueError for an interpolation that cannot be resolved, and for a missing value (`???`).
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
        resolved: dict[str, Any] = merged(settings, self._resolved[key], "")
        return resolved


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


def merged(present: Any, value: Any, name: str) -> Any:
    """Return a value in place of another one; of two mappings the union. KeyError for a key that is not there."""
    if not isinstance(present, dict) or not isinstance(value, dict):
        return value
    for key in value:
        if key not in present:
            raise KeyError(f"{name}.{key}")
    return present | {key: merged(present[key], entry, f"{name}.{key}") for key, entry in value.items()}


def as_text(value: Any) -> Any:
    """Return settings in which OmegaConf reads `${` as text."""
    if isinstance(value, Mapping):
        return {key: as_text(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [as_text(entry) for entry in value]
    return escaped(value) if isinstance(value, str) else value
