"""`ol2r run`: One experiment, or with -m one for every combination of the listed values.
A finished run is not run again.

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

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING

from ol2r_cli import loops
from ol2r_cli.commands.command import Parser, argument, command
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.mistyped import meant
from ol2r_cli.config.overrides import full_names, replaced, split_launcher, split_search_path
from ol2r_cli.config.own_choices import add_config_dir, as_options, choice_folders
from ol2r_cli.files import as_json
from ol2r_cli.run import BAD_CONFIGURATION, DONE, exits_when_interrupted
from ol2r_cli.run.kind import KIND
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import plural, printable, say_start
from ol2r_cli.text.program import as_called

if TYPE_CHECKING:
    from ol2r_cli.config.composer import Composer
    from ol2r_cli.plugins import RunKind

_FEW = 50  # jobs of a sweep that are composed before torch is imported
_CHOICES = "groups and their choices (`ol2r list` says more, `ol2r list GROUP` has their settings):"


# Options of Hydra's programs, with what to type here.
_OF_HYDRA = {
    "--config-name": ": type experiment=NAME, a file experiment/NAME.yaml in a folder named by --config-dir",
    "--config-path": ": type --config-dir DIR",
}


class RunParser(Parser):
    """Lists the choices in its help, with those in the folders of the words, and knows what other options may mean."""

    def format_help(self) -> str:
        catalogue = self._catalogue()  # read from the YAML files only when the help is shown
        groups = (f"{group}: {', '.join(catalogue.choices[group])}" for group in catalogue.groups)
        self.description = "\n".join([f"{self.description}\n", _CHOICES, *groups])
        return super().format_help()

    def hint(self, option: str, given: argparse.Namespace) -> str:
        """Return what is meant by an option: one of Hydra's, or a setting with hyphens before it."""
        of_hydra = option.partition("=")[0]
        if of_hydra in _OF_HYDRA:
            return _OF_HYDRA[of_hydra]
        name, _, value = option.lstrip("-").replace("-", "_").partition("=")
        after = next(iter(self.words[self.words.index(option) + 1 :]), "..")
        return meant(name, value or after, given.overrides, self._catalogue()) or super().hint(option, given)

    def _catalogue(self) -> Catalogue:
        folders = [folder.path for folder in choice_folders(split_search_path(self.words)[1])]
        return Catalogue(folders, self.prog.split()[-1])  # the root configuration has the name of the command


def _output(parser: argparse.ArgumentParser) -> None:
    one_of = parser.add_mutually_exclusive_group().add_argument
    one_of("--json", action="store_true", help="print the finished run as JSON, or with -m a list of all")
    one_of("--quiet", "-q", action="store_true", help="print warnings and errors only")
    one_of("--dry-run", action="store_true", help="list what would be run")
    one_of("--cfg", "-c", choices=("job", "hydra", "all"), help="show the configuration that would be run")


ARGUMENTS = (
    argument("overrides", nargs="*", help=argparse.SUPPRESS),
    argument(
        "-m", "--multirun", action="store_true", help="a sweep of listed values: 0,1,2 or range(0,3); launcher.jobs=4"
    ),
    argument(
        "--paired", action="append", metavar="A,B", default=[], help="with -m: pair the values of A and B one to one"
    ),
    argument("--keep-going", action="store_true", help="with -m: leave out bad jobs and run the others"),
    _output,
    argument("--package", "-p", metavar="NODE", help="with --cfg: only this part of it, such as ranker.model"),
    argument("--resolve", action="store_true", help="with --cfg: with interpolations replaced by their values"),
    add_config_dir,
)


@command(*ARGUMENTS, make=RunParser, usage="ol2r run [-m] [GROUP=CHOICE ...] [SETTING=VALUE ...]", allow_abbrev=False)
def main(given: argparse.Namespace) -> int:
    """Run what the arguments say; everything that is no option is an override, which Hydra reads."""
    return execute(given)


def execute(given: argparse.Namespace, kind: RunKind = KIND) -> int:
    """Run what the arguments say, as a run of a kind."""
    overrides, folders = split_search_path([*given.overrides, *as_options(given.config_dir)])
    _check_options(given)
    with exits_when_interrupted():
        from ol2r_cli.config.composer import Composer

        composer = Composer([*overrides, *as_options(folders)], kind.name)
    overrides = full_names(overrides, composer.catalogue.choices)
    jobs = composer.jobs(overrides, [names.split(",") for names in given.paired]) if given.multirun else [overrides]
    if given.cfg:
        return _show_configuration(given, composer, jobs[0])
    if given.multirun and not given.quiet:
        say_start(f"{plural(len(jobs), 'job')}, which are checked before the first one runs")
    if given.multirun or given.dry_run:
        _tell_replaced(overrides, kind)
        if not given.dry_run and not given.keep_going:
            _check_first(composer, jobs, kind)
        return _sweep(given, composer, jobs, kind)
    return _run(given, composer, overrides, kind)


def _check_options(given: argparse.Namespace) -> None:
    """Raise ValueError for an option without the one that it belongs to."""
    for option, used in (("--paired", given.paired), ("--keep-going", given.keep_going)):
        if used and not given.multirun:
            raise ValueError(f"{option} is for several runs: add -m")
    for option, used in (("--package", given.package), ("--resolve", given.resolve)):
        if used and not given.cfg:
            raise ValueError(f"{option} is for showing a configuration: add --cfg job")


def _names(overrides: Sequence[str]) -> list[str]:
    return [word.partition("=")[0].lstrip("+") for word in overrides]


def _check_first(composer: Composer, jobs: Sequence[list[str]], kind: RunKind) -> None:
    """Raise ValueError for what is wrong in the same way with each of a few jobs, before torch is imported."""
    with exits_when_interrupted():
        from ol2r_cli.config.declared import check_typed

    reasons: set[str] = set()
    for overrides in jobs if len(jobs) <= _FEW else ():
        try:
            check_typed(composer(overrides).settings, _names(overrides), kind.settings)
        except ValueError as error:
            reasons.add(str(error))
        else:
            return
    if len(reasons) == 1:
        raise ValueError(*reasons)


def _tell_replaced(overrides: list[str], kind: RunKind) -> None:
    """Say which overrides have no effect: as in Hydra, of several values of a setting the last one decides."""
    for earlier, later in replaced(overrides):
        print(f"ol2r {kind.name}: {earlier} has no effect: {later} stands behind it", file=sys.stderr)


def _show_configuration(given: argparse.Namespace, composer: Composer, overrides: list[str]) -> int:
    """Print the configuration as YAML; with -m that of the first job."""
    from omegaconf import OmegaConf

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


def _sweep(given: argparse.Namespace, composer: Composer, jobs: list[list[str]], kind: RunKind) -> int:
    with exits_when_interrupted():
        from ol2r_cli.run.summary import record
        from ol2r_cli.sweep.sweeper import BadJobs, print_plan, print_summary, sweep

    if given.dry_run:
        return print_plan(jobs, composer, given.keep_going, kind)
    terminal = None if given.quiet else sys.stderr
    try:
        result = sweep(jobs, composer=composer, keep_going=given.keep_going, terminal=terminal, kind=kind)
    except BadJobs as error:  # of several lines
        lines = as_called(error).splitlines()
        print(f"ol2r {kind.name}: " + "\n".join(map(printable, lines)), file=sys.stderr)
        return BAD_CONFIGURATION
    with redirect_stdout(io.StringIO()) if given.quiet or given.json else nullcontext():
        print_summary(result)  # on stderr are the reasons of failures
    if given.json:
        print(as_json([path and record(Run.read_finished(path)) for path in result.directories]))
    return result.code


def _run(given: argparse.Namespace, composer: Composer, overrides: list[str], kind: RunKind) -> int:
    """Run one job; torch is imported after everything that can be checked without it."""
    with exits_when_interrupted():
        from ol2r_cli.config.composer import check_grid
        from ol2r_cli.config.declared import check_typed

        composition = composer(overrides)
        _tell_replaced(overrides, kind)
        words = [*split_launcher(overrides)[0], *composer.options]
        check_grid(composition, words, "add -m")
        check_typed(composition.settings, _names(overrides), kind.settings)

        from ol2r_cli.run.runner import run_experiment
        from ol2r_cli.run.summary import record

        if kind.plays_rounds:
            _ = loops.random_numbers  # imports all loops, and numba, which must not be interrupted

    def as_record(run: Run, _: bool) -> str:
        return as_json(record(run))

    rendered = as_record if given.json else kind.render
    render = None if given.quiet else rendered
    return run_experiment(composition.settings, composition.choices, words, kind=kind, render=render)
