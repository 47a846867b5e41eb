"""How clicks depend on places: P(click | d at place k) = alpha_k r_d + beta_k, given or estimated from clicks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, Positive
from ol2r_cli.interfaces import Interaction, RunContext
from ol2r_cli.learning.adam import Adam
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import HistoryLoss, Sample, ascent
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random


def trust_bias(rank: int) -> tuple[float, float]:
    """alpha and beta of `click=trust_bias` at this rank: t (e+ - e-) and t e- (Oosterhuis and de Rijke, WSDM 2021)."""
    examined = 0.35 / rank + 0.65 / (1 + 0.05 * (rank - 1))
    relevant, not_relevant = 1 / (1 + 0.005 * (rank - 1)), 0.65 / rank
    return examined * (relevant - not_relevant), examined * not_relevant


def position_based(rank: int) -> tuple[float, float]:
    """alpha and beta of `click=position_based` at this rank: its examination 1/rank, and 0."""
    return 1 / rank, 0.0


CURVES: Mapping[str, Callable[[int], tuple[float, float]]] = {
    "trust_bias": trust_bias,
    "position_based": position_based,
}


class ClickEM(HistoryLoss):
    """Estimates alpha and beta by expectation maximisation, with r = sigmoid(w.x + b) for the relevance of a document.

    The start is alpha = beta = 1 / (rank + 1) and r = .1. Each of `iterations` updates alpha and beta from all clicks
    so far, and w and b by `steps` steps of Adam with `learning_rate`, each on the documents of `batch` rounds drawn at
    random. Later calls continue where the last one ended. At each place, one relevant and one other document with the
    click probabilities of the start count as well: without them, a place without a click would have alpha = beta = 0
    for ever. The entries of the history are rounds.
    """

    document: Tensor
    outcome: Tensor  # 1 for a click, 0 for none, -1 where nothing was shown
    propensity: Tensor  # alpha and beta of each place
    relevance: Tensor  # w and b

    def __init__(self, iterations: Count, steps: Count, learning_rate: Positive, batch: Count):
        super().__init__()
        self.iterations, self.steps, self.learning_rate, self.batch = iterations, steps, learning_rate, batch

    def setup(self, context: RunContext, features: Float[Tensor, "N F"]) -> None:
        """Reserve room for the shown documents of each of the run's rounds."""
        table = features.to(context.device, context.dtype)
        self.features = torch.cat([table, torch.ones_like(table[:, :1])], dim=1)
        self.reserve(context, context.rounds, 1)
        places = min(context.positions, context.documents)
        shape, device = (context.replicas, self.capacity + 1, places), context.device
        self.register_buffer("document", torch.zeros(shape, dtype=torch.int32, device=device))
        self.register_buffer("outcome", torch.full(shape, -1, dtype=torch.int8, device=device))
        self.start = 1 / (torch.arange(places, dtype=context.dtype, device=device) + 2)
        self.register_buffer("propensity", torch.stack([self.start, self.start], 1).repeat(context.replicas, 1, 1))
        relevance = torch.zeros(context.replicas, 1, self.features.shape[1], dtype=context.dtype, device=device)
        relevance[:, :, -1] = torch.logit(torch.full((), 0.1, dtype=torch.float64, device=device))
        self.register_buffer("relevance", relevance)

    def append(self, interaction: Interaction) -> None:
        """Remember what was shown and clicked."""
        entry, places = self.count[:, None], interaction.ranking.shape[1]  # fewer where all lists are short
        document = interaction.candidates.document.gather(1, interaction.ranking).int()
        self.document[self.replica, entry, :places] = document[:, None]
        outcome = torch.where(interaction.shown, interaction.clicks.to(torch.int8), -1)
        self.outcome[self.replica, entry, :places] = outcome[:, None]
        self.count += 1

    def estimate(self, linear: Model, random: Random) -> None:
        """Improve the estimates by all clicks so far. `linear` is the model of w.x + b, whose last feature is 1."""
        adam = Adam(self.relevance, epsilon=1e-7)
        samples = self.draw(random, self.batch, self.iterations * self.steps)
        for _ in range(self.iterations):
            self._update(random.round + 1)
            for _ in range(self.steps):
                slope = ascent(linear, self.relevance, self.features, [next(samples)])
                self.relevance.add_(adam(slope), alpha=self.learning_rate)

    def _update(self, rounds: int) -> None:
        """Set alpha and beta to the shares of clicks among documents that are relevant and not, by their posterior."""
        most = self.most(rounds)
        document, outcome = self.document[:, :most].long(), self.outcome[:, :most]
        relevance = torch.sigmoid(self.relevance[:, 0] @ self.features.mT)
        prior = relevance.gather(1, document.flatten(1)).unflatten(1, document.shape[1:])
        posterior = self._posterior(prior, outcome)
        shown, clicked = outcome >= 0, outcome == 1
        totals = [(weight * shown).sum(1) for weight in (posterior, 1 - posterior)]
        clicks = [(weight * clicked).sum(1) for weight in (posterior, 1 - posterior)]
        relevant = (clicks[0] + 2 * self.start) / (totals[0] + 1)
        not_relevant = (clicks[1] + self.start) / (totals[1] + 1)
        self.propensity.copy_(torch.stack([relevant - not_relevant, not_relevant], dim=2))

    def _posterior(self, prior: Float[Tensor, "B X K"], outcome: Int[Tensor, "B X K"]) -> Float[Tensor, "B X K"]:
        """P(relevant | click or not, place), given P(relevant)."""
        alpha, beta = self.propensity[:, None].unbind(3)
        clicked, relevant = outcome == 1, (alpha + beta).clamp(max=1)  # rounding may go beyond
        likely = torch.where(clicked, relevant, 1 - relevant) * prior
        other = torch.where(clicked, beta, 1 - beta) * (1 - prior)
        return likely / (likely + other).clamp(min=torch.finfo(prior.dtype).tiny)

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        """The documents shown in these rounds. The gradient of the log-likelihood of the clicks is posterior - r."""
        document, outcome = self.document[self.replica, index].long(), self.outcome[self.replica, index]
        valid: Bool[Tensor, "B X K"] = (outcome >= 0) & (index < self.count[:, None])[:, :, None]

        def pull(scores: Float[Tensor, "B 1 Y"]) -> Float[Tensor, "B 1 Y"]:
            prior = torch.sigmoid(scores[:, 0]).unflatten(1, outcome.shape[1:])
            return ((self._posterior(prior, outcome) - prior) * valid).flatten(1)[:, None]

        return Sample(document.flatten(1), pull, valid.sum((1, 2)).to(self.features.dtype))
