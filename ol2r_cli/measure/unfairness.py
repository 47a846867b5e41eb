"""The exposure of two groups in every round, and how unfair it is so far."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import TRACE_COLUMNS
from ol2r_cli.interfaces import Interaction, Measure, Rounds, RunContext
from ol2r_cli.tensor.shapes import Int


class Unfairness(Measure):
    """Cumulative exposure of group 0 minus beta times that of group 1, for datasets with two groups.

    Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), section 3.2.
    """

    trace = tuple(TRACE_COLUMNS[name] for name in ("unfairness", "exposure_0", "exposure_1"))
    unfairness: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Allocate room for the groups of the shown documents."""
        self.exposure = context.exposure
        shape = context.measured_rounds, context.replicas, context.positions
        self.shown_groups = torch.zeros(shape, dtype=torch.int8, device=context.device)
        zeros = torch.zeros(context.replicas, dtype=torch.float64, device=context.device)
        self.register_buffer("unfairness", zeros)

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Keep the groups of the shown documents."""
        group = interaction.candidates.group
        if self.exposure is not None and group is not None:
            self.shown_groups[row, :, : interaction.ranking.shape[1]] = group.gather(1, interaction.ranking)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the cumulative unfairness after each round and the exposures; nothing without two groups."""
        if self.exposure is None:
            return {}
        exposed = self.exposure.of_groups(self.shown_groups[: len(rounds.query)], rounds.shown)
        steps = self.exposure.unfairness(exposed)
        steps[0] += self.unfairness  # adding it first keeps the last digit independent of interruptions
        sums = steps.cumsum(0)
        self.unfairness = sums[-1].clone()
        return {"unfairness": sums, "exposure_0": exposed[..., 0], "exposure_1": exposed[..., 1]}
