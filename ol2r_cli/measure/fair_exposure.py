"""Measures of the exposure of groups and documents: how much they received, and how far that is from their dues."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor

from ol2r_cli.columns import TRACE_COLUMNS, Column
from ol2r_cli.interfaces import Interaction, Measure, Rounds, RunContext
from ol2r_cli.metrics.ranking import add_up, start_at_zero
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
        """Start at zero, with a column for the exposure of each group."""
        self.exposure = context.exposure
        groups = 2 if self.exposure is None else self.exposure.groups
        others = (Column(f"exposure_{group}", type="Float32", summary="none") for group in range(2, groups))
        self.trace = (*type(self).trace, *others)
        # What the rounds add up to: with two groups the unfairness, with more, of which no sum is one, the exposure.
        start_at_zero(self, "unfairness", context, *([groups] if groups > 2 else []))

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the cumulative unfairness after each round and the exposures; nothing without groups."""
        if self.exposure is None or rounds.group is None:
            return {}
        exposed, groups = self.exposure.of_groups(rounds.group, rounds.shown), self.exposure.groups
        if groups == 2:
            unfair = add_up(self, "unfairness", self.exposure.unfairness(exposed))
        else:
            unfair = self.exposure.unfairness(add_up(self, "unfairness", exposed.clone()))
        return {"unfairness": unfair, **{f"exposure_{group}": exposed[..., group] for group in range(groups)}}


class RealisedExposure(Measure):
    """Exposure of each group in all lists shown so far, and the mean disparity of pairs of groups per round.

    The disparity is the mean over pairs of |beta_g E_g - beta_h E_h| / t, where E is the exposure after t rounds and
    beta that of the run, with beta_0 = 1: 0 or more, in units of the exposure of group 0 in a round. Morik et al.,
    SIGIR 2020, whose merits beta stands for.
    """

    trace: tuple[Column, ...] = (
        Column("group_disparity", "disparity of groups", "Float64", "last", False, 4, "mean disparity of groups"),
        *(Column(f"realised_exposure_{group}", type="Float64", summary="last", digits=2) for group in (0, 1)),
    )
    total: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Start at zero, with a column for each group."""
        self.exposure = context.exposure
        groups = 2 if self.exposure is None else self.exposure.groups
        others = (replace(self.trace[1], name=f"realised_exposure_{group}") for group in range(2, groups))
        self.trace = (*type(self).trace, *others)
        start_at_zero(self, "total", context, groups)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the sums after each round, and what they say; nothing without groups."""
        if self.exposure is None or rounds.group is None:
            return {}
        sums = add_up(self, "total", self.exposure.of_groups(rounds.group, rounds.shown))  # [R B G]
        count = torch.arange(rounds.first, rounds.first + len(sums), device=sums.device)[:, None]
        per_due = self.exposure.per_due(sums)
        disparity = torch.zeros_like(sums[..., 0])
        pairs = list(combinations(range(self.exposure.groups), 2))
        for g, h in pairs:  # one after the other, so that the last digit does not depend on the number of rounds
            disparity += (per_due[..., g] - per_due[..., h]).abs()
        by_group = {f"realised_exposure_{group}": sums[..., group] for group in range(self.exposure.groups)}
        return {"group_disparity": disparity / len(pairs) / count, **by_group}


class AmortisedUnfairness(Measure):
    """The sum over the documents of the query of |A_d - R_d|, 0 to 2, after all rounds with this query so far.

    A_d is the document's share of the exposure of the query's documents in these rounds, R_d its share of the sum of
    their labels. Null where the query has nothing relevant. Biega, Gummadi and Weikum, "Equity of Attention", SIGIR
    2018.
    """

    trace = (Column("amortised_unfairness", "amortised unfairness", higher_is_better=False),)
    exposed: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Start at zero for each document of each query."""
        self.position = context.exposure_of_places()
        shape = context.replicas * context.queries, context.documents
        self.register_buffer("exposed", torch.zeros(shape, dtype=torch.float64, device=context.device))
        self.first_row = torch.arange(context.replicas, device=context.device) * context.queries
        self.values = torch.zeros(context.measured_rounds, context.replicas, dtype=torch.float64, device=context.device)

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Add the exposure of the list, and compare the shares of the query's documents."""
        of_query = self.first_row + interaction.candidates.query
        exposed = self.exposed.index_select(0, of_query)
        exposed.scatter_add_(1, interaction.ranking, self.position[: interaction.ranking.shape[1]] * interaction.shown)
        self.exposed.index_copy_(0, of_query, exposed)
        attention, relevance = exposed[:, : labels.shape[1]], labels * interaction.candidates.mask
        # 0 / 0 is NaN, which says that the value does not apply.
        shares = attention / attention.sum(1, keepdim=True) - relevance / relevance.sum(1, keepdim=True)
        self.values[row] = shares.abs().sum(1)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return what was recorded."""
        return {"amortised_unfairness": self.values[: len(rounds.query)].clone()}
