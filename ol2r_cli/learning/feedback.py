"""How a ranker learns from one round by the stage of loops that learns in rounds played together."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.interfaces import Candidates, Interaction, Rows
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.tensor.streams import Random


def rows_of_documents(table: Float[Tensor, "N F"], candidates: Candidates) -> Rows:
    """Return where the candidates are in the document table, also where a ranker has given them other features: for
    loops that store rows of this table."""
    if candidates.rows is not None:
        return candidates.rows
    return Rows(table.to(candidates.mask.device), candidates.document[:, 0].contiguous(), candidates.mask.sum(1))


def learn_by_stage(stages: Any, interaction: Interaction, rows: Rows, random: Random) -> None:
    """Launch the stage `learn` of a ranker's stages (loops/rounds.py) for every replica; it changes their state. `rows`
    are those of the candidates."""
    scores, credit = interaction.prediction.scores, interaction.proposal.credit
    draw, pairs = random.draw(), interaction.preferences
    feedback = loops.single.Feedback(
        t=draw.t,
        seeds=draw.seeds,
        table=rows.table,
        start=rows.start,
        length=rows.length,
        scores=scores.contiguous(),
        credit=scores.new_empty(len(scores), 0, 0) if credit is None else credit.contiguous(),
        ranking=interaction.ranking.contiguous(),
        shown=interaction.shown.contiguous(),
        clicks=interaction.clicks.contiguous(),
        winner=pairs.winner,
        loser=pairs.loser,
        valid=pairs.valid,
    )
    sizes = loops.rounds.Sizes(interaction.ranking.shape[1], scores.shape[1], pairs.winner.shape[1])
    room = loops.rounds.room_of_a_round(sizes, scores.shape[2], stages.room)
    learn = loops.single.steps_of(stages.learn)
    loops.launch.launch(learn, len(scores), room, feedback, stages.state)
