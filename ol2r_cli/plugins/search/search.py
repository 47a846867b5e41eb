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
The same command continues a search that was stopped, and a finished one when --trials is larger. Several processes of
the same command share the work. Trials are runs below <output_dir>/search; finished runs are not run again.
exit codes: 0 done, 1 no trial has a value, 2 bad configuration or data, 130 interrupted
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ol2r_cli.columns import main_cutoff
from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.run import DONE, FAILED, INTERRUPTED
from ol2r_cli.text.formatting import say_start

if TYPE_CHECKING:
    from ol2r_cli.plugins.search import result, searcher
    from ol2r_cli.plugins.search import space as spaces
    from ol2r_cli.plugins.search import study as studies
else:
    spaces, studies = lazy("ol2r_cli.plugins.search.space"), lazy("ol2r_cli.plugins.search.study")
    result, searcher = lazy("ol2r_cli.plugins.search.result"), lazy("ol2r_cli.plugins.search.searcher")


@command(
    argument("words", metavar="SETTING=RANGE", nargs="*", help="ranges, and overrides of `ol2r run`"),
    add_config_dir,
    argument(
        "--trials", metavar="N", type=int, default=20, help="number of trials, with those of earlier commands (20)"
    ),
    argument("--minutes", metavar="M", type=float, default=math.inf, help="no trial begins later than that"),
    argument("--metric", metavar="NAME", help="metric of summary.json whose mean is improved (validation_ndcg_10)"),
    argument("--prune", action=argparse.BooleanOptionalAction, help="stop trials below the median (or not)"),
    argument("--seed", metavar="S", type=int, default=0, help="seed of the search, not of the runs (0)"),
    argument("--jobs", metavar="N", type=int, default=1, help="trials at a time, each in a process of its own (1)"),
    argument("--name", metavar="NAME", help="name of the study, in output_dir/.search (default: by what is searched)"),
    argument("--worker", action="store_true", help=argparse.SUPPRESS),
    allow_abbrev=False,
)
def main(given: argparse.Namespace) -> int:
    """Return 1 if no trial has a value."""
    until = time.monotonic() + 60 * given.minutes
    _check_numbers(given)
    if not given.worker:
        say_start("the ranges are checked before the first trial")
    try:
        study = _open_study(given)
        code = _work(study, given, until) if given.worker else _search(study, given, until)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED and not given.worker:
        print("ol2r search: interrupted: the same command goes on from there", file=sys.stderr)
    return code


def _check_numbers(given: argparse.Namespace) -> None:
    for name, least in {"trials": 1, "jobs": 1, "seed": 0}.items():
        number = getattr(given, name)
        if number < least:
            raise ValueError(f"--{name} must be {least} or more, got {number}")
    if not given.minutes > 0:
        raise ValueError(f"--minutes must be above 0, got {given.minutes}")


def _work(study: studies.Study, given: argparse.Namespace, until: float) -> int:
    """Run trials for the process that started this one; return the exit code."""
    completed = searcher.Searcher(study, given.trials, until, parent=os.getppid()).run()
    return DONE if completed else INTERRUPTED


def _search(study: studies.Study, given: argparse.Namespace, until: float) -> int:
    """Run all trials, and print the best one; return the exit code."""
    print(f"search in {study.folder}", flush=True)
    if given.jobs > 1 and not searcher.run_workers(given.typed, given.jobs):
        return INTERRUPTED
    if not searcher.Searcher(study, given.trials, until).run():  # after workers, what is left of killed ones
        return INTERRUPTED
    print(result.render_result(study, study.plan["metric"]))
    return FAILED if study.best() is None else DONE


def _open_study(given: argparse.Namespace) -> studies.Study:
    space = spaces.Space([*as_options(given.config_dir), *given.words])
    config = space.composed().config
    default = f"validation_ndcg_{main_cutoff(map(str, config.measure))}"
    metric = given.metric or default
    better = spaces.direction(metric)
    if given.prune and metric != default:
        raise ValueError(f"--prune goes with --metric {default}, which is known during a run: leave it out")
    prune = metric == default if given.prune is None else given.prune
    if find_spec("optuna") is None:
        raise ValueError("search needs Optuna: type pip install 'ol2r[search]'")
    if not given.worker:
        spaces.check_space(space, metric)
    plan = studies.search_plan(space, metric, prune, given.seed)
    return studies.Study(
        studies.study_folder(config.output_dir, given.name, plan), space, plan, better, int(config.rounds)
    )
