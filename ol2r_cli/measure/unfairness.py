"""The exposure of groups in every round, and how unfair it is so far."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import TRACE_COLUMNS, Column
from ol2r_cli.interfaces import Measure, Rounds, RunContext
from ol2r_cli.tensor.shapes import Int


class Unfairness(Measure):
    """Cumulative exposure of group 0 minus beta times that of group 1, for datasets with groups.

    Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair Online Learning to Rank" (2021), section 3.2. With
    more than two groups, the largest difference between two of them in cumulative exposure times beta, as
    `Exposure.unfairness` defines it, and a column for the exposure of each.
    """

    trace = tuple(TRACE_COLUMNS[name] for name in ("unfairness", "exposure_0", "exposure_1"))
    unfairness: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Start at zero."""
        self.exposure = context.exposure
        groups = 2 if self.exposure is None else self.exposure.groups
        others = (Column(f"exposure_{group}", type="Float32", summary="none") for group in range(2, groups))
        self.trace = (*type(self).trace, *others)
        shape = (context.replicas,) if groups == 2 else (context.replicas, groups)
        # What the rounds add up to: with two groups the unfairness, with more, of which no sum is one, the exposure.
        self.register_buffer("unfairness", torch.zeros(shape, dtype=torch.float64, device=context.device))

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the cumulative unfairness after each round and the exposures; nothing without groups."""
        if self.exposure is None or rounds.group is None:
            return {}
        exposed = self.exposure.of_groups(rounds.group, rounds.shown)
        steps = self.exposure.unfairness(exposed) if self.exposure.groups == 2 else exposed.clone()
        steps[0] += self.unfairness  # adding it first keeps the last digit independent of interruptions
        sums = steps.cumsum(0)
        self.unfairness = sums[-1].clone()
        unfair = sums if self.exposure.groups == 2 else self.exposure.unfairness(sums)
        by_group = {f"exposure_{group}": exposed[..., group] for group in range(self.exposure.groups)}
        return {"unfairness": unfair, **by_group}
