"""The dependent click model (Guo, Liu and Wang, WSDM 2009), the simulated user of all five papers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ol2r_cli.click.probabilities import Tables, by_grade
from ol2r_cli.interfaces import ClickModel, Oracle, Sizes
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float, Int


class DependentClick(ClickModel):
    """Walks down the list, clicks with P(click | grade) and after a click stops with P(stop | grade).

    `click` and `stop` are probabilities by grade; null takes them from `tables` by the dataset's number of grades.
    `stop_without_click` lets the user stop at every examined document, as the authors' and the PDGD code do. With all
    stop probabilities 1 this is the cascade model.
    """

    click_probability: Tensor
    stop_probability: Tensor

    def __init__(
        self, click: Sequence[float] | None, stop: Sequence[float] | None, tables: Tables, stop_without_click: bool
    ):
        super().__init__()
        self.click_given, self.stop_given, self.tables = click, stop, tables
        self.stop_without_click = stop_without_click

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades."""
        self.register_buffer("click_probability", by_grade("click", self.click_given, self.tables, sizes))
        self.register_buffer("stop_probability", by_grade("stop", self.stop_given, self.tables, sizes))

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Clicks on the places examined before the user stopped."""
        positions = grades.shape[1]
        # Two numbers per place, place by place: however many places there are, the first ones keep their numbers.
        click_chance, stop_chance = random.uniform(2 * positions).unflatten(1, (positions, 2)).unbind(2)
        clicks = click_chance < self.click_probability[grades]
        stops = stop_chance < self.stop_probability[grades]
        if not self.stop_without_click:
            stops = stops & clicks
        stopped_above = stops.cumsum(1) > stops
        return clicks & ~stopped_above & shown
