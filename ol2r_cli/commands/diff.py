"""`ol2r diff RUN RUN`: two runs side by side: settings, data, versions, results, and where their rounds part.

examples:
  ol2r diff 0123456789 9876543210                      two runs below outputs by their ids
  ol2r diff outputs/0123456789 before/0123456789       the same id below two folders
  ol2r diff outputs/mq2008/pdgd-perfect-0123456789 before/mq2008/pdgd-perfect-0123456789
  ol2r diff 0123456789 9876543210 --metric test_ndcg_10 regret
  ol2r diff 0123456789 9876543210 --exit-code          for scripts: 1 when their results differ
The same seed meets the same queries and users, so rounds are compared seed by seed, and differences are of pairs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from ol2r_cli.cli import argument, command
from ol2r_cli.formatting import duration, nearest, number, plural, printable, show, wrapped
from ol2r_cli.report import run_diff
from ol2r_cli.report.measures import digits
from ol2r_cli.report.run_diff import MetricDifference, RoundComparison
from ol2r_cli.run.run import find_run

_SEEDS = 10  # whose first differing round is printed
_VALUES = 4  # of a round, at most
_ONLY_BY_NAME = re.compile(r"_untrained$|ndcg_[135]$")  # metrics that only --metric shows


@command(
    argument("runs", metavar="RUN", nargs=2, help="directory of a run, its id below outputs, or FOLDER/ID"),
    argument("--metric", metavar="NAME", nargs="+", help="of the names in summary.json, or all"),
    argument("--exit-code", action="store_true", help="end with 1 when rounds or evaluations differ"),
    errors=(ValueError, OverflowError),
)
def main(given: argparse.Namespace) -> int:
    first, second = (run_diff.read(find_run(name)) for name in given.runs)
    metrics = _selected(run_diff.compare_metrics(first.path, second.path), given.metric)
    rounds = run_diff.compare_rounds(first.path, second.path)
    descriptions = []
    for name, run in ("first", first), ("second", second):
        extent = f"seeds {run.seeds[0]} to {run.seeds[-1]}" if len(run.seeds) > 1 else f"seed {run.seeds[0]}"
        took = duration(run.manifest.get("seconds") or 0.0)
        told = f"{run.state}, {run.round:,} of {run.rounds:,} rounds, {extent}, {took}"
        descriptions.append((name, told, str(run.path)))
    show(descriptions)
    for title, differences in {
        "choice": run_diff.different_choices(first, second),
        "setting (* default)": run_diff.different_settings(first, second),
        "environment": run_diff.different_environment(first, second),
    }.items():
        if differences:
            print()
            show([tuple(map(printable, each)) for each in differences], (title, "first", "second", ""))
    if metrics:
        _show_metrics(metrics, len(rounds.seeds))
        if first.fingerprint != second.fingerprint:
            print("the data differ: pairs of seeds are not of the same queries")
    for line in _round_lines(rounds):
        print(wrapped(line, 4))
    return int(given.exit_code and rounds.differ)


def _selected(metrics: Sequence[MetricDifference], names: Sequence[str] | None) -> list[MetricDifference]:
    """Return the metrics of --metric; without it, those that are not `_ONLY_BY_NAME`."""
    known = {each.metric: each for each in metrics}
    if names is None:
        return [each for name, each in known.items() if not _ONLY_BY_NAME.search(name)]
    for name in names if names != ["all"] else ():
        if name not in known:
            listed = ", ".join(known) or "none: nothing was measured"
            raise ValueError(f"--metric must be all, or of {listed}, got {name}{nearest(name, known)}")
    return [known[name] for name in (known if names == ["all"] else names)]


def _show_metrics(metrics: Sequence[MetricDifference], common_seeds: int) -> None:
    rows = []
    for each in metrics:
        places, difference = digits(each.metric), each.difference
        mean, half = (difference.mean, difference.half_width) if difference else (None, None)
        limits = (
            [number(mean + sign * half, places, "+") for sign in (-1, 1)]
            if mean is not None and half is not None
            else ["-"]
        )
        cells = [number(each.first, places), number(each.second, places), number(mean, places, "+")]
        rows.append([each.metric, *cells, " .. ".join(limits), str(difference.n) if difference else "-"])
    print()
    show(rows, ("metric", "first", "second", "difference", "95 % interval", "n"), numbers=True)
    pairs = "second less first, paired by seed, with Student's t interval"
    means = f"means over {plural(common_seeds, 'common seed')}; {pairs}"
    print(wrapped(means if common_seeds else "no common seed: means over the seeds of each, and no pairs"))


def _round_lines(rounds: RoundComparison) -> list[str]:
    if not rounds.seeds:
        return []
    lines = [""]
    if equal := len(rounds.seeds) - len(rounds.observed):
        same = f"the same queries, clicks and NDCG in rounds 1 to {rounds.rounds:,}"
        lines.append(f"{equal} of {len(rounds.seeds)} common seeds: {same}")
    for title, verb, divergences in (
        ("", "parts", rounds.observed),
        ("before that, or without it, other columns of the trace differ:", "differs", rounds.internal),
        ("offline evaluations differ:", "differs", rounds.evaluation),
    ):
        lines += [title] if title and divergences else []
        for each in divergences[:_SEEDS]:
            query = "" if each.query is None else f" (query {each.query})"
            pairs = [f"{name} {_value(a)} | {_value(b)}" for name, (a, b) in each.values.items()]
            values = ", ".join([*pairs[:_VALUES], *([".."] if len(pairs) > _VALUES else [])])
            lines.append(f"  seed {each.seed} {verb} in round {each.round:,}{query}: {values}")
        if len(divergences) > _SEEDS:
            lines.append(f"  and {len(divergences) - _SEEDS} more seeds, later")
    if not rounds.same_extent:
        lines.append("they have other seeds, or another number of rounds: compared is what both have")
    if not rounds.differ:
        lines.append("the results are the same")
    return lines


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
