"""The published pages of the benchmark: one for each recipe, and an index."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from ol2r_cli.benchmark.benchmark_recipe import BenchmarkRecipe
from ol2r_cli.benchmark.benchmark_tables import by_table, mean_ranks, result_table
from ol2r_cli.benchmark.entries import Entry
from ol2r_cli.report.estimates import LEVEL
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.text_table import Cell, TextTable, markdown
from ol2r_cli.run.identity import RESULTS_VERSION

INDEX = "README.md"


def outdated(entries: Iterable[Entry]) -> str:
    """A line for results that this version of ol2r would not repeat; empty where it would."""
    versions = sorted({entry.group.settings["results_version"] for entry in entries})
    if all(version == RESULTS_VERSION for version in versions):
        return ""
    made = " and ".join(map(str, versions))
    return f"outdated: made with results_version {made}, and this version of ol2r has {RESULTS_VERSION}"


def page(recipe: BenchmarkRecipe, entries: Sequence[Entry], figures: Mapping[str, str]) -> str:
    """The page of a benchmark as markdown. figures: file names of the curves, by the title of the dataset."""
    warning = outdated(entries)
    parts = [
        f"# {recipe.title}",
        *([f"> **{warning}**"] if warning else []),
        f"{recipe.shows[0].upper()}{recipe.shows[1:]}. What was fixed beforehand, and what the intervals mean: "
        f"[protocol](protocol.md). Written by `ol2r benchmark {recipe.name} --out`; do not edit.",
        _made_with(recipe, entries),
        _reading(recipe, entries),
    ]
    for title, tables in _by_dataset(entries).items():
        parts.append(f"## {title}")
        if title in figures:
            parts.append(f"![{heading('test_ndcg_10')} by round on {title}]({figures[title]})")
        for rows in tables:
            click = rows[0].table[1]
            parts += [f"### {title}, {click}", markdown(result_table(recipe, rows)), command(rows)]
    return "\n\n".join(parts) + "\n"


def _by_dataset(entries: Iterable[Entry]) -> dict[str, list[list[Entry]]]:
    datasets: dict[str, list[list[Entry]]] = {}
    for (title, _), rows in by_table(entries).items():
        datasets.setdefault(title, []).append(rows)
    return datasets


def _made_with(recipe: BenchmarkRecipe, entries: Sequence[Entry]) -> str:
    """Versions, processors, runs and CPU hours."""
    versions: dict[str, list[str]] = {}
    for entry in entries:
        for name, version in entry.about.versions.items():
            versions.setdefault(name, [])
            if version not in versions[name]:
                versions[name].append(version)
    versions["results_version"] = sorted({str(entry.group.settings["results_version"]) for entry in entries})
    runs = sum(len(entry.group.runs) for entry in entries)
    hours = sum(entry.cpu_seconds or 0 for entry in entries) / 3600
    chosen = sum(entry.about.choice_seconds for entry in entries) / 3600
    listed = ", ".join(f"{name} {' and '.join(several)}" for name, several in versions.items())
    return f"{runs} runs in {hours:.1f} CPU hours, and {chosen:.1f} CPU hours to choose settings. Made with {listed}."


def _reading(recipe: BenchmarkRecipe, entries: Sequence[Entry]) -> str:
    """How the tables are to be read."""
    edges = any(entry.about.edges for entry in entries)
    return (
        f"Mean ± half the {LEVEL:.0%} interval. ↑ and ↓: the value is significantly higher or lower than that of "
        f"{recipe.baseline}, paired, after Holm's correction for the rows of a column. "
        "CPU s: of all seeds and folds together. `settings` were chosen on validation queries"
        + ("; * marks one at the end of its grid." if edges else ".")
    )


def command(rows: Sequence[Entry]) -> str:
    """What to type to repeat a table: the words that all rows share, then those of each row."""
    shared = [word for word in rows[0].about.words if all(word in row.about.words for row in rows)]
    lines = [f"    ol2r run -m {shlex.join(shared)} WORDS", "", "with the words of a row:", ""]
    for row in rows:
        own = [word for word in row.about.words if word not in shared]
        lines.append(f"- {row.about.competitor}: `{shlex.join(own)}`")
    return "\n".join(lines)


def index_table(recipe: BenchmarkRecipe, entries: Sequence[Entry]) -> TextTable:
    """A row for each ranker: its mean place, and the means of the first metrics in every table."""
    tables = by_table(entries)
    metrics = recipe.metrics[:2]
    places = mean_ranks(tables.values(), metrics[0])
    rows = []
    for competitor in places:
        cells = [Cell(competitor), Cell(f"{places[competitor]:.1f}")]
        for of_table in tables.values():
            row = next((row for row in of_table if row.about.competitor == competitor), None)
            cells.append(Cell("" if row is None else " / ".join(_mean(row, metric) for metric in metrics)))
        rows.append(cells)
    headings = ["ranker", "mean rank", *(", ".join(table) for table in tables)]
    return TextTable(headings, rows, [column > 0 for column in range(len(headings))])


def _mean(row: Entry, metric: str) -> str:
    estimate = row.group.estimate(metric)
    if estimate is None:
        return "-"
    shown = 3 if "ndcg_10" in metric or abs(estimate.mean) < 1 else 1
    return f"{estimate.mean:.{min(shown, digits(metric))}f}"


def index(benchmarks: Mapping[str, tuple[BenchmarkRecipe, Sequence[Entry]]]) -> str:
    """The index page: which result to expect of each ranker."""
    parts = [
        "# Expected results",
        "Which result each ranker of `ol2r` gives on data that everybody can have, with settings chosen on validation "
        "queries. The pages have intervals, settings, costs and the command of every row; "
        "[protocol](protocol.md) says what was fixed beforehand, and [findings](findings.md) what follows from it.",
        "    ol2r benchmark linear dataset=mq2008 click=inf                # a table on the terminal\n"
        "    ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD  # are the numbers the same here?\n"
        "    ol2r benchmark linear --add ranker=mine                       # a ranker of your own in it\n"
        "    ol2r report docs/benchmark/linear.parquet --baseline pdgd --differences     # all differences, with p",
        "Data sets lie in one folder, `data_dir=FOLDER`: [data](../data.md). A page prints mean ± half of the "
        "interval; with folds it is wide because folds differ, and says little about differences, which are paired. "
        "The raw values have a row for each run and seed, and the rows of the tables to which a run belongs:",
        "    import polars as pl\n\n"
        '    values = pl.read_parquet("docs/benchmark/linear.parquet")\n'
        '    values.filter(pl.col("rows").list.contains("PDGD"), dataset="mq2008", click="informational")'
        '["test_ndcg_10"].mean()',
        "Written by `ol2r benchmark --out`; do not edit.",
    ]
    for name, (recipe, entries) in benchmarks.items():
        warning = outdated(entries)
        shown = " / ".join(heading(metric) for metric in recipe.metrics[:2])
        parts += [
            f"## [{recipe.title}]({name}.md)",
            *([f"> **{warning}**"] if warning else []),
            f"{shown}. Mean rank: by {heading(recipe.metrics[0])}, over all columns.",
            markdown(index_table(recipe, entries)),
        ]
    return "\n\n".join(parts) + "\n"
