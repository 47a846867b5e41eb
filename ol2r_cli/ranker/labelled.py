"""The skyline of online learning: olLambdaRank on true labels instead of clicks (Jia and Wang, 2022, section 5)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Steps
from ol2r_cli.interfaces import Oracle, RunContext
from ol2r_cli.learning.labelled_lists import LabelledLoss
from ol2r_cli.learning.model import Model
from ol2r_cli.ranker.refitted import Growth, RefittedRanker
from ol2r_cli.tensor.shapes import Float


class LabelledRanker(RefittedRanker):
    """Refits its model to the true labels of all documents of all queries served so far, a list for every round.

    All settings as in `RefittedRanker`; `batch` counts lists with either loss.
    """

    needs_labels = True

    loss: LabelledLoss

    def __init__(
        self,
        model: Model,
        loss: Literal["ranknet", "lambdarank"],
        l2: NonNegative,
        reduction: Literal["sum", "mean"],
        steps: Steps,
        learning_rate: Positive,
        batch: Count | None,
        restart: bool,
        every: Count,
        growth: Growth,
        damping: Positive | None,
    ):
        descent = l2, reduction, steps, learning_rate, batch, restart, every, growth, damping
        super().__init__(model, loss, "matching", *descent, fit="descent", authors={}, window=None, discount=1.0)
        self.weighed, self.pairs = loss == "lambdarank", "none"  # clicks tell it nothing

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at initial parameters; the labels of a query are not used before it is served."""
        if oracle is None:
            raise ValueError("ranker=ollambdarank_gt needs the labels of the dataset")
        self.loss = LabelledLoss(oracle, self.weighed)
        super().setup(context, features)
