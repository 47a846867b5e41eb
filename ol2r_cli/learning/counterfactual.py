"""What corrects clicks for the places of documents: how clicks depend on places, given or estimated from clicks, and
expectations over lists of a Plackett-Luce model, with their gradients, from sampled lists.

P(click | d at place k) = alpha_k r_d + beta_k. Lists: Oosterhuis, "Computationally Efficient Optimization of
Plackett-Luce Ranking Models for Relevance and Fairness" (SIGIR 2021): what comes next is replaced by its expectation
given the documents above, so that a document that no sampled list shows contributes as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, Positive
from ol2r_cli.interfaces import Interaction, RunContext
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import Adam, HistoryLoss, Sample, ascent
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
            self._update()
            for _ in range(self.steps):
                slope = ascent(linear, self.relevance, self.features, [next(samples)])
                self.relevance.add_(adam(slope), alpha=self.learning_rate)

    def _update(self) -> None:
        """Set alpha and beta to the shares of clicks among documents that are relevant and not, by their posterior."""
        most = self.most()
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


class SampledLists:
    """The first `places` documents of lists drawn from the Plackett-Luce model of `scores`.

    A list has the documents in the order in which `clocks` / e^score ring; the clocks are independent exponentials of
    rate 1. Documents outside `mask` are padding. With p_k(d) = e^score_d / Z_k the probability of d at place k given
    the documents above, 0 for those, every expectation below is the mean over the lists.
    """

    def __init__(
        self,
        scores: Float[Tensor, "*Q D"],
        mask: Bool[Tensor, "*Q D"],
        clocks: Float[Tensor, "*R S D"],
        places: int,
    ):
        places = min(places, scores.shape[-1])
        self.scores = scores.masked_fill(~mask, -torch.inf)
        rings = self.scores[..., None, :] - clocks.log().to(scores.dtype)
        self.document = rings.topk(places, dim=-1).indices
        real = self.scores[..., None, :].expand(rings.shape)
        listed = real.gather(-1, self.document)
        below = real.scatter(-1, self.document, -torch.inf).logsumexp(-1, keepdim=True)
        total = torch.cat([below, listed.flip(-1)], dim=-1).logcumsumexp(-1)[..., 1:].flip(-1)
        beyond = listed == -torch.inf  # places below the last document
        self.log_total = total.masked_fill(beyond, torch.inf)  # log Z_k
        self.listed, self.beyond = listed, beyond

    def expected(self, values: Float[Tensor, "*P K C"]) -> Float[Tensor, "*Q D C"]:
        """E[sum_k 1(d at place k) values_k], for each column. The sum over documents is that over the places shown."""
        return self._sum_over_places(values).mean(-3)

    def gradient(self, reward: Float[Tensor, "*Q D"], weight: Float[Tensor, "*P K"]) -> Float[Tensor, "*Q D"]:
        """The gradient of E[sum_k weight_k reward of the document at k] with respect to the scores (PL-Rank-2).

        d at place j gets G_{j+1}, and every document sum_{k <= its place} p_k(d) (weight_k reward_d - G_k), where G_k
        is the reward of the places from k on.
        """
        weight = weight[..., : self.document.shape[-1]].expand(self.document.shape)
        rewards = reward[..., None, :].expand(*self.document.shape[:-1], -1)
        gained = (weight * rewards.gather(-1, self.document)).masked_fill(self.beyond, 0)
        after = gained.flip(-1).cumsum(-1).flip(-1)  # G_k
        sums = self._sum_over_places(torch.stack([weight, after], dim=-1))
        future = torch.zeros_like(rewards).scatter(-1, self.document, after - gained)
        return (future + sums[..., 0] * rewards - sums[..., 1]).mean(-2)

    def _sum_over_places(self, values: Float[Tensor, "*P K C"]) -> Float[Tensor, "*Q S D C"]:
        """sum of p_k(d) values_k over the places k down to that of d, in each list.

        All exponents are at most 0: a document not listed has p_k = (e^score / Z_last) (Z_last / Z_k), both at most 1.
        """
        values = values[..., : self.document.shape[-1], :]
        last = self.log_total.amin(-1, keepdim=True)
        to_last = (last - self.log_total).exp()  # 0 beyond the last document
        whole = (to_last[..., None] * values).sum(-2, keepdim=True)
        unlisted = (self.scores[..., None, :] - last).clamp(max=0).exp()[..., None] * whole
        share = (self.listed[..., :, None] - self.log_total[..., None, :]).clamp(max=0).exp().tril()
        placed = share.masked_fill(self.beyond[..., None, :], 0) @ values
        index = self.document[..., None].expand(placed.shape)
        return unlisted.scatter(-2, index, placed.masked_fill(self.beyond[..., None], 0))
