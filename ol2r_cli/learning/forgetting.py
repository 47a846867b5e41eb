"""The settings of rankers that forget old pairs: a sliding window, or a discount (SW-UCB and D-UCB, Garivier and
Moulines, ALT 2011; D-LinUCB, Russac, Vernade and Cappé, NeurIPS 2019). `Forgetting` says what a pair counts."""

from __future__ import annotations

from typing import Annotated

from ol2r_cli.config.ranges import Range
from ol2r_cli.interfaces import Forgetting, Ranker

Discount = Annotated[float, Range(0, 1, open_below=True)]  # factor by which pairs count less every round


def forgetting_of(ranker: Ranker, window: int | None, discount: float) -> Forgetting:
    """What a ranker with these settings forgets; ValueError where both are set."""
    if window is not None and discount < 1:
        raise ValueError(
            f"{ranker.setting('discount')} must be 1 with {ranker.setting('window')}={window}, got {discount}"
        )
    return Forgetting(window, float(discount))
