"""`report.html`: a whole report as one self-contained file, from a jinja2 template. torch requires jinja2.

This module computes the texts and tables of the page: a summary in sentences, the best rankers of each task, tables,
figures, the settings of each group with the command that repeats it, and the provenance of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ol2r_cli.atomic_file import write_text
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import duration, plus_minus, printable
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.estimates import LEAST_UNITS
from ol2r_cli.report.figures import paper_names
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.labels import PARTS, Labels, defines_task, tasks
from ol2r_cli.report.measures import digits, heading, ndcg_metrics, usual_metrics
from ol2r_cli.report.notes import left_out
from ol2r_cli.report.page.page_figures import page_figures
from ol2r_cli.report.result_tables import differences_table, groups_table, ordered
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.selection import Selection
from ol2r_cli.report.text_table import TextTable
from ol2r_cli.run.run import Run

if TYPE_CHECKING:
    from ol2r_cli.report.document import Document

_FOLDER = Path(__file__).parent
_LEADERS = 12  # tasks at most
Manifests = Mapping[Group, Sequence[Mapping[str, Any]]]
Pairs = list[tuple[str, str]]


def write_page(path: Path, document: Document) -> None:
    """Write the page of a document; the same runs give the same bytes.

    The page has every figure that the runs have data for. Without matplotlib it has none, and says so.
    """
    labels, selection, comparison = document.labels, document.selection, document.comparison
    groups = ordered(document.groups, labels, ndcg_metrics(document.groups)[0])
    manifests = {group: [Run.read_finished(run.path).manifest for run in group.runs] for group in groups}
    names = {group: _name(group, labels) for group in groups}
    shared = _shared_settings(groups)
    omitted = left_out(document.collection)
    baseline = comparison.baseline if comparison and comparison.differences else None
    figures, not_drawn = page_figures(groups, labels, document.look)
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # not of Markup, which is ours
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    text = environment.get_template("report.html.jinja").render(
        style=Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),
        script=Markup((_FOLDER / "sort.js").read_text(encoding="utf-8")),
        summary=[_summary(groups, selection), *([_significance(comparison)] if comparison else [])],
        leaders=_leaders(groups, labels),
        warnings=[*omitted, *(selection.warnings if selection else []), *_warnings(manifests)],
        groups_table=groups_table(groups, labels, usual_metrics(groups), selection, comparison),
        differences_table=differences_table(comparison, labels) if comparison and baseline is not None else None,
        baseline=baseline,
        notes=[line for line in document.notes if line not in omitted],
        figures=figures,
        not_drawn=not_drawn,
        groups=[_group(group, labels, names[group], manifests[group], shared) for group in groups],
        shared_settings=_as_pairs(shared),
        provenance=_provenance(manifests),
        runs=_runs_table(manifests, names),
    )
    write_text(path, text)


def _name(group: Group, labels: Labels) -> str:
    """Dataset, click model, ranker, and the settings that distinguish it from others."""
    parts = [group.choices["dataset"], group.choices["click"], labels.ranker(group), labels.short(group)]
    return ", ".join(filter(None, parts))


def _summary(groups: Sequence[Group], selection: Selection | None) -> str:
    counts = [
        _counted(len({group.choices[part] for group in groups}), noun)
        for part, noun in (("ranker", "ranker"), ("click", "click model"), ("dataset", "dataset"))
    ]
    rounds = sorted({int(group.settings["rounds"]) for group in groups})
    sizes = sorted({group.n for group in groups})
    unit = "(fold, seed)" if any(len(group.seeds) > 1 for group in groups) else "seed"
    values = _range(sizes, unit) + (" each" if len(groups) > 1 else "")
    extent = f"{_counted(len(groups), 'group')} of {_counted(sum(len(group.runs) for group in groups), 'run')}"
    line = f"{extent}: {', '.join(counts)}, {_range(rounds, 'round')}; {values}."
    if selection and selection.chose:
        line += f" Each is the best by validation NDCG of up to {max(selection.cells)} cells of its grid."
    return line


def _significance(comparison: Comparison) -> str:
    tested = [difference for difference in comparison.differences if difference.holm is not None]
    significant = sum(difference.significant for difference in tested)
    rivals = "each other" if comparison.baseline is None else comparison.baseline
    if not tested:
        return f"Differences from {rivals} could not be tested: that takes {LEAST_UNITS} seeds or folds."
    return f"Significant differences from {rivals}: {significant} of {len(tested)} that were tested."


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
            f"{legend.label(group)} ({plus_minus(means[group].mean, means[group].half_width, digits(metric))})"
            for group in ranked[:2]
        )
        settings = " ".join(
            f"{paper_names.symbol(name)}={as_typed(value)}"
            for name, value in labels.settings(task[0]).items()
            if defines_task(name)
        )
        place = f"{paper_names.dataset(task[0].choices['dataset'])}, {task[0].choices['click']} users"
        place += f" ({settings})" if settings else ""
        lines.append(f"{place}: the best mean {heading(metric)} is that of {first}, then {second}.")
    more = len(lines) - _LEADERS
    return lines if more <= 0 else [*lines[:_LEADERS], f"{more} more tasks are in the table."]


def _counted(number: int, noun: str) -> str:
    """`2 runs`, but `2 (fold, seed)`."""
    return f"{number:,} {noun}{'s' * (number != 1 and not noun.endswith(')'))}"


def _range(numbers: Sequence[int], noun: str) -> str:
    return _counted(numbers[0], noun) if len(numbers) == 1 else f"{numbers[0]:,} to {_counted(numbers[-1], noun)}"


def _warnings(manifests: Manifests) -> list[str]:
    """Reasons, apart from settings, for differences between runs."""
    every = [manifest for of_group in manifests.values() for manifest in of_group]
    lines = []
    for package in ("ol2r", "torch", "numpy"):
        versions = sorted({str((manifest.get("versions") or {}).get(package)) for manifest in every})
        if len(versions) > 1:
            lines.append(f"The runs were made with several versions of {package}: {', '.join(versions)}.")
    if any((manifest.get("git") or {}).get("dirty") for manifest in every):
        lines.append("Some runs were made by a checkout with changes that no commit has.")
    return lines


def _shared_settings(groups: Sequence[Group]) -> dict[str, Any]:
    return {
        name: value
        for name, value in groups[0].settings.items()
        if all(name in group.settings and as_typed(group.settings[name]) == as_typed(value) for group in groups)
    }


def _group(
    group: Group, labels: Labels, name: str, manifests: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]
) -> dict[str, Any]:
    """Choices, distinguishing settings and seeds of a group, its commands, and its other settings."""
    differing = labels.settings(group)
    choices = [(part, group.choices[part]) for part in PARTS if part in group.choices]
    seeds = [
        (f"seeds of fold {fold}" if len(group.seeds) > 1 or fold is not None else "seeds", ranges(of_fold))
        for fold, of_fold in group.seeds.items()
    ]
    others = {key: value for key, value in group.settings.items() if key not in differing and key not in shared}
    if group.settings.keys() == shared.keys():
        others = dict(group.settings)
    return {
        "name": name,
        "distinguishing": [*choices, *_as_pairs(differing), *seeds],
        "commands": Markup("\n").join(dict.fromkeys(printable(manifest["command"]) for manifest in manifests)),
        "others": _as_pairs(others),
    }


def _as_pairs(settings: Mapping[str, Any]) -> Pairs:
    return [(name, as_typed(value)) for name, value in settings.items()]


def _provenance(manifests: Manifests) -> Pairs:
    """Versions, commit, device, times and data of all runs."""
    every = [manifest for of_group in manifests.values() for manifest in of_group]
    packages = dict.fromkeys(name for manifest in every for name in manifest.get("versions") or {})
    versions = [
        (name, _unique(str((manifest.get("versions") or {}).get(name, "unknown")) for manifest in every))
        for name in packages
    ]
    data = dict.fromkeys(
        (
            manifest["dataset"]["name"] + ("" if run.fold is None else f", fold {run.fold}"),
            manifest["dataset"]["fingerprint"],
        )
        for group, of_group in manifests.items()
        for run, manifest in zip(group.runs, of_group, strict=True)
    )
    started, ended = (min(_time(m, "started") for m in every), max(_time(m, "ended") for m in every))
    return [
        *versions,
        ("git commit", _unique(map(_commit, every))),
        ("results version", _unique(str(manifest.get("results_version")) for manifest in every)),
        ("device", _unique(map(_device, every))),
        ("run between", f"{started} and {ended}"),
        ("time of all runs", duration(sum(manifest.get("seconds") or 0 for manifest in every))),
        *((f"{name}, sha256", fingerprint) for name, fingerprint in data),
    ]


def _runs_table(manifests: Manifests, names: Mapping[Group, str]) -> TextTable:
    headings = ("directory", "group", "fold", "seeds", "ended (UTC)", "time", "device", "git commit")
    rows = [
        (
            str(run.path),
            names[group],
            "" if run.fold is None else str(run.fold),
            ranges(run.seeds),
            _time(manifest, "ended"),
            duration(manifest.get("seconds") or 0),
            _device(manifest),
            _commit(manifest)[:19],
        )
        for group, of_group in manifests.items()
        for run, manifest in zip(group.runs, of_group, strict=True)
    ]
    return TextTable.of_text(headings, rows)


def ranges(seeds: Iterable[int]) -> str:
    """Seeds as ranges, such as `0–4, 10`."""
    runs: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if runs and runs[-1][1] == seed - 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def _unique(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _commit(manifest: Mapping[str, Any]) -> str:
    git = manifest.get("git")
    return "none (installed package)" if not git else git["commit"] + (" with changes" if git.get("dirty") else "")


def _device(manifest: Mapping[str, Any]) -> str:
    threads = manifest.get("threads")
    engine = f", {manifest['engine']}" if "engine" in manifest else ""
    return f"{manifest.get('device')}{engine}, {threads} thread{'s' * (threads != 1)}"


def _time(manifest: Mapping[str, Any], event: str) -> str:
    return str(manifest.get(event) or "").replace("T", " ").removesuffix("+00:00")
