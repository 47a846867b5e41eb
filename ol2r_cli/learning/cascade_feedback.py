"""What clicks on a list say of its documents to rankers that assume the cascade model."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ol2r_cli.interfaces import Interaction
from ol2r_cli.tensor.shapes import Bool

Feedback = Literal["first_click", "last_click", "all"]


def examined(interaction: Interaction, feedback: Feedback) -> Bool[Tensor, "B K"]:
    """Return the places that count as examined: down to the first click, down to the last one, or all that are shown.

    Without a click, all that are shown count. The cascade model has at most one click, on the last examined place
    (Kveton et al., ICML 2015, section 2).
    """
    clicks = interaction.clicks
    if feedback == "all":
        return interaction.shown
    if feedback == "first_click":
        return interaction.shown & (clicks.cumsum(1) - clicks.long() == 0)  # no click above
    at_or_below = clicks.flip(1).cumsum(1).flip(1) > 0
    return interaction.shown & (at_or_below | ~clicks.any(1, keepdim=True))
