"""`ol2r search SETTING=RANGE ...`: looks for the settings with the best validation NDCG by Optuna; trials are runs."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ol2r_cli.search.space import Space

DONE, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130  # exit codes

EPILOG = """ranges (brackets want quotes around them):
  'exploration.alpha=float(0,1)'   numbers, evenly             'ranker.l2=log(1e-4,10)'         evenly in the logarithm
  'ranker.members=int(2,10)'       whole numbers, evenly       'ranker.members=logint(2,100)'   evenly in the logarithm
  ranker.reduction=sum,mean        one of these, or 'choice(sum,mean)'
  ranker=pairrank,pdgd             also of the rankers; a range of a setting that one lacks is left out with that one
examples:
  ol2r search 'ranker.l2=log(1e-4,1)' 'exploration.alpha=log(1e-4,1)' dataset=mq2008 dataset.path=$HOME/MQ2008
  ol2r search ranker=pdgd 'ranker.learning_rate=log(1e-3,1)' click=navigational --trials 30 --jobs 4
  ol2r search ranker=pairrank,olranknet 'ranker.l2=log(1e-4,1)' --minutes 60
Asked again, it goes on where it stopped, whatever stopped it; with more --trials it goes further. Several of the same
command at once share the work. Trials are ordinary runs below output_dir: those that are finished are not run again.
exit codes: 0 done, 1 no trial has a value, 2 bad configuration or data, 130 interrupted
"""


def main(arguments: list[str]) -> int:
    """Search, and return the exit code."""
    parser = _parser()
    given, words = parser.parse_known_intermixed_args(arguments)
    try:
        if unknown := next((word for word in words if word.startswith("-")), ""):
            raise ValueError(f"there is no option {unknown}: see `ol2r search --help`")
        return _search(given, arguments)
    except (ValueError, OSError) as error:
        print(f"ol2r search: {error}", file=sys.stderr)
        return BAD
    except KeyboardInterrupt:
        return _interrupted()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "ol2r search",
        usage="ol2r search SETTING=RANGE [SETTING=RANGE ...] [OVERRIDE ...] [--trials N] [--minutes M] [--jobs N]\n"
        "                   [--metric NAME] [--no-prune] [--seed S] [--name NAME]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "words", metavar="SETTING=RANGE", nargs="*", help="what is searched, and overrides of `ol2r run`"
    )
    parser.add_argument("--config-dir", "-cd", metavar="DIR", action="append", default=[], help="choices of your own")
    parser.add_argument("--trials", metavar="N", type=int, default=20, help="how many there are to be in all (20)")
    parser.add_argument("--minutes", metavar="M", type=float, default=math.inf, help="no trial begins later than that")
    parser.add_argument("--metric", metavar="NAME", help="mean in summary.json to improve (validation_ndcg_10)")
    parser.add_argument("--prune", action=argparse.BooleanOptionalAction, help="stop trials below the median (or not)")
    parser.add_argument(
        "--seed", metavar="S", type=int, default=0, help="of the drawing of settings, not of the runs (0)"
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="trials at a time, each in a process (1)")
    parser.add_argument("--name", metavar="NAME", help="of the study, below output_dir/.search (from what is searched)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def _search(given: argparse.Namespace, arguments: list[str]) -> int:
    started = time.monotonic()
    _check(given)
    from ol2r_cli.search.objective import USUAL, direction
    from ol2r_cli.search.space import Space

    metric = given.metric or USUAL
    best_is = direction(metric)
    if given.prune and metric != USUAL:
        raise ValueError(
            f"--prune goes with --metric {USUAL}, which evaluations along the way tell ahead: leave it out"
        )
    own = [word for folder in given.config_dir for word in ("--config-dir", folder)]
    space = Space([*own, *given.words])
    _import_optuna()
    prune = metric == USUAL if given.prune is None else given.prune
    study = _study(given, space, {"metric": metric, "prune": prune, "seed": given.seed}, best_is)
    from ol2r_cli.search.loop import Loop
    from ol2r_cli.search.told import closing

    until = started + 60 * given.minutes
    if given.worker:
        import os

        return DONE if Loop(study, given.trials, until, parent=os.getppid()).run() else INTERRUPTED
    print(f"search in {study.folder}", flush=True)
    if given.jobs > 1:
        from ol2r_cli.search.workers import work

        ended = work(study, arguments, given.jobs)
    else:
        ended = Loop(study, given.trials, until).run()
    if not ended:
        return _interrupted()
    print(closing(study, metric))
    return FAILED if study.best() is None else DONE


def _interrupted() -> int:
    print("ol2r search: interrupted: the same command goes on from there", file=sys.stderr)
    return INTERRUPTED


def _check(given: argparse.Namespace) -> None:
    for name, least in {"trials": 1, "jobs": 1, "seed": 0}.items():
        if getattr(given, name) < least:
            raise ValueError(f"--{name} must be {least} or more, got {getattr(given, name)}")
    if not given.minutes > 0:
        raise ValueError(f"--minutes must be above 0, got {given.minutes}")


def _import_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise ValueError("search needs Optuna: type pip install 'ol2r[search]'") from None


def _study(given: argparse.Namespace, space: Space, more: dict[str, Any], direction: Any) -> Any:
    """The study of this command, once its space has been checked."""
    from ol2r_cli.search.check import check_space
    from ol2r_cli.search.plan import plan, study_folder, usual_name
    from ol2r_cli.search.study import Study
    from ol2r_cli.search.trial import configured

    if not given.worker:
        check_space(space, more["metric"])
    groups = next(space.choices())
    config, _ = configured([*space.fixed, *groups])
    searched = plan(space, **more)
    folder = study_folder(config.output_dir, given.name or usual_name(searched))
    return Study(folder, space, searched, direction, int(config.rounds))
