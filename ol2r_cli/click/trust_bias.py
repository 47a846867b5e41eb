"""The position-based click model with trust bias (Vardasbi, Oosterhuis and de Rijke, CIKM 2020).

Whoever examines a document takes it for relevant or not, and errs by place: P(click) = alpha_k r + beta_k is affine in
its relevance r.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.independent import IndependentClicks
from ol2r_cli.click.probabilities import Tables, by_grade, by_place
from ol2r_cli.config.ranges import Share
from ol2r_cli.interfaces import Oracle, RunContext
from ol2r_cli.tensor.shapes import Float


class TrustBias(IndependentClicks):
    """Clicks at place k with probability t_k (e+_k r + e-_k (1 - r)), where r = P(relevant | grade).

    `click` has r by grade: without trust bias, e+ = 1 and e- = 0, it is P(click | grade, examined). Null takes it from
    `tables`, by the dataset's number of grades. By place are `examination` t_k, `epsilon_plus` e+_k = P(click |
    examined, relevant) and `epsilon_minus` e-_k = P(click | examined, not relevant). Null takes the curves of
    Oosterhuis and de Rijke (WSDM 2021), from their code.
    """

    click_probability: Tensor

    def __init__(
        self,
        click: Sequence[Share] | None,
        tables: Tables,
        examination: Sequence[Share] | None,
        epsilon_plus: Sequence[Share] | None,
        epsilon_minus: Sequence[Share] | None,
    ):
        super().__init__()
        self.click_setting, self.tables, self.examination = click, tables, examination
        self.epsilon_plus, self.epsilon_minus = epsilon_plus, epsilon_minus

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Choose the probabilities for the dataset's grades and the places shown."""
        examined = by_place(
            self, "examination", self.examination, lambda rank: 0.35 / rank + 0.65 / (1 + 0.05 * (rank - 1)), context
        )
        plus = by_place(self, "epsilon_plus", self.epsilon_plus, lambda rank: 1 / (1 + 0.005 * (rank - 1)), context)
        minus = by_place(self, "epsilon_minus", self.epsilon_minus, lambda rank: 0.65 / rank, context)
        relevant = by_grade(self, "click", self.click_setting, self.tables, context)
        self.register_buffer("click_probability", relevant)
        clicked_if_examined = plus[:, None] * relevant + minus[:, None] * (1 - relevant)
        self.allocate(examined[:, None] * clicked_if_examined, context.loops)

    def for_loops(self) -> Any:
        """The user for rounds that are played together."""
        return loops.play.User(loops.play.INDEPENDENT, self.click_probability.numpy(), self.probability.numpy()[None])
