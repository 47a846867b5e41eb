"""The dependent click model (Guo, Liu and Wang, WSDM 2009), the simulated user of all five papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.probabilities import Tables, by_grade
from ol2r_cli.config.ranges import Share
from ol2r_cli.interfaces import ClickModel, Oracle, RunContext
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class DependentClick(ClickModel):
    """Examines the list from the top, clicks with P(click | grade) and after a click stops with P(stop | grade).

    `click` and `stop` are probabilities by grade; null takes them from `tables`, by the dataset's number of grades.
    With `stop_without_click` the user may stop at every examined document, as in the authors' and the PDGD code. With
    all stop probabilities 1 this is the cascade model.
    """

    click_probability: Tensor
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
        self.register_buffer("click_probability", clicks)
        self.register_buffer("stop_probability", stops)
        self.loops = context.loops

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        probabilities = self.click_probability.numpy(), self.stop_probability.numpy()
        return loops.play.User(loops.play.DEPENDENT, *probabilities, self.stop_without_click)

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click on documents above the place where the user stops."""
        positions = grades.shape[1]
        # Both numbers of a place are neighbours, so that the first places do not depend on the number of places.
        if self.loops:
            clicks = np.empty(shown.shape, np.bool_)
            probabilities = self.click_probability.numpy(), self.stop_probability.numpy()
            chance = random.array(2 * positions)
            loops.clicks.dependent(
                grades.numpy(), shown.numpy(), chance, *probabilities, self.stop_without_click, clicks
            )
            return torch.from_numpy(clicks)
        click_chance, stop_chance = random.uniform(2 * positions).unflatten(1, (positions, 2)).unbind(2)
        clicks = click_chance < self.click_probability[grades]
        stops = stop_chance < self.stop_probability[grades]
        if not self.stop_without_click:
            stops = stops & clicks
        stopped_above = stops.cumsum(1) > stops
        return clicks & ~stopped_above & shown
