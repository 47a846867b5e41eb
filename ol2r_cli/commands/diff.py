"""`ol2r diff RUN RUN`: two runs side by side: settings, data, versions, results, and where their rounds part."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ol2r_cli.commands.columns import show
from ol2r_cli.report.measures import digits
from ol2r_cli.results.manifest import duration
from ol2r_cli.results.survey import find_run
from ol2r_cli.settings import nearest

if TYPE_CHECKING:
    from ol2r_cli.diff.results import Compared
    from ol2r_cli.diff.rounds import Parting, Rounds
    from ol2r_cli.diff.settings import Difference, Side

EPILOG = """examples:
  ol2r diff 0123456789 9876543210                      two runs below outputs by their ids
  ol2r diff outputs/mq2008/pdgd-perfect-0123456789 before/mq2008/pdgd-perfect-0123456789
  ol2r diff 0123456789 9876543210 --metric test_ndcg_10 regret
  ol2r diff 0123456789 9876543210 --exit-code          for scripts: 1 when their results differ
The same seed meets the same queries and users, so rounds are compared seed by seed, and differences are of pairs.
"""
_SHOWN = 10  # seeds of which it is told where they part
_VALUES = 4  # of a round, at most
_BESIDE = re.compile(r"_untrained$|ndcg_[135]$")  # metrics that are shown only when they are asked for


def main(arguments: list[str]) -> int:
    """Exit code 0, with --exit-code 1 when results differ, 2 when a run cannot be found or read."""
    parser = argparse.ArgumentParser(
        "ol2r diff",
        usage="ol2r diff RUN RUN [--metric NAME ...] [--exit-code]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", metavar="RUN", nargs=2, help="directory of a run, or its id, below outputs")
    parser.add_argument("--metric", metavar="NAME", nargs="+", help="of the names in summary.json, or all")
    parser.add_argument("--exit-code", action="store_true", help="end with 1 when rounds or evaluations differ")
    given = parser.parse_intermixed_args(arguments)
    try:
        differ = _diff(given)
    except ValueError as error:
        print(f"ol2r diff: {error}", file=sys.stderr)
        return 2
    return int(given.exit_code and differ)


def _diff(given: argparse.Namespace) -> bool:
    from ol2r_cli.diff import results, rounds, settings

    first, second = (settings.read(find_run(name)) for name in given.runs)
    metrics = _chosen(results.compare(first.path, second.path), given.metric)
    traces = rounds.compare(first.path, second.path)
    show([_heading("first", first), _heading("second", second)])
    _show_differences("choice", settings.choices(first, second))
    _show_differences("setting (* default)", settings.settings(first, second))
    _show_differences("surroundings", settings.surroundings(first, second))
    same_data = settings.same_data(first, second)
    _show_results(metrics, traces, same_data)
    for line in _rounds(traces, same_data):
        print(line)
    return traces.differ


def _heading(place: str, side: Side) -> tuple[str, ...]:
    seeds = list(side.manifest["seeds"])
    told = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    took = duration(side.manifest.get("seconds") or 0.0)
    return (
        place,
        f"{side.state.state}, {side.state.round:,} of {side.state.rounds:,} rounds, {told}, {took}",
        str(side.path),
    )


def _chosen(metrics: Sequence[Compared], names: Sequence[str] | None) -> list[Compared]:
    known = {one.metric: one for one in metrics}
    names = [*known] if names == ["all"] else names
    for name in names or ():
        if name not in known:
            raise ValueError(
                f"--metric must be all, or of {', '.join(known) or 'none: nothing was measured'}, got {name}"
                f"{nearest(name, known)}"
            )
    return [known[name] for name in names or known if names or not _BESIDE.search(name)]


def _show_differences(title: str, differences: Sequence[Difference]) -> None:
    if differences:
        print()
        show(differences, (title, "first", "second", ""))


def _show_results(metrics: Sequence[Compared], traces: Rounds, same_data: bool) -> None:
    if not metrics:
        return
    print()
    rows = [
        (
            one.metric,
            _number(one, one.first),
            _number(one, one.second),
            *_difference(one),
            str(one.difference.n if one.difference else ""),
        )
        for one in metrics
    ]
    show(rows, ("metric", "first", "second", "difference", "95 % interval", "n"), numbers=True)
    common = f"{len(traces.seeds)} common seed{'s' * (len(traces.seeds) != 1)}"
    print(
        f"means over {common}; second less first, paired by seed, with Student's t interval"
        if traces.seeds
        else "no common seed: means over the seeds of each, and no pairs"
    )
    if not same_data:
        print("the data differ: pairs of seeds are not of the same queries")


def _difference(one: Compared) -> tuple[str, str]:
    if one.difference is None:
        return "", ""
    mean, half = one.difference.mean, one.difference.half_width
    places = digits(one.metric)
    return f"{mean:+.{places}f}", "" if half is None else f"{mean - half:+.{places}f} .. {mean + half:+.{places}f}"


def _number(one: Compared, value: float | None) -> str:
    return "" if value is None else f"{value:.{digits(one.metric)}f}"


def _rounds(traces: Rounds, same_data: bool) -> list[str]:
    """Where the rounds part, seed by seed."""
    if not traces.seeds:
        return []
    lines = [""]
    together = len(traces.seeds) - len(traces.partings)
    span = f"rounds 1 to {traces.compared:,}"
    if together:
        lines.append(f"{together} of {len(traces.seeds)} common seeds: the same queries, clicks and NDCG in {span}")
    lines += _told("parts", traces.partings)
    if traces.inner:
        lines.append("before that, or without it, other columns of the trace differ:")
        lines += _told("differs", traces.inner)
    if traces.evaluation:
        lines.append("offline evaluations differ:")
        lines += _told("differs", traces.evaluation)
    if not traces.same_extent:
        lines.append("they have other seeds, or another number of rounds: compared is what both have")
    if not traces.differ:
        lines.append("the results are the same")
    return lines


def _told(verb: str, partings: Sequence[Parting]) -> list[str]:
    lines = []
    for one in partings[:_SHOWN]:
        query = "" if one.query is None else f" (query {one.query})"
        pairs = [f"{name} {_plain(a)} | {_plain(b)}" for name, (a, b) in one.values.items()]
        values = ", ".join([*pairs[:_VALUES], *([".."] if len(pairs) > _VALUES else [])])
        lines.append(f"  seed {one.seed} {verb} in round {one.round:,}{query}: {values}")
    if len(partings) > _SHOWN:
        lines.append(f"  and {len(partings) - _SHOWN} more seeds, later")
    return lines


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
