"""What a sweep will do, before it does anything: every job composed, built and found its directory, or refused."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from ol2r_cli.compose import build, check_grid
from ol2r_cli.experiment import Experiment
from ol2r_cli.simulation import check_needs
from ol2r_cli.sweep.cell import Cell, name_cells
from ol2r_cli.sweep.compositions import Composer, Composition, plain
from ol2r_cli.sweep.reasons import in_one_line

_FITTING = ("device", "positions", "exposure", "beta", "trace_blocks", "trace_regret", "no_relevant")  # of the run


class Plan:
    """The jobs of a sweep, checked. `merged` are those that are the same run as another, told by that one's number."""

    def __init__(self, jobs: Sequence[Sequence[str]], composer: Composer, told: Callable[[int], None] = lambda _: None):
        self.cells = [
            Cell(number, tuple(words), options=tuple(composer.options())) for number, words in enumerate(jobs)
        ]
        name_cells(self.cells)
        self.merged: dict[int, int] = {}
        compositions = {cell: found for cell in self.cells if (found := _composed(cell, composer)) is not None}
        of_dataset: dict[str, list[Cell]] = defaultdict(list)
        for cell, composition in compositions.items():
            of_dataset[_written(composition.config.dataset)].append(cell)
        with torch.inference_mode():
            for cells in of_dataset.values():  # one dataset in memory at a time
                check = _Check()
                for cell in cells:
                    check(cell, compositions[cell])
                    told(sum(bool(one.directory or one.bad) for one in self.cells))
        self._merge()

    @property
    def good(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.bad]

    @property
    def bad(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.bad]

    def _merge(self) -> None:
        """Two jobs in one directory would be one run twice."""
        first: dict[Any, int] = {}
        for cell in self.good:
            there = first.setdefault(cell.directory, cell.number)
            if there != cell.number:
                self.merged[cell.number] = there
        self.cells = [cell for cell in self.cells if cell.number not in self.merged]


class _Check:
    """Builds the jobs of one dataset without a round played. Equal parts are built once, and so is the dataset."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._fitting: dict[Any, str] = {}

    def __call__(self, cell: Cell, composition: Composition) -> None:
        config, choices = composition.config, composition.choices
        try:
            check_grid(composition.grid, choices.get("experiment"), cell.words, "sweep one grid at a time")
            experiment = Experiment(config, choices, self._make)
            if refused := self._refusal(experiment):
                raise ValueError(refused)
        except (ValueError, OSError) as error:
            cell.bad, cell.reason = True, in_one_line(error)
            return
        cell.settings, cell.choices = plain(config), choices
        cell.directory = experiment.directory.path

    def _make(self, node: DictConfig) -> Any:
        key = f"{node._key()}: {_written(node)}"
        if key not in self._made:
            made = _outcome_of(lambda: build(node))
            self._made[key] = _Loaded(made) if node._key() == "dataset" and not isinstance(made, Exception) else made
        if isinstance(self._made[key], Exception):
            raise self._made[key]
        return self._made[key]

    def _refusal(self, experiment: Experiment) -> str:
        """Why the roles do not fit each other or the data: they are set up for one round. Equal ones are tried once.

        With a skyline that is not tried: it learns from the labels when it is set up.
        """
        settings, roles = experiment.settings, experiment.roles
        decisive = [settings[name] for name in (*roles, *_FITTING)]
        key = json.dumps(decisive, sort_keys=True, default=str)
        if key not in self._fitting:
            self._fitting[key] = ""
            try:
                check_needs(roles)
                if not roles["ranker"].needs_labels:
                    trial = copy.copy(experiment)
                    trial.settings, trial.seeds = {**settings, "rounds": 1}, experiment.seeds[:1]
                    trial.roles = {group: build(experiment.config[group]) for group in roles}
                    trial.simulation()
            except ValueError as error:
                self._fitting[key] = str(error)
            except Exception as error:  # of a role of one's own, or of torch: no reason to give up the other jobs
                self._fitting[key] = f"{type(error).__name__}: {error}"
        return self._fitting[key]


class _Loaded:
    """A dataset's configuration that loads it once."""

    def __init__(self, source: Any):
        self._source, self._dataset = source, None

    def load(self) -> Any:
        if self._dataset is None:
            self._dataset = _outcome_of(self._source.load)
        if isinstance(self._dataset, Exception):
            raise self._dataset
        return self._dataset


def _composed(cell: Cell, composer: Composer) -> Composition | None:
    try:
        return composer(cell.words)
    except ValueError as error:
        cell.bad, cell.reason = True, in_one_line(error)
        return None


def _outcome_of(make: Callable[[], Any]) -> Any:
    """What it makes, or the error it ends with, so that the next job with the same part is told the same."""
    try:
        return make()
    except (ValueError, OSError) as error:
        return error


def _written(node: DictConfig) -> str:
    return json.dumps(OmegaConf.to_container(node, resolve=True), sort_keys=True, default=str)
