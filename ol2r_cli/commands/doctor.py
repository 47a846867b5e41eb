"""`ol2r doctor [override ...]`: versions, device, threads, data found, disk, and what to type where one is amiss."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ol2r_cli.commands import software, surroundings
from ol2r_cli.commands.columns import show
from ol2r_cli.commands.finding import Finding

if TYPE_CHECKING:
    from omegaconf import DictConfig

EPILOG = """examples:
  ol2r doctor
  ol2r doctor data_dir=/data output_dir=/scratch/outputs     with the settings of a run
exit codes: 0 `ol2r run` can work here, 1 something that it needs is broken, 2 bad settings
"""


def main(arguments: list[str]) -> int:
    """Exit code 0, 1 when something that `ol2r run` needs is broken, 2 when the overrides are wrong."""
    parser = argparse.ArgumentParser(
        "ol2r doctor",
        usage="ol2r doctor [data_dir=DIR] [output_dir=DIR] [SETTING=VALUE ...]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("override", nargs="*", help="as for `ol2r run`")
    known, more = parser.parse_known_args(arguments)
    try:
        findings = list(examine([*known.override, *more]))
    except ValueError as error:
        print(f"ol2r doctor: {error}", file=sys.stderr)
        return 2
    _print(findings)
    return 1 if any(finding.needed and finding.problem for finding in findings) else 0


def examine(overrides: list[str]) -> Iterator[Finding]:
    """All findings. What needs a package that cannot be imported is left out: its absence is a finding of its own."""
    yield from software.versions()
    yield from _without(ImportError, software.machine)
    yield from _without(ImportError, lambda: _with_settings(overrides))
    yield from surroundings.terminal()


def _with_settings(overrides: list[str]) -> Iterator[Finding]:
    from ol2r_cli.compose import compose

    config: DictConfig = compose(overrides)
    yield from surroundings.disk(config)
    yield from _without(ImportError, lambda: surroundings.data(config, overrides))


def _without(error: type[Exception], findings: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings up to such an error."""
    try:
        yield from findings()
    except error:
        return


def _print(findings: list[Finding]) -> None:
    """The findings by topic, and at the end what is amiss."""
    topic = ""
    rows = []
    for finding in findings:
        rows.append((finding.topic if finding.topic != topic else "", finding.name, finding.value))
        topic = finding.topic
    show(rows)
    problems = [finding for finding in findings if finding.problem]
    print()
    for finding in problems:
        print(f"{'BROKEN' if finding.needed else 'note'}: {finding.name}: {finding.problem}")
    if not any(finding.needed for finding in problems):
        print("all that `ol2r run` needs is there")
