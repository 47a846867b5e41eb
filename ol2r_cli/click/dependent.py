"""The dependent click model (Guo, Liu and Wang, WSDM 2009) as all five papers use it, with stops by grade.

Strictly this is the simplified dynamic Bayesian network (Chapelle and Zhang, WWW 2009). In Guo's model stops depend on
the place: `dependent_by_place.py`.
"""

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


class DependentClick(CascadeBased):
    """Examines the list from the top, clicks with P(click | grade) and after a click stops with P(stop | grade).

    `click` and `stop` are probabilities by grade; null takes them from `tables`, by the dataset's number of grades.
    With `stop_without_click` the user may stop at every examined document, as in the authors' and the PDGD code. With
    all stop probabilities 1 this is the cascade model.
    """

    stop_probability: Tensor

    def __init__(
        self,
        click: Sequence[Share] | None,
        stop: Sequence[Share] | None,
        tables: Tables,
        stop_without_click: bool,
    ):
        super().__init__()
        # The method `click` has the name of the first setting.
        self.click_setting, self.stop_setting, self.tables = click, stop, tables
        self.stop_without_click = stop_without_click

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades."""
        clicks = by_grade(self, "click", self.click_setting, self.tables, context)
        stops = by_grade(self, "stop", self.stop_setting, self.tables, context)
        self.register_buffer("stop_probability", stops)
        at_every_place = stops.expand(context.positions, -1)
        unclicked = at_every_place if self.stop_without_click else torch.zeros_like(at_every_place)
        self.allocate(clicks, torch.stack([unclicked, at_every_place]), context.loops)

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        return loops.play.User(loops.play.CASCADE, self.click_probability.numpy(), self.leaving.numpy())
