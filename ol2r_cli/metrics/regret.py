"""Pairwise regret (PairRank, WWW 2021, section 3.1): how many pairs a list places in the wrong order."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.shapes import Int


def regret(labels: Int[Tensor, "B D"], grades: int) -> Int[Tensor, "B"]:
    """Kendall-tau distance to the ideal order, ties in label free. `labels` in list order, padding last with label 0.

    A misplaced pair is counted at the lower of its two grades: documents above with exactly that grade, for every
    document below with more.
    """
    lower = torch.arange(grades - 1, device=labels.device)[:, None]
    above = (labels[:, None] == lower).cumsum(2)
    return (above * (labels[:, None] > lower)).sum((1, 2))
