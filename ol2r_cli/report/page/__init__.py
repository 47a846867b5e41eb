"""`report.html`: a whole report as one file that needs nothing else, neither network nor scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ol2r_cli.report.collect import Collection
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.differences import differences
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import METRICS, usual_metrics
from ol2r_cli.report.notes import left_out, notes
from ol2r_cli.report.page.figures import figures
from ol2r_cli.report.page.html import Html, element, joined, paragraphs, table
from ol2r_cli.report.page.provenance import manifests, provenance, warnings
from ol2r_cli.report.page.settings import settings
from ol2r_cli.report.page.summary import leaders, summary
from ol2r_cli.report.select import Selection
from ol2r_cli.report.table import ordered
from ol2r_cli.report.table import table as groups_table
from ol2r_cli.results.directory import RunDirectory


def write_page(
    path: Path,
    collection: Collection,
    groups: Sequence[Group],
    labels: Labels,
    selection: Selection | None = None,
    comparison: Comparison | None = None,
) -> None:
    """Write the page of these groups; the same runs give the same bytes.

    With a summary in words, tables, every figure that there are data for, the settings of each group with the command
    that runs it again, and where the numbers come from. Without matplotlib it has no figures, and says so.
    """
    groups = ordered(groups, labels, METRICS[0])
    called = {group: _name(group, labels) for group in groups}
    of = manifests(groups)
    sections = {
        "Results": _results(collection, groups, labels, selection, comparison),
        "Figures": figures(groups, labels),
        "Settings": settings(groups, labels, called, of),
        "Provenance": provenance(of, called),
    }
    concerns = [*left_out(collection), *(selection.warnings if selection else []), *warnings(of)]
    head = joined(
        [
            element("h1", "Online learning to rank: report"),
            paragraphs(summary(groups, selection, comparison), class_="lead"),
            element("ul", *(element("li", line) for line in leaders(groups, labels))),
            paragraphs(concerns, class_="warning"),
            element("nav", element("ul", *map(_link, sections)), aria_label="Sections"),
        ],
        "\n",
    )
    body = [element("header", head), element("main", joined(map(_section, sections, sections.values()), "\n"))]
    RunDirectory(path.parent).write_text(path.name, _document(joined(body, "\n")))


def _results(
    collection: Collection,
    groups: Sequence[Group],
    labels: Labels,
    selection: Selection | None,
    comparison: Comparison | None,
) -> Html:
    own = groups_table(groups, labels, usual_metrics(groups), selection, comparison)
    tables = [table(own, "Means over seeds and folds with 95% intervals; a click on a heading sorts")]
    if comparison and comparison.differences and comparison.baseline is not None:
        tables.append(table(differences(comparison, labels), f"Paired differences from {comparison.baseline}"))
    chosen = selection is not None and max(selection.cells, default=0) > 1
    lines = [line for line in notes(collection, groups, chosen, comparison) if line not in left_out(collection)]
    return joined([*tables, paragraphs(lines, class_="note")], "\n")


def _name(group: Group, labels: Labels) -> str:
    """Dataset, users, ranker and the settings that tell it from others."""
    parts = [group.choices["dataset"], group.choices["click"], labels.ranker(group), labels.short(group)]
    return ", ".join(filter(None, parts))


def _link(title: str) -> Html:
    return element("li", element("a", title, href=f"#{title.lower()}"))


def _section(title: str, content: Html) -> Html:
    return element("section", element("h2", title), content, id=title.lower())


def _document(body: Html) -> str:
    here = Path(__file__).parent
    style, script = (Html("\n" + (here / name).read_text(encoding="utf-8")) for name in ("page.css", "sort.js"))
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            element("title", "Online learning to rank: report"),
            element("style", style),
        ],
        "\n",
    )
    inner = joined([element("head", head), element("body", body, element("script", script))], "\n")
    return f"<!doctype html>\n{element('html', inner, lang='en')}\n"
