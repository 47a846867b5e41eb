"""The curves of trust bias: how a place decides what users examine and believe.

Oosterhuis and de Rijke, "Unifying Online and Counterfactual Learning to Rank" (WSDM 2021), from their code. The user
`trust_bias` clicks by them, and a ranker that is told its user corrects by them.
"""

from __future__ import annotations

from typing import NamedTuple


class Trust(NamedTuple):
    """Probabilities at one place."""

    examination: float  # t: the place is examined
    epsilon_plus: float  # e+: a click, given that the document is examined and relevant
    epsilon_minus: float  # e-: a click, given that it is examined and not relevant


def trust_at(rank: int) -> Trust:
    """Return the probabilities at this rank, from 1."""
    examination = 0.35 / rank + 0.65 / (1 + 0.05 * (rank - 1))
    return Trust(examination, epsilon_plus=1 / (1 + 0.005 * (rank - 1)), epsilon_minus=0.65 / rank)
