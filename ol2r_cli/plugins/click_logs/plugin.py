"""What the plug-in click_logs adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Command, Criterion, Plugin, RunPart

if TYPE_CHECKING:
    from ol2r_cli.plugins.click_logs import click_values, selection, validation_sessions
else:
    click_values, selection = (
        lazy("ol2r_cli.plugins.click_logs.click_values"),
        lazy("ol2r_cli.plugins.click_logs.selection"),
    )
    validation_sessions = lazy("ol2r_cli.plugins.click_logs.validation_sessions")

_NOTE = (
    "DCG@10 by clicks has the attractions of documents, which are fitted to the clicks of all settings together, as "
    "gains. Its ± is over folds or, of one fold, by leaving out each seed in turn. Not told apart: p of .05 or more "
    "after Holm's correction."
)

PLUGIN = Plugin(
    name="click_logs",
    about="click logs: fitting users, data of counts, and settings chosen from clicks",
    commands=[
        Command(
            name="data fit-clicks",
            about="users with the clicks of a log, as a component",
            module="ol2r_cli.plugins.click_logs.fit_clicks",
        )
    ],
    run_parts=[
        RunPart(
            setting="validation_sessions",
            line="validation_sessions: 0  # after the last round: on validation queries, by the ranker alone, for ol2r "
            "report --select clicks",
            prepare=lambda experiment: validation_sessions.prepare(experiment),
            check=lambda experiment, _: validation_sessions.check(experiment),
            finish=lambda runner, _: validation_sessions.finish(runner),
            differences=lambda run, _: validation_sessions.differences(run),
        )
    ],
    criteria=[
        Criterion(
            name="clicks",
            about="highest mean DCG@10 that clicks on validation queries say",
            values=lambda cells: click_values.click_values(tuple(cells)),
            undecided=lambda cells: click_values.why_undecided(tuple(cells)),
            compared=lambda cells, chosen: click_values.beside(tuple(cells), chosen),
            doubts=lambda cells, chosen, compared: selection.doubts(cells, chosen, compared),
            table=lambda chosen, groups, labels: selection.table(chosen, groups, labels),
            note=_NOTE,
            examples="""\
  ol2r report outputs --select clicks                     without labels, by clicks of validation_sessions=500
""",
        ),
        Criterion(name="raw", values=lambda cells: click_values.clicks_a_session(tuple(cells))),  # to compare it with
    ],
    files=[
        "ol2r_cli/dataset/click_counts.py",
        "configs/dataset/yandex_bandit.yaml",
        "docs/how-to/click_logs.md",
        "docs/explanation/tuning_without_labels.md",
    ],
)
