"""`ol2r run`: one experiment, or with -m a sweep."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import NoReturn

from ol2r_cli import loops
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.errors import meant
from ol2r_cli.config.overrides import split_launcher, split_search_path
from ol2r_cli.config.own_choices import add_config_dir, as_options, choice_folders
from ol2r_cli.formatting import HelpFormatter, nearest
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, INTERRUPTED, exits_when_interrupted

_DESCRIPTION = """\
One experiment, or with -m one for every combination of the values listed. A finished run is not run again.

groups and their choices (`ol2r list` says more, `ol2r list GROUP` has their settings):
"""
_EPILOG = """\
settings of the experiment, with their defaults:
  rounds=5000 positions=10 replicas=1 seed=0 evaluate_every=100 output_dir=outputs force=false ..
  ol2r list run describes all; ol2r run --cfg job [GROUP=CHOICE ...] shows all values, and runs nothing

examples:
  ol2r run                                            PairRank on generated data
  ol2r run click=navigational rounds=2000 replicas=5  five seeds at once
  ol2r run dataset=mq2008 dataset.path=$HOME/MQ2008   real data
  ol2r run -m ranker.l2=0.1,0.01 'seed=range(0,3)'    a sweep of six runs
  ol2r run 'measures=[ndcg,err@5,ctr]'                other measures
"""


class _Parser(argparse.ArgumentParser):
    """Raises ValueError, of one line that says what to type, instead of ending the process.

    The help lists the choices in `folders`, too, and in those that are found without being typed.
    """

    folders: Sequence[Path] = ()

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)

    def format_help(self) -> str:
        self.description = _DESCRIPTION + _choices(self.folders)  # read from the YAML files only when the help is shown
        return super().format_help()


def parser() -> _Parser:
    """The options of `ol2r run`; everything else on the command line is an override, which Hydra reads."""
    options = _Parser(
        prog="ol2r run",
        usage="ol2r run [-m] [GROUP=CHOICE ...] [SETTING=VALUE ...]",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("overrides", nargs="*", help=argparse.SUPPRESS)
    add = options.add_argument
    add("-m", "--multirun", action="store_true", help="a sweep: values by commas, or as range(0,5); launcher.jobs=4")
    add("--paired", action="append", metavar="A,B", default=[], help="with -m: the values of A and B go together")
    add("--keep-going", action="store_true", help="with -m: run the good jobs although others are bad")
    one_of = options.add_mutually_exclusive_group().add_argument
    one_of("--json", action="store_true", help="print the finished run as JSON, or with -m a list of all")
    one_of("--quiet", "-q", action="store_true", help="print warnings and errors only")
    one_of("--dry-run", action="store_true", help="list what would be run, and how long it would take")
    one_of("--cfg", "-c", choices=("job", "hydra", "all"), help="show the configuration that would be run")
    add("--package", "-p", metavar="NODE", help="with --cfg: only this part of it, such as ranker.model")
    add("--resolve", action="store_true", help="with --cfg: with interpolations replaced by their values")
    add_config_dir(options)
    return options


def main(arguments: list[str]) -> int:
    """Run what the arguments say and return the exit code."""
    try:
        given = _parsed(arguments)
        if given.cfg:
            return _show_configuration(given)
        if given.multirun or given.dry_run:
            return _sweep(given)
        return _run(given)
    except ValueError as error:
        print(f"ol2r run: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; `folders` are the words that name folders. ValueError for options that do not fit each other."""
    options = parser()
    rest, options.folders = split_search_path(arguments)
    if {"-h", "--help"} & set(arguments):
        options.parse_args(["--help"])
    given, unknown = options.parse_known_intermixed_args(rest)
    if unknown:
        known = [option for action in options._actions for option in action.option_strings]
        name, _, value = unknown[0].lstrip("-").replace("-", "_").partition("=")
        after = [*rest[rest.index(unknown[0]) + 1 :], ".."][0]
        catalogue = Catalogue([folder.path for folder in choice_folders(options.folders)])
        hint = meant(name, value or after, given.overrides, catalogue) or nearest(unknown[0], known)
        raise ValueError(f"there is no option {unknown[0]}{hint or ': see `ol2r run --help`'}")
    given.folders = as_options(options.folders)
    given.paired = [[name for name in names.split(",") if name] for names in given.paired]
    for names in given.paired:
        if len(names) < 2:
            raise ValueError(f"--paired must be followed by two or more settings, as in A,B, got '{','.join(names)}'")
    for option, used in (("--paired", given.paired), ("--keep-going", given.keep_going)):
        if used and not given.multirun:
            raise ValueError(f"{option} is for several runs: add -m")
    for option, used in (("--package", given.package), ("--resolve", given.resolve)):
        if used and not given.cfg:
            raise ValueError(f"{option} is for showing a configuration: add --cfg job")
    return given


def _show_configuration(given: argparse.Namespace) -> int:
    """`--cfg`: the configuration as YAML; with -m that of the first job."""
    from omegaconf import OmegaConf

    from ol2r_cli.config.composer import Composer

    composer = Composer([*given.overrides, *given.folders])
    overrides = composer.jobs(given.overrides, given.paired)[0] if given.multirun else given.overrides
    config = composer.shown(overrides, given.cfg)
    if given.resolve:
        OmegaConf.resolve(config)
    if given.package:
        config = OmegaConf.select(config, given.package)
        if not OmegaConf.is_config(config):
            raise ValueError(f"--package must be a part of the configuration, such as ranker, got {given.package}")
        print(f"# @package {given.package}")
    print(OmegaConf.to_yaml(config), end="")
    return DONE


def _sweep(given: argparse.Namespace) -> int:
    """`-m` and `--dry-run`."""
    with exits_when_interrupted():
        from ol2r_cli.config.composer import Composer
        from ol2r_cli.run.run import Run
        from ol2r_cli.run.store import as_json
        from ol2r_cli.run.summary import record
        from ol2r_cli.sweep.sweep_output import print_plan, print_summary
        from ol2r_cli.sweep.sweeper import run_sweep

    composer = Composer([*given.overrides, *given.folders])
    jobs = composer.jobs(given.overrides, given.paired) if given.multirun else [given.overrides]
    if given.dry_run:
        return print_plan(jobs, composer, given.keep_going)
    result = run_sweep(jobs, composer, keep_going=given.keep_going, terminal=None if given.quiet else sys.stderr)
    with redirect_stdout(io.StringIO()) if given.quiet or given.json else nullcontext():
        print_summary(result)  # on stderr are the reasons of failures
    if given.json:
        print(as_json([path and record(Run.read_finished(path)) for path in result.directories]))
    return result.code


def _run(given: argparse.Namespace) -> int:
    """One run. Torch is imported after everything that can be checked without it."""
    with exits_when_interrupted():
        from ol2r_cli.config.composer import Composer, check_grid

        composer = Composer([*given.overrides, *given.folders])
        composition = composer(given.overrides)
        words = [*split_launcher(given.overrides)[0], *composer.options]
        check_grid(composition, words, "add -m")

        from ol2r_cli.run.runner import run_experiment
        from ol2r_cli.run.store import as_json
        from ol2r_cli.run.summary import record
        from ol2r_cli.run.summary import render as render_text

        if composition.config.device.get("engine") != "tensors" and loops.available():
            _ = loops.random_numbers  # imports all loops, and numba, which must not be interrupted

    render = None if given.quiet else (lambda run, _: as_json(record(run))) if given.json else render_text
    return run_experiment(composition.config, composition.choices, words, render=render)


def _choices(named: Sequence[Path]) -> str:
    """A line for each group, with the names of its choices, own ones included."""
    catalogue = Catalogue([folder.path for folder in choice_folders(named)])
    return "\n".join(f"{group}: {', '.join(catalogue.choices[group])}" for group in catalogue.groups)
