"""Counterfactual rankers: COLTR (Zhuang and Zuccon, "Counterfactual Online Learning to Rank", ECIR 2020), and the
intervention-aware estimator as an online ranker (Oosterhuis and de Rijke, "Unifying Online and Counterfactual
Learning to Rank", WSDM 2021): P(click | d at place k) = alpha_k r_d + beta_k, with curves that are given or estimated.

Numbers of the estimator are those of the authors' code, HarrieO/2021wsdm-unifying-LTR at ff4c91f, unless
docs/algorithms/counterfactual.md states another. Expectations over lists of a Plackett-Luce model, and their
gradients, are taken from sampled lists (Oosterhuis, "Computationally Efficient Optimization of Plackett-Luce Ranking
Models for Relevance and Fairness", SIGIR 2021): what comes next is replaced by its expectation given the documents
above, so that a document that no sampled list shows contributes as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.click.trust import trust_at
from ol2r_cli.config.ranges import Count, NonNegative, Positive, Share, Steps, check_settings
from ol2r_cli.interfaces import PLACKETT_LUCE, Candidates, Interaction, Need, Oracle, Prediction, RunContext
from ol2r_cli.learning.feedback import learn_by_stage, rows_of_documents
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import Adam, GradientRefit, HistoryLoss, Sample, ascent
from ol2r_cli.ranker.counterfactual import coltr_loops, policy_loops
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import (
    Decay,
    GradientRanker,
    Growth,
    HistoryRanker,
    directions_on_sphere,
    mean_of_winners,
)
from ol2r_cli.stages import other_method
from ol2r_cli.tensor.gather import cached_arange, gather
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

LEAST = 1e-9  # of alpha_bar, where nothing else bounds it

Propensities = Literal["trust_bias", "position_based", "estimated"]


def click_curve(user: str, rank: int) -> tuple[float, float]:
    """Return alpha and beta at this rank of `click=position_based`, 1/rank and 0, or of `click=trust_bias`, t (e+ - e-)
    and t e- (`trust_at`)."""
    if user == "position_based":
        return 1 / rank, 0.0
    trust = trust_at(rank)
    return trust.examination * (trust.epsilon_plus - trust.epsilon_minus), trust.examination * trust.epsilon_minus


class PolicySteps(TypedDict):
    """How and when a policy is optimised: the settings of `GradientRefit` without a penalty, and of `HistoryRanker`."""

    steps: Steps
    learning_rate: Positive
    batch: Count  # queries
    restart: bool
    every: Count
    growth: Growth


class InterventionAware(HistoryRanker):
    """A Plackett-Luce policy that is optimised for estimates of relevance, corrected by every policy that was deployed.

    P(click | d at place k) = alpha_k r_d + beta_k. The estimates are those of `EstimatedRewards`, with `clip` and
    `gradient_lists`; alpha_bar and beta_bar are expectations over `propensity_lists` lists drawn from the policy of
    the round. `propensities` names the curves of a user, in place of which `alpha` and `beta` can be given by place, or
    is `estimated`: by a `ClickEM` with the settings `em`. The other settings are those of `PolicySteps`.
    """

    pairs = "none"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    def __init__(
        self,
        model: Model,
        propensities: Propensities,
        alpha: Sequence[Share] | None,
        beta: Sequence[Share] | None,
        clip: NonNegative,
        propensity_lists: Count,
        gradient_lists: Count,
        em: Mapping[str, float],
        **policy: Unpack[PolicySteps],
    ):
        super().__init__(model, policy["every"], policy["growth"])
        check_settings(ClickEM, em, self.setting("em"))
        if propensities == "estimated" and (alpha is not None or beta is not None):
            name = "alpha" if alpha is not None else "beta"
            raise ValueError(f"{self.setting(name)} must be null with {self.setting('propensities')}=estimated")
        self.propensities, self.given = propensities, {"alpha": alpha, "beta": beta}
        self.propensity_lists = propensity_lists
        self.rewards = EstimatedRewards(clip, gradient_lists)
        self.em = ClickEM(**dict[str, Any](em)) if propensities == "estimated" else None
        self.batch = policy["batch"]
        self.refit = GradientRefit(
            steps=policy["steps"],
            learning_rate=policy["learning_rate"],
            batch=policy["batch"],
            restart=policy["restart"],
            l2=0.0,
            reduction="mean",
        )

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at the model's initial parameters, without clicks. ValueError for curves with fewer places than K."""
        super().setup(context, features)
        places = min(context.positions, context.documents)
        known = None
        if self.em is None:
            curves = self._curves(context.positions)[:places]
            known = torch.tensor(curves, dtype=context.dtype, device=context.device)
        else:
            self.em.setup(context, features)
        self.rewards.setup(context, features, places, known)

    def _curves(self, positions: int) -> list[tuple[float, ...]]:
        """Return alpha and beta of each place: as given, or those of the user."""
        curves = list(zip(*(click_curve(self.propensities, rank + 1) for rank in range(positions)), strict=True))
        for column, (name, values) in enumerate(self.given.items()):
            if values is None:
                continue
            if len(values) < positions:
                least = f"{positions} numbers, one per rank"
                raise ValueError(f"{self.setting(name)} must be {least}, got {list(values)}")
            curves[column] = tuple(values[:positions])
        if not any(curves[0]):
            raise ValueError(f"{self.setting('alpha')} must be above 0 at one rank at least, got {list(curves[0])}")
        return list(zip(*curves, strict=True))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Remember the clicks, and what was expected of the policy that drew the list; optimise it if it is time."""
        rows = rows_of_documents(self.rewards.features, interaction.candidates)
        learn_by_stage(self._remembering(), interaction, rows, random)
        if self.em is not None:
            self.em.append(interaction)
        self.after_loops(1, random)

    def after_loops(self, rounds: int, random: Random) -> None:
        """Optimise the policy if the last of the rounds was that before which it is due."""
        self.rounds += rounds - 1
        if not self.is_due():
            return
        if self.em is not None:
            self.em.estimate(Linear(), random)
            self.rewards.propensity.copy_(self.em.propensity)
        changed = other_method(self, "after_loops") or other_method(self.rewards, "draw")
        if type(self.model) is Linear and not changed:
            self._optimise_in_loops(random)
        else:
            self.refit(self.theta, self.start, self.model, self.rewards, random, self.rewards.count > 0)

    def _optimise_in_loops(self, random: Random) -> None:
        """Do what `refit` does, for a linear model and rewards of ol2r."""
        theta = (self.start if self.refit.restart else self.theta)[:, 0].clone()
        state = self.rewards.state(theta, self.propensity_lists)
        draws = policy_loops.Draws(*self.rewards.drawn(random, self.batch, self.refit.steps))
        rate = torch.full_like(theta[:, 0], self.refit.learning_rate, dtype=torch.float64)
        room = policy_loops.room_of_policy(state, self.rewards.documents)
        features, curves = self.rewards.features, self.rewards.curves(random.round + 1)
        loops.launch.launch(policy_loops.optimise, len(theta), room, state, features, curves, rate, draws)
        self.theta.copy_(theta[:, None])

    def stages(self) -> Any:
        return self._remembering() if type(self.model) is Linear and self.em is None else None

    def _remembering(self) -> Any:
        """Return the stages of a linear model. Any model learns by them, from the scores of the round."""
        state = self.rewards.state(self.theta[:, 0], self.propensity_lists)
        room = policy_loops.room_of_policy(state, self.rewards.documents)
        stages = loops.gradient_steps.scores_by_theta, policy_loops.remembers_the_policy, state
        return loops.rounds.RankerStages(*stages, room=room, rounds=int(self.due - self.rounds))


class EstimatedRewards(HistoryLoss):
    """The reward of the policy on the queries served so far, and per document row what estimates of relevance need.

    With c clicks on document d in n rounds with its query, the estimate is

        r_d = (c - sum of beta_bar) / max(sum of alpha_bar, n max(min(clip / sqrt(t), 1), 1e-9)),

    where t is the number of rounds so far and the sums are over the n rounds: alpha_bar is the expectation of alpha at
    the place of d over the lists of the policy of that round. It may be negative. The reward of a query is the
    expectation of the sum over places of (alpha_k + beta_k) r of the document there; its gradient is estimated from
    `lists` lists. Documents of a query are consecutive rows. The entries are rounds: a query counts as often as it was
    served.
    """

    start: Tensor  # the first row of the documents of each round
    length: Tensor
    sums: Tensor  # of every row: clicks, n, and expectations of `columns`
    propensity: Tensor

    def __init__(self, clip: float, lists: int):
        super().__init__()
        self.clip, self.lists = clip, lists

    def setup(
        self, context: RunContext, features: Float[Tensor, "N F"], places: int, known: Float[Tensor, "K 2"] | None
    ) -> None:
        """Start without clicks. `known` are alpha and beta; with None they are in `propensity` before every refit, and
        sums are kept for each place."""
        self.features, self.documents, self.listed = features.to(context.device), context.documents, places
        place: dict[str, Any] = {"dtype": context.dtype, "device": context.device}
        self.is_known = known is not None
        self.columns = torch.eye(places, **place) if known is None else known
        self.reserve(context, context.rounds, 1)
        self.register_entries("start", torch.int32)
        self.register_entries("length", torch.int32)
        columns = self.columns.shape[1]
        self.register_buffer("sums", torch.zeros(context.replicas, len(features), 2 + columns, **place))
        initial = torch.zeros(places, 2, **place) if known is None else known
        self.register_buffer("propensity", initial.repeat(context.replicas, 1, 1))

    def state(self, theta: Float[Tensor, "B F"], lists: int) -> Any:
        """Return the state for loops, which draw so many lists for alpha_bar."""
        values = self.columns.repeat(len(theta), 1, 1)
        return policy_loops.PolicyState(theta, values, lists, self.sums, self.start, self.length, self.count)

    def estimates(self, document: Int[Tensor, "B X D"], rounds: int) -> Float[Tensor, "B X D"]:
        """Return the estimated relevance of these rows of the document table after so many rounds; 0 if never
        served."""
        sums = self.sums[self.replica[:, :, None], document]
        clicks, served, expected = sums[..., 0], sums[..., 1], sums[..., 2:]
        if not self.is_known:
            expected = expected @ self.propensity[:, None]
        alpha = torch.maximum(expected[..., 0], served.clamp(min=1) * self.least(rounds))
        return (clicks - expected[..., 1]) / alpha

    def least(self, rounds: int) -> float:
        """Return the least alpha_bar per round that counts after so many rounds."""
        return max(min(self.clip / math.sqrt(rounds), 1.0), LEAST)

    def curves(self, rounds: int) -> Any:
        """Return what makes estimates of expectations of `columns` after so many rounds, for loops."""
        expectations = self.propensity
        if self.is_known:
            expectations = torch.eye(2, dtype=torch.float64, device=self.sums.device).repeat(len(self.sums), 1, 1)
        least = torch.full_like(self.sums[:, 0, 0], self.least(rounds), dtype=torch.float64)
        return policy_loops.Curves(expectations, self.propensity, least)

    def drawn(self, random: Random, size: int, steps: int) -> tuple[Int[Tensor, "B J X"], Float[Tensor, "B J S E"]]:
        """Return for each of J steps X = `size` rounds, drawn uniformly with replacement, and the clocks of their
        lists."""
        clocks = random.exponential(steps * self.lists * self.documents, "lists")
        chance = random.uniform(size * steps, "batch").unflatten(1, (steps, size))
        return (chance * self.count[:, None, None]).long(), clocks.unflatten(1, (steps, self.lists, self.documents))

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """Return the lists of each step."""
        rounds, clocks = self.drawn(random, size, steps)
        for step in range(steps):
            yield self._lists(rounds[:, step], clocks[:, step], random.round + 1)

    def _lists(self, index: Int[Tensor, "B X"], clocks: Float[Tensor, "B S E"], rounds: int) -> Sample:
        first, length = (buffer[self.replica, index].long()[:, :, None] for buffer in (self.start, self.length))
        documents = int(length.max())
        slots = cached_arange(documents, index.device)
        mask: Bool[Tensor, "B X D"] = slots < length
        document = first + slots * mask
        reward = self.estimates(document, rounds).masked_fill(~mask, 0)
        weight = self.propensity.sum(2)[:, None, None]  # alpha + beta

        def pull(scores: Float[Tensor, "B 1 Y"]) -> Float[Tensor, "B 1 Y"]:
            lists = scores[:, 0].unflatten(1, mask.shape[1:])
            sampled = SampledLists(lists, mask, clocks[:, None, :, :documents], self.listed)
            return sampled.gradient(reward, weight).masked_fill(~mask, 0).flatten(1)[:, None]

        return Sample(document.flatten(1), pull, torch.ones_like(length[:, :, 0]).sum(1).to(reward.dtype))


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
        table = features.to(context.device, context.dtype)
        self.features = torch.cat([table, torch.ones_like(table[:, :1])], dim=1)
        self.reserve(context, context.rounds, 1)
        places = min(context.positions, context.documents)
        self.register_entries("document", torch.int32, places)
        self.register_entries("outcome", torch.int8, places, fill=-1)
        device = context.device
        self.start = 1 / (torch.arange(places, dtype=context.dtype, device=device) + 2)
        self.register_buffer("propensity", torch.stack([self.start, self.start], 1).repeat(context.replicas, 1, 1))
        relevance = torch.zeros(context.replicas, 1, self.features.shape[1], dtype=context.dtype, device=device)
        relevance[:, :, -1] = torch.logit(torch.full((), 0.1, dtype=torch.float64, device=device))
        self.register_buffer("relevance", relevance)

    def append(self, interaction: Interaction) -> None:
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
                sample = next(samples)
                slope = ascent(linear, self.relevance, sample.rows(self.features, self.features.dtype), sample)
                self.relevance.add_(adam(slope), alpha=self.learning_rate)

    def _update(self) -> None:
        """Set alpha and beta to the shares of clicks among documents that are relevant and not, by their posterior."""
        most = int(self.count.max())
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
        """Return P(relevant | click or not, place), given P(relevant)."""
        alpha, beta = self.propensity[:, None].unbind(3)
        clicked, relevant = outcome == 1, (alpha + beta).clamp(max=1)  # rounding may go beyond
        likely = torch.where(clicked, relevant, 1 - relevant) * prior
        other = torch.where(clicked, beta, 1 - beta) * (1 - prior)
        return likely / (likely + other).clamp(min=torch.finfo(prior.dtype).tiny)

    def sample(self, index: Int[Tensor, "B X"]) -> Sample:
        """Return the documents shown in these rounds. The gradient of the log-likelihood of the clicks is posterior -
        r."""
        document, outcome = self.document[self.replica, index].long(), self.outcome[self.replica, index]
        valid: Bool[Tensor, "B X K"] = (outcome >= 0) & (index < self.count[:, None])[:, :, None]

        def pull(scores: Float[Tensor, "B 1 Y"]) -> Float[Tensor, "B 1 Y"]:
            prior = torch.sigmoid(scores[:, 0]).unflatten(1, outcome.shape[1:])
            return ((self._posterior(prior, outcome) - prior) * valid).flatten(1)[:, None]

        return Sample(document.flatten(1), pull, valid.sum((1, 2)).to(self.features.dtype))


def log_left(scores: Float[Tensor, "*S D"], ranking: Int[Tensor, "*S K"]) -> Float[Tensor, "*S K"]:
    """Return the logarithm of the sum of e^score over what was left when each place of a list was filled.

    A sum of probabilities of the Plackett-Luce model; `scores` of documents that are not drawn are about -inf.
    """
    below = scores.scatter(-1, ranking, -torch.inf).logsumexp(-1, keepdim=True)
    listed = scores.gather(-1, ranking)
    return torch.cat([below, listed.flip(-1)], dim=-1).logcumsumexp(-1)[..., 1:].flip(-1)


class SampledLists:
    """The first `places` documents of lists drawn from the Plackett-Luce model of `scores`.

    A list has the documents in the order in which `clocks` / e^score ring; the clocks are independent exponentials of
    rate 1. Documents outside `mask` are padding. p_k(d) = e^score_d / Z_k is the probability of d at place k given the
    documents above, 0 for those. A linear policy has the same in policy_loops.py; this is for networks.
    """

    def __init__(
        self, scores: Float[Tensor, "*Q D"], mask: Bool[Tensor, "*Q D"], clocks: Float[Tensor, "*R S D"], places: int
    ):
        places = min(places, scores.shape[-1])
        self.scores = scores.masked_fill(~mask, -torch.inf)
        rings = self.scores[..., None, :] - clocks.log().to(scores.dtype)
        self.document = rings.topk(places, dim=-1).indices
        real = self.scores[..., None, :].expand(rings.shape)
        listed = real.gather(-1, self.document)
        beyond = listed == -torch.inf  # places below the last document
        self.log_total = log_left(real, self.document).masked_fill(beyond, torch.inf)  # log Z_k
        self.listed, self.beyond = listed, beyond

    def gradient(self, reward: Float[Tensor, "*Q D"], weight: Float[Tensor, "*P K"]) -> Float[Tensor, "*Q D"]:
        """Return the gradient of E[sum_k weight_k reward of the document at k] with respect to the scores (PL-Rank-2).

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
        """Return the sum of p_k(d) values_k over the places k down to that of d, in each list.

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


class COLTR(GradientRanker):
    """Evaluates `candidates` directions on the clicks of one list, and moves to the mean of those with less risk.

    The list is drawn by theta's scores / `temperature`. A candidate is theta + `delta` u with u from the unit sphere;
    its risk is that of `counterfactual_risks` with `variance_penalty` and `renormalise`. `learning_rate`, `decay`
    and `floor` as in `GradientRanker`. What was not to be read in the paper is as in the authors' code,
    ArvinZhuang/OLTR at d601047, `ranker/COLTRLinearRanker.py` with `experiments/run_ECIR_COLTR.py`
    (docs/algorithms/counterfactual.md).
    """

    pairs = "none"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    def __init__(
        self,
        model: Model,
        learning_rate: Positive,
        decay: Decay,
        floor: Share,
        delta: Positive,
        candidates: Count,
        temperature: Positive,
        variance_penalty: NonNegative,
        renormalise: bool,
    ):
        super().__init__(model, learning_rate, decay)
        self.floor, self.delta, self.candidates, self.temperature = floor, delta, candidates, temperature
        self.variance_penalty, self.renormalise = variance_penalty, renormalise

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        self.positions = context.positions

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        prediction = super().predict(candidates, random)
        return dataclasses.replace(prediction, scores=prediction.scores / self.temperature)

    def stages(self) -> Any:
        if type(self.model) is not Linear or self.renormalise:
            return None
        state = coltr_loops.RiskState(
            theta=self.theta,
            moving=self.theta,
            rate=self.rate_state(),
            delta=self.by_replica(self.delta),
            penalty=self.by_replica(self.variance_penalty),
            temperature=self.by_replica(self.temperature),
            candidates=self.candidates,
        )
        room = coltr_loops.room_of_risks(self.candidates, self.theta.shape[1], self.positions)
        stages = coltr_loops.scores_by_temperature, coltr_loops.learns_by_risk, state
        return loops.rounds.RankerStages(*stages, room=room, by_theta=True)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Move to the mean of the winners. Where no document was passed over for one below, every risk is 0."""
        directions = directions_on_sphere(random, self.candidates, self.theta.shape[1]).to(self.theta.dtype)
        weights = torch.cat([self.theta[:, None], self.theta[:, None] + self.delta * directions], dim=1)
        features, mask, ranking = interaction.candidates.features, interaction.candidates.mask, interaction.ranking
        if not self.renormalise:  # the sum over all documents is a factor of all weights, which cancels
            features, mask = gather(features, ranking), interaction.shown
            ranking = cached_arange(ranking.shape[1], ranking.device).expand_as(ranking)
        scores = self.model.forward(weights, features).scores
        lists = mask, ranking, interaction.shown, interaction.clicks
        risk = counterfactual_risks(scores, *lists, self.variance_penalty, self.renormalise)
        won = risk[:, 1:] < risk[:, :1]
        self.move(mean_of_winners(won, directions), won.any(1))


def counterfactual_risks(
    scores: Float[Tensor, "B N D"],
    mask: Bool[Tensor, "B D"],
    ranking: Int[Tensor, "B K"],
    shown: Bool[Tensor, "B K"],
    clicks: Bool[Tensor, "B K"],
    variance_penalty: float,
    renormalise: bool,
) -> Float[Tensor, "B N"]:
    """Return the risk of every member, estimated from a list that member 0 is taken to have shown.

    The loss is 1 at unclicked places down to the last click, else 0. With w = p_n(d_k) / p_0(d_k), R = sum w loss /
    sum w is the self-normalised estimate, V = sum w^2 (loss - R)^2 / sum w^2, and the risk R + `variance_penalty`
    sqrt(V / number of places shown). p is the softmax of the scores, whose sum cancels, or with `renormalise` that over
    the documents that are not above place k. Members whose weights do not differ from 1 have the risk of member 0.
    """
    clicked_below = clicks.flip(1).cumsum(1).flip(1) > 0
    loss = (clicked_below & ~clicks).to(scores.dtype)[:, None]
    real = scores.masked_fill(~mask[:, None], -torch.inf)
    places = ranking[:, None].expand(-1, scores.shape[1], -1)
    listed = real.gather(2, places)
    total = log_left(real, places) if renormalise else 0.0
    probability = (listed - total).masked_fill(~shown[:, None], 0)
    ratio = (probability - probability[:, :1]).masked_fill(~shown[:, None], -torch.inf)
    weight = (ratio - ratio.amax(2, keepdim=True)).exp()  # a common factor of the weights cancels
    risk = (weight * loss).sum(2) / weight.sum(2)
    square = weight**2
    variance = (square * (loss - risk[:, :, None]) ** 2).sum(2) / square.sum(2)
    return risk + variance_penalty * (variance / shown.sum(1, keepdim=True)).sqrt()
