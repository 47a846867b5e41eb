"""FairExp: keep the cumulative unfairness within epsilon, at the least regret (Jia and Wang, "Calibrating
Explore-Exploit Trade-off for Fair Online Learning to Rank", 2021, section 4.2).

A template says for each of the first K places whether it takes a document of group 0 or of group 1, and takes the next
document of that group in the proposed order, as if two queues were merged. So a template is a path on a grid, one step
per place. After j places of the other group, the next document of a queue overtakes every document of the other queue
that is above it in the proposal and not among the first j. The broken pairs depend on the document and j alone, so the
cost of a template is a sum along its path, and all 2^K templates are computed without a loop.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ol2r_cli.config.ranges import Range
from ol2r_cli.interfaces import CERTAIN, Candidates, Fairness, Interaction, Need, Oracle, Proposal, RunContext
from ol2r_cli.tensor.gather import cached_arange, gather
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

MOST = 12  # places: there are 2^K templates
LEVEL = 1e-9  # smaller differences in unfairness come from summing the same terms in another order
NEITHER = 2  # the group of padding

CountedPairs = Literal["all", "shown"]  # which broken pairs count


class FairExp(Fairness):
    """Chooses a template, which assigns the K places to the two groups, and fills it.

    Among the templates that keep |UF_t| <= `epsilon` it takes the one that breaks the fewest certain pairs; ties go to
    the least unfair one. If no template keeps the bound, it takes the least unfair one; ties go to the fewest broken
    pairs. UF_t is the sum over rounds of Exposure(group 0) - beta Exposure(group 1).

    In a template each group keeps its proposed order. `count` says which broken pairs count: `all`, or those among the
    `shown` documents. Certain pairs that the proposal itself breaks, for example inside a randomly shuffled block, do
    not count.
    """

    needs = (Need(CERTAIN, "ranker=pairrank with exploration=confidence"),)

    unfairness: Tensor

    def __init__(self, epsilon: Annotated[float, Range(0, infinite=True)], count: CountedPairs):
        super().__init__()
        self.epsilon, self.count = epsilon, count

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with UF_0 = 0; ValueError if the dataset does not have two groups."""
        self.exposure, self.positions = self.two_groups(context), min(context.positions, context.documents)
        # The unfairness that each template of K places adds if its first 0, 1, .., K places are filled [K1 S].
        places = cached_arange(self.positions + 1, context.device)
        group = templates(self.positions, context.device).group
        self.added = self.exposure.unfairness(self.exposure.of_groups(group, places[:-1] < places[:, None, None]))
        self.register_buffer("unfairness", torch.zeros(context.replicas, dtype=torch.float64, device=context.device))

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Fill the chosen template at the top. All other documents follow in the proposed order."""
        assert candidates.group is not None
        assert proposal.certain is not None
        order, length = proposal.order, candidates.mask.sum(1)
        group = candidates.group.masked_fill(~candidates.mask, NEITHER).gather(1, order)
        queues = group_queues(group, self.positions)
        unfair = (self.unfairness[:, None] + self.added.index_select(0, length.clamp(max=self.positions))).abs_()
        possible = fillable(queues, length)
        within = possible & (unfair <= self.epsilon)
        any_within = within.any(1, keepdim=True)
        allowed = torch.where(any_within, within, possible)
        cost = broken_pairs(proposal.certain, order, group, queues, self.count)
        template = _choose(cost, unfair, allowed, any_within)
        return order.gather(1, merge(template, queues, length, order.shape[1]))

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the unfairness of the shown documents."""
        assert interaction.candidates.group is not None
        group = interaction.candidates.group.gather(1, interaction.ranking)
        self.unfairness += self.exposure.unfairness(self.exposure.of_groups(group, interaction.shown))


def _choose(
    cost: Float[Tensor, "B S"],
    unfair: Float[Tensor, "B S"],
    allowed: Bool[Tensor, "B S"],
    any_within: Bool[Tensor, "B 1"],
) -> Int[Tensor, "B"]:
    """Return the first of the best allowed templates: by cost and then unfairness if `any_within`, else the reverse."""
    level = (unfair / LEVEL).round()
    major = torch.where(any_within, cost, level).masked_fill_(~allowed, torch.inf)
    minor = torch.where(any_within, level, cost)
    return minor.masked_fill_(major > major.amin(1, keepdim=True), torch.inf).argmin(1)


class Templates(NamedTuple):
    """All templates of K places, as binary numbers in ascending order: 00..0 to 11..1.

    A step is one document and the number of places of the other group above it. It is the index of a cell in a
    flattened table [2, K, K + 1] of group, place in the group's queue, and that number.
    """

    group: Int[Tensor, "S K"]
    step: Int[Tensor, "S K"]
    end: Int[Tensor, "S K"]  # the step of the same document, below all places of the other group
    ones: Int[Tensor, "K1 S"]  # number of places of group 1 among the first 0, 1, .., K


@cache
def templates(positions: int, device: torch.device) -> Templates:
    """Return the templates of K = `positions` places. The tensors are shared. ValueError for more than 12 places."""
    if positions > MOST:
        raise ValueError(f"positions must be at most {MOST} with fairness=fairexp, got {positions}")
    number, place = torch.arange(1 << positions, device=device), cached_arange(positions, device)
    group = number[:, None] >> place.flip(0) & 1
    ones = pad(group.cumsum(1), (1, 0))
    same_above = torch.where(group == 1, ones[:, :-1], place - ones[:, :-1])
    row = (group * positions + same_above) * (positions + 1)
    others = torch.where(group == 1, positions - ones[:, -1:], ones[:, -1:])
    return Templates(group, row + place - same_above, row + others, ones.T.contiguous())


class GroupQueues(NamedTuple):
    """The documents of both groups in the proposed order."""

    place: Int[Tensor, "B 2 K"]  # proposed places of the first K documents of each group; arbitrary beyond the last
    size: Int[Tensor, "B 2"]  # number of documents of each group


def group_queues(group: Int[Tensor, "B D"], positions: int) -> GroupQueues:
    """Return the queues, given the groups of the documents in proposed order. Padding has neither group."""
    member = torch.stack([group == number for number in (0, 1)], 1)
    place = (~member).int().argsort(stable=True, dim=2)[:, :, :positions]
    return GroupQueues(pad(place, (0, positions - place.shape[2])), member.sum(2))


def broken_pairs(
    certain: Bool[Tensor, "B D D"],
    order: Int[Tensor, "B D"],
    group: Int[Tensor, "B D"],
    queues: GroupQueues,
    count: CountedPairs,
) -> Float[Tensor, "B S"]:
    """Return how many of the certain pairs that the proposal keeps each template breaks.

    `count` is `all` for the whole order or `shown` for the K shown documents. `certain` is indexed by document, `group`
    by place in the proposed `order`. Only pairs of two groups can break, because each queue keeps its order.
    """
    positions, place = queues.place.shape[2], queues.place.flatten(1)
    above = gather(certain.mT, order.gather(1, place))  # [B 2K D]: documents certainly above that of the queue
    above = above.gather(2, order[:, None].expand_as(above)) & (
        cached_arange(order.shape[1], order.device) < place[:, :, None]
    )
    other = torch.stack([group == 1, group == 0], 1)[:, :, None]
    above = above.unflatten(1, (2, positions)) & other
    leading = above.gather(3, queues.place.flip(1)[:, :, None].expand(-1, -1, positions, -1))  # by the other queue
    leading &= (cached_arange(positions, order.device) < queues.size.flip(1)[:, :, None])[:, :, None]
    template, ahead = templates(positions, order.device), pad(leading.cumsum(3), (1, 0)).flatten(1)
    if count == "shown":
        return _path_sums(template.end, ahead) - _path_sums(template.step, ahead)
    every = above.sum(3)[..., None].expand(-1, -1, -1, positions + 1).flatten(1)
    return _path_sums(template.step, every - ahead)


def _path_sums(path: Int[Tensor, "S K"], table: Int[Tensor, "B C"]) -> Float[Tensor, "B S"]:
    """Return the sum of the table's cells on the path of each template."""
    return table.double().index_select(1, path.flatten()).unflatten(1, path.shape).sum(2)


def fillable(queues: GroupQueues, length: Int[Tensor, "B"]) -> Bool[Tensor, "B S"]:
    """Return whether both groups have enough documents for the first min(K, length) places of each template.

    Of templates that differ only below these places, only the first is True.
    """
    positions = queues.place.shape[2]
    ones = templates(positions, length.device).ones
    filled = length.clamp(max=positions)
    second = ones.index_select(0, filled)
    fits = (second <= queues.size[:, 1, None]) & (filled[:, None] - second <= queues.size[:, 0, None])
    return fits & (ones[-1] == second)


def merge(
    template: Int[Tensor, "B"], queues: GroupQueues, length: Int[Tensor, "B"], documents: int
) -> Int[Tensor, "B D"]:
    """Return the proposed places in their new order: those of the template at the top, the others as they were."""
    positions = queues.place.shape[2]
    step = templates(positions, template.device).step.index_select(0, template)
    taken = queues.place.flatten(1).gather(1, step // (positions + 1))
    slot = cached_arange(positions, template.device)
    taken = torch.where(slot < length[:, None], taken, documents)  # a short list takes nothing below its end
    key = (cached_arange(documents + 1, template.device) + positions).repeat(len(template), 1)
    return key.scatter_(1, taken, slot.expand_as(taken))[:, :documents].argsort(1)
