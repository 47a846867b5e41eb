"""The experiment as a kind of run: `ol2r run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import RunKind

if TYPE_CHECKING:
    from ol2r_cli.run import experiment, printed, recomputed, runner
else:
    experiment, recomputed = lazy("ol2r_cli.run.experiment"), lazy("ol2r_cli.run.recomputed")
    runner, printed = lazy("ol2r_cli.run.runner"), lazy("ol2r_cli.run.printed")

KIND = RunKind(
    name="run",
    about="one experiment, with -m a sweep; finished runs are not repeated",
    data="dataset",
    ranker="ranker",
    fold="dataset.fold",
    stand_in="synthetic",
    plays_rounds=True,
    settings="ol2r_cli.run.experiment.RunSettings",
    experiment=lambda *configuration: experiment.Experiment(*configuration),
    runner=lambda *arguments, **more: runner.Runner(*arguments, **more),
    render=lambda run, finished_before: printed.render(run, finished_before),
    differences=lambda run, notes: recomputed.differences_of_experiment(run, notes),
)
