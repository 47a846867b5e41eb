"""`report.html`: a whole report as one self-contained file, from a jinja2 template. torch requires jinja2.

The template has the sentences. This module computes what is in them: the best rankers of each task, the settings of
each group with the command that repeats it, tables and figures, and the provenance of the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.files import write_text
from ol2r_cli.formatting import duration, plural, plus_minus, printable
from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.report.comparison import Comparison, select
from ol2r_cli.report.figures.drawing import KINDS, Look, NothingToDraw, draw, file_content, reading
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.legend import Legend, dataset_name, symbol
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.parts import defines_task
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import ndcg_metrics, usual_metrics
from ol2r_cli.report.tasks import tasks
from ol2r_cli.run.run import Run
from ol2r_cli.text_table import TextTable

if TYPE_CHECKING:
    from ol2r_cli.report.document import Document

_LEADERS = 12  # tasks at most
# General questions first. Without `bar`, which repeats the table, and `lda`, which needs the dataset and minutes.
_SHOWN = (
    *("learning_curve", "cumulative_ndcg", "online_ndcg", "measure", "unfairness", "violations"),
    *("block_size", "blocks", "block_size_by_rank", "certain_ratio", "cosine", "running_time"),
)
_LONG = re.compile(r"\d+\.\d{3,}")  # coordinates; a hundredth of a point is enough
Manifest = Mapping[str, Any]


class Member(NamedTuple):
    """A run of a group, with the content of its run.json."""

    group: Group
    run: FinishedRun
    manifest: Manifest


def write_page(path: Path, document: Document) -> None:
    """Write the page of a document; the same runs give the same bytes.

    The page has every figure that the runs have data for. Without matplotlib it has none, and says so.
    """
    labels, comparison = document.labels, document.comparison
    groups = labels.ordered(document.groups, ndcg_metrics(document.groups))
    members = [Member(group, run, Run.read_finished(run.path).manifest) for group in groups for run in group.runs]
    manifests = [member.manifest for member in members]
    shared = _shared_settings(groups)
    figures, not_drawn = page_figures(groups, labels, document.look, comparison)
    differences = comparison.differences if comparison else []
    environment = templates(Path(__file__).parent)
    environment.filters |= {"plural": plural, "commit": _commit, "device": _device, "time": _time}
    text = environment.get_template("report.html.jinja").render(
        document=document,
        chosen={part: len({group.choices[part] for group in groups}) for part in ("ranker", "click", "dataset")},
        rounds=_span({int(group.settings["rounds"]) for group in groups}),
        values=_span({group.n for group in groups}),
        unit="user" if groups[0].of_users else "seed",
        has_folds=any(len(group.seeds) > 1 for group in groups),
        tested=[difference for difference in differences if difference.holm is not None],
        least_units=LEAST_UNITS,
        leaders=_leaders(groups, labels),
        is_dirty=any((manifest.get("git") or {}).get("dirty") for manifest in manifests),
        tables=replace(document, metrics=usual_metrics(groups), differences_only=False).tables,
        figures=figures,
        not_drawn=not_drawn,
        groups=[_settings_of(group, members, labels, shared) for group in groups],
        shared_settings=shared.items(),
        manifests=manifests,
        versions=_versions(manifests),
        seconds=duration(sum(manifest.get("seconds") or 0 for manifest in manifests)),
        data=dict.fromkeys(map(_data, members)),
        runs=_table_of_runs(members, labels),
    )
    write_text(path, text)


def _shared_settings(groups: Sequence[Group]) -> dict[str, str]:
    """The settings that all groups have with the same value, as typed."""
    first, *others = [{name: as_typed(value) for name, value in group.settings.items()} for group in groups]
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _row_name(group: Group, labels: Labels) -> str:
    parts = [group.choices["dataset"], group.choices["click"], labels.ranker(group), labels.short(group)]
    return ", ".join(filter(None, parts))


def _settings_of(group: Group, members: Sequence[Member], labels: Labels, shared: Mapping[str, str]) -> dict[str, Any]:
    """The name of a group, its choices, settings and seeds, the commands of its runs, and its other settings."""
    manifests = [member.manifest for member in members if member.group is group]
    of_folds: dict[Any, list[int]] = {}  # by the manifests, since the values of fits are those of users
    for member in members:
        if member.group is group:
            of_folds.setdefault(member.run.fold, []).extend(member.manifest["seeds"])
    seeds = [
        (f"seeds of fold {fold}" if len(of_folds) > 1 or fold is not None else "seeds", ranges(of_fold))
        for fold, of_fold in sorted(of_folds.items(), key=str)
    ]
    told = {*labels.settings(group), *(shared if group.settings.keys() != shared.keys() else ())}
    commands = dict.fromkeys(printable(manifest["command"]) for manifest in manifests)
    return {
        "name": _row_name(group, labels),
        "distinguishing": [*labels.words(group).items(), *seeds],
        "commands": Markup("\n").join(commands),
        "others": [(name, as_typed(value)) for name, value in group.settings.items() if name not in told],
    }


def _table_of_runs(members: Sequence[Member], labels: Labels) -> TextTable:
    headings = ("directory", "group", "fold", "seeds", "ended (UTC)", "time", "device", "git commit")
    rows = []
    for group, run, manifest in members:
        fold = "" if run.fold is None else str(run.fold)
        which = [str(run.path), _row_name(group, labels), fold, ranges(manifest["seeds"])]
        how = [duration(manifest.get("seconds") or 0), _device(manifest), _commit(manifest)[:19]]
        rows.append([*which, _time(manifest, "ended"), *how])
    return TextTable.of(headings, (), rows)


def _versions(manifests: Sequence[Manifest]) -> dict[str, list[str]]:
    """The version of each package in each of the runs."""
    versions = [manifest.get("versions") or {} for manifest in manifests]
    packages = dict.fromkeys(chain(*versions))
    return {package: [str(of_run.get(package, "unknown")) for of_run in versions] for package in packages}


def _data(member: Member) -> tuple[str, Any, str]:
    """The name, the fold and the fingerprint of the data of a run."""
    dataset = member.manifest["dataset"]
    return dataset["name"], member.run.fold, dataset["fingerprint"]


def templates(folder: Path) -> Environment:
    """The templates of a folder, which may include page.css, the style of all pages; their values are escaped."""
    return Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # not of Markup, which is ours
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )


def _leaders(groups: Sequence[Group], labels: Labels) -> list[str]:
    """For each task a sentence on the groups with the best and the second best mean of test or else online NDCG."""
    by = ndcg_metrics(groups)[::3]
    metric = next((name for name in by if any(group.estimate(name) for group in groups)), None)
    if metric is None:
        return []
    legend, lines = Legend(groups, labels), []
    for task in tasks(groups):
        means = {group: estimate for group in task if (estimate := group.estimate(metric))}
        ranked = sorted(means, key=lambda group: -means[group].mean)
        if len(ranked) < 2:
            continue
        first, second = (
            f"{legend.names[group]} ({plus_minus(means[group].mean, means[group].half_width, digits(metric))})"
            for group in ranked[:2]
        )
        settings = labels.settings(task[0]).items()
        told = " ".join(f"{symbol(name)}={as_typed(value)}" for name, value in settings if defines_task(name))
        click = task[0].choices["click"]
        place = dataset_name(task[0].choices["dataset"]) + (f", {click} users" if click != "none" else "")
        place += f" ({told})" if told else ""
        lines.append(f"{place}: the best mean {heading(metric)} is that of {first}, then {second}.")
    more = len(lines) - _LEADERS
    return lines if more <= 0 else [*lines[:_LEADERS], f"{more} more tasks are in the table."]


def ranges(seeds: Iterable[int]) -> str:
    """Seeds as ranges, such as `0–4, 10`."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and runs[-1][-1] == seed - 1:
            runs[-1][1:] = [seed]
        else:
            runs.append([seed])
    return ", ".join("–".join(map(str, run)) for run in runs)


def _span(numbers: Collection[int]) -> str:
    return " to ".join(f"{number:,}" for number in sorted({min(numbers), max(numbers)}))


def _commit(manifest: Manifest) -> str:
    git = manifest.get("git")
    return "none (installed package)" if not git else git["commit"] + (" with changes" if git.get("dirty") else "")


def _device(manifest: Manifest) -> str:
    return f"{manifest.get('device')}, {plural(manifest.get('threads', 0), 'thread')}"


def _time(manifest: Manifest, event: str) -> str:
    return str(manifest.get(event) or "").replace("T", " ").removesuffix("+00:00")


def page_figures(
    groups: Sequence[Group], labels: Labels, look: Look, comparison: Comparison | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Name, title, caption and svg of all figures that there are data for, and lines about those not drawn."""
    figures: list[dict[str, Any]] = []
    refused: dict[str, dict[str, None]] = {}
    for name, kind, options in _wanted(groups, comparison):
        try:
            figures.append(_figure(name, kind, groups, labels, look, options))
        except NothingToDraw:
            continue
        except ValueError as error:
            refused.setdefault(str(error), {})[_title(kind)] = None
    return figures, [f"Not drawn: {', '.join(titles)} ({reason})." for reason, titles in refused.items()]


def _wanted(groups: Sequence[Group], comparison: Comparison | None) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, kind and options of each figure: differences first, if there is a baseline."""
    if comparison and comparison.baseline is not None:
        yield "differences", "differences", {"baseline": comparison.baseline, "test": comparison.test}
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    test, _, cumulative, online = ndcg_metrics(groups)
    for kind in _SHOWN:
        if kind == "measure":
            others = [run.columns.additional for group in groups for run in group.runs]
            for column in dict.fromkeys(name for each in others for name in [*each.evaluation, *each.trace]):
                if column not in (test.removeprefix("test_"), cumulative, online):  # which have kinds of their own
                    yield f"{kind}-{column}", kind, {"column": column}
        elif fair or kind != "violations":  # without a fairness no certain pair is reversed
            yield kind, kind, {}


def _figure(
    name: str, kind: str, groups: Sequence[Group], labels: Labels, look: Look, options: Mapping[str, Any]
) -> dict[str, Any]:
    chosen = ""
    try:
        figure = draw(kind, groups, labels, **vars(look), **options)
    except NothingToDraw:
        raise
    except ValueError as error:  # too many curves for a panel: draw the groups that validation chooses
        try:
            best = [*select(groups, labels).cells]
        except ValueError:
            raise error from None
        if len(best) == len(groups):
            raise
        groups, chosen = best, "Of every ranker the settings with the best validation NDCG."
        figure = draw(kind, best, labels, **vars(look), **options)
    panels = [title for axes in figure.axes if (title := axes.get_title().strip().replace("\n", ", "))]
    curves = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    alternative = f"{_title(kind)}: {KINDS[kind].shows}. Panels: {'; '.join(panels)}."
    alternative += f" Shown: {'; '.join(curves)}." if curves else ""
    svg = inline(file_content(figure, "svg", transparent=True).decode(), name, alternative, figure.get_figwidth())
    caption = [f"{KINDS[kind].shows}.", *reading(kind, groups, look), chosen]
    return {"name": name, "title": _title(kind), "caption": " ".join(filter(None, caption)), "svg": svg}


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
