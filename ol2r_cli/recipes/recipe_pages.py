"""Pages of recipes, with a caveat wherever data or protocol differ from those of a paper, and the index of all."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ol2r_cli.config.composer import expand
from ol2r_cli.recipes.recipe import PAPERS, Recipe
from ol2r_cli.recipes.recipe_runs import Entry, RecipeRuns
from ol2r_cli.recipes.recipe_tables import ReportedValue, by_table, comparison_table, index_table, result_table
from ol2r_cli.recipes.run_plan import STAND_IN, RunPlan
from ol2r_cli.report.estimates import LEVEL
from ol2r_cli.report.measures import heading
from ol2r_cli.report.text_table import markdown
from ol2r_cli.run.identity import NOT_HASHED, RESULTS_VERSION

_WITHOUT_EFFECT = {*NOT_HASHED, "dataset.path", "click"}  # overrides after which numbers remain comparable
# Rankers with a network that ol2r fits in another way than the papers: docs/reproduce.md says how.
_REFITTED = {f"ranker={name}" for name in ("olranknet", "ollambdarank", "ollambdarank_gt", "p2neurrank")}


def protocol_line(plan: RunPlan) -> str:
    """The protocol of the runs, such as `quick: T = 1,000, 5 seeds, generated data`."""
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
    """The reason why numbers cannot be compared with those of the paper; empty when they can."""
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
    """The README.md of a figure or table of a paper; a caveat comes before the first number."""
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
    """What ± and n mean, and how settings were chosen."""
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
    """A line for results that this version of ol2r would not repeat; empty where it would."""
    versions = sorted({entry.group.settings["results_version"] for entry in entries})
    if all(version == RESULTS_VERSION for version in versions):
        return ""
    made = " and ".join(map(str, versions))
    return f"outdated: made with results_version {made}, and this version of ol2r has {RESULTS_VERSION}"


def benchmark_page(recipe: Recipe, entries: Sequence[Entry], figures: Mapping[str, str]) -> str:
    """The page of a benchmark as markdown. figures: file names of the curves, by the title of the dataset."""
    warning, edges = outdated(entries), any(entry.about.edges for entry in entries)
    parts = [
        f"# {recipe.title}",
        *([f"> **{warning}**"] if warning else []),
        f"{recipe.shows[0].upper()}{recipe.shows[1:]}. What was fixed beforehand, and what the intervals mean: "
        f"[protocol](protocol.md). Written by `ol2r benchmark {recipe.name} --out`; do not edit.",
        _made_with(entries),
        f"Mean ± half the {LEVEL:.0%} interval. ↑ and ↓: the value is significantly higher or lower than that of "
        f"{recipe.baseline}, paired, after Holm's correction for the rows of a column. "
        "CPU s: of all seeds and folds together. `settings` were chosen on validation queries"
        + ("; * marks one at the end of its grid." if edges else "."),
    ]
    for title in dict.fromkeys(entry.about.table for entry in entries):
        parts.append(f"## {title}")
        if title in figures:
            parts.append(f"![{heading('test_ndcg_10')} by round on {title}]({figures[title]})")
        for (dataset, click), rows in by_table(entries).items():
            if dataset == title:
                parts += [f"### {title}, {click}", markdown(result_table(recipe, rows)), _command(rows)]
    return "\n\n".join(parts) + "\n"


def _made_with(entries: Sequence[Entry]) -> str:
    """Versions, processors, runs and CPU hours."""
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
    """What to type to repeat a table: the words that all rows share, then those of each row."""
    shared = [word for word in rows[0].about.words if all(word in row.about.words for row in rows)]
    lines = [f"    ol2r run -m {shlex.join(shared)} WORDS", "", "with the words of a row:", ""]
    for row in rows:
        own = [word for word in row.about.words if word not in shared]
        lines.append(f"- {row.about.competitor}: `{shlex.join(own)}`")
    return "\n".join(lines)


def index(benchmarks: Mapping[str, tuple[Recipe, Sequence[Entry]]]) -> str:
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
