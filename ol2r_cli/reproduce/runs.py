"""Runs what a protocol lacks, chooses settings where it says so, and gathers every line's runs in a group."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ol2r_cli.report.collect import collect
from ol2r_cli.report.groups import Group, groups
from ol2r_cli.reproduce.chosen import chosen
from ol2r_cli.reproduce.protocol import Place, Protocol, Trial
from ol2r_cli.reproduce.words import Words
from ol2r_cli.sweep.cell import Cell
from ol2r_cli.sweep.entry import sweep


@dataclass
class Played:
    """What there is after all runs: the group of every place, the settings it has, and what went wrong.

    code: 0, 3 when some runs failed, 130 when interrupted. from_cells: of how many cells the settings were chosen.
    """

    groups: dict[Place, Group] = field(default_factory=dict)
    settings: dict[Place, Words] = field(default_factory=dict)
    from_cells: dict[Place, int] = field(default_factory=dict)
    failed: list[Cell] = field(default_factory=list)
    code: int = 0


def play(protocol: Protocol) -> Played:
    """All runs of a protocol, finished ones as they are. What cannot be had is left out, and told in `failed`."""
    played = Played()
    launcher = [*(["launcher.jobs=1"] if protocol.recipe.alone and not protocol.launcher else []), *protocol.launcher]
    candidates = list(protocol.candidates())
    best: Mapping[Place, Words] = {}
    if candidates:
        print(f"{_jobs(candidates)} to choose settings by validation", file=sys.stderr)
        found = _groups(candidates, launcher, played)
        if played.code:
            return played
        best = chosen(found)
        for trial in candidates:
            played.from_cells[trial.place] = played.from_cells.get(trial.place, 0) + 1
    final = list(protocol.final(best))
    for trial, group in _groups(final, launcher, played).items():
        played.groups[trial.place], played.settings[trial.place] = group, trial.settings
    return played


def _jobs(trials: Sequence[Trial]) -> str:
    count = sum(len(trial.runs) for trial in trials)
    return f"{count} run{'s' * (count != 1)}"


def _groups(trials: Sequence[Trial], launcher: Sequence[str], played: Played) -> dict[Trial, Group]:
    """The group of every trial whose runs have all finished."""
    runs = list(_distinct(trials))
    result = sweep(runs, launcher, terminal=sys.stderr)
    played.failed += result.failed
    played.code = played.code or result.code
    done = {run: folder for run, folder in zip(runs, result.directories, strict=True) if folder is not None}
    whole = [trial for trial in trials if all(run in done for run in trial.runs)]
    return {trial: _group([done[run] for run in trial.runs]) for trial in whole}


def _distinct(trials: Iterable[Trial]) -> dict[tuple[str, ...], None]:
    return dict.fromkeys(run for trial in trials for run in trial.runs)


def _group(folders: Sequence[Path]) -> Group:
    """One group out of the runs in these folders, which differ in nothing but the fold."""
    found = collect(folders)
    if found.damaged:
        raise ValueError(f"a run is damaged, {found.damaged[0]}: type force=true to run it again")
    (group,) = groups(found.runs)
    return group
