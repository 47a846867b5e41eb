"""`ol2r diff RUN RUN`: two runs side by side: settings, data, versions, results, and where their rounds diverge.

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
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from ol2r_cli.commands.command import Listed, argument, command
from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.lazy import lazy, pl
from ol2r_cli.report.estimates import Estimate, of_values
from ol2r_cli.report.finished_run import default_settings, read_tables
from ol2r_cli.report.measures import declare, digits
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import EVALUATION, TRACE, VALIDATION_CLICKS, Run, Table, find_run
from ol2r_cli.text.formatting import duration, must_be_one_of, number, one_line, plural, printable, wrapped
from ol2r_cli.text.table import show

if TYPE_CHECKING:
    from ol2r_cli.run import summary
else:
    summary = lazy("ol2r_cli.run.summary")

OBSERVED = ("query", "clicks", "online_ndcg")  # behaviour of user and ranker; other columns are internal state
TOLERANCE = 1e-6  # of real-valued measures: processors round differently
_SEEDS = 10  # whose first differing round is printed
_VALUES = 4  # of a round, at most
_ONLY_BY_NAME = re.compile(r"_untrained$|ndcg_[135]$")  # metrics that only --metric shows

Row = tuple[str, ...]  # what differs, as text in both runs, and whether it can affect results
BySeed = Mapping[int, float]


@command(
    argument("runs", metavar="RUN", nargs=2, help="directory of a run, its id below outputs, or FOLDER/ID"),
    argument("--metric", metavar="NAME", nargs="+", action=Listed, help="metrics of summary.json, or all"),
    argument("--exit-code", action="store_true", help="end with 1 when rounds or evaluations differ"),
    errors=(ValueError, OverflowError),
)
def main(given: argparse.Namespace) -> int:
    first, second = (_read(find_run(name)) for name in given.runs)
    metrics = metric_rows(first, second, given.metric)
    rounds = compare_rounds(first, second)
    show([_description("first", first), _description("second", second)])
    for title, rows in {
        "choice": _different(first.choices, second.choices),
        "setting (* default)": setting_rows(first, second),
        "environment": environment_rows(first, second),
    }.items():
        if rows:
            print()
            show([tuple(map(printable, row)) for row in rows], (title, "first", "second", ""))
    if metrics:
        print()
        show(metrics, ("metric", "first", "second", "difference", "95 % interval", "n"), numbers=True)
        print(wrapped(_means_are(rounds.seeds)))
        if first.fingerprint != second.fingerprint:
            print("the data differ: pairs of seeds are not of the same queries")
    for line in rounds.lines():
        print(wrapped(line, 4))
    return int(given.exit_code and rounds.differ)


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
    """Return what a run is called here, how far it is and how long it took, and its directory."""
    extent = f"seeds {run.seeds[0]} to {run.seeds[-1]}" if len(run.seeds) > 1 else f"seed {run.seeds[0]}"
    took = duration(run.manifest.get("seconds") or 0.0)
    return name, f"{run.state}, {run.round:,} of {run.rounds:,} rounds, {extent}, {took}", str(run.path)


def _different(first: Mapping[str, Any], second: Mapping[str, Any], note: str = "") -> list[Row]:
    """Return a row for each name whose values differ."""
    return [
        (name, _or_dash(first.get(name)), _or_dash(second.get(name)), note)
        for name in dict.fromkeys([*first, *second])
        if first.get(name, ...) != second.get(name, ...)
    ]


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


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
        return "other columns"
    is_hashed = not any(f"{setting}.".startswith(f"{unhashed}.") for unhashed in NOT_HASHED)
    return "" if is_hashed else "no effect on results"


def environment_rows(first: Run, second: Run) -> list[Row]:
    """Return what differs in data, versions and machine, and in the users' own code."""
    rows = _different(_environment(first.manifest), _environment(second.manifest))
    return rows + _different(first.code_settings, second.code_settings, "can change results")


def _environment(manifest: Mapping[str, Any]) -> dict[str, Any]:
    git = manifest.get("git")
    commit = git and git["commit"][:12] + (" and changes" if git["dirty"] else "")
    return {
        "dataset.fingerprint": manifest["dataset"]["fingerprint"][:12],
        "results_version": manifest["results_version"],
        **(manifest.get("versions") or {}),
        "commit": commit,
        **{name: manifest.get(name) for name in ("device", "threads", "host")},
    }


def metric_rows(first: Run, second: Run, wanted: Sequence[str] | None) -> list[Row]:
    """Return the rows of the metrics of --metric; without it, of those that are not `_ONLY_BY_NAME`.

    Means are over the seeds for which both runs have the metric, or where there are none over those of each.
    Differences are second minus first, paired by seed.
    """
    first_values, second_values = values_by_metric(first), values_by_metric(second)
    known = list(dict.fromkeys([*first_values, *second_values]))
    return [
        metric_row(name, first_values.get(name, {}), second_values.get(name, {}))
        for name in wanted_metrics(wanted, known)
    ]


def values_by_metric(run: Run) -> Mapping[str, BySeed]:
    """Return the metrics of a run, also of an unfinished one, by name and seed, where they apply."""
    declare(run.columns)  # and so their digits
    table = read_tables(run.path, lambda run: pl.DataFrame(summary.summarise(run)["by_seed"]))
    values: dict[str, BySeed] = {}
    for name in table.drop("seed").columns:
        column = table.select("seed", name).drop_nulls()
        if len(column):
            values[name] = dict(column.iter_rows())
    return values


def wanted_metrics(wanted: Sequence[str] | None, known: Sequence[str]) -> Sequence[str]:
    """Return the metrics of a table; ValueError for one that no run has."""
    if wanted is None:
        return [name for name in known if not _ONLY_BY_NAME.search(name)]
    if wanted == ["all"]:
        return known
    for name in wanted:
        if name not in known:
            raise ValueError(must_be_one_of("--metric", ["all", *known], name))
    return wanted


def metric_row(name: str, first: BySeed, second: BySeed) -> Row:
    """Return the means of a metric in both runs, the mean of its differences with its interval, and their number."""
    common = first.keys() & second.keys()
    difference = of_values({(None, seed): second[seed] - first[seed] for seed in common})
    places = digits(name)
    return (
        name,
        number(_mean(first, common), places),
        number(_mean(second, common), places),
        number(difference.mean if difference else None, places, "+"),
        _interval(difference, places),
        str(difference.n) if difference else "-",
    )


def _mean(values: BySeed, common: Collection[int]) -> float | None:
    """Return the mean over the common seeds, or over all where there are none; None without values."""
    of_seeds = [value for seed, value in values.items() if seed in common or not common]
    return fmean(of_seeds) if of_seeds else None


def _interval(difference: Estimate | None, places: int) -> str:
    """Return the 95 % interval of a mean difference; a dash where there is none."""
    if difference is None or difference.half_width is None:
        return "-"
    low, high = difference.mean - difference.half_width, difference.mean + difference.half_width
    return f"{number(low, places, '+')} .. {number(high, places, '+')}"


def _means_are(common_seeds: int) -> str:
    """Return the line that says of what the means and the differences are."""
    if not common_seeds:
        return "no common seed: means over the seeds of each, and no pairs"
    pairs = "second less first, paired by seed, with Student's t interval"
    return f"means over {plural(common_seeds, 'common seed')}; {pairs}"


class FirstDifference(NamedTuple):
    """The first round in which a seed of two runs differs, and a line with the values."""

    round: int
    line: str


@dataclass(frozen=True)
class ComparedRounds:
    """Where the rounds and the evaluations of two runs part, by seed; earliest first.

    seeds: the number of common ones. rounds: that both have. parting: in `OBSERVED` columns. internal: in others of the
    trace, where they differ earlier, or alone. evaluated: in evaluations. sessions: common seeds whose validation
    sessions differ. same_extent: whether both have the same seeds and rounds.
    """

    seeds: int
    rounds: int
    parting: Mapping[int, FirstDifference]
    internal: Mapping[int, FirstDifference]
    evaluated: Mapping[int, FirstDifference]
    sessions: Sequence[int]
    same_extent: bool

    @property
    def differ(self) -> bool:
        """Whether the results differ."""
        return bool(self.parting or self.internal or self.evaluated or self.sessions) or not self.same_extent

    def lines(self) -> list[str]:
        """Return lines on where the rounds part, the first of them empty; none without common seeds."""
        if not self.seeds:
            return []
        lines = [""]
        equal = self.seeds - len(self.parting)
        if equal:
            same = f"the same queries, clicks and NDCG in rounds 1 to {self.rounds:,}"
            lines.append(f"{equal} of {self.seeds} common seeds: {same}")
        lines += _listed(self.parting)
        lines += _listed(self.internal, "before that, or without it, other columns of the trace differ:")
        lines += _listed(self.evaluated, "offline evaluations differ:")
        if self.sessions:
            lines.append(f"validation sessions of {plural(len(self.sessions), 'common seed')} differ")
        if not self.same_extent:
            lines.append("they have other seeds, or another number of rounds: compared is what both have")
        if not self.differ:
            lines.append("the results are the same")
        return lines


def _listed(differences: Mapping[int, FirstDifference], title: str = "") -> list[str]:
    """Return the lines of the first seeds below a title."""
    lines = [difference.line for difference in differences.values()]
    if len(lines) > _SEEDS:
        lines[_SEEDS:] = [f"  and {len(lines) - _SEEDS} more seeds, later"]
    return [title, *lines] if title and lines else lines


def compare_rounds(first: Run, second: Run) -> ComparedRounds:
    """Return where the rounds of two runs, and their evaluations, part."""
    first_trace, second_trace = _rows(first, TRACE), _rows(second, TRACE)
    inner = set(first_trace.columns) - {*TRACE.key, *OBSERVED}
    parting = first_differences(first_trace, second_trace, TRACE.key, OBSERVED)
    internal = first_differences(first_trace, second_trace, TRACE.key, sorted(inner))
    return ComparedRounds(
        seeds=len(set(first_trace["seed"]) & set(second_trace["seed"])),
        rounds=min(max(trace["round"], default=0) for trace in (first_trace, second_trace)),
        parting=parting,
        internal={
            seed: difference
            for seed, difference in internal.items()
            if seed not in parting or difference.round < parting[seed].round
        },
        evaluated=_differences_of_evaluations(first, second),
        sessions=_seeds_of_other_sessions(first, second),
        same_extent=first_trace.select(TRACE.key).equals(second_trace.select(TRACE.key)),
    )


def _differences_of_evaluations(first: Run, second: Run) -> dict[int, FirstDifference]:
    """Return the first evaluation of each seed in which a measure differs; those at ten places are named first."""
    first_table, second_table = _rows(first, EVALUATION), _rows(second, EVALUATION)
    measures = sorted(set(first_table.columns) - {*EVALUATION.key}, key=lambda name: (not name.endswith("_10"), name))
    return first_differences(first_table, second_table, EVALUATION.key, measures)


def _seeds_of_other_sessions(first: Run, second: Run) -> list[int]:
    """Return the seeds that both have, whose counts of validation sessions differ; none where one has no sessions."""
    counts = _rows(first, VALIDATION_CLICKS), _rows(second, VALIDATION_CLICKS)
    common = set(counts[0]["seed"]) & set(counts[1]["seed"])
    return [seed for seed in sorted(common) if not counts[0].filter(seed=seed).equals(counts[1].filter(seed=seed))]


def _rows(run: Run, table: Table) -> pl.DataFrame:
    return read_tables(run.path, lambda run: run.table(table).sort(table.key))


def first_differences(
    first: pl.DataFrame, second: pl.DataFrame, key: Sequence[str], columns: Sequence[str]
) -> dict[int, FirstDifference]:
    """Return for each seed, earliest first, the first row of two tables in which one of their columns differs.

    Both runs have a value then, and different ones: a measure that one run does not trace is no difference.
    """
    joined = first.join(second, on=key, suffix=".second").sort("round", *key)
    shared = [name for name in columns if f"{name}.second" in joined.columns]
    differs = [_differs(joined, name).alias(f"{name}.differs") for name in shared]
    marked = joined.with_columns(differs).filter(pl.any_horizontal(pl.lit(False), pl.col(r"^.*\.differs$")))
    rows = marked.unique("seed", keep="first", maintain_order=True).iter_rows(named=True)
    return {row["seed"]: FirstDifference(row["round"], _line(row, shared)) for row in rows}


def _differs(joined: pl.DataFrame, name: str) -> pl.Expr:
    """Return whether both runs have a value in a column, and different ones."""
    first, second = pl.col(name), pl.col(f"{name}.second")
    unequal = (first - second).abs() > TOLERANCE if joined.schema[name].is_float() else first != second
    return unequal.fill_null(False)


def _line(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return a line with the values of a row that differ, `_VALUES` at most."""
    where = f"of {row['split']}" if "split" in row else f"(query {row['query']})"
    values = [
        f"{name} {_text(row[name])} | {_text(row[f'{name}.second'])}" for name in columns if row[f"{name}.differs"]
    ]
    more = ", .." if len(values) > _VALUES else ""
    return f"  seed {row['seed']} diverges in round {row['round']:,} {where}: {', '.join(values[:_VALUES])}{more}"


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
