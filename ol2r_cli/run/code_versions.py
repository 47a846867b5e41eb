"""Which runs have results of other code: of changed files of a user, or of ol2r. Works on manifests alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ol2r_cli.run.directory import MANIFEST, RunDirectory
from ol2r_cli.run.run_state import RunState
from ol2r_cli.run.source import PACKAGE, recorded


class ChangedFile(NamedTuple):
    """A file with two hashes; None where a run has no record of it."""

    name: str
    before: str | None
    after: str | None

    @property
    def texts(self) -> tuple[str, str]:
        """Both hashes, or what it means that there is none."""
        absent = "as released" if self.name.startswith(f"{PACKAGE}/") else "not recorded"
        return self.before or absent, self.after or absent

    def __str__(self) -> str:
        return f"{self.name} ({' -> '.join(self.texts)})"


def code_files(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The files with their hashes that a run has recorded; empty if it is a run of recorded code."""
    code = manifest.get("code")
    files = code.get("files") if isinstance(code, dict) else None
    return {str(name): str(hash) for name, hash in files.items()} if isinstance(files, dict) else {}


def code_groups(manifest: Mapping[str, Any]) -> dict[str, list[str]]:
    """The groups (`ranker`, `ranker/model`) of each file of `code_files`; none for a file that takes part in all."""
    code = manifest.get("code")
    groups = code.get("groups") if isinstance(code, dict) else None
    groups = groups if isinstance(groups, dict) else {}
    return {name: [str(group) for group in groups.get(name) or ()] for name in code_files(manifest)}


def changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[ChangedFile]:
    """The files that differ between two records of code, those first that both have."""
    names = sorted(before.keys() | after.keys(), key=lambda name: (not (name in before and name in after), name))
    return [
        ChangedFile(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    ]


@dataclass(frozen=True)
class EarlierVersion:
    """Why a run is of an earlier version: the choice, such as `nsgd`, and the file that a later run has otherwise."""

    choice: str
    file: str


def versioned(state: RunState) -> tuple[Mapping[str, Any], float]:
    """What `earlier_versions` needs of a run: its manifest, and the time at which `run.json` was written."""
    try:
        return state.manifest, os.stat(state.path / MANIFEST).st_mtime
    except OSError:  # removed meanwhile
        return state.manifest, 0.0


def earlier_versions(manifests: Sequence[tuple[Mapping[str, Any], float]]) -> dict[int, EarlierVersion]:
    """Which finished runs are of an earlier version, by their place in `manifests`.

    A run is of an earlier version if another one with the same choice of a group (`ranker`) was made, or found
    finished, later and has another hash for a file of this group. A file of ol2r that a run does not record has the
    recorded hash. The second part of an entry is the time of that.
    """
    files = [code_files(manifest) for manifest, _ in manifests]
    scopes = {  # (file, group, choice): every scope in which runs can be of different versions
        (name, group, _choice(manifest, group))
        for manifest, _ in manifests
        for name, groups in code_groups(manifest).items()
        for group in groups or [""]
    }
    found: dict[int, EarlierVersion] = {}
    for name, group, choice in sorted(scopes):
        versions = {
            place: version
            for place, (manifest, _) in enumerate(manifests)
            if _choice(manifest, group) == choice and (version := _version(files[place], name)) is not None
        }
        latest = max(versions, key=lambda place: manifests[place][1])
        for place, version in versions.items():
            if version != versions[latest]:
                found.setdefault(place, EarlierVersion(choice or group.removeprefix("measure/") or "ol2r", name))
    return found


def _choice(manifest: Mapping[str, Any], group: str) -> str:
    return str(manifest["choices"].get(group, ""))


def _version(files: Mapping[str, str], name: str) -> str | None:
    """The hash of a file in a run; None if the run does not have the file."""
    return files.get(name) or recorded().get(name, ("", None))[1]


def check_unchanged(path: Path, manifest: Mapping[str, Any], cls: type) -> None:
    """ValueError if the own code of a class that a run used has changed since: it would give other numbers."""
    from ol2r_cli.run.source import of_class

    then = code_files(manifest)
    if then and cls.__module__ != "__main__":
        now = of_class(cls)
        changed = [name for name in now if name in then and now[name] != then[name]]
        if changed:
            raise ValueError(f"{path} is of another version of {changed[0]}: put the file back, or run it again")


def found_again(path: Path) -> None:
    """Make a finished run of own code the latest, because its command was typed again: its code is the present one."""
    with suppress(OSError, ValueError):  # a folder that may not be written to
        if code_files(RunDirectory(path).read_json(MANIFEST)):
            os.utime(path / MANIFEST)


def earlier_lines(versions: Mapping[int, EarlierVersion]) -> list[str]:
    """A line for each choice: how many runs are of an earlier version, and of which file."""
    lines = []
    for choice in dict.fromkeys(version.choice for version in versions.values()):
        of_choice = [version.file for version in versions.values() if version.choice == choice]
        names = list(dict.fromkeys(of_choice))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        runs = f"{len(of_choice)} run{'s' * (len(of_choice) != 1)}"
        lines.append(f"{choice}: {runs} of an earlier version of {names[0]}{more}")
    return lines
