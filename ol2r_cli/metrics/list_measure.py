"""What measures of single lists share: their value for the lists shown, and for the lists of the deployed ranker."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import Column
from ol2r_cli.interfaces import Measure, RankedLists, Rounds, RunContext
from ol2r_cli.tensor.shapes import Float, Int


class ListMeasure(Measure):
    """A measure that is a function of the labels of the first `cutoff` (1 or more) places of a list.

    A subclass defines `value`. The columns are `online_<name>_<cutoff>` of the trace and `<name>_<cutoff>` of the
    evaluation; `label` is the name in tables, to which the cutoff is added. Online, at most the shown places count.
    With no_relevant=skip the measure does not apply to a query without a relevant document.
    """

    def __init__(self, name: str, label: str, cutoff: int, higher_is_better: bool = True):
        super().__init__()
        self.cutoff = self.places = cutoff
        column = f"{name}_{cutoff}"
        self.trace = (Column(f"online_{column}", f"online {label}@{cutoff}", higher_is_better=higher_is_better),)
        self.evaluation = (Column(column, f"{label}@{cutoff}", higher_is_better=higher_is_better),)

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Keep the best list of every training query."""
        self.best, self.grades = best[:, : self.cutoff], context.grades
        self.skips = context.no_relevant == "skip"

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the value of each list. `lists` has at most `cutoff` places, and labels may be int8."""
        raise NotImplementedError

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the value of the lists shown."""
        best = self.best[rounds.query]
        labels = rounds.grades[:, :, : best.shape[-1]]  # `best` has no more places than the longest query
        values = self.value(RankedLists(labels, best, self.grades))
        return {self.trace[0].name: values.masked_fill(best[..., 0] == 0, torch.nan) if self.skips else values}

    def of_lists(self, lists: RankedLists) -> dict[str, Tensor]:
        """Return the value of the first places of each list."""
        first = RankedLists(lists.labels[..., : self.cutoff], lists.best[..., : self.cutoff], lists.grades)
        return {self.evaluation[0].name: self.value(first)}
