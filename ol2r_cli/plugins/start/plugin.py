"""What the plug-in start adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Plugin, RunPart

if TYPE_CHECKING:
    from ol2r_cli.plugins.start import start
else:
    start = lazy("ol2r_cli.plugins.start.start")

PLUGIN = Plugin(
    name="start",
    about="warm starts, of a finished run or of labels",
    run_parts=[
        RunPart(
            setting="start",
            prepare=lambda experiment: start.WarmStart(experiment.settings, experiment.roles["ranker"]),
            check=lambda experiment, begun: begun.find(experiment.dataset, experiment.seeds),
            decisive=lambda begun: begun.decisive(),
            manifest=lambda begun: begun.record(),
            start=lambda begun, *arguments, **named: begun(*arguments, **named),
        )
    ],
    files=["docs/algorithms/start.md"],
)
