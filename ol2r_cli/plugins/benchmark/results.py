"""Rows of a benchmark's tables, and the files of published results: finished runs without their tables.

A file has a row for each run and seed. What a row of a table says of its runs stands in the column `about`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.files import invalid_fields, plain
from ol2r_cli.lazy import pl
from ol2r_cli.plugins.benchmark.recipe import Condition, Overrides, by_name, load_recipe, recipe_names, value_of
from ol2r_cli.plugins.benchmark.run_plan import expand_all
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.names import click_order
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.run.run import scan
from ol2r_cli.text.formatting import error_line, one_line

if TYPE_CHECKING:
    from ol2r_cli.plugins.benchmark.run_plan import RunPlan

TEST = "test_ndcg_10"
PROCESSORS_FILE = "processors.parquet"  # of scripts/processors.py
# Columns of a file of results that are the same for all seeds of a run; those of `_JSON` have JSON.
_COST = ("cpu_seconds", "peak_memory_gb")
_JSON = ("choices", "settings", "typed", "columns", "about")
_OF_RUN = ("run", "rows", "dataset", "fold", "click", "ranker", "fingerprint", *_COST, *_JSON)
_SCHEMA: dict[Any, Any] = {
    **dict.fromkeys(("run", "fingerprint"), str),
    **dict.fromkeys(_COST, (int, float, None)),
    **{"choices": {...: str}, "settings": dict, "typed": ([str], list), "columns": dict},
}


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a table, or a line of a figure: the finished runs of a competitor under a condition.

    settings: those that were chosen, or that a recipe has in place of a choice. words: all overrides of the row on one
    line of `ol2r run`, which may list several values. edges: names of the settings at an end of their grid. candidates:
    how many settings they were chosen from. choice_seconds: the CPU seconds of that. choices: the choosing runs, rows
    of `play.choice_frame`; None without them. unstable: as of its competitor, each setting. versions: by run, of ol2r
    and its libraries, and the processor.
    """

    condition: Condition
    settings: Overrides
    words: Sequence[str]
    group: Group
    edges: Sequence[str] = ()
    candidates: int = 0
    choice_seconds: float = 0.0
    choices: pl.DataFrame | None = None
    unstable: Collection[str] = ()
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def competitor(self) -> str:
        """Return the name of the row."""
        return self.condition.competitor

    @property
    def aim(self) -> str:
        """Return for which aim its settings were chosen, '' without a choice."""
        return self.condition.aim

    @property
    def run_ids(self) -> frozenset[str]:
        """Return the ids of its runs, which other rows may have, too."""
        return frozenset(run.id for run in self.group.runs)


Tables = dict[tuple[str, str], list[Row]]  # by dataset and click model


def tables_of(rows: Sequence[Row]) -> Tables:
    """Return rows by dataset and click model. Users are in the order of figures."""
    tables: Tables = {}
    for row in rows:
        tables.setdefault(row.condition[:2], []).append(row)
    titles = list(dict.fromkeys(title for title, _ in tables))
    ordered = sorted(tables, key=lambda table: (titles.index(table[0]), click_order(table[1])))
    return {table: tables[table] for table in ordered}


def published_dir() -> Path:
    """Return the folder of the published results, of a checkout or within an installed package."""
    beside = config_dir().parent / "docs" / "benchmark"
    return beside if beside.is_dir() else Path(__file__).parents[2] / "published"


def published(name: str, has: Callable[[FinishedRun, Condition], bool] = lambda *_: True) -> list[Row]:
    """Return the published rows of a benchmark, those of its check for NAME_check; empty where there are none.

    has: whether a run belongs to what is wanted.
    """
    file = published_dir() / f"{name}.parquet"
    return rows_of_file(file, has) if file.is_file() else []


def rows_of_file(file: Path, has: Callable[[FinishedRun, Condition], bool] = lambda *_: True) -> list[Row]:
    """Return the rows of a file of results, with the choosing runs of that beside it; ValueError as `read_results`."""
    rows: dict[Condition, list[tuple[FinishedRun, dict[str, Any]]]] = {}
    for run, about in read_results(file):
        for row in about["rows"]:
            condition = Condition(row["table"], run.choices["click"], row["competitor"], row["aim"])
            if has(run, condition):
                rows.setdefault(condition, []).append((run, row))
    choices, unstable = by_condition(_choices(file)), unstable_settings(file.stem)
    found = []
    for condition, of_row in rows.items():
        _, about = of_row[0]
        named = by_name(about["words"])
        for group in group_runs(run for run, _ in of_row):
            row_of_group = Row(
                condition,
                settings={setting: named[setting] for setting in about["settings"]},
                words=about["words"],
                group=group,
                edges=about["edges"],
                candidates=about["candidates"],
                choice_seconds=about["choice_seconds"],
                choices=choices.get(condition[:3]),
                unstable=unstable.get(condition.competitor, ()),
                versions={run.id: row["versions"] for run, row in of_row},
            )
            found.append(row_of_group)
    return found


def published_choices(name: str) -> pl.DataFrame | None:
    """Return the choosing runs of published results, as `play.choice_frame` has them; None where there are none."""
    return _choices(published_dir() / f"{name}.parquet")


def _choices(results: Path) -> pl.DataFrame | None:
    file = results.with_name(f"{results.stem}_choice.parquet")
    return scan(file).collect() if file.is_file() else None


def unstable_settings(benchmark: str) -> dict[str, list[str]]:
    """Return the unstable settings of each competitor of a benchmark; nothing for another name."""
    if benchmark not in recipe_names("benchmark"):
        return {}
    competitors = load_recipe("benchmark", benchmark).competitors
    return {name: expand_all(competitor.unstable) for name, competitor in competitors.items()}


def by_condition(choices: pl.DataFrame | None) -> dict[tuple[Any, ...], pl.DataFrame]:
    """Return choosing runs by the first three fields of their condition."""
    return {} if choices is None else choices.partition_by("table", "click", "competitor", as_dict=True)


def published_part(plan: RunPlan) -> list[Row]:
    """Return the published rows of the datasets, click models and folds of a plan; ValueError where none are."""
    tables: set[tuple[str, str]] = set()
    folds: set[str] = set()  # empty text for data without folds
    for trial in plan.final():
        tables.add(trial.condition[:2])
        folds.update(value_of(by_name(run), "dataset.fold") for run in trial.runs)
    name = plan.recipe.name
    rows = published(
        name, lambda run, condition: condition[:2] in tables and (run.fold is None or str(run.fold) in folds)
    )
    if not rows:
        raise ValueError(f"there are no published results of {name} for this: type ol2r benchmark {name} --run")
    return rows


@cache
def _differing(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    return frozenset(pl.read_parquet(file).filter("differs")["overrides"])


def differs_elsewhere(row: Row) -> bool:
    """Return whether the settings of a row gave other results with fewer instructions: the mark ‡; not if untried."""
    return shlex.join(row.words) in _differing(published_dir() / PROCESSORS_FILE)


def as_published(rows: Sequence[Row]) -> pl.DataFrame:
    """Return the table that `published` reads, with every run once. NDCG at other cut-offs than 10 is left out."""
    runs = {run.path: run for row in rows for run in row.group.runs}
    of_runs: dict[Path, list[Row]] = {}
    for row in rows:
        for run in row.group.runs:
            of_runs.setdefault(run.path, []).append(row)
    names = [[", ".join(filter(None, (row.competitor, row.aim))) for row in of_run] for of_run in of_runs.values()]
    abouts = [{"rows": [_about(row, runs[path]) for row in of_run]} for path, of_run in of_runs.items()]
    frame = results_frame(list(runs.values()), abouts, names)
    return frame.select(pl.exclude(r"^.*_ndcg_[135](_untrained)?$"))


def _about(row: Row, run: FinishedRun) -> dict[str, Any]:
    """Return what a row says of one of its runs in a file."""
    return {
        "table": row.condition.data,
        "competitor": row.competitor,
        "words": list(row.words),
        "settings": list(row.settings),
        "edges": list(row.edges),
        "candidates": row.candidates,
        "choice_seconds": row.choice_seconds,
        "versions": dict(row.versions[run.id]),
        "aim": row.aim,
    }


def results_frame(
    runs: Sequence[FinishedRun], about: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str]]
) -> pl.DataFrame:
    """Return a row for each run and seed: what identifies the run, its costs and settings, and all metrics.

    about: what else to keep of each run. rows: what tables call each run; a run may have several names.
    """
    values: list[dict[str, Any]] = []
    for run, note, names in zip(runs, about, rows, strict=True):
        of_run = {
            "run": run.id,
            "rows": list(names),
            "dataset": run.choices["dataset"],
            "fold": run.fold,
            "click": run.choices["click"],
            "ranker": run.choices["ranker"],
            "fingerprint": run.fingerprint,
            "cpu_seconds": run.cpu_seconds,
            "peak_memory_gb": run.peak_memory_gb,
            "choices": json.dumps(dict(run.choices)),
            "settings": json.dumps(dict(run.settings)),
            "typed": json.dumps(sorted(run.typed)),
            "columns": json.dumps(run.columns.declared()),
            "about": json.dumps(dict(note)),
        }
        values += [{**of_run, "seed": seed, **metrics} for seed, metrics in run.values.items()]
    text = {"rows": pl.List(pl.String)}
    return pl.from_dicts(values, schema_overrides=text, infer_schema_length=None, strict=False)


def read_results(file: Path) -> list[tuple[FinishedRun, dict[str, Any]]]:
    """Return the runs of a file that has the rows of `results_frame`, each with its `about`.

    The path of a run is that of the file and its id: it has no tables. ValueError for another file.
    """
    try:
        rows = scan(file).collect().to_dicts()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{file} cannot be read: {one_line(error)}") from None
    missing = [name for name in (*_OF_RUN, "seed") if rows and name not in rows[0]]
    if missing:
        raise ValueError(f"{file} must have the results of runs, got a table without {', '.join(missing)}")
    try:
        return list(_runs(rows, file))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} must have the results of runs, got a damaged row ({error_line(error)})") from None


def _runs(rows: Sequence[dict[str, Any]], file: Path) -> Iterator[tuple[FinishedRun, dict[str, Any]]]:
    """Yield the run of consecutive rows, one for each seed, with its `about`. ValueError for a damaged row."""
    for _, group in groupby(rows, key=itemgetter(*_OF_RUN)):
        of_run = list(group)
        content = of_run[0] | {name: plain(json.loads(of_run[0][name])) for name in _JSON}
        wrong = invalid_fields(content, _SCHEMA)
        if wrong:
            raise ValueError(f"no valid {', '.join(wrong)}")
        manifest = {name: content[name] for name in ("choices", "typed", "columns", *_COST)}
        manifest |= {"id": content["run"], "dataset": {"fingerprint": content["fingerprint"]}}
        path, values = file / content["run"], _values_by_seed(of_run)
        run = FinishedRun(path, manifest, content["settings"], content["fold"], values)
        yield run, content["about"]


def _values_by_seed(rows: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, float | None]]:
    """Return the metrics of a run that some seed has; None where one does not apply."""
    metrics = [name for name in rows[0] if name not in (*_OF_RUN, "seed")]
    measured = [name for name in metrics if any(row[name] is not None for row in rows)]
    return {row["seed"]: {name: row[name] for name in measured} for row in rows}
