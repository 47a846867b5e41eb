"""Users who click on each place independently of the others: what position-based click models share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.interfaces import ClickModel
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class IndependentClicks(ClickModel):
    """Clicks with a probability that depends on the place and the grade, whatever is clicked elsewhere.

    `setup` of a subclass calls `allocate`. Its `for_loops` returns `loops.play.User(loops.play.INDEPENDENT, ..)`.
    """

    probability: Tensor

    def allocate(self, probability: Float[Tensor, "K G"], compiled: bool) -> None:
        """Keep P(click | place, grade), and whether compiled loops are used."""
        self.register_buffer("probability", probability, persistent=False)  # follows from the settings
        self.loops = compiled

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click on each place independently."""
        positions = grades.shape[1]
        if self.loops:
            clicks = np.empty(shown.shape, np.bool_)
            given = grades.numpy(), shown.numpy(), random.array(positions)
            loops.lists.independent(*given, self.probability.numpy(), clicks)
            return torch.from_numpy(clicks)
        places = torch.arange(positions, device=grades.device)
        return (random.uniform(positions) < self.probability[places, grades]) & shown
