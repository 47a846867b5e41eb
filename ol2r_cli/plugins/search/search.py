"""`ol2r search SETTING=RANGE ...`: finds the settings with the best validation NDCG by Optuna; each trial is a run.

ranges (quote the brackets):
  'exploration.alpha=float(0,1)'   numbers, uniform            'ranker.l2=log(1e-4,10)'         uniform in the logarithm
  'ranker.members=int(2,10)'       whole numbers, uniform      'ranker.members=logint(2,100)'   uniform in the logarithm
  ranker.reduction=sum,mean        one of these values, or 'choice(sum,mean)'
  ranker=pairrank,pdgd             also components; a ranker ignores ranges of settings that it does not have
examples:
  ol2r search 'ranker.l2=log(1e-4,1)' 'exploration.alpha=log(1e-4,1)' dataset=mq2008 dataset.path=$HOME/MQ2008
  ol2r search ranker=pdgd 'ranker.learning_rate=log(1e-3,1)' click=navigational --trials 30 --jobs 4
  ol2r search ranker=pairrank,olranknet 'ranker.l2=log(1e-4,1)' --minutes 60
The same command continues a search that was stopped, and a finished one when --trials is larger. A launcher plays
trials elsewhere: launcher=slurm --jobs 8. Trials are runs below <output_dir>/search; finished runs are not run again.
exit codes: 0 done, 1 no trial has a value, 2 bad configuration or data, 130 interrupted
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ol2r_cli.columns import main_cutoff
from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.run import DONE, FAILED, INTERRUPTED, exits_when_interrupted
from ol2r_cli.text.formatting import say_start

if TYPE_CHECKING:
    from ol2r_cli.plugins.search.space import Space


@command(
    argument("words", metavar="SETTING=RANGE", nargs="*", help="ranges, and overrides of `ol2r run`"),
    add_config_dir,
    argument(
        "--trials", metavar="N", type=int, default=20, help="number of trials, with those of earlier commands (20)"
    ),
    argument("--minutes", metavar="M", type=float, default=math.inf, help="no trial begins later than that"),
    argument("--metric", metavar="NAME", help="metric of summary.json whose mean is improved (validation_ndcg_10)"),
    argument("--seed", metavar="S", type=int, default=0, help="seed of the search, not of the runs (0)"),
    argument("--jobs", metavar="N", type=int, help="trials at a time, each in a process of its own (1)"),
    argument("--name", metavar="NAME", help="name of the study, in output_dir/.search (default: by what is searched)"),
    allow_abbrev=False,
)
def main(given: argparse.Namespace) -> int:
    """Return 1 if no trial has a value."""
    until = time.monotonic() + 60 * given.minutes
    _check_numbers(given)
    say_start("the ranges are checked before the first trial")
    try:
        code = _search(given, until)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        print("ol2r search: interrupted: the same command goes on from there", file=sys.stderr)
    return code


def _check_numbers(given: argparse.Namespace) -> None:
    for name, least in {"trials": 1, "jobs": 1, "seed": 0}.items():
        number = getattr(given, name)
        if number is not None and number < least:
            raise ValueError(f"--{name} must be {least} or more, got {number}")
    if not given.minutes > 0:
        raise ValueError(f"--minutes must be above 0, got {given.minutes}")


def _search(given: argparse.Namespace, until: float) -> int:
    """Play all trials, and print the best one; return the exit code."""
    with exits_when_interrupted():
        from ol2r_cli.plugins.search.space import Space, check_space, direction

    space = Space([*as_options(given.config_dir), *given.words])
    config = space.composed().config
    metric = given.metric or f"validation_ndcg_{main_cutoff(map(str, config.measure))}"
    better = direction(metric)
    if find_spec("optuna") is None:
        raise ValueError("search needs Optuna: type pip install 'ol2r[search]'")
    with exits_when_interrupted():
        from ol2r_cli.plugins.search.result import render_result
        from ol2r_cli.plugins.search.searcher import Searcher
        from ol2r_cli.plugins.search.study import Study, search_plan, study_folder

    at_a_time, launcher = _at_a_time(given.jobs, space)
    plan = search_plan(space, metric, given.seed)
    study = Study(study_folder(config.output_dir, given.name, plan), space, plan, better)
    checked = check_space(space, metric, [*launcher, study.output_dir])
    if refusal := checked.refusal():
        raise ValueError(refusal)
    with study:
        print(f"search in {study.folder}", flush=True)
        if not Searcher(study, given.trials, at_a_time, until).run(checked):
            return INTERRUPTED
        print(render_result(study, metric))
        return FAILED if study.best() is None else DONE


def _at_a_time(jobs: int | None, space: Space) -> tuple[int, list[str]]:
    """Return how many trials are played at a time, and the words of the launcher, which plays as many by default."""
    settings = space.composer([*space.fixed, *next(space.choices()), *space.launcher]).settings["launcher"]
    at_a_time = jobs or (settings["jobs"] if isinstance(settings.get("jobs"), int) else 1)
    typed = {word.partition("=")[0] for word in space.launcher}
    own = [f"launcher.{name}" for name in ("jobs", "per_gpu") if name in settings]  # those of `Processes`
    return at_a_time, [*space.launcher, *(f"{name}={at_a_time}" for name in own if name not in typed)]
