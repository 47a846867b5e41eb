"""The figures of report.html: every kind that the runs have data for, as SVG with a caption and an alternative text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from ol2r_cli.report.figures.drawing import draw, file_content, reading
from ol2r_cli.report.figures.kinds import EVERY_KIND, KINDS, Look, NothingToDraw
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.selection import select

# General questions first. Without `bar`, which repeats the table, and `lda`, which needs the dataset and minutes.
_SHOWN = (
    "learning_curve",
    "cumulative_ndcg",
    "online_ndcg",
    "measure",
    "setting",
    "grid",
    "unfairness",
    "scatter",
    "violations",
    "block_size",
    "blocks",
    "block_size_by_rank",
    "certain_ratio",
    "cosine",
    "running_time",
)
_OF_FAIRNESS = ("scatter", "violations")  # without a fairness no certain pair is reversed
_LONG = re.compile(r"\d+\.\d{3,}")  # coordinates; a hundredth of a point is enough
_SETTINGS = 6  # figures of a setting, at most
_CHOSEN = "Of every ranker the settings with the best validation NDCG."


@dataclass(frozen=True)
class PageFigure:
    """A figure with its id in the page, title and caption."""

    name: str
    title: str
    caption: str
    svg: Markup


def page_figures(groups: Sequence[Group], labels: Labels, look: Look) -> tuple[list[PageFigure], list[str]]:
    """All figures that there are data for, and lines about those that could not be drawn."""
    figures: list[PageFigure] = []
    refused: dict[str, list[str]] = {}
    for name, kind, options in _wanted(groups, labels):
        try:
            figures.append(_figure(name, kind, groups, labels, vars(look) | options))
        except NothingToDraw:
            continue
        except ValueError as error:
            refused.setdefault(str(error), []).append(_title(kind))
    return figures, [f"Not drawn: {', '.join(dict.fromkeys(titles))} ({reason})." for reason, titles in refused.items()]


def _wanted(groups: Sequence[Group], labels: Labels) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, kind and options of each figure; one figure for every setting in which groups differ."""
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    varying = Legend(groups, labels).varying()
    test, _, cumulative, online = ndcg_metrics(groups)
    metric = {} if any(group.estimate(test) for group in groups) else {"metric": online}
    for kind in _SHOWN:
        if kind == "setting":
            for setting in varying[:_SETTINGS]:
                yield re.sub(r"\W+", "-", f"{kind}-{setting}"), kind, {"x": setting} | metric
        elif kind == "measure":
            others = [run.columns.additional for group in groups for run in group.runs]
            for column in dict.fromkeys(name for each in others for name in [*each.evaluation, *each.trace]):
                if column not in (test.removeprefix("test_"), cumulative, online):  # which have kinds of their own
                    yield f"{kind}-{column}", kind, {"column": column}
        elif (fair or kind not in _OF_FAIRNESS) and (kind != "grid" or len(varying) == 2):
            yield kind, kind, metric if kind == "grid" else {}


def _figure(name: str, kind: str, groups: Sequence[Group], labels: Labels, options: Mapping[str, Any]) -> PageFigure:
    chosen = ""
    try:
        figure = draw(kind, groups, labels, **options)
    except NothingToDraw:
        raise
    except ValueError as error:  # too many curves for a panel: draw the groups that validation chooses
        try:
            best = select(groups, labels).groups
        except ValueError:
            raise error from None
        if len(best) == len(groups):
            raise
        groups, chosen, figure = best, _CHOSEN, draw(kind, best, labels, **options)
    panels = [title for axes in figure.axes if (title := axes.get_title().replace("\n", ", "))]
    curves = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    alternative = f"{_title(kind)}: {KINDS[kind].shows}. Panels: {'; '.join(panels)}."
    if curves:
        alternative += f" Shown: {'; '.join(curves)}."
    svg = inline(file_content(figure, "svg", transparent=True).decode(), name, alternative, figure.get_figwidth())
    look = Look(**{name: options[name] for name in EVERY_KIND})
    caption = [f"{KINDS[kind].shows}.", *reading(kind, groups, look), chosen]
    return PageFigure(name, _title(kind), " ".join(filter(None, caption)), svg)


def inline(svg: str, name: str, alternative: str, inches: float) -> Markup:
    """An SVG file as an element of a page: without prologue, metadata and namespaces, its ids prefixed by a name.

    It is as wide as the page, at most a third wider than on paper, and wide enough for legible text.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, flags=re.DOTALL)  # page.css has these rules
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'((?:href="|url\()#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: _LONG.sub(lambda number: f"{float(number[0]):.2f}", tag[0]), svg)
    box = re.search(r'viewBox="([^"]*)"', svg)
    size = f"min-width: {min(inches, 5.5):.1f}in; max-width: {inches * 1.35:.1f}in"
    opening = (
        f'<svg viewBox="{box[1] if box else ""}" role="img" aria-labelledby="{name}-title" style="{size}">'
        f'<title id="{name}-title">{escape(alternative)}</title>'
    )
    return Markup(re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1).strip())


def _title(kind: str) -> str:
    return kind.replace("_", " ").capitalize().replace("ndcg", "NDCG")
