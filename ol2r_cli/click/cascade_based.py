"""Users who read a list from the top until they leave it: what cascade-based click models share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.interfaces import ClickModel
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class CascadeBased(ClickModel):
    """Examines the list from the top and clicks with P(click | grade). After every document the user may leave.

    `setup` of a subclass calls `allocate`. Its `for_loops` returns `loops.play.User(loops.play.CASCADE, ..)`.
    """

    click_probability: Tensor
    leaving: Tensor

    def allocate(self, clicks: Float[Tensor, "G"], leaving: Float[Tensor, "2 K G"], compiled: bool) -> None:
        """Keep P(click | grade), P(leave | clicked, place, grade), and whether compiled loops are used.

        leaving[0] is for documents that were not clicked, leaving[1] for those that were.
        """
        self.register_buffer("click_probability", clicks)
        self.register_buffer("leaving", leaving, persistent=False)  # follows from the settings
        self.loops = compiled

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click on documents above the place where the user leaves."""
        positions = grades.shape[1]
        # Both numbers of a place are neighbours, so that the first places do not depend on the number of places.
        if self.loops:
            clicks = np.empty(shown.shape, np.bool_)
            probabilities = self.click_probability.numpy(), self.leaving.numpy()
            given = grades.numpy(), shown.numpy(), random.array(2 * positions)
            loops.lists.cascade(*given, *probabilities, clicks)
            return torch.from_numpy(clicks)
        click_chance, leave_chance = random.uniform(2 * positions).unflatten(1, (positions, 2)).unbind(2)
        clicks = click_chance < self.click_probability[grades]
        places = torch.arange(positions, device=grades.device)
        leaves = leave_chance < self.leaving[clicks.long(), places, grades]
        left_above = leaves.cumsum(1) > leaves
        return clicks & ~left_above & shown
