"""What the plug-in recordings adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ol2r_cli.lazy import lazy
from ol2r_cli.plugins import Plugin, RunPart

if TYPE_CHECKING:
    from ol2r_cli.plugins.recordings import block_rounds, cosine, interactions
else:
    block_rounds, cosine = lazy("ol2r_cli.plugins.recordings.block_rounds"), lazy("ol2r_cli.plugins.recordings.cosine")
    interactions = lazy("ol2r_cli.plugins.recordings.interactions")

PLUGIN = Plugin(
    name="recordings",
    about="what runs keep besides: interactions, blocks of some rounds, the cosine to an offline ranker",
    run_parts=[
        RunPart(
            setting="trace_cosine",
            line="trace_cosine: false  # trace the cosine between the linear ranker and the offline RankNet, which is "
            "fitted first",
            prepare=lambda experiment: cosine.prepare(experiment),
            check=lambda experiment, _: cosine.check(experiment),
            evaluate=lambda runner, _: cosine.evaluate(runner),
        ),
        RunPart(
            setting="block_rounds",
            line="block_rounds: []  # rounds whose block size at every rank is kept in blocks.parquet",
            prepare=lambda experiment: block_rounds.prepare(experiment),
            table=lambda: block_rounds.BLOCKS,
            record=lambda *arguments: block_rounds.record(*arguments),
        ),
        RunPart(
            setting="save_interactions",
            line="save_interactions: false  # keep queries, shown documents and clicks of every round in "
            "interactions.parquet",
            prepare=lambda experiment: interactions.prepare(experiment),
            table=lambda: interactions.INTERACTIONS,
            record=lambda runner, _, t, interaction: interactions.record(runner, t, interaction),
            differences=lambda run, notes: interactions.differences(run, notes),
        ),
    ],
)
