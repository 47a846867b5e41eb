"""What `ol2r run -m` and `ol2r run --dry-run` say and print."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ol2r_cli.commands.columns import show
from ol2r_cli.compose import own_folders
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.manifest import duration
from ol2r_cli.results.summary import render
from ol2r_cli.sweep.cell import BAD as BAD_CELL
from ol2r_cli.sweep.cell import DONE, ELSEWHERE, FAILED, FINISHED, LEFT, RESUMES, RUNNING, SKIPPED, STOPPED, Cell
from ol2r_cli.sweep.compositions import Composer
from ol2r_cli.sweep.entry import SweepResult, planned, run_sweep
from ol2r_cli.sweep.estimate import Speeds
from ol2r_cli.sweep.reasons import told


def command(jobs: Sequence[Sequence[str]], composer: Composer, dry_run: bool, keep_going: bool) -> int:
    """Do these jobs, or with `dry_run` tell what would be done; returns the exit code."""
    try:
        if dry_run:
            return _dry(jobs, composer, keep_going)
        result = run_sweep(jobs, composer, keep_going=keep_going, terminal=sys.stderr)
    except ValueError as error:
        print(f"ol2r run: {error}", file=sys.stderr)
        return 2
    _summary(result)
    return result.code


def plain_command(words: list[str]) -> int:
    """`ol2r run --dry-run` of one run."""
    try:
        return _dry([own_folders(words)[0]], Composer.alone(words), keep_going=False)
    except ValueError as error:
        print(f"ol2r run: {error}", file=sys.stderr)
        return 2


def _summary(result: SweepResult) -> None:
    """Counts, and of each job that went wrong the reason, what it printed, and the line that runs it by itself."""
    cells = result.cells
    if len(cells) == 1 and cells[0].well:
        _one(cells[0])
        return
    counts = Counter(cell.ending for cell in cells)
    names = {SKIPPED: "finished before", BAD_CELL: "bad"}
    endings = (DONE, SKIPPED, ELSEWHERE, FAILED, BAD_CELL, STOPPED, LEFT)
    parts = [f"{counts[ending]} {names.get(ending, ending)}" for ending in endings if counts[ending]]
    print(f"{len(cells)} job{'s' * (len(cells) != 1)} in {duration(result.seconds)}: {', '.join(parts)}")
    if finished := [cell for cell in cells if cell.well]:
        folders = dict.fromkeys(str(cell.settings["output_dir"]) for cell in finished)
        print(f"next: {shlex.join(['ol2r', 'report', *folders])}")
    if counts[ELSEWHERE]:
        print("another process is running some of them: see `ol2r status`", file=sys.stderr)
    bad = [cell for cell in cells if cell.ending == BAD_CELL]
    for line in told(bad, len(cells)):
        print(f"\nbad: {line}", file=sys.stderr)
    for cell in cells:
        if cell.ending != FAILED:
            continue
        print(f"\nfailed: {cell.name}\n  {cell.reason}", file=sys.stderr)
        if cell.log is not None and cell.log.is_file():
            print(f"  printed: {cell.log}", file=sys.stderr)
        print(f"  again:   {cell.command}", file=sys.stderr)
    if counts[STOPPED] or counts[LEFT]:
        forced = any(cell.settings.get("force") for cell in cells)
        print(f"the same command{' without force=true' if forced else ''} goes on from here", file=sys.stderr)


def _one(cell: Cell) -> None:
    """A sweep of one run ends as the run does."""
    assert cell.directory is not None
    directory = RunDirectory(cell.directory)
    print(render(directory.read_json("summary.json"), directory.read_json("run.json"), directory.path))
    if cell.ending == SKIPPED:
        print("(done before: force=true runs it again)")


def _dry(jobs: Sequence[Sequence[str]], composer: Composer, keep_going: bool) -> int:
    """A table of the jobs. Exit code 2 when some are bad, unless the sweep would go on without them."""
    plan, launcher = planned(jobs, composer, sys.stderr)
    states = {cell: cell.state() for cell in plan.cells}
    folders = {Path(str(cell.settings["output_dir"])).expanduser() for cell in plan.good}
    speeds = Speeds(folders)
    todo = [cell for cell in plan.good if states[cell][0] not in (FINISHED, RUNNING)]
    seconds = {cell: speeds.seconds(cell) for cell in todo}
    show([(f"#{cell.number}", cell.name, _status(*states[cell]), _told(cell, seconds)) for cell in plan.cells])
    counts = Counter(_kind(state) for state, _ in states.values())
    print(f"\n{len(plan.cells)} jobs: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
    if plan.merged:
        print(f"{len(plan.merged)} more are the same run as another, and are left out")
    if todo and launcher is not None:
        print(_total(seconds.values(), launcher.room()))
    if plan.bad:
        for line in told(plan.bad, len(jobs)):
            print(f"ol2r run: {line}", file=sys.stderr)
    return 2 if plan.bad and not keep_going else 0


def _status(state: str, round: int) -> str:
    return f"{state} at round {round}" if state == RESUMES else state


def _kind(state: str) -> str:
    return "to resume" if state == RESUMES else state


def _told(cell: Cell, seconds: dict[Cell, float | None]) -> str:
    if cell.bad:
        return cell.reason
    if cell not in seconds:
        return ""
    estimate = seconds[cell]
    return "time unknown" if estimate is None else f"about {duration(estimate)}"


def _total(seconds: Iterable[float | None], room: int) -> str:
    """The time of all, so many at a time; what is unknown is said."""
    estimates = list(seconds)
    known = [one for one in estimates if one is not None]
    at_once = max(1, min(room, len(estimates)))
    if not known:
        return f"time: unknown, {at_once} at a time: no finished run with these rankers is below output_dir"
    unknown = len(estimates) - len(known)
    without = f", and {unknown} of which nothing is known" if unknown else ""
    total = max(sum(known) / at_once, *known)
    return f"time: about {duration(total)}, {at_once} at a time, by finished runs below output_dir{without}"
