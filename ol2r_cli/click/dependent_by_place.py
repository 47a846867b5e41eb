"""The dependent click model with continuation by place (Guo, Liu and Wang, WSDM 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.cascade_based import CascadeBased
from ol2r_cli.click.probabilities import Tables, by_grade, by_place
from ol2r_cli.config.ranges import Share
from ol2r_cli.interfaces import Oracle, RunContext
from ol2r_cli.tensor.shapes import Float


class DependentByPlace(CascadeBased):
    """Reads from the top, clicks with P(click | grade) and after a click at place k stops with 1 - lambda_k.

    `click` is by grade; null takes it from `tables`, by the dataset's number of grades. `continuation` has lambda_k by
    place; null is .9 / k. Without a click the user always reads on.
    """

    def __init__(self, click: Sequence[Share] | None, tables: Tables, continuation: Sequence[Share] | None):
        super().__init__()
        self.click_setting, self.tables, self.continuation = click, tables, continuation

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades and the places shown."""
        clicks = by_grade(self, "click", self.click_setting, self.tables, context)
        stops = 1 - by_place(self, "continuation", self.continuation, lambda rank: 0.9 / rank, context)
        clicked = stops[:, None].expand(-1, len(clicks))
        self.allocate(clicks, torch.stack([torch.zeros_like(clicked), clicked]), context.loops)

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        return loops.play.User(loops.play.CASCADE, self.click_probability.numpy(), self.leaving.numpy())
