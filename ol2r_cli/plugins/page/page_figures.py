"""The figures of a page: which there are, what stands below them, and their SVG as elements of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup, escape

from ol2r_cli.plugins.figures.drawing import draw, file_content
from ol2r_cli.plugins.figures.kinds import KINDS, reading
from ol2r_cli.plugins.figures.look import Look, NothingToDraw
from ol2r_cli.report.best_settings import select
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import declared_columns, ndcg_metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# General questions first. Without `bar`, which repeats the table, and `lda`, which needs the dataset and minutes.
_SHOWN = (
    *("learning_curve", "cumulative_ndcg", "online_ndcg", "measure", "unfairness", "violations"),
    *("block_size", "blocks", "block_size_by_rank", "certain_ratio", "cosine", "running_time"),
)
_CHOSEN = "Of every ranker the settings with the best validation NDCG."


class PageFigure(NamedTuple):
    """A figure of a page. name: of the element."""

    name: str
    title: str
    caption: str
    svg: Markup


class _Request(NamedTuple):
    """A figure that a page has where there are data for it."""

    name: str
    kind: str
    options: Mapping[str, Any] = {}


def page_figures(
    groups: Sequence[Group], labels: Labels, look: Look, comparison: Comparison | None
) -> tuple[list[PageFigure], list[str]]:
    """Return all figures that there are data for, and lines about those not drawn."""
    figures: list[PageFigure] = []
    refused: dict[str, dict[str, None]] = {}  # titles by reason
    for request in _requests(groups, comparison):
        try:
            figures.append(_page_figure(request, groups, labels, look))
        except NothingToDraw:
            continue
        except ValueError as error:
            refused.setdefault(str(error), {})[_title(request.kind)] = None
    return figures, [f"Not drawn: {', '.join(titles)} ({reason})." for reason, titles in refused.items()]


def _requests(groups: Sequence[Group], comparison: Comparison | None) -> Iterator[_Request]:
    """Yield the figures in the order of the page: differences first, if there is a baseline."""
    if comparison and comparison.baseline is not None:
        yield _Request("differences", "differences", {"baseline": comparison.baseline, "test": comparison.test})
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    for kind in _SHOWN:
        if kind == "measure":
            ndcg = ndcg_metrics(groups)
            own_kinds = (ndcg.test.removeprefix("test_"), ndcg.cumulative, ndcg.online)
            for column in declared_columns(groups):
                if column not in own_kinds:
                    yield _Request(f"{kind}-{column}", kind, {"column": column})
        elif fair or kind != "violations":  # without a fairness no certain pair is reversed
            yield _Request(kind, kind)


def _page_figure(request: _Request, groups: Sequence[Group], labels: Labels, look: Look) -> PageFigure:
    figure, drawn = _drawn(request, groups, labels, look)
    title, shows = _title(request.kind), KINDS[request.kind].shows
    if "column" in request.options:
        title, shows = (
            _heading(request.options["column"], groups),
            f"the column {request.options['column']} over rounds",
        )
    panels = [text for axes in figure.axes if (text := axes.get_title().strip().replace("\n", ", "))]
    curves = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    alternative = f"{title}: {shows}. Panels: {'; '.join(panels)}."
    alternative += f" Shown: {'; '.join(curves)}." if curves else ""
    svg = file_content(figure, "svg", transparent=True).decode()
    caption = [f"{shows}.", *reading(request.kind, drawn, look), _CHOSEN if drawn is not groups else ""]
    return PageFigure(
        request.name,
        title,
        " ".join(filter(None, caption)),
        inline(svg, request.name, alternative, figure.get_figwidth()),
    )


def _drawn(request: _Request, groups: Sequence[Group], labels: Labels, look: Look) -> tuple[Figure, Sequence[Group]]:
    """Return a figure and its groups: those that validation chooses where there are too many curves for a panel."""
    try:
        return draw(request.kind, groups, labels, **vars(look), **request.options), groups
    except NothingToDraw:
        raise
    except ValueError as error:
        try:
            selection = select(groups, labels)
        except ValueError:
            raise error from None
        chosen = [*selection.cells]
        if len(chosen) == len(groups):
            raise
        labels = labels.after_selection(selection.settings)
        return draw(request.kind, chosen, labels, **vars(look), **request.options), chosen


def inline(svg: str, name: str, alternative: str, inches: float) -> Markup:
    """Return an SVG file as an element of a page: without prologue, metadata and namespaces, its ids begin with `name`.

    It is as wide as the page, at most a third wider than on paper, and wide enough for legible text.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, flags=re.DOTALL)  # page.css has these rules
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'((?:href="|url\()#)', rf"\g<1>{name}-", svg)
    box = re.search(r'viewBox="([^"]*)"', svg)
    size = f"min-width: {min(inches, 5.5):.1f}in; max-width: {inches * 1.35:.1f}in"
    opening = (
        f'<svg viewBox="{box[1] if box else ""}" role="img" aria-labelledby="{name}-title" style="{size}">'
        f'<title id="{name}-title">{escape(alternative)}</title>'
    )
    return Markup(re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1).strip())


def _heading(column: str, groups: Sequence[Group]) -> str:
    """Return the name in words of a column of a measure."""
    for run in (run for group in groups for run in group.runs):
        for table in (run.columns.evaluation, run.columns.trace):
            if column in table:
                return table[column].heading[:1].upper() + table[column].heading[1:]
    return column


def _title(kind: str) -> str:
    return kind.replace("_", " ").capitalize().replace("ndcg", "NDCG")
