"""The exposure of two groups in every round, and how unfair it is so far."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import TRACE_COLUMNS
from ol2r_cli.interfaces import Measure, Rounds, RunContext
from ol2r_cli.tensor.shapes import Int


class Unfairness(Measure):
    """Cumulative exposure of group 0 minus beta times that of group 1, for datasets with two groups.

    Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), section 3.2.
    """

    trace = tuple(TRACE_COLUMNS[name] for name in ("unfairness", "exposure_0", "exposure_1"))
    unfairness: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Start at zero."""
        self.exposure = context.exposure
        zeros = torch.zeros(context.replicas, dtype=torch.float64, device=context.device)
        self.register_buffer("unfairness", zeros)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the cumulative unfairness after each round and the exposures; nothing without two groups."""
        if self.exposure is None or rounds.group is None:
            return {}
        exposed = self.exposure.of_groups(rounds.group, rounds.shown)
        steps = self.exposure.unfairness(exposed)
        steps[0] += self.unfairness  # adding it first keeps the last digit independent of interruptions
        sums = steps.cumsum(0)
        self.unfairness = sums[-1].clone()
        return {"unfairness": sums, "exposure_0": exposed[..., 0], "exposure_1": exposed[..., 1]}
