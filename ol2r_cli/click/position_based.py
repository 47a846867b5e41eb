"""The position-based click model (Craswell et al., WSDM 2008): examination depends on the place alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.independent import IndependentClicks
from ol2r_cli.click.probabilities import Tables, by_grade, by_place
from ol2r_cli.config.ranges import NonNegative, Share
from ol2r_cli.interfaces import Oracle, RunContext
from ol2r_cli.tensor.shapes import Float


class PositionBased(IndependentClicks):
    """Examines rank r with probability 1 / r^eta, or `examination`[r - 1], and clicks with P(click | grade, examined).

    `click` has these probabilities by grade; null takes them from `tables`, by the dataset's number of grades.
    """

    click_probability: Tensor
    examination: Tensor

    def __init__(
        self,
        click: Sequence[Share] | None,
        tables: Tables,
        eta: NonNegative,
        examination: Sequence[Share] | None,
    ):
        super().__init__()
        self.click_setting, self.tables, self.eta, self.examination_setting = click, tables, eta, examination

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades and the places shown."""
        examined = by_place(self, "examination", self.examination_setting, lambda rank: rank**-self.eta, context)
        clicks = by_grade(self, "click", self.click_setting, self.tables, context)
        self.register_buffer("examination", examined)
        self.register_buffer("click_probability", clicks)
        self.allocate(examined[:, None] * clicks, context.loops)

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        return loops.play.User(loops.play.INDEPENDENT, self.click_probability.numpy(), self.probability.numpy()[None])
