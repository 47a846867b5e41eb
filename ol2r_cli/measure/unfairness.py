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
        """Allocate room for the exposure of both groups."""
        self.exposure = context.exposure
        zeros = torch.zeros(context.measured_rounds, context.replicas, 2, dtype=torch.float64, device=context.device)
        self.exposed = zeros
        self.register_buffer("unfairness", zeros[0, :, 0].clone())

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Keep the exposure of both groups in this round's list."""
        group = interaction.candidates.group
        if self.exposure is not None and group is not None:
            shown = group.gather(1, interaction.ranking)
            self.exposed[row] = self.exposure.of_groups(shown, interaction.shown)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the cumulative unfairness after each round and the exposures; nothing without two groups."""
        if self.exposure is None:
            return {}
        exposed = self.exposed[: len(rounds.query)].clone()
        steps = self.exposure.unfairness(exposed)
        steps[0] += self.unfairness  # adding it first keeps the last digit independent of interruptions
        sums = steps.cumsum(0)
        self.unfairness = sums[-1].clone()
        return {"unfairness": sums, "exposure_0": exposed[..., 0], "exposure_1": exposed[..., 1]}
