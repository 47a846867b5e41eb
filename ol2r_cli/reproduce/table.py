"""Our numbers beside those that the paper prints."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ol2r_cli.report.formats import Cell, Table
from ol2r_cli.report.groups import Group
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.statistics import Estimate, over_folds
from ol2r_cli.reproduce.book import data
from ol2r_cli.reproduce.protocol import Ground, Protocol
from ol2r_cli.reproduce.runs import Played
from ol2r_cli.results.directory import RunDirectory

UTILITY = "utility"  # mean label of a group of documents
SECONDS = "seconds"  # of wall-clock time, of a run; the other metrics are those of summary.json


@dataclass(frozen=True)
class Line:
    """One value: what it is of, what it is, and what the paper prints, by the paper's dataset."""

    ground: str
    click: str
    competitor: str
    settings: str
    metric: str
    value: Estimate
    printed: Mapping[str, float]


def lines(protocol: Protocol, played: Played) -> list[Line]:
    """Every place and metric there is, in the order of the recipe."""
    found = []
    grounds = {ground.title: ground for ground in protocol.grounds}
    for place, group in played.groups.items():
        for metric in protocol.recipe.metrics:
            value = estimate(group, metric)
            if value is not None:
                printed = _printed(protocol, grounds[place.ground], place.click, place.competitor, metric)
                settings = " ".join(played.settings[place].values())
                found.append(Line(place.ground, place.click, place.competitor, settings, metric, value, printed))
    return found


def estimate(group: Group, metric: str) -> Estimate | None:
    """A metric over (fold, seed), running time over runs; None where it does not apply."""
    if metric != SECONDS:
        return group.estimate(metric)
    times = [RunDirectory(run.path).read_json("run.json")["seconds"] for run in group.runs]
    return over_folds({None: [Estimate(time, None, 1) for time in times]})


def _printed(protocol: Protocol, ground: Ground, click: str, competitor: str, metric: str) -> dict[str, float]:
    return {
        data(one.data).title: one.value
        for one in protocol.recipe.printed
        if one.data in ground.named and (one.click or click, one.competitor, one.metric) == (click, competitor, metric)
    }


def table(found: Sequence[Line], comparable: bool, settings: bool = True) -> Table:
    """One row for every competitor at a place, a column for every measure; columns that would be empty are left out.

    comparable: whether ours were made by the paper's protocol, so that differences mean something. settings: show them.
    """
    measures = list(dict.fromkeys(line.metric for line in found))
    words = ["data", "click", "competitor", "settings", "n"]
    headings = [*words, *(text for metric in measures for text in (heading(metric), "the paper", "difference"))]
    rows: dict[tuple[str, ...], list[str]] = {}
    for line in found:
        place = (line.ground, line.click, line.competitor)
        count = str(line.value.n) if line.click else ""  # of runs; what is said of data is of all of them
        row = rows.setdefault(place, [*place, _brief(line.settings) if settings else "", count])
        row += [""] * (len(words) + 3 * measures.index(line.metric) - len(row))
        row += _beside(line, comparable)
    cells = [[Cell(text) for text in [*row, *[""] * (len(headings) - len(row))]] for row in rows.values()]
    return Table(headings, cells, [place >= len(words) - 1 for place in range(len(headings))]).without_empty()


def _beside(line: Line, comparable: bool) -> list[str]:
    """Ours, what the paper prints (with its dataset where ours is another), and the difference."""
    mean, half = line.value.mean, line.value.half_width
    ours = _figure(mean, line.metric) + ("" if half is None else f" ± {_figure(half, line.metric)}")
    of = {title: "" if comparable else f" ({title})" for title in line.printed}
    theirs = [_figure(value, line.metric) + of[title] for title, value in line.printed.items()]
    apart = [_figure(mean - value, line.metric) for value in line.printed.values()] if comparable else []
    return [ours, ", ".join(theirs), ", ".join(apart)]


def _brief(settings: str) -> str:
    """Settings without the part they are of: l2=0.1 alpha=0.01."""
    return " ".join(
        word.partition("=")[0].rpartition(".")[2] + "=" + word.partition("=")[2] for word in settings.split()
    )


def _figure(value: float, metric: str) -> str:
    return f"{value:.{4 if metric == UTILITY else digits(metric)}f}"


def as_csv(found: Sequence[Line], scale: str) -> str:
    """In full precision, a row for every line and number that the paper prints for it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["scale", "data", "click", "competitor", "settings", "metric", "mean", "half_width", "n"]
    writer.writerow([*names, "paper_data", "paper_value"])
    for line in found:
        own = [scale, line.ground, line.click, line.competitor, line.settings, line.metric]
        for title, value in _or_none(line.printed):
            writer.writerow([*own, line.value.mean, line.value.half_width, line.value.n, title, value])
    return text.getvalue()


def _or_none(printed: Mapping[str, float]) -> Iterator[tuple[str, float | None]]:
    yield from printed.items() or [("", None)]
