"""The skyline of online learning: olLambdaRank on true labels instead of clicks (Jia and Wang, 2022, section 5)."""

from __future__ import annotations

from torch import Tensor

from ol2r_cli.interfaces import Oracle, Sizes
from ol2r_cli.learning.labelled import LabelledLoss
from ol2r_cli.learning.model import Model
from ol2r_cli.ranker.refitted import RefittedRanker
from ol2r_cli.shapes import Float


class LabelledRanker(RefittedRanker):
    """Refits its model to the true labels of all documents of all queries served so far, a list for every round.

    All settings as in `RefittedRanker`; `batch` counts lists with either loss.
    """

    needs_labels = True

    loss: LabelledLoss

    def __init__(
        self,
        model: Model,
        loss: str,
        l2: float,
        reduction: str,
        steps: int,
        learning_rate: float,
        batch: int | None,
        restart: bool,
        every: int,
    ):
        super().__init__(model, loss, "matching", l2, reduction, steps, learning_rate, batch, restart, every)
        self.weighed, self.pairs = loss == "lambdarank", "none"  # clicks tell it nothing

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at initial parameters; the labels are kept aside until their query is served."""
        if oracle is None:
            raise ValueError("ranker=ollambdarank_gt needs the labels of the dataset")
        self.loss = LabelledLoss(oracle, self.weighed)
        super().setup(sizes, features)
