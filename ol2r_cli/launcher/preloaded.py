"""What jobs find in memory: generated data and machine code, in the process that imports this module and forks them.

It starts no thread, which would not survive a fork: it uses no polars, and loads nothing for jobs of several threads or
on a GPU. Neither does it for own classes, since a job could then find what another one's code has left.
"""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ol2r_cli.config.catalogue import targets
from ol2r_cli.config.instantiate import build
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.store import checkout_in_memory
from ol2r_cli.run.versions import versions
from ol2r_cli.source import is_shipped

VARIABLE = "OL2R_PRELOADED"  # of the environment: a file with the payloads of runs
GENERATED = "ol2r_cli.dataset.synthetic.Synthetic"
_ROUNDS = 5  # that are played, which calls all loops
_sources: dict[str, Any] = {}  # generated datasets, by their settings; files could change, and are mapped quickly


def make(settings: Mapping[str, Any], group: str) -> Any:
    """Build the object that the settings of a group name, unless it is a dataset in memory."""
    source = _sources.get(json.dumps(settings, sort_keys=True)) if group == "dataset" else None
    return source or build(settings, group)


def load(run: Mapping[str, Any]) -> None:
    """Keep the data of a run, and play its first rounds with one replica."""
    settings, own = run["config"], [name for _, name in targets(run["config"]) if not is_shipped(name)]
    if own or settings["device"]["threads"] > 1:
        return
    if settings["dataset"]["_target_"] == GENERATED:
        source = SimpleNamespace(load=cache(make(settings["dataset"], "dataset").load))
        _sources[json.dumps(settings["dataset"], sort_keys=True)] = source
    with torch.inference_mode(), warnings.catch_warnings(action="ignore"):
        trial = Experiment(settings, run["choices"], make).renewed(1, _ROUNDS)
        if not trial.roles["ranker"].needs_labels:  # such a ranker learns when it is set up
            simulation = trial.simulation()
            for _ in simulation.play_until(lambda _: False):
                pass
            for evaluator in trial.evaluators():
                for count in 1, 2, 3:  # snapshots: arrays of several layouts
                    evaluator(simulation.ranker, torch.stack([simulation.ranker.deploy()] * count), [_ROUNDS] * count)


if VARIABLE in os.environ:
    checkout_in_memory(), versions()  # both are kept in memory
    payloads: list[bytes] = []
    with suppress(FileNotFoundError):  # of a job whose server has not imported this: the file is gone by then
        payloads = pickle.loads(Path(os.environ[VARIABLE]).read_bytes())
    with redirect_stdout(None), redirect_stderr(None):
        for payload in payloads:
            with suppress(Exception):  # the jobs will tell
                load(pickle.loads(payload))
