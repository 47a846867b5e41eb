"""The exposure that groups have received so far, and how far it is from their dues on average."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Measure, Rounds, RunContext
from ol2r_cli.tensor.shapes import Int


class RealisedExposure(Measure):
    """Exposure of each group in all lists shown so far, and the mean disparity of pairs of groups per round.

    The disparity is the mean over pairs of |beta_g E_g - beta_h E_h| / t, where E is the exposure after t rounds and
    beta that of the run, with beta_0 = 1: 0 or more, in units of the exposure of group 0 in a round. Morik et al.,
    SIGIR 2020, whose merits beta stands for.
    """

    trace: tuple[Column, ...] = (
        Column("group_disparity", "disparity of groups", "Float64", "last", False, 4, "mean disparity of groups"),
        Column("realised_exposure_0", type="Float64", summary="last", digits=2),
        Column("realised_exposure_1", type="Float64", summary="last", digits=2),
    )
    total: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Start at zero, with a column for each group."""
        self.exposure = context.exposure
        groups = 2 if self.exposure is None else self.exposure.groups
        names = (f"realised_exposure_{group}" for group in range(2, groups))
        self.trace = (*type(self).trace, *(Column(name, type="Float64", summary="last", digits=2) for name in names))
        zeros = torch.zeros(context.replicas, groups, dtype=torch.float64, device=context.device)
        self.register_buffer("total", zeros)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the sums after each round, and what they say; nothing without groups."""
        if self.exposure is None or rounds.group is None:
            return {}
        steps = self.exposure.of_groups(rounds.group, rounds.shown)
        steps[0] += self.total  # adding it first keeps the last digit independent of interruptions
        sums = steps.cumsum(0)  # [R B G]
        self.total = sums[-1].clone()
        count = torch.arange(rounds.first, rounds.first + len(sums), device=sums.device)[:, None]
        per_due = self.exposure.per_due(sums)
        pairs = [(per_due[..., g] - per_due[..., h]).abs() for g, h in combinations(range(self.exposure.groups), 2)]
        disparity = torch.zeros_like(pairs[0])
        for pair in pairs:  # one after the other, so that the last digit does not depend on the number of rounds
            disparity += pair
        by_group = {f"realised_exposure_{group}": sums[..., group] for group in range(self.exposure.groups)}
        return {"group_disparity": disparity / len(pairs) / count, **by_group}
