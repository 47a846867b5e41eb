"""One trial of a search: its run, its metric, and the check of the whole space before the first trial.

A metric is a mean of summary.json over the replicas, never one of the test split. The default is validation NDCG at the
cutoff of `main_cutoff`, the only metric that is known during a run, so that trials can be pruned by it.
"""

from __future__ import annotations

import io
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from ol2r_cli.columns import main_cutoff
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.run.code import own_code
from ol2r_cli.run.exit_status import DONE, FAILED
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.run import Run
from ol2r_cli.run.runner import Runner, ValidationCallback
from ol2r_cli.run.store import RunningElsewhere
from ol2r_cli.search.space import Space
from ol2r_cli.sweep.plan import Plan

Direction = Literal["minimize", "maximize"]

_VALIDATION = tuple(f"validation_ndcg_{cutoff}" for cutoff in (1, 3, 5, 10))
_ONLINE = ("online_ndcg", "online_ndcg_last_tenth", "cumulative_ndcg")
_MINIMISED = ("regret", "unfairness", "violations")
METRICS = (*_VALIDATION, *_ONLINE, *_MINIMISED)
_AT_CUTOFF = re.compile(r"validation_ndcg_\d+|online_ndcg_\d+(_last_tenth)?|cumulative_ndcg_\d+")
_PAUSE = 2.0  # seconds between attempts at a run that another process is running


def direction(metric: str) -> Direction:
    """The direction in which a metric is better; ValueError for a metric that cannot be searched by."""
    if metric.startswith("test_"):
        raise ValueError(f"--metric must not look at the test split, got {metric}: type {_VALIDATION[-1]}, the default")
    if metric not in METRICS and not _AT_CUTOFF.fullmatch(metric):
        raise ValueError(f"--metric must be one of {', '.join(METRICS)}, got {metric}")
    return "minimize" if metric in _MINIMISED else "maximize"


@dataclass(frozen=True)
class TrialOutcome:
    """The end of a trial's run: exit code, directory, reason of a failure, and whether it was finished before."""

    code: int
    path: Path
    reason: str = ""
    finished_before: bool = False


def run_trial(
    composer: Composer,
    overrides: Sequence[str],
    callback: ValidationCallback | None = None,
    stop: Sequence[int] = (),
) -> TrialOutcome:
    """Run `ol2r run OVERRIDES` without its output, to the end or until `callback` (see `Runner`) stops it.

    A run that another process is running is waited for. KeyboardInterrupt when a signal fills `stop` before the first
    round; ValueError for a bad configuration.
    """
    words = [*split_search_path(overrides)[0], *composer.options]
    with torch.inference_mode(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        while True:
            composition = composer(overrides)
            experiment = Experiment(composition.config, composition.choices)
            path = experiment.directory.path
            if experiment.finished():
                return TrialOutcome(DONE, path, finished_before=True)
            runner = Runner(experiment, f"ol2r run {shlex.join(words)}", callback)
            try:
                with experiment.directory:
                    if stop:
                        raise KeyboardInterrupt
                    code = runner.run()
            except RunningElsewhere:
                if stop:
                    raise KeyboardInterrupt from None
                time.sleep(_PAUSE)
                continue
            run = Run.read(path) if code == FAILED else None
            return TrialOutcome(code, path, (run and run.error) or "")


def check_space(space: Space, metric: str) -> None:
    """Check the corners of a space like the jobs of a sweep; ValueError for the first that is no experiment.

    They are those of one range at a time, for every combination of groups (`ranker=pairrank,pdgd`).
    """
    jobs: list[list[str]] = []
    used: set[str] = set()
    for choices in space.choices():
        ranges = space.applying(choices)
        used.update(range.name for range in ranges)
        first = [*space.fixed, *choices, *(f"{range.name}={range.corners[0]}" for range in ranges)]
        jobs.append(first)
        for range in ranges:
            others = [word for word in first if not word.startswith(f"{range.name}=")]
            jobs += [[*others, f"{range.name}={corner}"] for corner in range.corners[1:]]
    if bad := Plan(jobs, space.composer, check=partial(check_metric, metric)).bad:
        raise ValueError(bad[0].reason)
    choices = next(space.choices())
    for range in space.ranges:
        if range.name not in used and not any(word.startswith(f"{range.name}=") for word in choices):
            space.composer([*space.fixed, *choices, f"{range.name}={range.corners[0]}"])  # says what is wrong
            raise ValueError(f"{range.name} must be a setting of what is searched: see `ol2r list`")


def codes_of(space: Space) -> list[str]:
    """The hashes of the user's own code for all choices of a space."""
    settings = (space.composer([*space.fixed, *choices]).settings for choices in space.choices())
    return sorted({hash for each in settings for hash in own_code(each).values()})


def check_metric(metric: str, experiment: Experiment) -> None:
    """Raises ValueError, with the override to type, when the experiment's summary would not have the metric."""
    at_cutoff = f"ndcg@{main_cutoff([metric.removesuffix('_last_tenth')])}"
    name = "ndcg" if metric in METRICS else at_cutoff
    if "ndcg" in metric and not {name, at_cutoff} & experiment.measures.keys():
        raise ValueError(f"measures must have {name} for --metric {metric}: leave measures out, or add {name}")
    if metric.startswith("validation_"):
        if not experiment.roles["ranker"].generalises:
            name = experiment.choices["ranker"]
            raise ValueError(f"ranker={name} is not evaluated on queries that are new to it: type --metric online_ndcg")
        if "validation" not in experiment.settings["evaluate_on"]:
            raise ValueError(f"evaluate_on must have validation for --metric {metric}: leave evaluate_on out")
        if not len(experiment.dataset.splits.get("validation", ())):
            raise ValueError(f"dataset must have a validation split for --metric {metric}, got none")
    if metric == "regret" and not experiment.settings["trace_regret"]:
        raise ValueError("trace_regret must be true for --metric regret: type trace_regret=true")
    if metric == "unfairness" and experiment.dataset.group is None:
        raise ValueError("dataset must have two groups for --metric unfairness: type dataset.group={..}")
