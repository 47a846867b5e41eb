"""The position-based click model (Craswell et al., WSDM 2008): examination depends on the place alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.probabilities import Tables, by_grade
from ol2r_cli.config.ranges import NonNegative, Share
from ol2r_cli.interfaces import ClickModel, Oracle, RunContext
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class PositionBased(ClickModel):
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
        examination, positions = self.examination_setting, context.positions
        if examination is None:
            examination = [rank**-self.eta for rank in range(1, positions + 1)]
        if len(examination) < positions:
            raise ValueError(
                f"{self.setting('examination')} must be {positions} probabilities, one per place, "
                f"got {list(examination)}"
            )
        places = torch.tensor(list(examination)[:positions], dtype=torch.float64, device=context.device)
        self.register_buffer("examination", places)
        clicks = by_grade(self, "click", self.click_setting, self.tables, context)
        self.register_buffer("click_probability", clicks)
        self.loops = context.loops

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        probabilities = self.click_probability.numpy(), self.examination.numpy()
        return loops.play.User(loops.play.POSITION_BASED, *probabilities)

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click on each place independently."""
        positions = grades.shape[1]
        if self.loops:
            clicks = np.empty(shown.shape, np.bool_)
            probabilities = self.click_probability.numpy(), self.examination.numpy()
            given = grades.numpy(), shown.numpy(), random.array(positions)
            loops.clicks.position_based(*given, *probabilities, clicks)
            return torch.from_numpy(clicks)
        attractive = self.examination[:positions] * self.click_probability[grades]
        return (random.uniform(positions) < attractive) & shown
