"""`ol2r report DIR...`: tables and figures of finished runs, with intervals, paired comparisons and model selection.

examples:
  ol2r report outputs                                     one row per experiment: means over seeds and folds
  ol2r report outputs dataset=mq2008 click=per,inf        only these runs: the words of `ol2r run`
  ol2r report outputs --metric test_ndcg_1 regret         other columns
  ol2r report outputs --out tables/first.md               into a file; also .csv, .json, .html, ..
  ol2r report outputs --compare all --out table.tex       a table of LaTeX: click models are columns

paired comparisons, over the folds and seeds that both have, after Holm's correction
  ol2r report outputs --baseline pairrank                 every row against this one, in the same task
  ol2r report outputs --baseline 'ranker=pairrank ranker.l2=0.1' --test permutation
  ol2r report outputs --compare all                       every row against every other: letters name the rows it beats
  ol2r report outputs --compare all --differences --out pairs.csv

model selection
  ol2r report outputs --select validation                 the cell of each grid with the best validation NDCG@10
  ol2r report outputs --select clicks                     without labels, by clicks of validation_sessions=500
  ol2r report outputs --select validation --keep exploration.shuffle     one for each value of a setting
  ol2r report outputs --select validation --overrides     the override lists of the chosen cells, to run them again:
  ol2r report outputs --select validation --overrides | xargs -L 1 ol2r run replicas=10 seed=100

users whose intent changes
  ol2r report outputs --recovery                          what each change costs, and how long rankers take to recover

references
  ol2r report outputs --bibtex --out references.bib       of the components of these runs, and of ol2r, as BibTeX

figures
  ol2r report --figure                                    the kinds there are
  ol2r report outputs --figure learning_curve cumulative_ndcg --out figures --format pdf
  ol2r report outputs --figure learning_curve --option split=validation bands=sd --out curve.svg
  ol2r report outputs --figure learning_curve --option ylim=0.3,0.5 'ylabel=NDCG@10' --name pairrank=ours
  ol2r report outputs --figure differences --baseline pdgd     paired differences, with their intervals
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.command import Listed, argument, command
from ol2r_cli.files import write_text
from ol2r_cli.formatting import must_be_one_of
from ol2r_cli.lazy import lazy
from ol2r_cli.program import as_called
from ol2r_cli.report import references
from ol2r_cli.report.best_settings import select
from ol2r_cli.report.collection import chosen_runs
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.document import SUFFIXES, Document, writing
from ol2r_cli.report.figures import drawing
from ol2r_cli.report.figures.kinds import KINDS, reading
from ol2r_cli.report.figures.look import EVERY_KIND, OF_A_PAGE, Look, NothingToDraw
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import group_runs
from ol2r_cli.report.shown_metrics import check_metrics, known_metrics, usual_metrics
from ol2r_cli.report.tasks import fixed_names, typed_names
from ol2r_cli.text_table import show

if TYPE_CHECKING:
    from ol2r_cli.report import recovery
else:
    recovery = lazy("ol2r_cli.report.recovery")

FIGURE_SUFFIXES = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
FIGURE_FOLDER = Path("figures")  # without --out


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
        choices=["validation", "online", "clicks"],
        help="one cell of each grid, by validation NDCG@10, cumulative NDCG, or clicks without labels",
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
    argument("--recovery", action="store_true", help="a row for each change of intent, in place of the table"),
    argument(
        "--name",
        metavar="OVERRIDES=NAME",
        nargs="+",
        action=Listed,
        help="names of rows: OVERRIDES as for --baseline; a ranker names all of its rows: pairrank=ours",
    ),
    argument(
        "--figure",
        metavar="KIND",
        nargs="*",
        action=Listed,
        help="figures in place of the table; without KIND, list the kinds",
    ),
    argument(
        "--option",
        metavar="NAME=VALUE",
        nargs="+",
        action=Listed,
        help="with --figure: split=validation, bands=sd, ylim=0,1",
    ),
    argument(
        "--format",
        choices=["md", "csv", "json", "parquet", "latex", "html", "png", "svg", "pdf"],
        help="default: by the ending of --out",
    ),
    argument(
        "--json", action="store_const", dest="format", const="json", help="the rows as a JSON list, in full precision"
    ),
    argument("--bibtex", action="store_true", help="the references of the components, in place of the table"),
    argument("--verify", action="store_true", help="leave out runs that `ol2r verify` does not find intact"),
    argument("--out", metavar="FILE", type=Path, help="write to this file; figures also to a folder (figures)"),
)
def main(given: argparse.Namespace) -> None:
    if given.bibtex:
        _print_references(given)
    elif given.figure is None:
        _report(given)
    elif given.figure:
        _draw_figures(given)
    else:
        show([(name, kind.shows) for name, kind in KINDS.items()])


def make_document(options: argparse.Namespace, look: Look, all_metrics: bool = False) -> Document:
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
        _say(selection.warnings)
    named = fixed_names(typed_names(options.name or ()), groups, labels)
    labels = Labels(every_group, named.of_rows, one_row_each=True, rankers=named.of_rankers)
    if selection:
        labels = labels.after_selection(selection.settings)
    metrics = named_metrics or (known_metrics(groups) if all_metrics else usual_metrics(groups))
    comparison = None
    if options.baseline or options.compare:
        groups = labels.ordered(groups, metrics)  # letters in the order of the table
        comparison = compare(groups, labels, metrics, options.baseline, options.test or "t")
    instead = recovery.recovery(groups, labels) if options.recovery else None
    return Document(collection, groups, labels, metrics, selection, comparison, options.differences, instead, look)


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
    if options.recovery and (options.figure is not None or options.select or compares):
        raise ValueError("--recovery is a table by itself: leave out --figure, --select, --baseline and --compare")


def _report(options: argparse.Namespace) -> None:
    """Print or write the tables, or with --overrides the lines that repeat what was chosen."""
    form = _table_format(options)
    look = Look(**_figure_options([], options))
    document = make_document(options, look, all_metrics=form in ("csv", "json", "parquet"))
    if options.overrides:
        _say(document.collection.left_out)
        labels = document.labels
        _print_or_write("\n".join(map(labels.overrides, labels.ordered(document.groups))) + "\n", options.out)
    elif options.out is not None:
        document.write(options.out, form)
        print(f"written: {options.out}")
    elif form == "terminal":
        document.print()
    else:
        _say(document.notes if form in ("csv", "json") else ())
        print(document.text(form))


def _table_format(options: argparse.Namespace) -> str:
    """Return the format of the tables; ValueError for one that does not go with the other options."""
    out = options.out
    form = _chosen_format(options, SUFFIXES, "without --figure KIND")
    if out is not None and not (form or options.overrides):
        raise ValueError(f"--out must end in {', '.join(SUFFIXES)}, got {out}")
    if out is None and form in ("parquet", "html"):
        raise ValueError(f"--format {form} needs a file: type --out report.{form}")
    if options.option and form != "html":
        raise ValueError("--option goes with --figure KIND, or with a page: --out report.html")
    if form == "html":
        if options.recovery:
            raise ValueError("--recovery has no html: type --format md, csv, parquet or latex")
        files = [folder for folder in options.folders if Path(folder).is_file()]
        if files:
            reason = f"got {files[0]}, which has final values: type --format md"
            raise ValueError(f"a page needs the folders of runs, {reason}")
    return form or ("terminal" if sys.stdout.isatty() else "md")


def _say(lines: Iterable[str]) -> None:
    """Print lines on stderr, beside a table that has no place for them."""
    for line in lines:
        print(f"ol2r report: {as_called(line)}", file=sys.stderr)


def _print_or_write(text: str, out: Path | None) -> None:
    """Print lines of text, or write them to a file."""
    if out is None:
        print(text, end="")
        return
    with writing(out):
        write_text(out, text)
    print(f"written: {out}")


def _print_references(options: argparse.Namespace) -> None:
    """Print or write BibTeX, and say on stderr which choices have no reference."""
    known = {"folders", "bibtex", "verify", "out", "typed"}
    others = {name for name, value in vars(options).items() if value} - known
    if options.figure is not None or others:
        raise ValueError("--bibtex goes with folders, words that choose runs, --verify and --out: leave out the others")
    collection = chosen_runs(options.folders, options.verify, warn=False)
    text, missing = references.bibtex(run.choices for run in collection.runs)
    _say(collection.left_out)
    if missing:
        _say([f"no reference of {', '.join(missing)}"])
    _print_or_write(text, options.out)


def _chosen_format(options: argparse.Namespace, formats: Mapping[str, str], where: str) -> str | None:
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


def _draw_figures(options: argparse.Namespace) -> None:
    """Write a figure for each kind; ValueError where none could be drawn."""
    kinds = options.figure
    _check_kinds(kinds)
    files = _figure_files(kinds, options)
    given = _figure_options(kinds, options)
    look = Look(**{name: value for name, value in given.items() if name in EVERY_KIND})
    document = make_document(options, look)
    without_intervals: dict[str, None] = {}
    written = 0
    for kind, file in files.items():
        try:
            figure = drawing.draw(kind, document.groups, document.labels, **_options_of(kind, given, options, document))
        except NothingToDraw as error:
            if len(files) == 1:
                raise
            _say([f"left out, {kind}: {error}"])
            continue
        with writing(file):
            drawing.save(figure, file)
        print(f"written: {file}")
        written += 1
        line = reading(kind, document.groups, look)[1]
        if line:
            without_intervals[f"{line} --option bands=ci draws those of two"] = None
    _say(without_intervals)
    if not written:
        raise ValueError("none of the figures could be drawn")


def _check_kinds(kinds: Sequence[str]) -> None:
    """Raise ValueError for a word of --figure that is no kind."""
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(must_be_one_of("--figure", KINDS, kind))


def _figure_files(kinds: Sequence[str], options: argparse.Namespace) -> dict[str, Path]:
    """Return the file of each figure: --out, or one in this folder."""
    out = options.out or FIGURE_FOLDER
    form = _chosen_format(options, FIGURE_SUFFIXES, "with --figure")
    if out.suffix.lower() in FIGURE_SUFFIXES:
        if len(kinds) > 1:
            raise ValueError(f"--out must be a folder for {len(kinds)} figures, got {out}")
        return dict.fromkeys(kinds, out)
    if out.suffix and not out.is_dir():
        raise ValueError(f"--out must be a folder, or end in {', '.join(FIGURE_SUFFIXES)}, got {out}")
    return {kind: out / f"{kind}.{form or 'png'}" for kind in kinds}


def _options_of(kind: str, given: Mapping[str, str], options: argparse.Namespace, document: Document) -> dict[str, str]:
    """Return the options of a kind: those of --option, else --baseline, --test and the first --metric."""
    of_command = {
        "baseline": options.baseline,
        "test": options.test,
        "metric": document.metrics[0] if options.metric else None,
    }
    own = KINDS[kind].options
    named = {name: value for name, value in of_command.items() if value and name in own}
    return named | {name: value for name, value in given.items() if name in EVERY_KIND or name in own}


def _figure_options(kinds: Sequence[str], options: argparse.Namespace) -> dict[str, str]:
    """Return the words of --option; each must be an option of one of the kinds, or without any of a page."""
    known = dict.fromkeys(EVERY_KIND if kinds else OF_A_PAGE)
    for kind in kinds:
        known |= dict.fromkeys(KINDS[kind].options)
    values = dict(word.partition("=")[::2] for word in options.option or ())
    for name, value in values.items():
        if name not in known:
            of_others = {*EVERY_KIND, *OF_A_PAGE, *(option for kind in KINDS.values() for option in kind.options)}
            message = must_be_one_of("--option", known, name)
            is_option = name in of_others or message.endswith("?")
            raise ValueError(message if is_option else f"{message}; settings of runs stand before --option")
        if not value:
            raise ValueError(f"--option must be NAME=VALUE, got {name}")
    return values
