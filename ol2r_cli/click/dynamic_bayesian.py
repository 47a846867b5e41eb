"""The click model of a dynamic Bayesian network (Chapelle and Zhang, WWW 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.cascade_based import CascadeBased
from ol2r_cli.click.probabilities import Tables, by_grade
from ol2r_cli.config.ranges import Share
from ol2r_cli.interfaces import Oracle, RunContext
from ol2r_cli.tensor.shapes import Float


class DynamicBayesian(CascadeBased):
    """Is attracted to a click with a = P(click | grade) and satisfied by it with s = P(stop | grade).

    A satisfied user stops; any other goes on to the next place with probability gamma, the setting `continuation`.
    `click` and `stop` are by grade; null takes them from `tables`, by the dataset's number of grades. With gamma = 1
    this is the simplified model, `DependentClick`.
    """

    def __init__(
        self, click: Sequence[Share] | None, stop: Sequence[Share] | None, tables: Tables, continuation: Share
    ):
        super().__init__()
        self.click_setting, self.stop_setting, self.tables = click, stop, tables
        self.continuation = continuation

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades."""
        clicks = by_grade(self, "click", self.click_setting, self.tables, context)
        stops = by_grade(self, "stop", self.stop_setting, self.tables, context)
        abandons = 1 - self.continuation
        clicked = stops + (1 - stops) * abandons  # 1 - (1 - s) gamma, exactly s if gamma is 1
        leaving = torch.stack([torch.full_like(stops, abandons), clicked])
        self.allocate(clicks, leaving[:, None].repeat(1, context.positions, 1), context.loops)

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        return loops.play.User(loops.play.CASCADE, self.click_probability.numpy(), self.leaving.numpy())
