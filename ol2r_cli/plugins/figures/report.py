"""Figures and the table of recoveries of `ol2r report`: the options that ask for them, and what these do."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ol2r_cli.commands.report import chosen_format, make_document, say
from ol2r_cli.plugins.figures import ENDINGS, drawing
from ol2r_cli.plugins.figures.kinds import KINDS, reading
from ol2r_cli.plugins.figures.look import EVERY_KIND, OF_A_PAGE, Look, NothingToDraw
from ol2r_cli.report.document import Document, writing
from ol2r_cli.text.formatting import must_be_one_of
from ol2r_cli.text.table import show

FIGURE_FOLDER = Path("figures")  # without --out


def check(options: argparse.Namespace) -> None:
    """Raise ValueError for options of figures that go with no others."""
    is_page = options.format == "html" or (options.out is not None and options.out.suffix.lower() == ".html")
    if options.option and options.figure is None and not is_page:
        raise ValueError("--option goes with --figure KIND, or with a page: --out report.html")


def check_recovery(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go with the table of recoveries."""
    compares = options.baseline or options.compare
    others = options.figure is not None or options.select or options.metric
    if options.recovery and (others or compares):
        left_out = "--figure, --select, --metric, --baseline and --compare"
        raise ValueError(f"--recovery is a table by itself: leave out {left_out}")


def check_trial(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go with the table of a trial."""
    if options.trial is None:
        return
    if options.figure is not None:
        raise ValueError(f"--trial is a table: for its figure type --figure trial --metric {options.trial}")
    names = ("recovery", "metric", "compare", "test", "differences", "overrides")
    others = [f"--{name}" for name in names if getattr(options, name)]
    if others:
        raise ValueError(f"--trial is a table by itself: leave out {' and '.join(others)}")


def draw_figures(options: argparse.Namespace) -> None:
    """Write a figure for each kind, or list the kinds; ValueError where none could be drawn."""
    kinds = options.figure
    if not kinds:
        show([(name, kind.shows) for name, kind in KINDS.items()])
        return
    _check_kinds(kinds, options.metric)
    files = _figure_files(kinds, options)
    given = figure_options(kinds, options)
    look = Look(**{name: value for name, value in given.items() if name in EVERY_KIND})
    document = make_document(options)
    without_intervals: dict[str, None] = {}
    written = 0
    for kind, file in files.items():
        try:
            figure = drawing.draw(kind, document.groups, document.labels, **_options_of(kind, given, options, document))
        except NothingToDraw as error:
            if len(files) == 1:
                raise
            say([f"left out, {kind}: {error}"])
            continue
        with writing(file):
            drawing.save(figure, file)
        print(f"written: {file}")
        written += 1
        line = reading(kind, document.groups, look)[1]
        if line:
            without_intervals[f"{line} --option bands=ci draws those of two"] = None
    say(without_intervals)
    if not written:
        raise ValueError("none of the figures could be drawn")


def _check_kinds(kinds: Sequence[str], metrics: Sequence[str] | None) -> None:
    """Raise ValueError for a kind that does not exist, and for metrics that none of the kinds draws."""
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(must_be_one_of("--figure", KINDS, kind))
    having = [name for name, kind in KINDS.items() if "metric" in kind.options]
    if metrics and not {*kinds} & {*having}:
        raise ValueError(f"--metric does not go with --figure {' '.join(kinds)}: it is of {', '.join(having)}")


def _figure_files(kinds: Sequence[str], options: argparse.Namespace) -> dict[str, Path]:
    """Return the file of each figure: --out, or one in this folder."""
    out = options.out or FIGURE_FOLDER
    form = chosen_format(options, ENDINGS, "with --figure")
    if out.suffix.lower() in ENDINGS:
        if len(kinds) > 1:
            raise ValueError(f"--out must be a folder for {len(kinds)} figures, got {out}")
        return dict.fromkeys(kinds, out)
    if out.suffix and not out.is_dir():
        raise ValueError(f"--out must be a folder, or end in {', '.join(ENDINGS)}, got {out}")
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


def figure_options(kinds: Sequence[str], options: argparse.Namespace) -> dict[str, str]:
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
