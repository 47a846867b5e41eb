"""The page of a benchmark: its tables, what their marks mean, and what its results were made with."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import median

from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.recipes.entries import Entry, Tables, differences, for_metric
from ol2r_cli.recipes.overrides import by_name, value_of
from ol2r_cli.recipes.recipe import Recipe
from ol2r_cli.recipes.results import TEST
from ol2r_cli.recipes.tables import main_table, settings_table
from ol2r_cli.recipes.trials import aim_of
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.text_table import markdown


def legend(recipe: Recipe) -> str:
    """Return what the marks of the main tables mean."""
    offline = " and ".join(heading(metric) for metric in recipe.metrics if aim_of(metric) == "offline")
    online = " and ".join(heading(metric) for metric in recipe.metrics if aim_of(metric) == "online")
    sentences = [
        f"{offline}: settings chosen offline, by NDCG@10 on validation queries.",
        f"{online}: settings chosen online, by the cumulative NDCG of the choosing seeds.",
        f"† {offline} is of one setting, {online} of another: no ranker has both. The second table has all values "
        "of each setting.",
        f"Mean ± half the {LEVEL:.0%} interval over folds, or over seeds where there is one fold; in parentheses, "
        "half the interval that contains the choice of settings.",
        "Choosing runs are not evaluated on test queries: the spread of validation NDCG@10 over choices stands for "
        "that of test NDCG@10.",
    ]
    one_seed = " and ".join(
        title for title, data in recipe.data.items() if value_of(by_name(recipe.choose, data.choose), "replicas") == "1"
    )
    if one_seed:
        sentences.append(f"On {one_seed} one seed chooses: there the choice is that over folds alone.")
    sentences.append(
        f"↑ and ↓: significantly higher or lower than {recipe.baseline}, paired, with the choice of both rows' "
        "settings in the standard error, after Holm's correction for a column; with fewer than three folds nothing "
        "is tested. * at the end of its grid; ‡ another processor gives other results"
    )
    return " ".join(sentences)


def outdated(tables: Tables) -> str:
    """Return a line for results that this version of ol2r would not repeat; empty where it would."""
    versions = sorted({entry.group.settings["results_version"] for entry in chain(*tables.values())})
    if all(version == RESULTS_VERSION for version in versions):
        return ""
    made = " and ".join(map(str, versions))
    return f"outdated: made with results_version {made}, and this version of ol2r has {RESULTS_VERSION}"


def detectable(recipe: Recipe, tables: Tables) -> str:
    """Return which differences from the baseline a page does not find, by the median half of their intervals."""
    medians = []
    for metric in recipe.metrics:
        widths: list[float] = []
        for rows in tables.values():
            known = differences(for_metric(rows, metric), metric, recipe.baseline)
            widths += [difference.half_width for difference in known.values()]
        if widths:
            medians.append(f"{median(widths):.{digits(metric)}f} {heading(metric)}")
    if not medians:
        return ""
    below = f"Differences from {recipe.baseline} below {', '.join(medians)}, medians of all tables,"
    return f"{below} would not be significant."


def benchmark_page(recipe: Recipe, tables: Tables, figures: Mapping[str, str], further: Sequence[str] = ()) -> str:
    """Return the page of a benchmark as markdown.

    figures: file names of the curves, by the title of the dataset. further: paragraphs before the tables.
    """
    warning = outdated(tables)
    paragraphs = [
        f"# {recipe.title}",
        *([f"> **{warning}**"] if warning else []),
        f"{recipe.shows[0].upper()}{recipe.shows[1:]}. What was fixed beforehand, and what rows and intervals "
        f"mean: [protocol](protocol.md). Metrics: [measures](../reference/measures.md). Written by "
        f"`ol2r benchmark {recipe.name} --out`; do not edit.",
        f"{_costs(tables)} Made with {_versions(chain(*tables.values()))}.",
        f"{legend(recipe)}. {detectable(recipe, tables)}".rstrip(),
        "CPU s: of all seeds and folds together. To run a row, type its `words` without marks for WORDS, and a click "
        "model for CLICK, in the command above the tables.",
        *further,
    ]
    for title in dict.fromkeys(title for title, _ in tables):
        of_dataset = {click: rows for (dataset, click), rows in tables.items() if dataset == title}
        paragraphs.append(f"## {title}")
        if title in figures:
            paragraphs.append(f"![{heading(TEST)} by round on {title}]({figures[title]})")
        paragraphs.append(_command(list(chain(*of_dataset.values()))))
        for click, rows in of_dataset.items():
            paragraphs.append(f"### {title}, {click}")
            paragraphs.append(markdown(main_table(recipe, rows)))
            paragraphs.append(markdown(settings_table(recipe, rows, words=True)))
    return "\n\n".join(paragraphs) + "\n"


def _costs(tables: Tables) -> str:
    """Return the number of runs and the CPU hours of a page, each run and each choice counted once."""
    of_runs: dict[object, float] = {}
    of_choices: dict[object, float] = {}
    for table, rows in tables.items():
        for entry in rows:
            of_choices[table, entry.about.competitor] = entry.about.choice_seconds
            of_runs |= {run.path: run.cpu_seconds or 0 for run in entry.group.runs}
    return (
        f"{len(of_runs)} runs in {sum(of_runs.values()) / 3600:.1f} CPU hours, "
        f"and {sum(of_choices.values()) / 3600:.1f} CPU hours to choose settings."
    )


def _versions(entries: Iterable[Entry]) -> str:
    """Return what results were made with, such as `torch 2.9 and 2.10, results_version 12`, in order of occurrence."""
    versions: dict[str, dict[str, None]] = {}
    of_results = set()
    for entry in entries:
        of_results.add(str(entry.group.settings["results_version"]))
        for name, version in entry.about.versions.items():
            versions.setdefault(name, {})[version] = None
    versions["results_version"] = dict.fromkeys(sorted(of_results))
    return ", ".join(f"{name} {' and '.join(several)}" for name, several in versions.items())


def _command(entries: Sequence[Entry]) -> str:
    """Return the command of all rows of a dataset: the overrides that they share, with WORDS for those of a row."""
    rows = [entry.about.words for entry in entries]
    shared = [word for word in rows[0] if all(word in words for words in rows)]
    if not any(word.startswith("click=") for word in shared):
        shared.append("click=CLICK")
    return f"    ol2r run -m {shlex.join(shared)} WORDS"
