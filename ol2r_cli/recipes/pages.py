"""The tables and pages of a benchmark: main values with both kinds of intervals, settings with costs, the index."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from ol2r_cli.formatting import plus_minus
from ol2r_cli.lazy import pl
from ol2r_cli.metrics.intervals import LEAST_UNITS, LEVEL, quantile
from ol2r_cli.recipes.choices import AIMS, RESAMPLES, SEED, aim_of, spread_of_choice, with_choice
from ol2r_cli.recipes.recipe import Recipe
from ol2r_cli.recipes.reproduce import brief
from ol2r_cli.recipes.results import TEST, About, Results
from ol2r_cli.recipes.run_plan import ROLES_OF_A_ROW, Condition, by_name, role, value_of
from ol2r_cli.report.comparison import paired
from ol2r_cli.report.estimates import ALPHA, holm, of_values, two_sided
from ol2r_cli.report.measures import described, digits, gain, heading
from ol2r_cli.report.parts import click_order
from ol2r_cli.report.run_groups import Group, group_runs
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.text_table import Cell, TextTable, markdown


class Entry(NamedTuple):
    """A competitor on a dataset under a click model, with settings for an aim.

    choices: its choosing runs, the rows of a condition in `choice_frame`; None without them.
    """

    about: About
    group: Group
    choices: pl.DataFrame | None = None

    def spread(self, metric: str) -> float:
        """What the choice of settings adds to the standard error of a metric; ValueError without its choosing runs."""
        if not self.about.aim:
            return 0.0
        if self.choices is None:
            raise ValueError(
                f"results of {self.about.competitor} must have choosing runs beside them, in NAME_choice.parquet"
            )
        return spread_of_choice(self.choices, metric)


Tables = dict[tuple[str, str], list[Entry]]  # by dataset and click model


def tables_of(results: Results, choices: pl.DataFrame | None = None) -> Tables:
    """Return the tables of results: an entry for the runs of a competitor that differ in nothing but fold and seed.

    Users are in the order of figures.
    """
    parts = {} if choices is None else choices.partition_by("table", "click", "competitor", as_dict=True)
    rows: dict[Condition, Results] = {}
    for run, about in results:
        rows.setdefault(about.row(run), []).append((run, about))
    tables: Tables = {}
    for (title, click, name, aim, _), own in rows.items():
        for group in group_runs(run for run, _ in own):
            part = parts.get((title, click, name)) if aim else None
            tables.setdefault((title, click), []).append(Entry(own[0][1], group, part))
    titles = list(dict.fromkeys(title for title, _ in tables))
    return {table: tables[table] for table in sorted(tables, key=lambda of: (titles.index(of[0]), click_order(of[1])))}


def for_metric(rows: Iterable[Entry], metric: str) -> dict[str, Entry]:
    """Return the entry of each competitor whose settings were chosen for the aim of a metric, or were not chosen."""
    return {row.about.competitor: row for row in rows if row.about.aim in ("", aim_of(metric))}


def of_two_settings(entries: Iterable[Entry]) -> bool:
    """Return whether the values of a row are of two settings, each chosen for its own aim."""
    return len({tuple(entry.about.words) for entry in entries}) > 1


class Difference(NamedTuple):
    """The paired difference from the baseline, half its interval with both choices, and Holm's p."""

    mean: float
    half_width: float
    p: float

    @property
    def arrow(self) -> str:
        """↑ where the difference is significantly above 0, ↓ where it is below."""
        return "" if self.p >= ALPHA else "↑" if self.mean > 0 else "↓"


def differences(rows: Mapping[str, Entry], metric: str, baseline: str) -> dict[str, Difference]:
    """Return what is known of each row against the baseline; rows with the same runs count once in Holm's correction.

    Student's t has a standard error that contains the choice of both rows' settings. Tables with fewer than three units
    have no differences.
    """
    if baseline not in rows:
        return {}
    base, found = rows[baseline], dict[str, tuple[float, float, float]]()
    of_runs = {name: frozenset(run.id for run in row.group.runs) for name, row in rows.items()}
    for name, row in rows.items():
        if of_runs[name] == of_runs[baseline]:
            continue
        estimate = of_values(paired(row.group, base.group, metric))
        if estimate is None or estimate.half_width is None or estimate.units < LEAST_UNITS:
            continue
        wide, degrees = with_choice(estimate.half_width, row.spread(metric), base.spread(metric)), estimate.units - 1
        found[name] = estimate.mean, wide, two_sided(estimate.mean, wide / quantile(degrees), degrees)
    once = {of_runs[name]: p for name, (_, _, p) in found.items()}
    adjusted = dict(zip(once, holm([*once.values()]), strict=True))
    return {name: Difference(mean, wide, adjusted[of_runs[name]]) for name, (mean, wide, _) in found.items()}


def main_table(recipe: Recipe, rows: Sequence[Entry]) -> TextTable:
    """Return one table: the metrics of the recipe, each with settings chosen for its aim, best first by the first."""
    of = {metric: for_metric(rows, metric) for metric in recipe.metrics}
    places = {metric: _places(each, metric) for metric, each in of.items()}
    known = {metric: differences(each, metric, recipe.baseline) for metric, each in of.items()}
    table = []
    names = dict.fromkeys(name for each in of.values() for name in each)
    for name in sorted(names, key=lambda name: places[recipe.metrics[0]].get(name, len(names))):
        two = of_two_settings(each[name] for each in of.values() if name in each)
        cells = [Cell(name + " (baseline)" * (name == recipe.baseline) + " †" * two)]
        for metric, each in of.items():
            text = ""
            if name in each and (estimate := each[name].group.estimate(metric)) is not None:
                text = plus_minus(estimate.mean, estimate.half_width, digits(metric))
                if estimate.half_width is not None and (spread := each[name].spread(metric)):
                    text += f" ({with_choice(estimate.half_width, spread):.{digits(metric)}f})"
                text += " ‡" * each[name].about.unstable
            arrow = known[metric][name].arrow if name in known[metric] else ""
            cells.append(Cell(text, arrow, places[metric].get(name) == 1))
        table.append(cells)
    chosen = any(row.about.aim for row in rows)
    headings = [heading(metric) + f" ({aim_of(metric)})" * chosen for metric in recipe.metrics]
    return TextTable.of(["ranker"], headings, table)


def settings_table(recipe: Recipe, rows: Sequence[Entry], words: bool = False) -> TextTable:
    """Return the settings of every row, all of its values with the conditional interval, and its costs.

    words: whether settings are those that one types, with the ranker.
    """
    aims: dict[tuple[str, ...], list[str]] = {}  # of each choice of settings
    for row in rows:
        aims.setdefault((row.about.competitor, *row.about.words), []).append(row.about.aim)
    table = []
    for row in rows:
        own = aims.pop((row.about.competitor, *row.about.words), None)
        if own is None:  # the same settings for another aim
            continue
        named = {name: word for name, word in by_name(row.about.words).items() if role(name) in ROLES_OF_A_ROW}
        if not words:
            named.pop("ranker")
        shown = map(shlex.quote, named.values()) if words else brief(named.values())
        typed = [word + "*" * (name in row.about.edges) for name, word in zip(named, shown, strict=True)]  # * at an end
        cells = [Cell(row.about.competitor), Cell(own[0] if len(own) == 1 else "both"), Cell(" ".join(typed))]
        for metric in recipe.metrics:
            estimate = row.group.estimate(metric)
            text = "" if estimate is None else plus_minus(estimate.mean, estimate.half_width, digits(metric))
            cells.append(Cell(text))
        memory = [run.peak_memory_gb for run in row.group.runs if run.peak_memory_gb is not None]
        seconds = row.group.cpu_seconds
        cost = "" if seconds is None else f"{seconds:,.{1 if seconds < 10 else 0}f}"
        table.append([*cells, Cell(cost), Cell(f"{max(memory):.2f}" if memory else "")])
    numbers = [*map(heading, recipe.metrics), "CPU s", "peak GB"]
    return TextTable.of(["ranker", "chosen", "words" if words else "settings"], numbers, table).without_empty()


def _places(rows: Mapping[str, Entry], metric: str) -> dict[str, int]:
    """Return the place of each competitor by the mean of a metric: 1 is best, equal ones share the better place.

    Rows without the metric have none, and no row has one where neither direction is better.
    """
    if described(metric).higher_is_better is None:
        return {}
    estimates = {name: row.group.estimate(metric) for name, row in rows.items()}
    gains = {name: gain(metric, estimate.mean) for name, estimate in estimates.items() if estimate is not None}
    return {name: 1 + sum(other > own for other in gains.values()) for name, own in gains.items()}


def legend(recipe: Recipe) -> str:
    """Return what the marks of the main tables mean."""
    on_test, others = (
        " and ".join(heading(metric) for metric in recipe.metrics if (aim_of(metric) == AIMS[0]) == offline)
        for offline in (True, False)
    )
    seeds = {title: value_of(by_name(recipe.choose, data.choose), "replicas") for title, data in recipe.data.items()}
    one_seed = " and ".join(title for title, number in seeds.items() if number == "1")
    return " ".join(
        [
            f"{on_test}: settings chosen offline, by NDCG@10 on validation queries.",
            f"{others}: settings chosen online, by the cumulative NDCG of the choosing seeds.",
            f"† {on_test} is of one setting, {others} of another: no ranker has both. The second table has all values "
            "of each setting.",
            f"Mean ± half the {LEVEL:.0%} interval over folds, or over seeds where there is one fold; in parentheses, "
            "half the interval that contains the choice of settings.",
            "Choosing runs are not evaluated on test queries: the spread of validation NDCG@10 over choices stands for "
            "that of test NDCG@10.",
            *([f"On {one_seed} one seed chooses: there the choice is that over folds alone."] if one_seed else []),
            f"↑ and ↓: significantly higher or lower than {recipe.baseline}, paired, with the choice of both rows' "
            "settings in the standard error, after Holm's correction for a column; with fewer than three folds nothing "
            "is tested. * at the end of its grid; ‡ another processor gives other results",
        ]
    )


def outdated(tables: Tables) -> str:
    """Return a line for results that this version of ol2r would not repeat; empty where it would."""
    versions = sorted({entry.group.settings["results_version"] for entry in chain(*tables.values())})
    if all(version == RESULTS_VERSION for version in versions):
        return ""
    made = " and ".join(map(str, versions))
    return f"outdated: made with results_version {made}, and this version of ol2r has {RESULTS_VERSION}"


def detectable(recipe: Recipe, tables: Tables) -> str:
    """Return which differences from the baseline a page does not find, by the median half of their intervals."""
    said = []
    for metric in recipe.metrics:
        of_tables = (differences(for_metric(rows, metric), metric, recipe.baseline) for rows in tables.values())
        if widths := [each.half_width for known in of_tables for each in known.values()]:
            said.append(f"{median(widths):.{digits(metric)}f} {heading(metric)}")
    below = f"Differences from {recipe.baseline} below {', '.join(said)}, medians of all tables,"
    return f"{below} would not be significant." if said else ""


def benchmark_page(recipe: Recipe, tables: Tables, figures: Mapping[str, str], further: Sequence[str] = ()) -> str:
    """Return the page of a benchmark as markdown.

    figures: file names of the curves, by the title of the dataset. further: paragraphs before the tables.
    """
    entries, warning = list(chain(*tables.values())), outdated(tables)
    versions: dict[str, dict[str, None]] = {}  # in the order in which they occur
    for name, version in chain.from_iterable(entry.about.versions.items() for entry in entries):
        versions.setdefault(name, {})[version] = None
    of_results = sorted({str(entry.group.settings["results_version"]) for entry in entries})
    made = ", ".join(
        f"{name} {' and '.join(each)}" for name, each in {**versions, "results_version": of_results}.items()
    )
    runs = {run.path: run.cpu_seconds or 0 for entry in entries for run in entry.group.runs}
    choosing = {
        (table, entry.about.competitor): entry.about.choice_seconds for table, rows in tables.items() for entry in rows
    }
    parts = [
        f"# {recipe.title}",
        *([f"> **{warning}**"] if warning else []),
        f"{recipe.shows[0].upper()}{recipe.shows[1:]}. What was fixed beforehand, and what rows and intervals "
        f"mean: [protocol](protocol.md). Metrics: [measures](../measures.md). Written by "
        f"`ol2r benchmark {recipe.name} --out`; do not edit.",
        f"{len(runs)} runs in {sum(runs.values()) / 3600:.1f} CPU hours, "
        f"and {sum(choosing.values()) / 3600:.1f} CPU hours to choose settings. Made with {made}.",
        f"{legend(recipe)}. {detectable(recipe, tables)}".rstrip(),
        "CPU s: of all seeds and folds together. To run a row, type its `words` without marks for WORDS, and a click "
        "model for CLICK, in the command above the tables.",
        *further,
    ]
    for title in dict.fromkeys(title for title, _ in tables):
        parts.append(f"## {title}")
        if title in figures:
            parts.append(f"![{heading(TEST)} by round on {title}]({figures[title]})")
        on_title = {click: rows for (dataset, click), rows in tables.items() if dataset == title}
        common = [row.about.words for row in chain(*on_title.values())]
        shared = [word for word in common[0] if all(word in words for words in common)]
        user = [] if any(word.startswith("click=") for word in shared) else ["click=CLICK"]
        parts.append(f"    ol2r run -m {shlex.join([*shared, *user])} WORDS")
        for click, rows in on_title.items():
            parts += [f"### {title}, {click}", markdown(main_table(recipe, rows))]
            parts.append(markdown(settings_table(recipe, rows, words=True)))
    return "\n\n".join(parts) + "\n"


def index(pages: Iterable[tuple[Recipe, Tables]]) -> str:
    """Return the index page: which result to expect of each ranker."""
    parts = [
        "# Expected results",
        "Which result each ranker of `ol2r` gives on data that everybody can have, with settings chosen for the value "
        "that is shown. The pages have intervals, settings, costs and the command of every row; "
        "[protocol](protocol.md) says what was fixed beforehand, and [findings](findings.md) what follows from it.",
        "    ol2r benchmark linear dataset=mq2008 click=inf                # a table on the terminal\n"
        "    ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD  # are the numbers the same here?\n"
        "    ol2r benchmark linear --add ranker=mine                       # a ranker of your own in it\n"
        "    ol2r report docs/benchmark/linear.parquet dataset=mq2008 click=informational --differences \\\n"
        "        --baseline 'pdgd ranker.learning_rate=0.1'            # all differences from a row, with p",
        "Data sets lie in one folder, `data_dir=FOLDER`: [data](../data.md). A page prints mean ± half of the "
        "interval; with folds it is wide because folds differ, and says little about differences, which are paired. "
        "The raw values have a row for each run and seed, and the rows of the tables to which a run belongs:",
        "    import polars as pl\n\n"
        '    values = pl.read_parquet("docs/benchmark/linear.parquet")\n'
        '    values.filter(pl.col("rows").list.contains("PDGD, offline"), dataset="mq2008", click="informational")'
        '["test_ndcg_10"].mean()',
        "Written by `ol2r benchmark --out`; do not edit.",
    ]
    for recipe, tables in pages:
        warning, metrics = outdated(tables), recipe.metrics[:2]
        shown = " / ".join(f"{heading(metric)} ({aim_of(metric)} choice)" for metric in metrics)
        parts += [
            f"## [{recipe.title}]({recipe.name}.md)",
            *([f"> **{warning}**"] if warning else []),
            f"{shown}; [protocol](protocol.md). Mean rank: by {heading(metrics[0])}, over all columns, with its "
            f"{LEVEL:.0%} interval over folds or seeds. † The two values are of two settings: no ranker has both.",
            markdown(_index_table(tables, metrics)),
        ]
    return "\n\n".join(parts) + "\n"


def _index_table(tables: Tables, metrics: Sequence[str]) -> TextTable:
    """A row for each ranker: its mean place by the first metric, and the means of two metrics in every table."""
    of = {table: [for_metric(rows, metric) for metric in metrics] for table, rows in tables.items()}
    places: dict[str, list[int]] = {}
    for first, *_ in of.values():
        for name, place in _places(first, metrics[0]).items():
            places.setdefault(name, []).append(place)
    intervals, lines = rank_intervals({table: first for table, (first, *_) in of.items()}, metrics[0]), []
    for competitor in sorted(places, key=lambda name: fmean(places[name])):
        low, high = intervals[competitor]
        line = [competitor, f"{fmean(places[competitor]):.1f} ({low:.1f} to {high:.1f})"]
        for each in of.values():
            means = []
            for metric, rows in zip(metrics, each, strict=True) if competitor in each[0] else ():
                estimate = rows[competitor].group.estimate(metric)
                shown = 3 if estimate and ("ndcg_10" in metric or abs(estimate.mean) < 1) else 1
                means.append("-" if estimate is None else f"{estimate.mean:.{min(shown, digits(metric))}f}")
            two = of_two_settings(rows[competitor] for rows in each if competitor in rows)
            line.append(" / ".join(means) + " †" * two)
        lines.append(line)
    return TextTable.of(["ranker"], ["mean rank", *(", ".join(table) for table in tables)], lines)


def rank_intervals(
    tables: Mapping[tuple[str, str], Mapping[str, Entry]], metric: str
) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each competitor's mean rank, when the folds or seeds of each dataset are redrawn.

    The same units are drawn for all competitors and click models of a dataset.
    """
    random, ranks = np.random.default_rng(SEED), dict[str, list[np.ndarray]]()
    drawn: dict[str, np.ndarray] = {}
    for (dataset, _), rows in tables.items():
        measured = {name: row for name, row in rows.items() if row.group.estimate(metric) is not None}
        values = gain(metric, 1) * by_unit(list(measured.values()), metric)
        units = values.mean(axis=2) if values.shape[1] > 1 else values[:, 0]
        count = units.shape[1]
        if dataset not in drawn:
            drawn[dataset] = random.multinomial(count, [1 / count] * count, RESAMPLES)
        means = np.einsum("du,nu->dn", drawn[dataset], units)
        places = 1 + (means[:, None, :] > means[:, :, None]).sum(axis=-1)
        for name, place in zip(measured, places.T, strict=True):
            ranks.setdefault(name, []).append(place)
    tails = (1 - LEVEL) / 2
    return {name: tuple(np.quantile(np.mean(each, axis=0), [tails, 1 - tails])) for name, each in ranks.items()}


def by_unit(rows: Sequence[Entry], metric: str) -> Float[np.ndarray, "n folds seeds"]:
    """Return the values of rows by fold and seed, both in order, so that an index is the same unit in all rows.

    ValueError where a row lacks a fold or seed of the first one.
    """
    values = [row.group.values(metric) for row in rows]
    folds, seeds = (list(dict.fromkeys(unit[part] for unit in values[0])) for part in (0, 1))
    for row, of_row in zip(rows, values, strict=True):
        if list(of_row) != list(product(folds, seeds)):
            raise ValueError(f"{row.about.competitor} must have the folds and seeds of {rows[0].about.competitor}")
    return np.array([list(of_row.values()) for of_row in values]).reshape(len(rows), len(folds), len(seeds))
