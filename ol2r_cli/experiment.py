"""Builds what a configuration names, finds its run directory, and sees one run through to an exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from ol2r_cli.catalogue import Catalogue
from ol2r_cli.compose import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.evaluation import Evaluator
from ol2r_cli.exposure import exposure_of
from ol2r_cli.interfaces import Ranker
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.extension import extend
from ol2r_cli.results.identity import identity, run_path
from ol2r_cli.results.manifest import read_manifest
from ol2r_cli.results.schema import INTERACTIONS, TRACE
from ol2r_cli.results.summary import render
from ol2r_cli.shapes import Float
from ol2r_cli.simulation import Simulation

_NUMBERS = {"rounds": 1, "replicas": 1, "positions": 1, "seed": 0, "evaluate_every": 1, "checkpoint_every": 0}


class Experiment:
    """A configuration, checked, with its dataset and its run directory; `simulation()` makes the parts that learn.

    `make` turns a node of the configuration into the object it names; a sweep makes equal ones once.
    """

    def __init__(self, config: DictConfig, choices: Mapping[str, str], make: Callable[[DictConfig], Any] = build):
        self.settings: dict[str, Any] = _plain(config)
        _check(self.settings)
        self.config, self.choices = config, choices
        self.device = make(config.device)
        self.device.prepare()
        self.roles = {group: make(config[group]) for group in ("click", "ranker", "exploration", "fairness")}
        self.dtype = self.device.dtype or self.roles["ranker"].dtype
        if self.settings["trace_cosine"] and not self.roles["ranker"].linear:
            raise ValueError(
                f"trace_cosine=true needs a ranker with linear weights: leave it out with ranker={choices['ranker']}"
            )
        self.dataset: Dataset = make(config.dataset).load()
        self.seeds = [self.settings["seed"] + replica for replica in range(self.settings["replicas"])]
        self.id = self.id_with(self.settings["rounds"])
        self.directory = RunDirectory(run_path(self.settings["output_dir"], choices, self.id))

    def id_with(self, rounds: int) -> str:
        """The id of the run with these settings but so many rounds."""
        precision = str(self.dtype).removeprefix("torch.")
        decisive = {**self.settings, "rounds": rounds, "device": {**self.settings["device"], "dtype": precision}}
        return identity(decisive, self.dataset.fingerprint)

    def told_choices(self) -> dict[str, str]:
        """What was chosen for the dataset, the roles and their parts (`ranker/model`), as the manifest has it."""
        groups = ("dataset", *self.roles)
        parts = [group for group in self.choices if "/" in group and group.partition("/")[0] in groups]
        return {group: self.choices[group] for group in (*groups, *sorted(parts))}

    def finished(self) -> bool:
        """Whether this very run has been done before and may stand."""
        try:
            manifest = read_manifest(self.directory.path)
        except ValueError:  # a damaged manifest is no finished run
            return False
        return manifest is not None and manifest["status"] == "finished" and not self.settings["force"]

    def extend(self, command: str) -> dict[str, Any] | None:
        """The state at the end of a finished run of fewer rounds, whose files are then in the (held) directory, if
        there is one to go on from; `force=true` never does."""
        if self.settings["force"]:
            return None
        return extend(
            self.directory,
            self.id_with,
            rounds=self.settings["rounds"],
            evaluate_every=self.settings["evaluate_every"],
            command=command,
            device=self.device.label,
            foresees=next((role.foresees for role in self.roles.values() if role.foresees), ""),
            tables=[TRACE.file, *([INTERACTIONS.file] if self.settings["save_interactions"] else [])],
        )

    def simulation(self) -> Simulation:
        """The roles on the training queries, ready for round 1; ValueError where they do not fit each other."""
        settings = self.settings
        return Simulation(
            self.dataset,
            **self.roles,
            seeds=torch.tensor(self.seeds, device=self.device.torch),
            rounds=settings["rounds"],
            positions=settings["positions"],
            dtype=self.dtype,
            no_relevant=settings["no_relevant"],
            exposure=exposure_of(
                self.dataset,
                build(self.config.click),
                settings["positions"],
                settings["exposure"],
                settings["beta"],
                needed=self.roles["fairness"].rearranges,
            ),
            trace_blocks=settings["trace_blocks"],
            trace_regret=settings["trace_regret"],
        )

    def evaluators(self) -> list[Evaluator]:
        """One per split that is asked for and that the dataset has."""
        seeds = torch.tensor(self.seeds, device=self.device.torch)
        there = [name for name in self.settings["evaluate_on"] if len(self.dataset.splits.get(name, ()))]
        return [Evaluator(self.dataset, split, seeds, self.settings["no_relevant"], self.dtype) for split in there]

    def offline_weights(self, simulation: Simulation) -> Float[Tensor, "F"] | None:
        """The weights of ranker=offline_ranknet as it comes, fitted to this dataset; None without `trace_cosine`."""
        if not self.settings["trace_cosine"]:
            return None
        choice = dict(Catalogue().choices["ranker"]["offline_ranknet"].content)
        choice.pop("defaults", None)
        offline: Ranker = build(OmegaConf.create({"ranker": choice, "cache_dir": self.settings["cache_dir"]}).ranker)
        offline.setup(simulation.sizes, self.dataset.features, self.dataset.oracle())
        return offline.deploy()[0]


def run_experiment(config: DictConfig, choices: Mapping[str, str], overrides: list[str]) -> int:
    """Run what `config` says unless it is finished; returns the exit code of `ol2r run`.

    What is wrong with the configuration or the data is one line on stderr, and nothing has been written by then.
    """
    from ol2r_cli.sitting import Sitting

    with torch.inference_mode():
        try:
            experiment = Experiment(config, choices)
            if experiment.finished():
                print(_finished(experiment))
                return 0
            words = [
                word for word in overrides if word.lstrip("+").partition("=")[0] != "force"
            ]  # that would start over
            sitting = Sitting(experiment, f"ol2r run {shlex.join(words)}".strip())
            with experiment.directory:
                return sitting.run()
        except ValueError as error:
            print(f"ol2r run: {error}", file=sys.stderr)
            return 2


def _finished(experiment: Experiment) -> str:
    directory = experiment.directory
    shown = render(directory.read_json("summary.json"), directory.read_json("run.json"), directory.path)
    return f"{shown}\n(done before: force=true runs it again)"


def _plain(config: DictConfig) -> dict[str, Any]:
    from omegaconf.errors import OmegaConfBaseException

    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ValueError(str(error).splitlines()[0]) from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _check(settings: Mapping[str, Any]) -> None:
    """The settings of run.yaml itself; every other part checks its own."""
    for name, least in _NUMBERS.items():
        value = settings[name]
        whole = isinstance(value, int) or (name == "checkpoint_every" and isinstance(value, float))
        if not whole or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be a whole number from {least} up, got {value!r}")
    if settings["no_relevant"] not in ("zero", "skip"):
        raise ValueError(f"no_relevant must be 'zero' or 'skip', got {settings['no_relevant']!r}")
    asked = settings["evaluate_on"]
    if not isinstance(asked, list) or set(asked) - {"validation", "test"}:
        raise ValueError(f"evaluate_on must be a list of validation and test, got {asked}")
    for name in "force", "trace_blocks", "trace_regret", "trace_cosine", "save_interactions", "keep_checkpoint":
        if not isinstance(settings[name], bool):
            raise ValueError(f"{name} must be true or false, got {settings[name]!r}")
    asked = settings["block_rounds"]
    if not isinstance(asked, list) or not all(isinstance(t, int) and 1 <= t <= settings["rounds"] for t in asked):
        raise ValueError(f"block_rounds must be a list of rounds from 1 to {settings['rounds']}, got {asked}")
    rounds = settings["checkpoint_rounds"]
    if rounds is not None and not (isinstance(rounds, int) and rounds >= 1):
        raise ValueError(f"checkpoint_rounds must be null or 1 and more, got {rounds!r}")
