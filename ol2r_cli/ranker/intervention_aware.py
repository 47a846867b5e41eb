"""The intervention-aware estimator as an online ranker (Oosterhuis and de Rijke, WSDM 2021).

"Unifying Online and Counterfactual Learning to Rank". Numbers are those of the authors' code,
HarrieO/2021wsdm-unifying-LTR at ff4c91f, unless docs/algorithms/counterfactual.md states another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, Range, Share, Steps, check_settings
from ol2r_cli.interfaces import PLACKETT_LUCE, Interaction, Need, Oracle, RunContext
from ol2r_cli.learning.counterfactual import CURVES, ClickEM, SampledLists
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.refit import GradientRefit, HistoryLoss, Sample
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model_ranker import ModelRanker
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

Growth = Annotated[float, Range(1)]  # factor by which the number of rounds grows from one refit to the next
LEAST = 1e-9  # of alpha_bar, where nothing else bounds it

Propensities = Literal["trust_bias", "position_based", "estimated"]


class InterventionAware(ModelRanker):
    """A Plackett-Luce policy that is optimised for estimates of relevance, corrected by every policy that was deployed.

    P(click | d at place k) = alpha_k r_d + beta_k. The estimates are those of `EstimatedRewards`, with `clip` and
    `gradient_lists`; alpha_bar and beta_bar are expectations over `propensity_lists` lists drawn from the policy of
    the round. `propensities` names the curves of a user, in place of which `alpha` and `beta` can be given by place, or
    is `estimated`: by a `ClickEM` with the settings `em`. The policy is optimised as in `GradientRefit` with `steps`,
    `learning_rate`, `batch` queries and `restart`, when `every` rounds have passed since the last time and the number
    of rounds has grown by the factor `growth`.
    """

    pairs = "none"
    needs = (Need(PLACKETT_LUCE, "exploration=plackett_luce"),)

    theta: Tensor
    start: Tensor
    rounds: Tensor
    due: Tensor

    def __init__(
        self,
        model: Model,
        propensities: Propensities,
        alpha: Sequence[Share] | None,
        beta: Sequence[Share] | None,
        clip: NonNegative,
        propensity_lists: Count,
        steps: Steps,
        learning_rate: Positive,
        batch: Count,
        gradient_lists: Count,
        restart: bool,
        every: Count,
        growth: Growth,
        em: Mapping[str, float],
    ):
        super().__init__(model)
        check_settings(ClickEM, em, self.setting("em"))
        if propensities == "estimated" and (alpha is not None or beta is not None):
            name = "alpha" if alpha is not None else "beta"
            raise ValueError(f"{self.setting(name)} must be null with {self.setting('propensities')}=estimated")
        self.propensities, self.given = propensities, {"alpha": alpha, "beta": beta}
        self.propensity_lists, self.every, self.growth = propensity_lists, every, growth
        self.rewards = EstimatedRewards(clip, gradient_lists)
        self.em = ClickEM(**dict[str, Any](em)) if propensities == "estimated" else None
        self.refit = GradientRefit(steps, learning_rate, batch, restart, l2=0.0, reduction="mean")

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start at the model's initial parameters, without clicks. ValueError for curves with fewer places than K."""
        initial = self.model.initial(context.random, context.features, 1)
        theta = initial.to(context.device, context.dtype).expand(context.replicas, -1, -1).contiguous()
        self.register_buffer("start", theta)
        self.register_buffer("theta", theta.clone())
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))
        self.register_buffer("due", torch.full((), self.every))
        places = min(context.positions, context.documents)
        known = None
        if self.em is None:
            known = torch.tensor(self._known(context.positions), dtype=context.dtype, device=context.device)[:places]
        else:
            self.em.setup(context, features)
        self.rewards.setup(context, features, places, known)

    def _known(self, positions: int) -> list[tuple[float, float]]:
        curves = [list(column) for column in zip(*map(CURVES[self.propensities], range(1, positions + 1)), strict=True)]
        for column, (name, values) in enumerate(self.given.items()):
            if values is not None:
                if len(values) < positions:
                    least = f"{positions} numbers, one per place"
                    raise ValueError(f"{self.setting(name)} must be {least}, got {list(values)}")
                curves[column] = list(values)[:positions]
        if not any(curves[0]):
            raise ValueError(f"{self.setting('alpha')} must be above 0 at one place at least, got {curves[0]}")
        return list(zip(*curves, strict=True))

    def weights(self) -> Float[Tensor, "B N P"]:
        return self.theta

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Remember the clicks, and what was expected of the policy that drew the list; optimise it if it is time."""
        scores, mask = interaction.prediction.scores[:, 0], interaction.candidates.mask
        documents, lists = scores.shape[1], self.propensity_lists
        clocks = random.exponential(documents * lists, "policy").unflatten(1, (documents, lists)).mT
        expected = SampledLists(scores, mask, clocks, self.rewards.listed).expected(self.rewards.columns)
        self.rewards.append(interaction, expected)
        if self.em is not None:
            self.em.append(interaction)
        self.rounds += 1
        rounds = int(self.rounds)
        if rounds < int(self.due):
            return
        self.due.fill_(max(rounds + self.every, math.ceil(rounds * self.growth)))
        if self.em is not None:
            self.em.estimate(Linear(), random)
            self.rewards.propensity.copy_(self.em.propensity)
        self.refit(self.theta, self.start, self.model, self.rewards, random, self.rewards.count > 0)


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

    first: Tensor
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
        shape = context.replicas, self.capacity + 1
        self.register_buffer("first", torch.zeros(shape, dtype=torch.int32, device=context.device))
        self.register_buffer("length", torch.zeros(shape, dtype=torch.int32, device=context.device))
        columns = self.columns.shape[1]
        self.register_buffer("sums", torch.zeros(context.replicas, len(features), 2 + columns, **place))
        initial = torch.zeros(places, 2, **place) if known is None else known
        self.register_buffer("propensity", initial.repeat(context.replicas, 1, 1))

    def append(self, interaction: Interaction, expected: Float[Tensor, "B D C"]) -> None:
        """Add the clicks of a round, and the expectations of `columns` under the policy that drew its list."""
        candidates, entry = interaction.candidates, self.count[:, None]
        self.first[self.replica, entry] = candidates.document[:, :1].int()
        self.length[self.replica, entry] = candidates.mask.sum(1, keepdim=True).int()
        self.count += 1
        clicks = torch.zeros_like(expected[:, :, 0]).scatter(1, interaction.ranking, interaction.clicks.to(expected))
        added = torch.cat([clicks[:, :, None], torch.ones_like(clicks)[:, :, None], expected], dim=2)
        added = added * candidates.mask[:, :, None]
        row = self._row(candidates.document)
        self.sums.view(-1, self.sums.shape[2]).index_add_(0, row.flatten(), added.flatten(0, 1))

    def _row(self, document: Int[Tensor, "B *X"]) -> Int[Tensor, "B *X"]:
        first = self.replica.view(-1, *[1] * (document.dim() - 1)) * self.sums.shape[1]
        return first + document

    def estimates(self, document: Int[Tensor, "B X D"], rounds: int) -> Float[Tensor, "B X D"]:
        """The estimated relevance of these rows of the document table after so many rounds; 0 if never served."""
        sums = self.sums.view(-1, self.sums.shape[2])[self._row(document)]
        clicks, served, expected = sums[..., 0], sums[..., 1], sums[..., 2:]
        if not self.is_known:
            expected = expected @ self.propensity[:, None]
        least = max(min(self.clip / math.sqrt(rounds), 1.0), LEAST)
        alpha = torch.maximum(expected[..., 0], served.clamp(min=1) * least)
        return (clicks - expected[..., 1]) / alpha

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """For each step `size` rounds, drawn uniformly with replacement; all use the same clocks for their lists."""
        rounds = random.round + 1
        clocks = random.exponential(steps * self.lists * self.documents, "lists")
        clocks = clocks.unflatten(1, (steps, self.lists, self.documents))
        parts = random.uniform(size * steps, "batch").split(size, dim=1)
        for part, ringing in zip(parts, clocks.unbind(1), strict=True):
            yield self.lists_of((part * self.count[:, None]).long(), ringing, rounds)

    def lists_of(self, index: Int[Tensor, "B X"], clocks: Float[Tensor, "B S E"], rounds: int) -> Sample:
        """The queries of these rounds."""
        first, length = (buffer[self.replica, index].long()[:, :, None] for buffer in (self.first, self.length))
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
