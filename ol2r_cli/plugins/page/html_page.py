"""`report.html`: a whole report as one self-contained file, from a jinja2 template. torch requires jinja2.

The template has the sentences. This module computes what is in them: the best rankers of each task, the settings of
each group with the command that repeats it, tables and figures, and the provenance of the numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.plugins.figures.look import Look
from ol2r_cli.plugins.page.page_figures import page_figures
from ol2r_cli.report.best_settings import Selection
from ol2r_cli.report.comparison import Comparison, differences
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.names import Labels, Legend, dataset_name, symbol
from ol2r_cli.report.notes import choice_note
from ol2r_cli.report.parts import defines_task
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import ndcg_metrics
from ol2r_cli.report.tasks import tasks
from ol2r_cli.text.formatting import duration, plural, plus_minus, printable
from ol2r_cli.text.table import TextTable

Manifest = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class PageContent:
    """What a page is made of. groups: in the order of the page. has_best: whether a table has bold values."""

    groups: Sequence[Group]
    labels: Labels
    look: Look
    tables: Sequence[TextTable]
    notes: Sequence[str]
    warnings: Sequence[str]
    has_best: bool
    selection: Selection | None
    comparison: Comparison | None


def page(content: PageContent) -> str:
    """Return the page; the same runs give the same text.

    The page has every figure that the runs have data for. Without matplotlib it has none, and says so.
    """
    groups, labels = content.groups, content.labels
    figures, not_drawn = page_figures(groups, labels, content.look, content.comparison)
    environment = templates(Path(__file__).parent)
    environment.filters |= {"plural": plural, "commit": _commit, "device": _device, "time": _time}
    return environment.get_template("report.html.jinja").render(
        content=content,
        figures=figures,
        not_drawn=not_drawn,
        leaders=_leaders(groups, labels, content.comparison.test if content.comparison else "t"),
        units=groups[0].units.over(groups),
        least_units=LEAST_UNITS,
        choice_note=choice_note,
        **_extent(groups),
        **_settings(groups, labels),
        **_provenance(groups, labels),
    )


def _extent(groups: Sequence[Group]) -> dict[str, Any]:
    """Return how many choices, rounds and values the groups have."""
    return {
        "chosen": {part: len({group.choices[part] for group in groups}) for part in ("ranker", "click", "dataset")},
        "rounds": _span({int(group.settings["rounds"]) for group in groups}),
        "values": _span({group.n for group in groups}),
    }


def _settings(groups: Sequence[Group], labels: Labels) -> dict[str, Any]:
    """Return the settings of each group, and those that all groups have with the same value, as typed."""
    first, *others = [{name: as_typed(value) for name, value in group.settings.items()} for group in groups]
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    return {
        "groups": [_settings_of(group, labels, shared) for group in groups],
        "shared_settings": shared.items(),
    }


def _settings_of(group: Group, labels: Labels, shared: Mapping[str, str]) -> dict[str, Any]:
    """Return the name of a group, its choices, settings and seeds, the commands of its runs, and its other settings."""
    told = {*labels.settings[group]}
    if group.settings.keys() != shared.keys():
        told |= shared.keys()
    commands = dict.fromkeys(run.manifest["command"] for run in group.runs)
    return {
        "name": _row_name(group, labels),
        "distinguishing": [*labels.words(group).items(), *_seeds_by_fold(group.runs)],
        "commands": Markup("\n").join(commands),
        "others": [(name, as_typed(value)) for name, value in group.settings.items() if name not in told],
    }


def _seeds_by_fold(runs: Iterable[FinishedRun]) -> list[tuple[str, str]]:
    """Return the seeds of each fold, by the manifests, since values may be of other units."""
    seeds: dict[Any, list[int]] = {}
    for run in runs:
        seeds.setdefault(run.fold, []).extend(run.manifest["seeds"])
    if seeds.keys() == {None}:
        return [("seeds", ranges(seeds[None]))]
    return [(f"seeds of fold {fold}", ranges(of_fold)) for fold, of_fold in sorted(seeds.items(), key=str)]


def _row_name(group: Group, labels: Labels) -> str:
    words = [group.choices["dataset"], group.choices["click"], labels.ranker(group), labels.short(group)]
    return ", ".join(filter(None, words))


def _provenance(groups: Sequence[Group], labels: Labels) -> dict[str, Any]:
    """Return where the numbers are from: versions, data, and a table of the runs."""
    runs = [run for group in groups for run in group.runs]
    manifests = [run.manifest for run in runs]
    return {
        "manifests": manifests,
        "is_dirty": any((manifest.get("git") or {}).get("dirty") for manifest in manifests),
        "versions": _versions(manifests),
        "seconds": duration(sum(manifest.get("seconds") or 0 for manifest in manifests)),
        "data": dict.fromkeys(map(_data, runs)),
        "runs": _table_of_runs(groups, labels),
    }


def _versions(manifests: Sequence[Manifest]) -> dict[str, list[str]]:
    """Return the version of each package in each of the runs."""
    versions = [manifest.get("versions") or {} for manifest in manifests]
    packages = dict.fromkeys(chain(*versions))
    return {package: [str(of_run.get(package, "unknown")) for of_run in versions] for package in packages}


def _data(run: FinishedRun) -> tuple[str, Any, str]:
    """Return the name, the fold and the fingerprint of the data of a run."""
    dataset = run.manifest["dataset"]
    return dataset["name"], run.fold, dataset["fingerprint"]


def _table_of_runs(groups: Sequence[Group], labels: Labels) -> TextTable:
    runs = [(group, run) for group in groups for run in group.runs]
    columns = {
        "directory": lambda group, run: str(run.path),
        "group": lambda group, run: _row_name(group, labels),
        "fold": lambda group, run: "" if run.fold is None else str(run.fold),
        "seeds": lambda group, run: ranges(run.manifest["seeds"]),
        "ended (UTC)": lambda group, run: _time(run.manifest, "ended"),
        "time": lambda group, run: duration(run.manifest.get("seconds") or 0),
        "device": lambda group, run: _device(run.manifest),
        "git commit": lambda group, run: _commit(run.manifest)[:19],
    }
    return TextTable.of([*columns], (), [[text(*of_run) for text in columns.values()] for of_run in runs])


def templates(folder: Path) -> Environment:
    """Return the templates of a folder, which may include page.css; their values are escaped."""
    return Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # not of Markup, which is ours
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )


def _leaders(groups: Sequence[Group], labels: Labels, test: str) -> list[str]:
    """Return for each task a sentence on the groups with the highest means of test or else online NDCG."""
    ndcg = ndcg_metrics(groups)
    metric = next((name for name in (ndcg.test, ndcg.online) if any(group.estimate(name) for group in groups)), None)
    if metric is None:
        return []
    names = Legend(groups, labels).names
    return list(filter(None, [_leader(task, metric, names, labels, test) for task in tasks(groups)]))


def _leader(task: Sequence[Group], metric: str, names: Mapping[Group, str], labels: Labels, test: str) -> str:
    """Return a sentence on the groups with the highest and the next mean, and on how many groups the first is
    significantly better than; empty where there are fewer than two."""
    estimates = {group: estimate for group in task if (estimate := group.estimate(metric))}
    ranked = sorted(estimates, key=lambda group: -estimates[group].mean)
    if len(ranked) < 2:
        return ""
    first, second = (
        f"{names[group]} ({plus_minus(estimates[group].mean, estimates[group].half_width, digits(metric))})"
        for group in ranked[:2]
    )
    sentence = f"{_place(task[0], labels)}: the highest mean {heading(metric)} is that of {first}, then {second}"
    pairs = differences(list(combinations(ranked, 2)), [metric], test)
    of_first = {pair.rival: pair for pair in pairs if pair.group is ranked[0] and pair.holm is not None}
    if not of_first:
        return f"{sentence}; differences could not be tested, which takes {LEAST_UNITS} seeds or folds."
    lower, others = sum(pair.significant for pair in of_first.values()), len(ranked) - 1
    if lower == others:
        return f"{sentence}; {'all others are' if others > 1 else 'that is'} significantly lower."
    of_others = f"{lower} of {others} others are significantly lower, " if others > 1 else ""
    next_one = of_first.get(ranked[1])
    if next_one is None or next_one.significant:
        return f"{sentence}; {of_others.removesuffix(', ')}."
    return f"{sentence}; {of_others}that of {names[ranked[1]]} is not significantly lower (p = {next_one.holm:.3f})."


def _place(group: Group, labels: Labels) -> str:
    """Return the data, the users and the settings of a task."""
    settings = labels.settings[group].items()
    told = " ".join(f"{symbol(name)}={as_typed(value)}" for name, value in settings if defines_task(name))
    click = group.choices["click"]
    users = f", {click} users" if click != "none" else ""
    return dataset_name(group.choices["dataset"]) + users + (f" ({told})" if told else "")


def ranges(seeds: Iterable[int]) -> str:
    """Return seeds as ranges, such as `0–4, 10`."""
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
