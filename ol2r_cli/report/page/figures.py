"""The figures of a page: every kind that there are data for, as SVG, with captions and texts for who cannot see it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ol2r_cli.report.figures import KINDS, NothingToDraw, draw
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.page.html import Html, element, joined, paragraphs, scrolling
from ol2r_cli.report.select import select

# From what everybody asks first to the closer look. Neither `bar`, which shows what the table says, nor `lda`, which
# needs the dataset itself and minutes.
SHOWN = (
    "learning_curve",
    "cumulative_ndcg",
    "online_ndcg",
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
_OF_FAIRNESS = ("scatter", "violations")  # where nothing is rearranged, no certain pair is reversed
_READ = {
    "curves": "Lines are means; bands are 95% intervals of the mean, cut where they leave the panel.",
    "ranks": "Means over the seeds whose query in this round has the rank.",
    "bars": "Lines at the ends of bars are 95% intervals of the mean; without them there is one run.",
    "setting": "Vertical lines are 95% intervals of the mean.",
    "grid": "± is half the width of the 95% interval of the mean.",
    "scatter": "Lines through the points are 95% intervals of both means.",
}
_LONG = re.compile(r"\d+\.\d{3,}")  # coordinates, of which a hundredth of a point is enough
_SETTINGS = 6  # that get a figure each
_CHOSEN = "Of every ranker the settings with the best validation NDCG@10."


def figures(groups: Sequence[Group], labels: Labels) -> Html:
    """All figures there are data for; lines about those that could not be drawn."""
    drawn: list[Html] = []
    refused: dict[str, list[str]] = {}
    for name, kind, options in _wanted(groups, labels):
        try:
            drawn.append(_figure(name, kind, groups, labels, options))
        except NothingToDraw:
            continue
        except ValueError as error:
            refused.setdefault(str(error), []).append(_title(kind))
    lines = [f"Not drawn: {', '.join(dict.fromkeys(titles))} ({reason})." for reason, titles in refused.items()]
    return joined([*drawn, paragraphs(lines, class_="note")], "\n")


def _wanted(groups: Sequence[Group], labels: Labels) -> Iterator[tuple[str, str, dict[str, str]]]:
    """A name, a kind and options for each: one figure for every setting that groups differ in."""
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    varying = Legend(groups, labels).varying()
    metric = {} if any(group.estimate("test_ndcg_10") for group in groups) else {"metric": "online_ndcg"}
    for kind in SHOWN:
        if kind == "setting":
            for setting in varying[:_SETTINGS]:
                yield f"{kind}-{setting.replace('.', '-')}", kind, {"x": setting} | metric
        elif (fair or kind not in _OF_FAIRNESS) and (kind != "grid" or len(varying) == 2):
            yield kind, kind, metric if kind == "grid" else {}


def _figure(name: str, kind: str, groups: Sequence[Group], labels: Labels, options: Mapping[str, str]) -> Html:
    chosen = ""
    try:
        figure = draw(kind, groups, labels, **options)
    except NothingToDraw:
        raise
    except ValueError as error:  # too many curves for a panel
        try:
            best = select(groups, labels).groups
        except ValueError:
            raise error from None
        if len(best) == len(groups):
            raise
        figure, chosen = draw(kind, best, labels, **options), f" {_CHOSEN}"
    from ol2r_cli.report.figures.look import write

    panels = [title for axes in figure.axes if (title := axes.get_title().replace("\n", ", "))]
    curves = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    alternative = f"{_title(kind)}: {KINDS[kind].shows}. Panels: {'; '.join(panels)}."
    if curves:
        alternative += f" Shown: {'; '.join(curves)}."
    picture = inline(write(figure, "svg", transparent=True).decode(), name, alternative, figure.get_figwidth())
    caption = element(
        "figcaption",
        element("strong", f"{_title(kind)}: "),
        f"{KINDS[kind].shows}. {_READ[KINDS[kind].family]}{chosen}",
    )
    return element("figure", scrolling(picture, _title(kind)), caption, id=name, class_="figure")


def inline(svg: str, name: str, alternative: str, inches: float) -> Html:
    """An SVG file as an element of a page: without prologue, metadata and namespaces, its ids with a name in front.

    It is drawn as wide as the page, up to a third more than its size on paper, and not so small that its text cannot
    be read.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, flags=re.DOTALL)  # page.css says it
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'((?:href="|url\()#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: _LONG.sub(lambda number: f"{float(number[0]):.2f}", tag[0]), svg)
    box = re.search(r'viewBox="([^"]*)"', svg)
    size = f"min-width: {min(inches, 5.5):.1f}in; max-width: {inches * 1.35:.1f}in"
    opening = (
        f'<svg viewBox="{box[1] if box else ""}" role="img" aria-labelledby="{name}-title" style="{size}">'
        + element("title", alternative, id=f"{name}-title")
    )
    return Html(re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1).strip())


def _title(kind: str) -> str:
    return kind.replace("_", " ").replace("ndcg", "NDCG").replace("lda", "LDA").capitalize().replace("ndcg", "NDCG")
