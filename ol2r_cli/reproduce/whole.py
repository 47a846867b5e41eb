"""One figure or table from beginning to end: data, runs, figures, table, page."""

from __future__ import annotations

import sys
from pathlib import Path

from ol2r_cli.report.formats import Table, markdown, terminal
from ol2r_cli.reproduce import at_hand
from ol2r_cli.reproduce.caveat import caveat, made_with
from ol2r_cli.reproduce.page import page
from ol2r_cli.reproduce.pictures import pictures
from ol2r_cli.reproduce.population import population
from ol2r_cli.reproduce.protocol import Protocol
from ol2r_cli.reproduce.runs import Played, play
from ol2r_cli.reproduce.table import as_csv, lines, table
from ol2r_cli.results.directory import RunDirectory

INTERRUPTED = 130


def reproduce(protocol: Protocol, out: Path | None = None) -> int:
    """Does all that is missing, writes figures, table.csv and README.md, prints the table; returns the exit code.

    ValueError, before anything is run, where data are missing or a run's configuration is bad.
    """
    at_hand.require(protocol)
    warning = caveat(protocol)
    print(warning or made_with(protocol))
    played = play(protocol) if protocol.recipe.competitors else Played()
    for cell in played.failed:
        print(f"ol2r reproduce: failed: {cell.command} ({cell.reason})", file=sys.stderr)
    if played.code == INTERRUPTED:
        print("the same command goes on from here", file=sys.stderr)
        return INTERRUPTED
    found = lines(protocol, played) if protocol.recipe.competitors else population(protocol)
    folder = out or protocol.output / "reproduce" / protocol.recipe.name
    drawn = list(pictures(protocol, played, folder))
    directory = RunDirectory(folder)
    directory.write_text("table.csv", as_csv(found, protocol.scale))
    directory.write_text("README.md", page(protocol, played, found, drawn))
    _show(table(found, comparable=not warning, settings=False), warning)
    for path in [*drawn, folder / "README.md"]:
        print(f"written: {path}")
    return played.code


def told(protocol: Protocol) -> int:
    """What would be run, without running or writing anything; returns the exit code."""
    from ol2r_cli.sweep.command import command
    from ol2r_cli.sweep.compositions import Composer

    at_hand.require(protocol)
    print(caveat(protocol) or made_with(protocol))
    candidates = list(protocol.candidates())
    jobs = [run for trial in candidates or protocol.final() for run in trial.runs]
    if candidates:
        chosen = sum(len(trial.runs) for trial in protocol.final())
        print(f"{len(jobs)} runs to choose settings by validation, then {chosen} with those that were chosen\n")
    if not jobs:
        print("nothing is run: the figure is about the data")
        return 0
    return command([*map(list, jobs)], Composer.alone(), dry_run=True, keep_going=False)


def _show(shown: Table, warning: str) -> None:
    """On a terminal as it fits, elsewhere as markdown; the warning stands behind the numbers once more."""
    if sys.stdout.isatty():
        terminal([shown], [warning] if warning else [])
    else:
        print(markdown(shown), *([warning] if warning else []), sep="\n\n")
