"""In what two runs were asked for differently: choices, settings, data, and the surroundings they ran in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ol2r_cli.catalogue import Catalogue, dotted
from ol2r_cli.report.override import text
from ol2r_cli.results.identity import NOT_HASHED
from ol2r_cli.results.survey import RunState, read_state

NO_EFFECT = "no effect on results"
SAME_DATA = "the data are the same"
_ABSENT = "-"
_FOLLOWING = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,[^{}]*)?\}")  # ${ranker.l2}, ${oc.select:ranker.l2,1.0}


class Difference(NamedTuple):
    """What one run has and the other has not, as text; `note` says what it means."""

    name: str
    first: str
    second: str
    note: str = ""


@dataclass(frozen=True)
class Side:
    """One of the two runs: its state and its settings by dotted name."""

    path: Path
    state: RunState
    settings: Mapping[str, Any]

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.state.manifest

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Of the choices that come with ol2r, less what only this run's machine knows."""
        choices = [f"{group}={choice}" for group, choice in self.manifest["choices"].items()]
        found = {}
        for name, value in dotted(Catalogue().tree(choices)):
            following = _FOLLOWING.fullmatch(value) if isinstance(value, str) else None
            if following and following[1] in self.settings:
                value = self.settings[following[1]]
            if not (isinstance(value, str) and "${" in value):
                found[name] = value
        return found

    def told(self, name: str) -> str:
        """A setting as it is typed, with a star where it is the default."""
        if name not in self.settings:
            return _ABSENT
        value = self.settings[name]
        return text(value) + "*" * (name in self.defaults and self.defaults[name] == value)


def read(path: Path) -> Side:
    """The run in a directory, in whatever state; ValueError when its manifest or its settings are damaged."""
    state = read_state(path)
    try:
        if state is None or not state.manifest:
            raise ValueError(state.error if state else "there is no run")
        content = yaml.safe_load((path / "config.yaml").read_text())
        return Side(path, state, dict(dotted(content)))
    except (OSError, ValueError, AttributeError, yaml.YAMLError) as error:
        raise ValueError(f"RUN must be a run that can be read, got {path} ({' '.join(str(error).split())})") from None


def choices(first: Side, second: Side) -> list[Difference]:
    """Groups in which they chose differently."""
    return list(_unequal(first.manifest["choices"], second.manifest["choices"]))


def settings(first: Side, second: Side) -> list[Difference]:
    """Settings that differ, or that only one of them has; the class of a choice only where the choice is the same."""
    other = {difference.name.replace("/", ".") for difference in choices(first, second)}
    names = dict.fromkeys([*first.settings, *second.settings])
    return [
        Difference(name, first.told(name), second.told(name), _note(name, same_data(first, second)))
        for name in names
        if name.removesuffix("._target_") not in other
        and first.settings.get(name, ...) != second.settings.get(name, ...)
    ]


def same_data(first: Side, second: Side) -> bool:
    """Whether all that decides the numbers of their datasets is the same."""
    return first.manifest["dataset"]["fingerprint"] == second.manifest["dataset"]["fingerprint"]


def surroundings(first: Side, second: Side) -> list[Difference]:
    """Data, version of the results, versions, commit, device, threads and host, where they differ."""
    return list(_unequal(_surroundings(first.manifest), _surroundings(second.manifest)))


def _surroundings(manifest: Mapping[str, Any]) -> dict[str, Any]:
    git = manifest.get("git")
    return {
        "dataset.fingerprint": manifest["dataset"]["fingerprint"][:12],
        "results_version": manifest["results_version"],
        **manifest["versions"],
        "commit": git and git["commit"][:12] + " and changes" * git["dirty"],
        **{name: manifest.get(name) for name in ("device", "threads", "host")},
    }


def _unequal(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*first, *second]):
        if first.get(name) != second.get(name):
            told = (_ABSENT if side.get(name) is None else str(side[name]) for side in (first, second))
            yield Difference(name, *told)


def _note(name: str, same: bool) -> str:
    parts = name.split(".")
    if parts[0] == "dataset":
        return SAME_DATA if same else ""
    above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return NO_EFFECT if above & NOT_HASHED else ""
