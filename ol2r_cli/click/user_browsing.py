"""The user browsing model (Dupret and Piwowarski, SIGIR 2008): examination depends on the place and the last click."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.probabilities import Tables, by_grade
from ol2r_cli.config.ranges import Share
from ol2r_cli.interfaces import ClickModel, Oracle, RunContext
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


class UserBrowsing(ClickModel):
    """Clicks at place k with P(click | grade) G(k, j), where j is the distance from the last click above.

    Without a click above, j = k. `examination` has a row for every place k from 1: G(k, 1), .., G(k, k). Further places
    have the last row: its last number without a click above, otherwise its j-th, at most its last but one. `click` is
    by grade; null takes it from `tables`, by the dataset's number of grades.
    """

    click_probability: Tensor
    examined: Tensor

    def __init__(self, click: Sequence[Share] | None, tables: Tables, examination: Sequence[Sequence[Share]]):
        super().__init__()
        self.click_setting, self.tables, self.examination = click, tables, examination

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades and the places shown."""
        clicks = by_grade(self, "click", self.click_setting, self.tables, context)
        self.register_buffer("click_probability", clicks)
        examined = torch.from_numpy(self._rows(context.positions)).to(context.device)
        self.register_buffer("examined", examined, persistent=False)  # follows from the settings
        self.loops = context.loops

    def _rows(self, positions: int) -> NDArray[np.float64]:
        """Return G [K, K] by place (row) and distance (column), both from 1; 0 beyond the top of the list.

        ValueError unless the k-th row of the setting has k numbers.
        """
        rows, examined = self.examination, np.zeros((positions, positions))
        for place, row in enumerate(rows or [[]], 1):
            if len(row) != place:
                shape = "k probabilities in row k, [[.],[.,.],[.,.,.],..]"
                raise ValueError(f"{self.setting('examination')} must have {shape}, got {list(row)} in row {place}")
        *after_click, without = rows[-1]
        for index in range(positions):
            if index < len(rows):
                examined[index, : index + 1] = rows[index]
                continue
            given = min(index, len(after_click))
            examined[index, :given] = after_click[:given]
            examined[index, given:index] = after_click[-1] if after_click else without
            examined[index, index] = without
        return examined

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        probabilities = self.click_probability.numpy(), self.examined.numpy()[None]
        return loops.play.User(loops.play.USER_BROWSING, *probabilities)

    def click(self, grades: Int[Tensor, "B K"], shown: Bool[Tensor, "B K"], random: Random) -> Bool[Tensor, "B K"]:
        """Click from the top, each place with the distance from the last click."""
        positions = grades.shape[1]
        if self.loops:
            clicks = np.empty(shown.shape, np.bool_)
            given = grades.numpy(), shown.numpy(), random.array(positions)
            loops.lists.user_browsing(*given, self.click_probability.numpy(), self.examined.numpy(), clicks)
            return torch.from_numpy(clicks)
        chance, attraction = random.uniform(positions), self.click_probability[grades]
        clicked, last = torch.empty_like(shown), torch.full_like(grades[:, 0], -1)
        for place in range(positions):
            probability = attraction[:, place] * self.examined[place, place - last - 1]
            clicked[:, place] = (chance[:, place] < probability) & shown[:, place]
            last = torch.where(clicked[:, place], place, last)
        return clicked
