"""Drawing folds and seeds again, for intervals of choices, ranks and orders."""

from __future__ import annotations

import numpy as np

RESAMPLES = 2000
SEED = 20_260_001  # the same values always give the same intervals


def times_drawn(random: np.random.Generator, count: int, draws: int | tuple[int, ...] = RESAMPLES) -> np.ndarray:
    """Return [draws, count]: how often each of `count` folds or seeds is drawn, when as many are drawn again."""
    return random.multinomial(count, [1 / count] * count, draws)
