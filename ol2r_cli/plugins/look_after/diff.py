"""`ol2r diff RUN RUN`: two runs side by side: settings, metrics, and where their rounds diverge.

examples:
  ol2r diff 0123456789 9876543210                      two runs below outputs by their ids
  ol2r diff outputs/0123456789 before/0123456789       the same id below two folders
  ol2r diff outputs/mq2008/pdgd-perfect-0123456789 before/mq2008/pdgd-perfect-0123456789
  ol2r diff 0123456789 9876543210 --metric test_ndcg_10 regret
  ol2r diff 0123456789 9876543210 --exit-code          for scripts: 1 when their results differ
The same seed meets the same queries and users, so that rounds are compared seed by seed, in pairs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ol2r_cli.columns import main_cutoff
from ol2r_cli.commands.command import Listed, argument, command
from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.lazy import pl
from ol2r_cli.report.estimates import of_values
from ol2r_cli.report.finished_run import default_settings, read_tables
from ol2r_cli.report.measures import declare, digits
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import TRACE, Run, find_run
from ol2r_cli.text.formatting import must_be_one_of, number, one_line, plural, printable, wrapped
from ol2r_cli.text.table import show

OBSERVED = ("query", "clicks")  # behaviour of users and ranker, beside NDCG; other columns are internal state
TOLERANCE = 1e-6  # of real-valued measures: processors round differently
_SEEDS = 10  # whose first differing round is printed
_NAMES = 4  # of metrics that differ, at most
_ONLY_BY_NAME = re.compile(r"_untrained$|ndcg_([135])$")  # metrics that only --metric shows, but for the main NDCG
_NDCG_OF_LISTS = re.compile(r"online_ndcg(_\d+)?")

Row = tuple[str, ...]  # what differs, as text in both runs, and whether it can affect results
BySeed = Mapping[int, float]
ByMetric = Mapping[str, BySeed]


@command(
    argument("runs", metavar="RUN", nargs=2, help="directory of a run, its id below outputs, or FOLDER/ID"),
    argument("--metric", metavar="NAME", nargs="+", action=Listed, help="metrics of summary.json, or all"),
    argument("--exit-code", action="store_true", help="end with 1 when rounds or metrics differ"),
    errors=(ValueError, OverflowError),
)
def main(given: argparse.Namespace) -> int:
    first, second = (_read(find_run(name)) for name in given.runs)
    values = values_by_metric(first), values_by_metric(second)
    metrics = [metric_row(name, *(of.get(name, {}) for of in values)) for name in wanted_metrics(given.metric, *values)]
    first_trace, second_trace = (
        read_tables(run.path, lambda run: run.table(TRACE).sort(TRACE.key)) for run in (first, second)
    )
    lines, differ = compare_results(first_trace, second_trace, *values)
    show([_description("first", first), _description("second", second)])
    for title, rows in {
        "choice": _different(first.choices, second.choices),
        "setting (* default)": setting_rows(first, second),
        "data and code": _different(_data_and_code(first), _data_and_code(second)),
    }.items():
        if rows:
            print()
            show([tuple(map(printable, row)) for row in rows], (title, "first", "second", ""))
    if metrics:
        print()
        show(metrics, ("metric", "first", "second", "difference", "95 % interval", "n"), numbers=True)
        common = len(set(first_trace["seed"]) & set(second_trace["seed"]))
        pairs = "second less first, paired by seed, with Student's t interval"
        means = f"means over {plural(common, 'common seed')}; {pairs}"
        print(wrapped(means if common else "no common seed: means over the seeds of each, and no pairs"))
        if first.fingerprint != second.fingerprint:
            print("the data differ: pairs of seeds are not of the same queries")
    for line in lines:
        print(wrapped(line, 4))
    return int(given.exit_code and differ)


def _read(path: Path) -> Run:
    """Return the run in a directory, in any state; ValueError when its manifest or its settings are damaged."""
    run = Run.read(path)
    try:
        if run is None or not run.manifest:
            raise ValueError(run.error if run else "there is no run")
        dict(dotted(run.settings))  # read now, so that damage is reported here
        return run
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(f"RUN must be a run that can be read, got {path} ({one_line(error)})") from None


def _description(name: str, run: Run) -> Row:
    """Return what a run is called here, how far it is, and its directory."""
    extent = f"seeds {run.seeds[0]} to {run.seeds[-1]}" if len(run.seeds) > 1 else f"seed {run.seeds[0]}"
    return name, f"{run.state}, {run.round:,} of {run.rounds:,} rounds, {extent}", str(run.path)


def _different(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Row]:
    """Return a row for each name whose values differ."""
    return [
        (name, str(first.get(name, "-")), str(second.get(name, "-")), "")
        for name in dict.fromkeys([*first, *second])
        if first.get(name, ...) != second.get(name, ...)
    ]


def _data_and_code(run: Run) -> dict[str, Any]:
    """Return what decides the id of a run beside its settings."""
    version = run.manifest["results_version"]
    return {"dataset.fingerprint": run.fingerprint[:12], "results_version": version, **run.code_settings}


def setting_rows(first: Run, second: Run) -> list[Row]:
    """Return the settings that differ or that only one run has, as typed, with a star where one is the default.

    Without the classes of different choices.
    """
    classes = {f"{name.replace('/', '.')}._target_" for name, *_ in _different(first.choices, second.choices)}
    first_settings, second_settings = dict(dotted(first.settings)), dict(dotted(second.settings))
    first_defaults = default_settings(first.choices, first_settings)
    second_defaults = default_settings(second.choices, second_settings)
    same_data = first.fingerprint == second.fingerprint
    return [
        (
            name,
            _with_star(name, first_settings, first_defaults),
            _with_star(name, second_settings, second_defaults),
            _effect(name, same_data),
        )
        for name, *_ in _different(first_settings, second_settings)
        if name not in classes
    ]


def _with_star(name: str, settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return a setting as typed, with a star where it is the default; a dash where the run does not have it."""
    if name not in settings:
        return "-"
    value = settings[name]
    return as_typed(value) + ("*" if defaults.get(name, ...) == value else "")


def _effect(setting: str, same_data: bool) -> str:
    """Return what is known of the effect of a setting on results; empty where it can have one."""
    part = setting.partition(".")[0]
    if part == "dataset":
        return "the data are the same" if same_data else ""
    if part in ("measure", "measures"):
        return "other columns" if part == "measures" else "other values of its columns"
    is_hashed = not any(f"{setting}.".startswith(f"{unhashed}.") for unhashed in NOT_HASHED)
    return "" if is_hashed else "no effect on results"


def values_by_metric(run: Run) -> ByMetric:
    """Return the metrics of a run, also of an unfinished one, by name and seed, where they apply."""
    from ol2r_cli.run import summary

    declare(run.columns)  # and so their digits
    table = read_tables(run.path, lambda run: pl.DataFrame(summary.summarise(run)["by_seed"]))
    values: dict[str, BySeed] = {}
    for name in table.drop("seed").columns:
        column = table.select("seed", name).drop_nulls()
        if len(column):
            values[name] = dict(column.iter_rows())
    return values


def wanted_metrics(wanted: Sequence[str] | None, first: ByMetric, second: ByMetric) -> Sequence[str]:
    """Return the names of --metric; without it, those of all metrics that are not `_ONLY_BY_NAME`.

    ValueError for one that no run has.
    """
    known = list(dict.fromkeys([*first, *second]))
    if wanted is None:
        main = str(main_cutoff(known))
        found = {name: _ONLY_BY_NAME.search(name) for name in known}
        return [name for name, hidden in found.items() if not hidden or hidden[1] == main]
    if wanted == ["all"]:
        return known
    for name in wanted:
        if name not in known:
            raise ValueError(must_be_one_of("--metric", ["all", *known], name))
    return wanted


def metric_row(name: str, first: BySeed, second: BySeed) -> Row:
    """Return the means of a metric in both runs, the mean of its differences with its interval, and their number.

    Means are over the seeds for which both runs have it, or where there are none over those of each. Differences are
    second minus first, paired by seed.
    """
    common = first.keys() & second.keys()
    difference = of_values({(None, seed): second[seed] - first[seed] for seed in common})
    places = digits(name)
    interval = "-"
    if difference and difference.half_width is not None:
        low, high = difference.mean - difference.half_width, difference.mean + difference.half_width
        interval = f"{number(low, places, '+')} .. {number(high, places, '+')}"
    return (
        name,
        number(_mean(first, common), places),
        number(_mean(second, common), places),
        number(difference.mean if difference else None, places, "+"),
        interval,
        str(difference.n) if difference else "-",
    )


def _mean(values: BySeed, common: Collection[int]) -> float | None:
    """Return the mean over the common seeds, or over all where there are none; None without values."""
    of_seeds = [value for seed, value in values.items() if seed in common or not common]
    return fmean(of_seeds) if of_seeds else None


def compare_results(
    first: pl.DataFrame, second: pl.DataFrame, first_values: ByMetric, second_values: ByMetric
) -> tuple[list[str], bool]:
    """Return lines on where two traces part, or else on which metrics differ, and whether anything does.

    What one run lacks is no difference. The first line is empty; there are none without common seeds.
    """
    parting = first_differences(first, second)
    seeds = len(set(first["seed"]) & set(second["seed"]))
    lines = [""]
    if seeds > len(parting):
        rounds = min(max(trace["round"]) for trace in (first, second))
        what = "queries, clicks and NDCG" if len(_observed(first, second)) > len(OBSERVED) else "queries and clicks"
        same = f"the same {what} in rounds 1 to {rounds:,}"
        lines.append(f"{seeds - len(parting)} of {seeds} common seeds: {same}")
    lines += list(parting.values())[:_SEEDS]
    if len(parting) > _SEEDS:
        lines.append(f"  and {len(parting) - _SEEDS} more seeds, later")
    same_extent = first.select(TRACE.key).equals(second.select(TRACE.key))
    differing = []
    if not same_extent:
        lines.append("they have other seeds, or another number of rounds: compared is what both have")
    elif not parting:
        for name, of_first in first_values.items():
            of_second = second_values.get(name, {})
            if any(abs(of_first[seed] - of_second[seed]) > TOLERANCE for seed in of_first.keys() & of_second.keys()):
                differing.append(name)
        more = ", .." if len(differing) > _NAMES else ""
        others = f"but other metrics: {', '.join(differing[:_NAMES])}{more}"
        lines.append(others if differing else "the results are the same")
    return lines if seeds else [], bool(parting or differing or not same_extent)


def first_differences(first: pl.DataFrame, second: pl.DataFrame) -> dict[int, str]:
    """Return for each seed, earliest first, a line on the first round in which observed columns of two traces differ:
    both have a value then, and different ones."""
    observed = _observed(first, second)
    joined = first.join(second, on=TRACE.key, suffix=".second").sort("round", *TRACE.key)
    differs = {}
    for name in observed:
        of_first, of_second = pl.col(name), pl.col(f"{name}.second")
        unequal = (of_first - of_second).abs() > TOLERANCE if first.schema[name].is_float() else of_first != of_second
        differs[f"{name}.differs"] = unequal.fill_null(False)
    marked = joined.with_columns(**differs).filter(pl.any_horizontal(*differs))
    lines = {}
    for row in marked.unique("seed", keep="first", maintain_order=True).iter_rows(named=True):
        values = [
            f"{name} {_text(row[name])} | {_text(row[f'{name}.second'])}" for name in observed if row[f"{name}.differs"]
        ]
        where = f"seed {row['seed']} diverges in round {row['round']:,} (query {row['query']})"
        lines[row["seed"]] = f"  {where}: {', '.join(values)}"
    return lines


def _observed(first: pl.DataFrame, second: pl.DataFrame) -> list[str]:
    """Return the columns in which the rounds of two traces are compared: those of NDCG where both have values."""
    of_lists = [name for name in first.columns if _NDCG_OF_LISTS.fullmatch(name) and name in second.columns]
    return [*OBSERVED, *(name for name in of_lists if first[name].count() and second[name].count())]


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
