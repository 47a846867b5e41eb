"""The tables of a benchmark as a file for a paper or a program: LaTeX, csv and others, or a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.benchmark import click_costs
from ol2r_cli.plugins.benchmark.differences import Difference
from ol2r_cli.plugins.benchmark.recipe import Recipe
from ol2r_cli.plugins.benchmark.results import Tables
from ol2r_cli.plugins.benchmark.tables import MetricColumn, legend, made_with, main_table, with_names
from ol2r_cli.plugins.figures import ENDINGS
from ol2r_cli.plugins.figures.drawing import check_installed, figure_settings, save
from ol2r_cli.plugins.figures.look import WIDTHS
from ol2r_cli.plugins.latex.latex import Block, LatexTable
from ol2r_cli.report.document import writing
from ol2r_cli.report.frames import as_csv, as_frame
from ol2r_cli.report.measures import gain, heading
from ol2r_cli.report.styles import INK
from ol2r_cli.text.formatting import nearest
from ol2r_cli.text.table import TextTable, in_markdown, markdown

if TYPE_CHECKING:
    from ol2r_cli.plugins.figures import panels
    from ol2r_cli.plugins.figures.drawn import bars
else:  # with matplotlib, which is optional
    bars, panels = lazy("ol2r_cli.plugins.figures.drawn.bars"), lazy("ol2r_cli.plugins.figures.panels")

_OWN = "#0072b2"  # the colour of rows that were added
TABLE_SUFFIXES = (".md", ".csv", ".parquet", ".tex", ".json")
ALL_SUFFIXES = (*TABLE_SUFFIXES, *ENDINGS)
ADDED = " (added)"
Shown = Mapping[tuple[str, str], TextTable]  # the tables with the rows that are shown, by dataset and click model


class Wanted(NamedTuple):
    """What is wanted of tables: some rows, with the baseline and what was added; other names of rows; a file.

    names: by the name of a row, or by the ranker that was added.
    """

    rows: Sequence[str] = ()
    names: Mapping[str, str] = {}
    out: Path | None = None


def shown_names(recipe: Recipe, rows: Iterable[str], wanted: Wanted) -> dict[str, str]:
    """Return the names of the rows that are shown, by their own.

    rows: all that there are. ValueError for a row that there is not, and a file of a form that is not known.
    """
    if wanted.out is not None and wanted.out.suffix.lower() not in ALL_SUFFIXES:
        raise ValueError(f"--out must end in {', '.join(ALL_SUFFIXES)}, got {wanted.out}")
    if click_costs.asks_for_costs(recipe):
        if wanted != Wanted():
            raise ValueError(f"{recipe.name} has a table of choices: leave out --out, --rows and --name")
        return {}
    known = dict.fromkeys(rows)
    by_word = {name.lower(): name for name in known} | {
        name.removesuffix(ADDED).lower(): name for name in known if name.endswith(ADDED)
    }

    def row(word: str, option: str) -> str:
        if word.lower() not in by_word:
            quoted = ", ".join(f"'{name}'" for name in known)
            raise ValueError(f"{option} must name rows, {quoted}, got {word}{nearest(word, [*known])}")
        return by_word[word.lower()]

    named = {row(word, "--rows") for word in wanted.rows} or known.keys()
    called = {row(word, "--name"): name for word, name in wanted.names.items()}
    shown = [name for name in known if name in named or name == recipe.baseline or name.endswith(ADDED)]
    found = {name: called.get(name, name) for name in shown}
    if len({*found.values()}) < len(found):
        raise ValueError(f"--name must give each row another name, got {', '.join(called.values())}")
    return found


def write_tables(recipe: Recipe, tables: Tables, names: Mapping[str, str], out: Path) -> None:
    """Write the main tables in the form that the suffix names, with the rows of `names` under their names.

    Differences, arrows and Holm's correction are those of the whole tables.
    """
    suffix = out.suffix.lower()
    with writing(out):
        if suffix in ENDINGS:
            check_installed()
            with figure_settings():
                save(_figure(recipe, tables, names), out)
            return
        shown = {table: with_names(main_table(recipe, rows), names) for table, rows in tables.items()}
        if suffix == ".tex":
            write_text(out, _latex(recipe, tables, names, shown).text() + "\n")
        elif suffix == ".md":
            write_text(out, _markdown(recipe, tables, names, shown))
        else:
            frame = as_frame(
                [
                    {"data": title, "click": click, **row}
                    for (title, click), table in shown.items()
                    for row in table.values()
                ]
            )
            if suffix == ".parquet":
                write_parquet(out, frame)
            else:
                write_text(out, as_csv(frame) if suffix == ".csv" else frame.write_json() + "\n")


def _notes(recipe: Recipe, tables: Tables, names: Mapping[str, str], shown: Shown) -> list[str]:
    """Return sentences on the marks that occur, and on what all numbers are."""
    texts = " ".join(str(cell) for table in shown.values() for row in table.rows for cell in row)
    lines = []
    for mark, meaning in legend(replace(recipe, baseline=names[recipe.baseline]), settings_below=False).items():
        if mark[0].isalpha() or any(sign in texts for sign in mark.split()):
            lines.append(f"{mark}: {meaning}.")
    rows = len({row.competitor for row in chain(*tables.values())})
    if len(names) < rows:
        lines.append(f"{len(names)} of {rows} rows are shown; Holm's correction is for all of a column.")
    return [*lines, made_with(chain(*tables.values()))]


def _latex(recipe: Recipe, tables: Tables, names: Mapping[str, str], shown: Shown) -> LatexTable:
    """Return one table of LaTeX, with a block for each dataset and click model."""
    first, *_ = shown.values()
    several = len(shown) > 1
    blocks = [Block(", ".join(place) if several else "", table.rows) for place, table in shown.items()]
    *notes, versions = _notes(recipe, tables, names, shown)
    where = "" if several else f": {', '.join(next(iter(shown)))}"
    caption = [f"{recipe.title}{where}.", *(f"{note[:1].upper()}{note[1:]}" for note in notes), "Bold: the best mean."]
    fewer = "fewer data sets and click models, such as dataset=mq2008 click=inf, or fewer rows, such as --rows PairRank"
    return LatexTable(first.headings, first.numbers, blocks, caption, [versions], fewer)


def _markdown(recipe: Recipe, tables: Tables, names: Mapping[str, str], shown: Shown) -> str:
    paragraphs = []
    for place, table in shown.items():
        paragraphs += [f"**{', '.join(place)}**", markdown(table)]
    return "\n\n".join([*paragraphs, *map(in_markdown, _notes(recipe, tables, names, shown))]) + "\n"


def _figure(recipe: Recipe, tables: Tables, names: Mapping[str, str]) -> Any:
    """Return a figure of differences from the baseline: a panel for each metric, dataset and click model.

    Rows are in the order of the first panel, the best first.
    """
    rows: dict[tuple[str, str], list[bars.DotPanel]] = {}
    order: dict[str, None] = {}
    for metric, ((title, click), entries) in product(recipe.metrics, tables.items()):
        differences = MetricColumn(entries, metric, recipe.baseline).differences
        shown = {name: difference for name, difference in differences.items() if name in names}
        if not shown:
            continue
        dots = {names[name]: _dot(name, difference) for name, difference in shown.items()}
        panel = bars.DotPanel(f"{heading(metric)}, {title}, {click}", (metric, title), dots)
        rows.setdefault((metric, title), []).append(panel)
        best_first = sorted((-gain(metric, difference.mean), names[name]) for name, difference in shown.items())
        order |= dict.fromkeys(name for _, name in best_first)
    if not rows:
        raise ValueError(f"a figure needs {recipe.baseline} and other rows, with three folds or seeds or more")
    of_panels = [list(chain(*rows.values()))] if len(tables) == 1 else [*rows.values()]
    shown_rows = list(chain(*(panels.in_rows(of_row, WIDTHS["page"]) for of_row in of_panels)))
    return bars.dots(
        shown_rows, list(order), f"difference from {names[recipe.baseline]}, interval with model selection"
    )


def _dot(name: str, difference: Difference) -> bars.Dot:
    colour = _OWN if name.endswith(ADDED) else INK
    return bars.Dot(difference.mean, difference.half_width, bool(difference.arrow), colour)
