"""`ol2r report DIR...`: tables and figures of finished runs, with intervals, paired comparisons and model selection.

examples:
  ol2r report outputs                                     one row per experiment: means over seeds and folds
  ol2r report outputs dataset=mq2008 click=per,inf        only these runs: the words of `ol2r run`
  ol2r report outputs --metric test_ndcg_1 regret         other columns
  ol2r report outputs --out tables/first.md               into a file; also .csv, .json, .html, ..

paired comparisons, over the folds and seeds that both have, after Holm's correction
  ol2r report outputs --baseline pairrank                 every row against this one, in the same task
  ol2r report outputs --baseline 'ranker=pairrank ranker.l2=0.1' --test permutation
  ol2r report outputs --compare all                       every row against every other: letters name the rows it beats
  ol2r report outputs --compare all --differences --out pairs.csv

model selection
  ol2r report outputs --select validation                 the cell of each grid with the best validation NDCG@10
  ol2r report outputs --select validation --keep exploration.shuffle     one for each value of a setting
  ol2r report outputs --select validation --overrides     the override lists of the chosen cells, to run them again:
  ol2r report outputs --select validation --overrides | xargs -L 1 ol2r run replicas=10 seed=100
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from ol2r_cli.commands.command import Listed, argument, command
from ol2r_cli.files import write_text
from ol2r_cli.plugins import Output
from ol2r_cli.report.best_settings import criteria, select
from ol2r_cli.report.collection import chosen_runs
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.document import Document, endings, outputs, writing
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import group_runs
from ol2r_cli.report.shown_metrics import check_metrics, known_metrics, usual_metrics
from ol2r_cli.report.tasks import fixed_names, typed_names
from ol2r_cli.text.program import as_called


@command(
    argument(
        "folders",
        metavar="DIR|NAME=VALUE",
        nargs="*",
        help="folders with runs (default: output_dir of ol2r.yaml, or outputs), and settings that the runs have",
    ),
    argument("--metric", metavar="NAME", nargs="+", action=Listed, help="columns: names in summary.json"),
    argument(
        "--select",
        choices=[each.name for each in criteria() if each.about],
        help="one cell of each grid, by NDCG@10 on validation queries, cumulative NDCG, ..",
    ),
    argument(
        "--keep",
        metavar="SETTING",
        nargs="+",
        action=Listed,
        help="with --select: choose for each value of these settings",
    ),
    argument(
        "--overrides", action="store_true", help="with --select: override lists for `ol2r run`, in place of the table"
    ),
    argument("--baseline", metavar="OVERRIDES", help="compare with this row of each task: a ranker, or overrides"),
    argument("--compare", choices=["all"], help="compare every row with every other of its task"),
    argument("--test", choices=["t", "permutation"], help="test of the paired differences (default: t)"),
    argument("--differences", action="store_true", help="a row for each comparison and metric, in place of the table"),
    argument(
        "--name",
        metavar="OVERRIDES=NAME",
        nargs="+",
        action=Listed,
        help="names of rows: OVERRIDES as for --baseline; a ranker names all of its rows: pairrank=ours",
    ),
    argument(
        "--format",
        choices=[
            *dict.fromkeys([*endings().values(), *(form for each in outputs() for form in each.endings.values())])
        ],
        help="default: by the ending of --out",
    ),
    argument(
        "--json", action="store_const", dest="format", const="json", help="the rows as a JSON list, in full precision"
    ),
    argument("--verify", action="store_true", help="leave out runs whose files or numbers are not intact"),
    argument("--out", metavar="FILE", type=Path, help="write to this file"),
    *(add for each in outputs() for add in each.arguments()),
    more=lambda: "".join([*(each.examples for each in criteria()), *(f"\n{each.examples}" for each in outputs())]),
)
def main(given: argparse.Namespace) -> None:
    asked = [output for output in outputs() if output.main and is_asked(given, output)]
    if len(asked) > 1:
        raise ValueError(f"--{asked[0].name} and --{asked[1].name} are each in place of the table: leave out one")
    if asked and asked[0].main:
        asked[0].main(given)
    else:
        _report(given)


def is_asked(given: argparse.Namespace, output: Output) -> bool:
    """Return whether the arguments ask for an output by its option, which may have no words."""
    return getattr(given, output.name, None) not in (None, False)


def make_document(options: argparse.Namespace, all_metrics: bool = False) -> Document:
    """Return the report on the runs below the folders of the options, with its selection and comparison.

    all_metrics: include every metric, instead of the usual ones, unless --metric names some. ValueError where there
    are no finished runs, and for options that do not fit the runs or each other.
    """
    _check_options(options)
    collection = chosen_runs(options.folders, options.verify, warn=False)
    every_group = groups = group_runs(collection.runs)
    labels = Labels(every_group)
    named_metrics = check_metrics(options.metric or (), groups)
    selection = select(groups, labels, options.keep or (), options.select) if options.select else None
    if selection:
        groups = [*selection.cells]
        say(selection.warnings)
    named = fixed_names(typed_names(options.name or ()), groups, labels)
    labels = Labels(every_group, named.of_rows, one_row_each=True, rankers=named.of_rankers)
    if selection:
        labels = labels.after_selection(selection.settings)
    metrics = named_metrics or (known_metrics(groups) if all_metrics else usual_metrics(groups))
    comparison = instead = None
    table = next((output.table for output in outputs() if output.table and is_asked(options, output)), None)
    if table:
        instead = table(groups, labels, options)
    elif options.baseline or options.compare:
        groups = labels.ordered(groups, metrics)  # letters in the order of the table
        comparison = compare(groups, labels, metrics, options.baseline, options.test or "t")
    return Document(collection, groups, labels, metrics, selection, comparison, options.differences, instead)


def _check_options(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go with each other."""
    compares = options.baseline or options.compare
    if options.baseline is not None and not options.baseline.strip():
        raise ValueError("--baseline must be a ranker, or choices and settings, of some row, got nothing")
    if options.baseline and options.compare:
        raise ValueError("--baseline and --compare all are two ways of comparing: leave out one")
    for name, is_possible, needed in (
        ("keep", options.select, "--select validation"),
        ("overrides", options.select, "--select validation"),
        ("test", compares, "--baseline RANKER or --compare all"),
        ("differences", compares, "--baseline RANKER or --compare all"),
    ):
        if getattr(options, name) and not is_possible:
            raise ValueError(f"--{name} goes with {needed}")
    for output in outputs():
        if output.check is not None:
            output.check(options)


def _report(options: argparse.Namespace) -> None:
    """Print or write the tables, or with --overrides the lines that repeat what was chosen."""
    form = _table_format(options)
    document = make_document(options, all_metrics=form in ("csv", "json", "parquet"))
    if options.overrides:
        say(document.collection.left_out)
        labels = document.labels
        print_or_write("\n".join(map(labels.overrides, labels.ordered(document.groups))) + "\n", options.out)
    elif options.out is not None:
        document.write(options.out, form, options)
        print(f"written: {options.out}")
    elif form == "terminal":
        document.print()
    else:
        say(document.notes if form in ("csv", "json") else ())
        print(document.text(form, options))


def _table_format(options: argparse.Namespace) -> str:
    """Return the format of the tables; ValueError for one that does not go with the other options."""
    out, formats = options.out, endings()
    others = (output for output in outputs() if output.main and options.format in output.endings.values())
    form = chosen_format(options, formats, next((f"without --{output.name}" for output in others), "for tables"))
    if out is not None and not (form or options.overrides):
        raise ValueError(f"--out must end in {', '.join(formats)}, got {out}")
    for_files = ["parquet", *(form for each in outputs() if each.needs_file for form in each.endings.values())]
    if out is None and form in for_files:
        raise ValueError(f"--format {form} needs a file: type --out report.{form}")
    return form or ("terminal" if sys.stdout.isatty() else "md")


def say(lines: Iterable[str]) -> None:
    """Print lines on stderr, beside a table that has no place for them."""
    for line in lines:
        print(f"ol2r report: {as_called(line)}", file=sys.stderr)


def print_or_write(text: str, out: Path | None) -> None:
    """Print lines of text, or write them to a file."""
    if out is None:
        print(text, end="")
        return
    with writing(out):
        write_text(out, text)
    print(f"written: {out}")


def chosen_format(options: argparse.Namespace, formats: Mapping[str, str], where: str) -> str | None:
    """Return the format of --format, or of the suffix of --out; ValueError where they are not the same.

    formats: by suffix. where: what the formats are for.
    """
    if options.format not in (*formats.values(), None):
        raise ValueError(f"--format must be one of {', '.join(formats.values())} {where}, got {options.format}")
    by_suffix = formats.get(options.out.suffix.lower()) if options.out else None
    if options.format and by_suffix not in (None, options.format):
        given = f"--format {options.format}, got {options.out}"
        raise ValueError(f"--out must not end in {options.out.suffix} with {given}")
    return options.format or by_suffix
