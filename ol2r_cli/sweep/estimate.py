"""How long jobs will take, from the speed of finished runs that are like them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from ol2r_cli.results.manifest import read_manifest
from ol2r_cli.results.survey import find_runs
from ol2r_cli.sweep.cell import Cell


class Speeds:
    """Rounds per second of the finished runs below some folders."""

    def __init__(self, folders: Iterable[Path]):
        self._speeds: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for folder in set(folders):
            for path in find_runs(folder):
                self._note(path)

    def seconds(self, cell: Cell) -> float | None:
        """What is left of a job takes so long: by the median of finished runs with the same ranker, click model,
        dataset and number of replicas, else with any number, else of the same ranker; None where there is none."""
        _, done = cell.state()
        for key in _keys(cell.choices, cell.settings["replicas"]):
            if key in self._speeds:
                return (cell.settings["rounds"] - done) / median(self._speeds[key])
        return None

    def _note(self, path: Path) -> None:
        try:
            manifest = read_manifest(path) or {}
        except ValueError:  # damaged: it says nothing
            return
        speed = manifest.get("rounds_per_second")
        if manifest.get("status") == "finished" and speed:
            for key in _keys(manifest["choices"], len(manifest["seeds"])):
                self._speeds[key].append(float(speed))


def _keys(choices: Mapping[str, str], replicas: int) -> list[tuple[Any, ...]]:
    """What runs of like speed have in common, the best first."""
    alike = tuple(choices.get(group, "") for group in ("ranker", "click", "dataset"))
    return [(*alike, replicas), alike, alike[:1]]
