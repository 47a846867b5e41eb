"""What the plug-in figures adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Output, Plugin
from ol2r_cli.plugins.figures import ENDINGS

if TYPE_CHECKING:
    from ol2r_cli.plugins.figures import arguments, recovery, report, trial
else:
    arguments, report = lazy("ol2r_cli.plugins.figures.arguments"), lazy("ol2r_cli.plugins.figures.report")
    recovery, trial = lazy("ol2r_cli.plugins.figures.recovery"), lazy("ol2r_cli.plugins.figures.trial")

PLUGIN = Plugin(
    name="figures",
    about="figures of finished runs, by matplotlib, how rankers recover, and what users see meanwhile",
    meant={"plot": "ol2r report --figure", "figure": "ol2r report --figure"},
    outputs=[
        Output(
            name="recovery",
            arguments=lambda: arguments.RECOVERY,
            check=lambda options: report.check_recovery(options),
            table=lambda groups, labels, options: recovery.recovery(groups, labels),
            examples="""users whose intent changes
  ol2r report outputs --recovery                          what each change costs, and how long rankers take to recover
""",
        ),
        Output(
            name="trial",
            arguments=lambda: arguments.TRIAL,
            check=lambda options: report.check_trial(options),
            table=lambda groups, labels, options: trial.trial_table(groups, labels, options.trial, options.baseline),
            examples="""what users see while a ranker learns
  ol2r report outputs --trial clicks --baseline fixed     clicks against this row: a page, at worst, in the end
""",
        ),
        Output(
            name="figure",
            arguments=lambda: arguments.FIGURE,
            endings=ENDINGS,
            check=lambda options: report.check(options),
            main=lambda options: report.draw_figures(options),
            examples="""figures
  ol2r report --figure                                    the kinds there are
  ol2r report outputs --figure learning_curve cumulative_ndcg --out figures --format pdf
  ol2r report outputs --figure learning_curve --option split=validation bands=sd --out curve.svg
  ol2r report outputs --figure learning_curve --option ylim=0.3,0.5 'ylabel=NDCG@10' --name pairrank=ours
  ol2r report outputs --figure differences --baseline pdgd     paired differences, with their intervals
""",
        ),
    ],
    files=["docs/how-to/figures.md", "docs/pictures/gallery"],
)
