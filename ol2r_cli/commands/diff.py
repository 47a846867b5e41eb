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
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ol2r_cli.command import argument, command
from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import duration, nearest, number, one_line, plural, printable, wrapped
from ol2r_cli.lazy import lazy, pl
from ol2r_cli.report.estimates import of_values
from ol2r_cli.report.finished_run import code_settings, default_settings, read_tables
from ol2r_cli.report.measures import declare, digits
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.run import EVALUATION, TRACE, Run, find_run
from ol2r_cli.text_table import show

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


@command(
    argument("runs", metavar="RUN", nargs=2, help="directory of a run, its id below outputs, or FOLDER/ID"),
    argument("--metric", metavar="NAME", nargs="+", help="of the names in summary.json, or all"),
    argument("--exit-code", action="store_true", help="end with 1 when rounds or evaluations differ"),
    errors=(ValueError, OverflowError),
)
def main(given: argparse.Namespace) -> int:
    first, second = (_read(find_run(name)) for name in given.runs)
    metrics = _metrics(first, second, given.metric)
    common_seeds, lines, differ = _rounds(first, second)
    descriptions = []
    for name, run in ("first", first), ("second", second):
        extent = f"seeds {run.seeds[0]} to {run.seeds[-1]}" if len(run.seeds) > 1 else f"seed {run.seeds[0]}"
        took = duration(run.manifest.get("seconds") or 0.0)
        told = f"{run.state}, {run.round:,} of {run.rounds:,} rounds, {extent}, {took}"
        descriptions.append((name, told, str(run.path)))
    show(descriptions)
    codes = _different(code_settings(first.manifest), code_settings(second.manifest), "can change results")
    for title, rows in {
        "choice": _different(first.choices, second.choices),
        "setting (* default)": _settings(first, second),
        "environment": _different(_environment(first.manifest), _environment(second.manifest)) + codes,
    }.items():
        if rows:
            print()
            show([tuple(map(printable, row)) for row in rows], (title, "first", "second", ""))
    if metrics:
        print()
        show(metrics, ("metric", "first", "second", "difference", "95 % interval", "n"), numbers=True)
        pairs = "second less first, paired by seed, with Student's t interval"
        means = f"means over {plural(common_seeds, 'common seed')}; {pairs}"
        print(wrapped(means if common_seeds else "no common seed: means over the seeds of each, and no pairs"))
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


def _different(first: Mapping[str, Any], second: Mapping[str, Any], note: str = "") -> list[Row]:
    return [
        (name, *("-" if run.get(name) is None else str(run[name]) for run in (first, second)), note)
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


def _settings(first: Run, second: Run) -> list[Row]:
    """Return the settings that differ or that only one run has, as typed, with a star where one is the default.

    Without the classes of different choices.
    """
    classes = {f"{name.replace('/', '.')}._target_" for name, *_ in _different(first.choices, second.choices)}
    settings = [dict(dotted(run.settings)) for run in (first, second)]
    defaults = [default_settings(run.choices, of) for run, of in zip((first, second), settings, strict=True)]
    rows = []
    for name in settings[0] | settings[1]:
        if name in classes or settings[0].get(name, ...) == settings[1].get(name, ...):
            continue
        cells = [
            as_typed(of[name]) + "*" * (default.get(name, ...) == of[name]) if name in of else "-"
            for of, default in zip(settings, defaults, strict=True)
        ]
        part, note = name.partition(".")[0], ""
        if part == "dataset":
            note = "the data are the same" if first.fingerprint == second.fingerprint else ""
        elif part in ("measure", "measures"):
            note = "other columns"
        elif any(f"{name}.".startswith(f"{each}.") for each in NOT_HASHED):
            note = "no effect on results"
        rows.append((name, *cells, note))
    return rows


def _environment(manifest: Mapping[str, Any]) -> dict[str, Any]:
    git = manifest.get("git")
    return {
        "dataset.fingerprint": manifest["dataset"]["fingerprint"][:12],
        "results_version": manifest["results_version"],
        **(manifest.get("versions") or {}),
        "commit": git and git["commit"][:12] + " and changes" * git["dirty"],
        **{name: manifest.get(name) for name in ("device", "threads", "host")},
    }


def _metrics(first: Run, second: Run, names: Sequence[str] | None) -> list[Row]:
    """Return the rows of the metrics of --metric; without it, of those that are not `_ONLY_BY_NAME`.

    Means are over the seeds for which both runs have the metric, or where there are none over those of each.
    Differences are second minus first, paired by seed.
    """
    values: list[dict[str, dict[int, float]]] = []
    for each in (first, second):
        declare(each.columns)  # and so their digits
        table = read_tables(each.path, lambda run: pl.DataFrame(summary.summarise(run)["by_seed"]))  # also unfinished
        columns = {name: zip(table["seed"], table[name], strict=True) for name in table.columns if name != "seed"}
        values.append({name: {s: v for s, v in column if v is not None} for name, column in columns.items()})
    known = list(dict.fromkeys(name for of_run in values for name in of_run if of_run[name]))
    for name in names if names is not None and names != ["all"] else ():
        if name not in known:
            listed = ", ".join(known) or "none: nothing was measured"
            raise ValueError(f"--metric must be all, or of {listed}, got {name}{nearest(name, known)}")
    if names is None:
        names = [name for name in known if not _ONLY_BY_NAME.search(name)]
    rows = []
    for name in known if names == ["all"] else names:
        one, other = (of_run.get(name, {}) for of_run in values)
        common, places = one.keys() & other.keys(), digits(name)
        means = (fmean(of[seed] for seed in of if seed in common or not common) if of else None for of in (one, other))
        difference, limits = of_values({(None, seed): other[seed] - one[seed] for seed in common}), "-"
        if difference and (half := difference.half_width) is not None:
            limits = " .. ".join(number(difference.mean + sign * half, places, "+") for sign in (-1, 1))
        shown = number(difference.mean if difference else None, places, "+")
        count = str(difference.n) if difference else "-"
        rows.append((name, *(number(mean, places) for mean in means), shown, limits, count))
    return rows


def _rounds(first: Run, second: Run) -> tuple[int, list[str], bool]:
    """Return the number of common seeds, lines on where the rounds part, and whether the results differ.

    A round parts where the columns `OBSERVED` differ; other columns count where they differ earlier, or alone.
    """
    left, right = (read_tables(run.path, lambda run: run.table(TRACE).sort(TRACE.key)) for run in (first, second))
    joined = left.join(right, on=TRACE.key, suffix=".second").sort("round", "seed")
    inner = [name for name in left.columns if name in right.columns and name not in (*TRACE.key, *OBSERVED)]
    observed = _first_differences(joined, OBSERVED, "parts")
    internal = _first_differences(joined, inner, "differs")
    for seed in [seed for seed in internal if seed in observed and internal[seed][0] >= observed[seed][0]]:
        del internal[seed]
    tests, others = (_by_split(read_tables(run.path, lambda run: run.table(EVALUATION))) for run in (first, second))
    measured = [name for name in tests.columns if name in others.columns and name not in EVALUATION.key]
    evaluated = tests.join(others, on=("seed", "round"), suffix=".second").sort("round", "seed")
    evaluations = _first_differences(evaluated, sorted(measured, key=lambda name: not name.endswith("_10")), "differs")
    same_extent = left.select(TRACE.key).equals(right.select(TRACE.key))
    differ = bool(observed or internal or evaluations) or not same_extent
    if not (seeds := set(left["seed"]) & set(right["seed"])):
        return 0, [], differ
    lines = [""]
    if equal := len(seeds) - len(observed):
        same = f"the same queries, clicks and NDCG in rounds 1 to {max(joined['round'], default=0):,}"
        lines.append(f"{equal} of {len(seeds)} common seeds: {same}")
    for title, divergences in (
        ("", observed),
        ("before that, or without it, other columns of the trace differ:", internal),
        ("offline evaluations differ:", evaluations),
    ):
        lines += [title] if title and divergences else []
        lines += [line for _, line in [*divergences.values()][:_SEEDS]]
        if len(divergences) > _SEEDS:
            lines.append(f"  and {len(divergences) - _SEEDS} more seeds, later")
    if not same_extent:
        lines.append("they have other seeds, or another number of rounds: compared is what both have")
    return len(seeds), lines if differ else [*lines, "the results are the same"], differ


def _by_split(evaluation: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each seed and round, with columns such as test_ndcg_10."""
    parts = [
        rows.drop("split").rename({name: f"{split}_{name}" for name in rows.columns if name not in EVALUATION.key})
        for (split,), rows in evaluation.sort("split").group_by("split", maintain_order=True)
    ]
    return pl.concat(parts, how="align") if parts else evaluation.drop("split")


def _first_differences(joined: pl.DataFrame, columns: Sequence[str], verb: str) -> dict[int, tuple[int, str]]:
    """Return for each seed, earliest first, the first round in which a column differs, and a line with the values.

    Both runs have a value then, and different ones: a measure that one run does not trace is no difference.
    """
    differs = []
    for name in columns:
        one, other = pl.col(name), pl.col(f"{name}.second")
        unequal = (one - other).abs() > TOLERANCE if joined.schema[name].is_float() else one != other
        differs.append(unequal.fill_null(False).alias(f"{name}.differs"))
    marked = joined.with_columns(differs).filter(pl.any_horizontal(pl.lit(False), pl.col(r"^.*\.differs$")))
    found = {}
    for row in marked.unique("seed", keep="first", maintain_order=True).iter_rows(named=True):
        query = f" (query {row['query']})" if "query" in row else ""
        values = [
            f"{name} {_text(row[name])} | {_text(row[f'{name}.second'])}" for name in columns if row[f"{name}.differs"]
        ]
        shown = ", ".join([*values[:_VALUES], *([".."] if len(values) > _VALUES else [])])
        found[row["seed"]] = row["round"], f"  seed {row['seed']} {verb} in round {row['round']:,}{query}: {shown}"
    return found


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
