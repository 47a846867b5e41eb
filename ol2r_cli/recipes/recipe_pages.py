"""Tables and pages of recipes: our values beside the numbers of a paper, with a caveat wherever data or protocol differ
from those of the paper, and the rankers of a benchmark, best first."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ol2r_cli.config.composer import expand
from ol2r_cli.dataset.dataset_statistics import group_statistics
from ol2r_cli.formatting import plus_minus
from ol2r_cli.recipes.recipe import PAPERS, Recipe
from ol2r_cli.recipes.recipe_runs import Entry, RecipeRuns
from ol2r_cli.recipes.run_plan import ROLES_OF_A_ROW, STAND_IN, Condition, RunPlan, Slot, role
from ol2r_cli.report.comparison import compare_with
from ol2r_cli.report.estimates import LEVEL, Estimate, over_folds
from ol2r_cli.report.measures import described, digits, gain, heading
from ol2r_cli.report.text_table import Cell, TextTable, markdown
from ol2r_cli.run.identity import NOT_HASHED, RESULTS_VERSION
from ol2r_cli.run.run import Run

SECONDS = "seconds"  # wall-clock time of a run; all other metrics are those of summary.json
SIZE, UTILITY = "size", "utility"  # of a group of documents: per cent of all documents, mean label
GROUPS = ("A", "B")  # the paper's names of groups 0 and 1
_WITHOUT_EFFECT = {*NOT_HASHED, "dataset.path", "click"}  # overrides after which numbers remain comparable
# Rankers with a network that ol2r fits in another way than the papers: docs/reproduce.md says how.
_REFITTED = {f"ranker={name}" for name in ("olranknet", "ollambdarank", "ollambdarank_gt", "p2neurrank")}


@dataclass(frozen=True)
class ReportedValue:
    """A value of one metric under a condition; `printed` has the paper's numbers by the title of their dataset.

    For statistics of the data, the condition has no click model and its competitor is a group of documents.
    """

    condition: Condition
    settings: str
    metric: str
    value: Estimate
    printed: Mapping[str, float]


def run_values(plan: RunPlan, runs: RecipeRuns) -> list[ReportedValue]:
    """Return the values of all conditions and metrics that the runs have, in the order of the recipe.

    A metric is estimated over folds and seeds, running time over runs.
    """
    slots = {slot.title: slot for slot in plan.slots}
    values = []
    for condition, group in runs.groups.items():
        settings = " ".join(runs.settings[condition].values())
        for metric in plan.recipe.metrics:
            if metric == SECONDS:
                seconds = [Run.read_finished(run.path).manifest["seconds"] for run in group.runs]
                value = over_folds({None: [Estimate(each, None, 1) for each in seconds]})
            else:
                value = group.estimate(metric)
            if value is not None:
                printed = _printed(plan.recipe, slots[condition.slot], condition, metric)
                values.append(ReportedValue(condition, settings, metric, value, printed))
    return values


def data_values(plan: RunPlan) -> list[ReportedValue]:
    """Return size and utility of both groups in every dataset; ValueError for a dataset without two groups."""
    values = []
    for slot in plan.slots:
        statistics = group_statistics(plan.dataset(slot).load())
        if not statistics or len(statistics[-1].sizes) != len(GROUPS):
            raise ValueError(f"{slot.title} must have two groups of documents: type dataset.group={{..}}")
        total = statistics[-1]  # over all splits
        sizes = [100 * size / sum(total.sizes) for size in total.sizes]
        for metric, by_group in ((SIZE, sizes), (UTILITY, total.utilities)):
            for group, value in zip(GROUPS, by_group, strict=True):
                condition = Condition(slot.title, "", group)
                printed = _printed(plan.recipe, slot, condition, metric)
                values.append(ReportedValue(condition, "", metric, Estimate(value, None, 1), printed))
    return values


def _printed(recipe: Recipe, slot: Slot, condition: Condition, metric: str) -> dict[str, float]:
    """The paper's numbers for a condition and metric; a printed number without click model holds for all of them."""
    return {
        recipe.data[number.data].title: number.value
        for number in recipe.printed
        if number.data in slot.stands_for
        and (number.competitor, number.metric) == (condition.competitor, metric)
        and number.click in ("", condition.click)
    }


def comparison_table(values: Sequence[ReportedValue], comparable: bool, settings: bool = True) -> TextTable:
    """Return a row for each condition and three columns for each metric: ours, the paper's, and their difference.

    comparable: whether our runs follow the protocol of the paper; otherwise differences are left out and the paper's
    dataset is named. settings: whether to show the settings of competitors. Empty columns are left out.
    """
    by_condition: dict[Condition, dict[str, ReportedValue]] = {}
    for value in values:
        by_condition.setdefault(value.condition, {})[value.metric] = value
    metrics = list(dict.fromkeys(value.metric for value in values))
    rows = []
    for condition, by_metric in by_condition.items():
        first = next(iter(by_metric.values()))
        chosen = " ".join(map(_brief, first.settings.split())) if settings else ""
        n = str(first.value.n) if condition.click else ""  # statistics of the data have no seeds
        row = [*condition, chosen, n]
        for metric in metrics:
            row += _compared(by_metric[metric], comparable) if metric in by_metric else ["", "", ""]
        rows.append([Cell(text) for text in row])
    headings = ["data", "click", "competitor", "settings", "n"]
    headings += [text for metric in metrics for text in (heading(metric), "the paper", "difference")]
    return TextTable(headings, rows, [column > 3 for column in range(len(headings))]).without_empty()


def _compared(reported: ReportedValue, comparable: bool) -> list[str]:
    places, printed = 4 if reported.metric == UTILITY else digits(reported.metric), reported.printed
    ours = plus_minus(reported.value.mean, reported.value.half_width, places)
    theirs = [f"{value:.{places}f}" + ("" if comparable else f" ({title})") for title, value in printed.items()]
    differences = [f"{reported.value.mean - value:.{places}f}" for value in printed.values()] if comparable else []
    return [ours, ", ".join(theirs), ", ".join(differences)]


def _brief(word: str) -> str:
    name, _, value = word.partition("=")
    return f"{re.split('[./]', name)[-1]}={value}"


def as_csv(values: Sequence[ReportedValue], scale: str) -> str:
    """Return all values in full precision as CSV, with a row for every number that the paper prints for a value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["scale", "data", "click", "competitor", "settings", "metric", "mean", "half_width", "n"]
    writer.writerow([*columns, "paper_data", "paper_value"])
    for reported in values:
        value = reported.value
        row = [scale, *reported.condition, reported.settings, reported.metric, value.mean, value.half_width, value.n]
        writer.writerows([*row, *printed] for printed in reported.printed.items() or [("", None)])
    return text.getvalue()


def by_table(entries: Iterable[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Return the rows of each table, by dataset and click model, in the order in which tables occur."""
    tables: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        tables.setdefault(entry.table, []).append(entry)
    return tables


def result_table(recipe: Recipe, rows: Sequence[Entry], words: bool = False) -> TextTable:
    """Return one table: best first, by the first metric of the recipe, with marks against its baseline and the costs.

    words: whether settings are those that one types, with the ranker.
    """
    base = next((row for row in rows if row.about.competitor == recipe.baseline), None)
    comparison = compare_with(base.group, [row.group for row in rows], recipe.metrics) if base else None
    places = {metric: _places(rows, metric) for metric in recipe.metrics}

    def cells(row: Entry) -> list[Cell]:
        cells = [Cell(row.about.competitor + (" (baseline)" if row is base else "")), Cell(_settings(row, words))]
        for metric, place in places.items():
            estimate = row.group.estimate(metric)
            value = "" if estimate is None else plus_minus(estimate.mean, estimate.half_width, digits(metric))
            cells.append(Cell(value, comparison.mark(row.group, metric) if comparison else "", place.get(row) == 1))
        seconds = row.cpu_seconds
        cells.append(Cell("" if seconds is None else f"{seconds:,.{1 if seconds < 10 else 0}f}"))
        memory = [run.peak_memory_gb for run in row.group.runs if run.peak_memory_gb is not None]
        return [*cells, Cell(f"{max(memory):.2f}" if memory else "")]

    headings = ["ranker", "words" if words else "settings", *map(heading, recipe.metrics), "CPU s", "peak GB"]
    best_first = sorted(rows, key=lambda row: places[recipe.metrics[0]].get(row, len(rows)))
    numbers = [column > 1 for column in range(len(headings))]
    return TextTable(headings, list(map(cells, best_first)), numbers).without_empty()


def _settings(row: Entry, words: bool) -> str:
    """Return what was typed of its ranker, exploration and fairness, or it in short; * at the end of a grid."""
    names = {word: word.partition("=")[0] for word in row.about.words}
    shown = {word: name for word, name in names.items() if role(name) in ROLES_OF_A_ROW and (words or name != "ranker")}
    short = shlex.quote if words else _brief
    return " ".join(short(word) + "*" * (name in row.about.edges) for word, name in shown.items())


def _places(rows: Iterable[Entry], metric: str) -> dict[Entry, int]:
    """Return the place of each row by the mean of a metric: 1 is best, equal ones share the better place.

    Rows without the metric have none, and no row has one where neither direction is better.
    """
    if described(metric).higher_is_better is None:
        return {}
    estimates = {row: row.group.estimate(metric) for row in rows}
    gains = {row: gain(metric, estimate.mean) for row, estimate in estimates.items() if estimate is not None}
    return {row: 1 + sum(other > own for other in gains.values()) for row, own in gains.items()}


def index_table(recipe: Recipe, entries: Sequence[Entry]) -> TextTable:
    """Return a row for each ranker: its mean place by the first metric, and the means of two metrics in every table."""
    tables, metrics = by_table(entries), recipe.metrics[:2]
    places: dict[str, list[int]] = {}
    for of_table in tables.values():
        for row, place in _places(of_table, metrics[0]).items():
            places.setdefault(row.about.competitor, []).append(place)
    rows = []
    for competitor in sorted(places, key=lambda name: fmean(places[name])):
        cells = [Cell(competitor), Cell(f"{fmean(places[competitor]):.1f}")]
        for of_table in tables.values():
            own = [row for row in of_table if row.about.competitor == competitor]
            cells.append(Cell(" / ".join(_mean(own[0], metric) for metric in metrics) if own else ""))
        rows.append(cells)
    headings = ["ranker", "mean rank", *(", ".join(table) for table in tables)]
    return TextTable(headings, rows, [column > 0 for column in range(len(headings))])


def _mean(row: Entry, metric: str) -> str:
    estimate = row.group.estimate(metric)
    if estimate is None:
        return "-"
    shown = 3 if "ndcg_10" in metric or abs(estimate.mean) < 1 else 1
    return f"{estimate.mean:.{min(shown, digits(metric))}f}"


def protocol_line(plan: RunPlan) -> str:
    """Return the protocol of the runs, such as `quick: T = 1,000, 5 seeds, generated data`."""
    generated = f"dataset={STAND_IN}"
    datasets = ["generated data" if slot.shared["dataset"] == generated else slot.title for slot in plan.slots]
    parts = []
    if plan.recipe.competitors:
        shared = plan.slots[0].shared
        for name in ("rounds", "replicas"):
            if not (value := shared[name].partition("=")[2]).isdecimal():
                raise ValueError(f"{name} must be a whole number, got {value}")
        rounds, seeds = (int(shared[name].partition("=")[2]) for name in ("rounds", "replicas"))
        folds = len(expand(shared["dataset.fold"])) if "dataset.fold" in shared else 1
        parts.append(f"T = {rounds:,}")
        parts.append(f"{seeds} seed{'s' * (seeds > 1)}" + (f" x {folds} folds" if folds > 1 else ""))
    return f"{plan.scale}: {', '.join([*parts, ' and '.join(dict.fromkeys(datasets))])}"


def caveat(plan: RunPlan) -> str:
    """Return the reason why numbers cannot be compared with those of the paper; empty when they can."""
    protocol, recipe = protocol_line(plan), plan.recipe
    data = [(slot, recipe.data[name]) for slot in plan.slots for name in slot.stands_for]
    typed = [override for name, override in plan.typed.items() if name not in _WITHOUT_EFFECT]
    if plan.scale == "quick":
        return f"{protocol}: shapes can be compared, numbers cannot"
    if any(slot.shared["dataset"] != f"dataset={paper.choice}" for slot, paper in data):
        return f"{protocol}, which is not the data of the paper: numbers cannot be compared"
    if typed:
        return f"{protocol}, with {' '.join(typed)}, which is not the protocol of the paper"
    if any(not _REFITTED.isdisjoint(competitor.words.split()) for competitor in recipe.competitors.values()):
        return f"{protocol}, with networks that are not fitted as in the paper: numbers cannot be compared"
    return ""


def paper_page(plan: RunPlan, runs: RecipeRuns, values: Sequence[ReportedValue], figures: Sequence[Path]) -> str:
    """Return the README.md of a figure or table of a paper; a caveat comes before the first number."""
    recipe, warning = plan.recipe, caveat(plan)
    verdicts = [seen.partition(",") for seen in recipe.seen]
    parts = [
        f"# {recipe.title}",
        f"{PAPERS[recipe.paper][1]}, {recipe.where}: {recipe.shows}.",
        f"> **{warning}**" if warning else protocol_line(plan),
        "The paper says, and published runs of ol2r (`docs/reproduce.md`) show:",
        "\n".join(
            f"- {claim}\n  - **{verdict}**{comma}{reason}"
            for claim, (verdict, comma, reason) in zip(recipe.claims, verdicts, strict=True)
        ),
        *(f"![{path.stem}]({path.name})" for path in figures),
    ]
    if values:
        parts += [markdown(comparison_table(values, comparable=not warning)), _notes(values, runs)]
    parts += [f"failed: {job}" for job in runs.failed]
    command = f"ol2r reproduce {recipe.name} --scale {plan.scale} {shlex.join(plan.typed.values())}".strip()
    return "\n\n".join([*parts, f"    {command}"]) + "\n"


def _notes(values: Sequence[ReportedValue], runs: RecipeRuns) -> str:
    notes = []
    if any(value.value.half_width is not None for value in values):
        several = any(value.value.folds > 1 for value in values)
        units = "folds; n counts (fold, seed)." if several else "seeds, of which there are n."
        notes.append(f"± is half the width of the {LEVEL:.0%} interval of the mean (Student's t) over {units}")
    if most := max(map(len, runs.candidates.values()), default=0):
        chosen = f"Settings are the best of up to {most} by validation NDCG@10"
        notes.append(f"{chosen}, chosen with other seeds than those reported.")
    return " ".join(notes)


def outdated(entries: Iterable[Entry]) -> str:
    """Return a line for results that this version of ol2r would not repeat; empty where it would."""
    versions = sorted({entry.group.settings["results_version"] for entry in entries})
    if all(version == RESULTS_VERSION for version in versions):
        return ""
    made = " and ".join(map(str, versions))
    return f"outdated: made with results_version {made}, and this version of ol2r has {RESULTS_VERSION}"


def benchmark_page(recipe: Recipe, entries: Sequence[Entry], figures: Mapping[str, str]) -> str:
    """Return the page of a benchmark as markdown. figures: file names of the curves, by the title of the dataset."""
    warning, edges = outdated(entries), any(entry.about.edges for entry in entries)
    parts = [
        f"# {recipe.title}",
        *([f"> **{warning}**"] if warning else []),
        f"{recipe.shows[0].upper()}{recipe.shows[1:]}. What was fixed beforehand, and what the intervals mean: "
        f"[protocol](protocol.md). Written by `ol2r benchmark {recipe.name} --out`; do not edit.",
        _made_with(entries),
        f"Mean ± half the {LEVEL:.0%} interval. ↑ and ↓: the value is significantly higher or lower than that of "
        f"{recipe.baseline}, paired, after Holm's correction for the rows of a column. "
        "CPU s: of all seeds and folds together. `words` run a row with the line below its table; "
        "settings were chosen on validation queries"
        + ("; * marks one at the end of its grid and is not typed." if edges else "."),
    ]
    for title in dict.fromkeys(entry.about.table for entry in entries):
        parts.append(f"## {title}")
        if title in figures:
            parts.append(f"![{heading('test_ndcg_10')} by round on {title}]({figures[title]})")
        for (dataset, click), rows in by_table(entries).items():
            if dataset == title:
                parts += [f"### {title}, {click}", markdown(result_table(recipe, rows, words=True)), _command(rows)]
    return "\n\n".join(parts) + "\n"


def _made_with(entries: Sequence[Entry]) -> str:
    versions: dict[str, dict[str, None]] = {}  # in the order in which they occur
    for entry in entries:
        for name, version in entry.about.versions.items():
            versions.setdefault(name, {})[version] = None
    of_results = sorted({str(entry.group.settings["results_version"]) for entry in entries})
    runs = sum(len(entry.group.runs) for entry in entries)
    hours = sum(entry.cpu_seconds or 0 for entry in entries) / 3600
    chosen = sum(entry.about.choice_seconds for entry in entries) / 3600
    several = {**versions, "results_version": of_results}
    listed = ", ".join(f"{name} {' and '.join(each)}" for name, each in several.items())
    return f"{runs} runs in {hours:.1f} CPU hours, and {chosen:.1f} CPU hours to choose settings. Made with {listed}."


def _command(rows: Sequence[Entry]) -> str:
    """Return what to type to repeat a row: the words that all rows share; the table has those of each."""
    shared = [word for word in rows[0].about.words if all(word in row.about.words for row in rows)]
    return f"    ol2r run -m {shlex.join(shared)} WORDS"


def index(benchmarks: Mapping[str, tuple[Recipe, Sequence[Entry]]]) -> str:
    """Return the index page: which result to expect of each ranker."""
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
