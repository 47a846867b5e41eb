"""The position-based click model (Craswell et al., WSDM 2008): examination depends on the place alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ol2r_cli.click.probabilities import Tables, by_grade
from ol2r_cli.interfaces import ClickModel, Oracle, Sizes
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float, Int


class PositionBased(ClickModel):
    """Examines rank r with probability 1 / r^eta, or `examination`[r - 1], and clicks what is examined and attractive.

    `click` is P(click | grade, examined), null: from `tables`. `eta` >= 0; `examination` has one probability per place.
    """

    click_probability: Tensor
    examination: Tensor

    def __init__(self, click: Sequence[float] | None, tables: Tables, eta: float, examination: Sequence[float] | None):
        super().__init__()
        if eta < 0:
            raise ValueError(f"eta must be 0 or more, got {eta}")
        self.click_given, self.tables, self.eta, self.examination_given = click, tables, eta, examination

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades and the places shown."""
        examination = self.examination_given
        if examination is None:
            examination = [rank**-self.eta for rank in range(1, sizes.positions + 1)]
        if len(examination) < sizes.positions or not all(0 <= p <= 1 for p in examination):
            raise ValueError(
                f"click.examination must be {sizes.positions} probabilities, one per place, got {list(examination)}"
            )
        places = torch.tensor(list(examination)[: sizes.positions], dtype=torch.float64, device=sizes.device)
        self.register_buffer("examination", places)
        self.register_buffer("click_probability", by_grade("click", self.click_given, self.tables, sizes))

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Independent clicks, place by place."""
        positions = grades.shape[1]
        attractive = self.examination[:positions] * self.click_probability[grades]
        return (random.uniform(positions) < attractive) & shown
