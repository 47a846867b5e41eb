"""FairExp: keep the cumulative unfairness within epsilon, at the least regret (Jia and Wang, "Calibrating
Explore-Exploit Trade-off for Fair Online Learning to Rank", 2021, section 4.2).

A template says for each of the first K places whether it takes a document of group 0 or of group 1, and takes the next
document of that group in the proposed order, as if two queues were merged. So a template is a path on a grid, one step
per place. After j places of the other group, the next document of a queue overtakes every document of the other queue
that is above it in the proposal and not among the first j. The broken pairs depend on the document and j alone, so the
cost of a template is a sum along its path, and all 2^K templates are computed without a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
from ol2r_cli.interfaces import CERTAIN, Candidates, Fairness, Interaction, Need, Oracle, Proposal, RunContext
from ol2r_cli.tensor.gather import cached_arange, gather
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

MOST = 12  # places: there are 2^K templates
LEVEL = 1e-9  # smaller differences in unfairness come from summing the same terms in another order
NEITHER = 2  # the group of padding
CELLS = 1 << 24  # comparisons between documents at once

CountedPairs = Literal["all", "shown"]  # which broken pairs count


class FairExp(Fairness):
    """Chooses a template, which assigns the K places to the two groups, and fills it.

    Among the templates that keep |UF_t| <= `epsilon` it takes the one that breaks the fewest certain pairs; ties go to
    the least unfair one. If no template keeps the bound, it takes the least unfair one; ties go to the fewest broken
    pairs. UF_t is the sum over rounds of Exposure(group 0) - beta Exposure(group 1).

    `fill` says which documents a template takes: with `ordered` each group keeps its proposed order; `paper` is
    FairSwap as printed, for comparison, which shuffles once more and is slow. `count` says which broken pairs count:
    `all`, or those among the `shown` documents. With `ordered`, certain pairs that the proposal itself breaks, for
    example inside a randomly shuffled block, do not count.
    """

    needs = (Need(CERTAIN, "ranker=pairrank with exploration=confidence"),)

    unfairness: Tensor

    def __init__(
        self, epsilon: Annotated[float, Range(0, infinite=True)], fill: Literal["ordered", "paper"], count: CountedPairs
    ):
        super().__init__()
        self.epsilon, self.fill, self.count = epsilon, fill, count

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Start with UF_0 = 0; ValueError if the dataset does not have two groups."""
        self.exposure, self.positions = self.two_groups(context), min(context.positions, context.documents)
        self.added = self._added(self.positions, context.device)
        self.loops = context.loops
        # For each number of places, since the last digit of a sum depends on it: sums of rounds are looked up.
        widths = range(1, self.positions + 1) if self.loops else ()
        self.added_by_width = {width: self._added(width, context.device).numpy() for width in widths}
        self.register_buffer("unfairness", torch.zeros(context.replicas, dtype=torch.float64, device=context.device))

    def _added(self, positions: int, device: torch.device) -> Float[Tensor, "K1 S"]:
        """Return the unfairness that each template of K places adds if its first 0, 1, .., K places are filled."""
        places = cached_arange(positions, device)
        filled = places < cached_arange(positions + 1, device)[:, None]  # [K + 1, K]
        group = templates(positions, device).group
        return self.exposure.unfairness(self.exposure.of_groups(group, filled[:, None]))

    def rerank(self, proposal: Proposal, candidates: Candidates, random: Random) -> Int[Tensor, "B O"]:
        """Fill the chosen template at the top. All other documents follow in the proposed order."""
        assert candidates.group is not None
        assert proposal.certain is not None
        if self.loops and self.fill == "ordered":
            return self._rerank_by_loops(proposal.order, proposal.certain, candidates.group, candidates.mask)
        order, length = proposal.order, candidates.mask.sum(1)
        group = candidates.group.masked_fill(~candidates.mask, NEITHER).gather(1, order)
        queues = group_queues(group, self.positions)
        unfair = (self.unfairness[:, None] + self.added.index_select(0, length.clamp(max=self.positions))).abs_()
        possible = fillable(queues, length)
        within = possible & (unfair <= self.epsilon)
        any_within = within.any(1, keepdim=True)
        allowed = torch.where(any_within, within, possible)
        if self.fill == "paper":
            swap = FairSwap(proposal, candidates, random)
            cost = swap.broken_pairs(allowed, self.positions, self.count)
            return swap.rerank(_choose(cost, unfair, allowed, any_within), self.positions)
        cost = broken_pairs(proposal.certain, order, group, queues, self.count)
        template = _choose(cost, unfair, allowed, any_within)
        return order.gather(1, merge(template, queues, length, order.shape[1]))

    def _rerank_by_loops(
        self,
        order: Int[Tensor, "B D"],
        certain: Bool[Tensor, "B D D"],
        group: Int[Tensor, "B D"],
        mask: Bool[Tensor, "B D"],
    ) -> Int[Tensor, "B D"]:
        """Return what `rerank` returns."""
        served, only_shown = np.empty(order.shape, np.int64), self.count == "shown"
        state = self.unfairness.numpy(), self.added_by_width[self.positions], float(self.epsilon)
        given = order.numpy(), mask.numpy(), group.numpy(), certain.numpy()
        loops.template_choice.rerank(*given, *state, only_shown, LEVEL, served)
        return torch.from_numpy(served)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Add the unfairness of the shown documents."""
        assert interaction.candidates.group is not None
        if self.loops:
            shown = interaction.candidates.group.numpy(), interaction.ranking.numpy(), interaction.shown.numpy()
            added = self.added_by_width[interaction.ranking.shape[1]]
            loops.template_choice.add_unfairness(*shown, added, self.unfairness.numpy())
            return
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


class FairSwap:
    """FairSwap as printed: Algorithm 4 of chapter 3 of Jia's dissertation; section 4.2.2 of the paper.

    The sizes of the proposed blocks cut a template into segments, top block first. A block that lacks documents of a
    group fetches them from the nearest blocks below. As many of its other documents are pushed down, as a new block
    right behind it. Then every block is shuffled as far as its segment of the template allows. One permutation per
    replica shuffles the lists of all templates of a round. Proposals need blocks and certain pairs.

    The printed algorithm leaves four points open. Here the fetched documents are the first of their block in the
    proposed order, and the displaced ones the last; fetched documents leave their block; a template may end inside a
    block; and all blocks are visited (j <= n). This is plain Python, list by list, for comparison: ten to two hundred
    times slower than `merge`.
    """

    def __init__(self, proposal: Proposal, candidates: Candidates, random: Random):
        assert proposal.block is not None
        assert candidates.group is not None
        self.proposal = proposal
        length, block = candidates.mask.sum(1).tolist(), proposal.block.tolist()
        real = [order[:end] for order, end in zip(proposal.order.tolist(), length, strict=True)]
        self.padding = [order[end:] for order, end in zip(proposal.order.tolist(), length, strict=True)]
        self.blocks = [_blocks(order, number) for order, number in zip(real, block, strict=True)]
        self.group = candidates.group.tolist()
        self.chance = random.uniform(candidates.mask.shape[1]).tolist()

    def fill(self, replica: int, template: Sequence[int]) -> list[int]:
        """Return all documents of a replica, padding last. ValueError if the template needs too many of a group."""
        group, chance = self.group[replica], self.chance[replica]
        order: list[int] = []
        for block in calibrated(self.blocks[replica], group, template):
            segment = template[len(order) : len(order) + len(block)]
            order += _filled(sorted(block, key=chance.__getitem__), group, segment)
        return order + self.padding[replica]

    def rerank(self, template: Int[Tensor, "B"], positions: int) -> Int[Tensor, "B D"]:
        """Return the lists of one template of K = `positions` places for each replica."""
        chosen = templates(positions, template.device).group[template].tolist()
        orders = [self.fill(replica, self._cut(replica, groups)) for replica, groups in enumerate(chosen)]
        return torch.tensor(orders, device=template.device)

    def broken_pairs(self, allowed: Bool[Tensor, "B S"], positions: int, count: CountedPairs) -> Float[Tensor, "B S"]:
        """Return the number of certain pairs that each `allowed` template reverses; infinity for other templates.

        `count` is `all` for the whole order or `shown` for the K shown documents. Unlike with `merge`, pairs
        inside a group may break.
        """
        assert self.proposal.certain is not None
        cost = torch.full(allowed.shape, torch.inf, dtype=torch.float64, device=allowed.device)
        group = templates(positions, allowed.device).group
        for replica, certain in enumerate(self.proposal.certain):
            numbers = allowed[replica].nonzero()[:, 0]
            orders = [self.fill(replica, self._cut(replica, groups)) for groups in group[numbers].tolist()]
            rank = torch.tensor(orders, device=allowed.device).argsort(1)  # [s D]: place of each document
            last = rank.shape[1] if count == "all" else positions
            chunks = rank.split(max(1, CELLS // certain.numel()))
            cost[replica, numbers] = torch.cat([_reversed(certain, chunk, last) for chunk in chunks])
        return cost

    def _cut(self, replica: int, template: list[int]) -> list[int]:
        """Return the template without the places below the end of a short query."""
        return template[: sum(map(len, self.blocks[replica]))]


def calibrated(blocks: Sequence[Sequence[int]], group: Sequence[int], template: Sequence[int]) -> list[list[int]]:
    """Return blocks with the groups that their segments of the template need (lines 3 to 15); some may be empty.

    ValueError if the template needs more documents of a group than there are.
    """
    rest, done, start = [list(block) for block in blocks], [], 0
    while rest and start < len(template):
        block = rest.pop(0)
        segment = template[start : start + len(block)]
        start += len(block)
        for wanted in (0, 1):  # at most one group is lacking, because a segment is no longer than its block
            lacking = segment.count(wanted) - sum(group[d] == wanted for d in block)
            if lacking > 0:
                displaced = [d for d in block if group[d] != wanted][-lacking:]
                block = [d for d in block if d not in displaced] + _fetch(rest, group, wanted, lacking)
                rest.insert(0, displaced)
                break
        done.append(block)
    return done + rest


def _fetch(lower: list[list[int]], group: Sequence[int], wanted: int, count: int) -> list[int]:
    """Remove `count` documents of a group from the nearest blocks and return them."""
    fetched: list[int] = []
    for block in lower:
        taken = [d for d in block if group[d] == wanted][: count - len(fetched)]
        fetched += taken
        block[:] = [d for d in block if d not in taken]
    if len(fetched) < count:
        raise ValueError(f"template must have no more documents of group {wanted} than the query")
    return fetched


def _filled(shuffled: Sequence[int], group: Sequence[int], segment: Sequence[int]) -> list[int]:
    """Return the documents that fill the segment, each group in shuffled order, then the remaining documents."""
    queues = [[d for d in shuffled if group[d] == number] for number in (0, 1)]
    top = [queues[number].pop(0) for number in segment]
    return top + [d for d in shuffled if d not in top]


def _blocks(order: Sequence[int], number: Sequence[int]) -> list[list[int]]:
    """Return the documents of an order, cut where the block number changes."""
    blocks: list[list[int]] = []
    for place, document in enumerate(order):
        if not place or number[document] != number[order[place - 1]]:
            blocks.append([])
        blocks[-1].append(document)
    return blocks


def _reversed(certain: Bool[Tensor, "D D"], rank: Int[Tensor, "s D"], last: int) -> Float[Tensor, "s"]:
    """Return the number of certain pairs that are reversed within the first `last` places."""
    upside_down = (rank[:, :, None] > rank[:, None, :]) & (rank < last)[:, :, None] & certain
    return upside_down.sum((1, 2)).double()
