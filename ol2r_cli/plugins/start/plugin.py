"""What the plug-in start adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Plugin, RunPart

if TYPE_CHECKING:
    from ol2r_cli.plugins.start import start
else:
    start = lazy("ol2r_cli.plugins.start.start")

_LINES = """\
start:  # the ranker begins with the parameters of another one; run and labels are null: with its own initial ones
  run: null  # a finished run, by directory or id; or a folder, or a ranker with settings: the run of these data and seed
  labels: null  # share of the training queries whose labels an offline ranker is fitted to, above 0 to 1
  noise: 0.0  # probability with which each of these labels is replaced by a random one, 0 to 1"""  # noqa: E501

PLUGIN = Plugin(
    name="start",
    about="warm starts, of a finished run or of labels",
    run_parts=[
        RunPart(
            setting="start",
            line=_LINES,
            prepare=lambda experiment: start.WarmStart(experiment.settings, experiment.roles["ranker"]),
            check=lambda experiment, begun: begun.find(experiment.dataset, experiment.seeds),
            decisive=lambda begun: begun.decisive(),
            manifest=lambda begun: begun.record(),
            start=lambda begun, *arguments, **named: begun(*arguments, **named),
        )
    ],
    files=["docs/algorithms/start.md"],
)
