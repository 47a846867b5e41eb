"""What `ol2r run` prints of a finished run: its summary, a line for each subject, and the commands to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ol2r_cli.columns import main_cutoff, metrics_of, ndcg_columns
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import as_options, choice_folders, default_output_dir
from ol2r_cli.metrics.intervals import LEVEL, with_interval
from ol2r_cli.run import SUMMARY
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import duration, plural, printable, unbroken, wrapped
from ol2r_cli.text.program import as_called

_LONG = 10  # seconds; a longer start is told


def render(run: Run, finished_before: bool = False) -> str:
    """Return the text for a finished run; `finished_before` says that it was not played now."""
    subjects = {
        "experiment": _experiment(run),
        "note": run.manifest.get("note", ""),
        **_main_metrics(run),
        **_metrics_of_measures(run),
        "time": _time(run.manifest),
        "files": str(run.path),
    }
    subjects = {name: text for name, text in subjects.items() if text}
    head = f"{run.manifest['status']}: run {run.id}"
    if len(run.seeds) > 1:
        head += f"; numbers are means over seeds ± half the {LEVEL:.0%} interval of the mean"
    width = max(16, *map(len, subjects))
    lines = [printable(head), *(printable(f"  {name:<{width}} {text}") for name, text in subjects.items())]
    for name, (command, effect) in zip(("next", ""), _next_commands(run), strict=True):
        lines.append(f"  {name:<{width}} {unbroken(printable(as_called(command)))} ({effect})")
    if finished_before:
        lines.append("(done before: force=true runs it again)")
    return "\n".join(wrapped(line, width + 3) for line in lines)


def _experiment(run: Run) -> str:
    """Return what was run: the choices, the fold of a dataset with folds, the number of rounds and the seeds."""
    choices, seeds, fold = run.choices, run.seeds, run.flat_settings.get("dataset.fold")
    model = f" ({choices['ranker/model']})" if "ranker/model" in choices else ""
    roles = [f"ranker {choices['ranker']}{model}"]
    if "exploration" in run.typed:
        roles.append(f"exploration {choices['exploration']}")
    if choices.get("fairness", "none") != "none":
        roles.append(f"fairness {choices['fairness']}")
    roles += [f"click model {choices['click']}", f"dataset {choices['dataset']}"]
    roles += [] if fold is None else [f"fold {fold}"]
    which_seeds = f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else f"seed {seeds[0]}"
    return ", ".join([*roles, f"{run.rounds:,} rounds", which_seeds])


def _main_metrics(run: Run) -> dict[str, str]:
    """Return the lines of NDCG of the trained ranker and of the lists shown, and of unfairness where it is shown."""
    online, cumulative, ndcg = ndcg_columns(main_cutoff(run.summary))
    test, start = f"test_{ndcg.name}", "at the start" if {"start.run", "start.labels"} & run.typed else "untrained"
    of_test = {
        f"{test}_untrained": f"{{}} {start}, ",
        test: f"{{}} after {run.rounds:,} rounds",
        f"{test}_best": "; {} at the best round by validation",
    }
    of_lists = {online.name: "{} of the lists shown", f"{online.name}_last_tenth": ", {} in the last tenth"}
    return {
        f"test {ndcg.heading}": "".join(_metric(run, name, 4, words) for name, words in of_test.items()),
        online.heading: "".join(_metric(run, name, 4, words) for name, words in of_lists.items()),
        cumulative.heading: _metric(run, cumulative.name, 2),
        "|unfairness|": _metric(run, "unfairness", 3) if shows_unfairness(run.choices, run.typed) else "",
    }


def _metric(run: Run, name: str, digits: int, words: str = "{}") -> str:
    """Return a metric with its interval, in these words; empty for one that the run does not have."""
    values = run.summary.get(name)
    return words.format(with_interval(values, digits)) if values else ""


def _metrics_of_measures(run: Run) -> dict[str, str]:
    """Return a line for each column of other measures."""
    online, cumulative, ndcg = ndcg_columns(main_cutoff(run.summary))
    declared = run.columns.additional
    of_test = {
        f"test {column.heading}": _metric(run, f"test_{name}", column.digits)
        for name, column in declared.evaluation.items()
        if name != ndcg.name
    }
    metrics = metrics_of([run.columns])
    of_lists = {
        metrics[name].heading: _metric(run, name, column.digits)
        for name, column in declared.trace.items()
        if name in metrics and name not in (online.name, cumulative.name)
    }
    return of_test | of_lists


def _time(manifest: Mapping[str, Any]) -> str:
    """Return how long the run took, how fast it was, and on what it ran."""
    speed, startup = manifest["rounds_per_second"], manifest.get("startup_seconds") or 0.0
    text = duration(manifest["seconds"])
    if speed:
        text += f" at {speed:,.0f} rounds/s"
    text += f" ({manifest['device']}, {plural(manifest['threads'], 'thread')})"
    if startup > _LONG:
        text += f", {duration(startup)} to start"
    return text


def _next_commands(run: Run) -> list[tuple[str, str]]:
    """Return two commands to type after a run, each with what it shows: from the second run on a report.

    They name the folders that are not found without being named.
    """
    root = run.path.parents[1]
    folders = [str(root)]
    with suppress(ValueError):  # the project file is bad by now
        folders = [] if root == default_output_dir() else folders
    status = shlex.join(["ol2r", "status", *folders]), "all runs"
    finished = root.glob(f"*/*/{SUMMARY}")
    if any(path.parent != run.path for path in finished):
        return [(shlex.join(["ol2r", "report", *folders]), "these runs side by side"), status]
    own = list[Path]()
    with suppress(ValueError):  # a folder of choices was removed
        known = [folder.path for folder in choice_folders()]
        own = [path for path in split_search_path(shlex.split(run.command))[1] if path not in known]
    return [(shlex.join(["ol2r", "list", *as_options(own)]), "other users, rankers and datasets to try"), status]


def shows_unfairness(choices: Mapping[str, str], typed: Iterable[str]) -> bool:
    """Return whether the user chose a fairness, groups (which generated data has), exposure, or what is measured.

    typed: the names of what was typed.
    """
    if choices["dataset"] != "synthetic" or choices.get("fairness", "none") != "none":
        return True
    return any(name.startswith(("dataset.group", "beta", "exposure", "measures")) for name in typed)
