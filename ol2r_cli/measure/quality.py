"""Measures of how good the lists are: by the labels of their documents, and by their clicks.

Gains are 2^grade - 1 and discounts log2(rank + 1) (Burges et al., ICML 2005).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.columns import CUTOFF, CUTOFFS, TRACE_COLUMNS, Column, ndcg_columns
from ol2r_cli.config.ranges import Count, PositiveShare
from ol2r_cli.interfaces import Interaction, Measure, RankedLists, Rounds, RunContext
from ol2r_cli.metrics.ranking import add_up, dcg, discounts, gains, ndcg, reciprocal_rank, start_at_zero
from ol2r_cli.tensor.shapes import Float, Int


class NDCG(Measure):
    """NDCG at `cutoff` of every round, or at the number of positions if that is smaller, and of evaluations.

    Cumulative NDCG multiplies round t by discount^(t - 1), 0 < discount <= 1. With cutoff 10, the columns of rounds
    have no number in their names, and evaluations have all of `CUTOFFS`.
    """

    cumulative_ndcg: Tensor

    def __init__(self, cutoff: Count, discount: PositiveShare):
        super().__init__()
        self.cutoff = self.places = cutoff
        self.discount = discount
        self.cutoffs = CUTOFFS if cutoff == CUTOFF else (cutoff,)
        self.trace = ndcg_columns(cutoff)[:2]
        self.evaluation = tuple(ndcg_columns(cutoff)[2] for cutoff in self.cutoffs)

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Compute the largest DCG of every training query."""
        self.ideal = dcg(best[:, : self.cutoff])  # [Q]
        self.skips = context.no_relevant == "skip"
        start_at_zero(self, "cumulative_ndcg", context)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return online and cumulative NDCG. A query that is skipped adds 0 to the sum."""
        ideal = self.ideal[rounds.query]
        online = ndcg(dcg(rounds.grades[:, :, : self.cutoff]), ideal)
        cumulative = add_up(self, "cumulative_ndcg", online * self._weights(rounds.first, online)[:, None])
        applicable = online.masked_fill(ideal == 0, torch.nan) if self.skips else online
        return {self.trace[0].name: applicable, self.trace[1].name: cumulative}

    def _weights(self, first: int, online: Float[Tensor, "R B"]) -> Float[Tensor, "R"]:
        """Return discount^(t - 1) of the rounds t from `first`.

        Of whole vectors of the processor: torch raises the last few numbers to a power by another function, so that the
        last digit would depend on which rounds are measured at once, and so on when a checkpoint was written.
        """
        whole = -(-len(online) // 64) * 64
        age = torch.arange(first - 1, first - 1 + whole, device=online.device, dtype=torch.float64)
        return (self.discount**age)[: len(online)]

    def of_lists(self, lists: RankedLists) -> dict[str, Tensor]:
        """Return NDCG at each of the cutoffs."""
        gain = gains(lists.labels)
        reached = (gain * discounts(gain.shape[-1], gain.device)).cumsum(-1)
        return {
            f"ndcg_{cutoff}": ndcg(reached[..., min(cutoff, gain.shape[-1]) - 1], dcg(lists.best[..., :cutoff]))
            for cutoff in self.cutoffs
        }


class ListMeasure(Measure):
    """A measure that is a function of the labels of the first `cutoff` (1 or more) places of a list.

    A subclass defines `value`. The columns are `online_<name>_<cutoff>` of the trace and `<name>_<cutoff>` of the
    evaluation; `label` is the name in tables, to which the cutoff is added. Online, at most the shown places count.
    With no_relevant=skip the measure does not apply to a query without a relevant document.
    """

    def __init__(self, name: str, label: str, cutoff: int, higher_is_better: bool = True):
        super().__init__()
        self.cutoff = self.places = cutoff
        column = f"{name}_{cutoff}"
        self.trace = (Column(f"online_{column}", f"online {label}@{cutoff}", higher_is_better=higher_is_better),)
        self.evaluation = (Column(column, f"{label}@{cutoff}", higher_is_better=higher_is_better),)

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Keep the best list of every training query."""
        self.best, self.grades = best[:, : self.cutoff], context.grades
        self.skips = context.no_relevant == "skip"

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the value of each list. `lists` has at most `cutoff` places, and labels may be int8."""
        raise NotImplementedError

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the value of the lists shown."""
        best = self.best[rounds.query]
        labels = rounds.grades[:, :, : best.shape[-1]]  # `best` has no more places than the longest query
        values = self.value(RankedLists(labels, best, self.grades))
        return {self.trace[0].name: values.masked_fill(best[..., 0] == 0, torch.nan) if self.skips else values}

    def of_lists(self, lists: RankedLists) -> dict[str, Tensor]:
        """Return the value of each list, of which no more than the first `cutoff` places are received."""
        return {self.evaluation[0].name: self.value(lists)}


class DCG(ListMeasure):
    """DCG of the first `cutoff` places, which is not divided by that of the best list."""

    def __init__(self, cutoff: Count):
        super().__init__("dcg", "DCG", cutoff)

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the DCG of each list."""
        return dcg(lists.labels)


class ERR(ListMeasure):
    """The expectation of 1 / rank at which a user is satisfied, who examines the first `cutoff` places from the top.

    Chapelle, Metzler, Zhang and Grinspan, "Expected reciprocal rank for graded relevance" (CIKM 2009).
    """

    def __init__(self, cutoff: Count):
        super().__init__("err", "ERR", cutoff)

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the sum over ranks r of P(satisfied at r) / r: grade g satisfies with (2^g - 1) / 2^(grades - 1)."""
        satisfied = gains(lists.labels) / 2 ** (lists.grades - 1)
        continued = torch.cat([torch.ones_like(satisfied[..., :1]), (1 - satisfied).cumprod(-1)[..., :-1]], -1)
        rank = torch.arange(1, satisfied.shape[-1] + 1, dtype=torch.float64, device=satisfied.device)
        return (satisfied * continued / rank).sum(-1)


class MRR(ListMeasure):
    """1 / rank of the first document of grade 1 or more, 0 without one among the first `cutoff` places.

    Voorhees, "The TREC-8 question answering track report" (1999).
    """

    def __init__(self, cutoff: Count):
        super().__init__("mrr", "MRR", cutoff)

    def value(self, lists: RankedLists) -> Float[Tensor, "*L"]:
        """Return the reciprocal rank of each list."""
        return reciprocal_rank(lists.labels)


class HeadAndTail(Measure):
    """Online NDCG@10 of the head and of the tail: the queries that are asked most, and the others.

    The head are as many queries, those that are asked most first, as make up the `share` of the rounds. A column does
    not apply to a round of the other part.
    """

    trace = (
        Column("online_ndcg_head", "online NDCG, head", higher_is_better=True),
        Column("online_ndcg_tail", "online NDCG, tail", higher_is_better=True),
    )

    def __init__(self, share: PositiveShare):
        super().__init__()
        self.share = share

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Find the queries of the head, and compute the largest DCG of every training query."""
        self.ideal = dcg(best[:, :CUTOFF])
        self.is_head: Tensor | None = None
        if context.popularity is not None:
            order = context.popularity.argsort(descending=True, stable=True)
            above = context.popularity[order].cumsum(0) - context.popularity[order]
            is_head = torch.empty_like(order, dtype=torch.bool)
            is_head[order] = above < self.share - 1e-9  # sums are rounded
            self.is_head = is_head.repeat(len(best) // len(is_head))  # for each intent

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return NDCG in the column of the query's part; neither applies where all queries are asked alike."""
        online = ndcg(dcg(rounds.grades[:, :, :CUTOFF]), self.ideal[rounds.query])
        if self.is_head is None:
            return {column.name: torch.full_like(online, torch.nan) for column in self.trace}
        is_head = self.is_head[rounds.query]
        return {
            "online_ndcg_head": online.masked_fill(~is_head, torch.nan),
            "online_ndcg_tail": online.masked_fill(is_head, torch.nan),
        }


class DynamicRegret(Measure):
    """The sum over all rounds so far of 1 - NDCG@10 of the shown list; a query without a relevant document adds 0.

    Each round is compared with the best list by the labels of its own user (dynamic regret: Besbes, Gur and Zeevi,
    "Non-stationary stochastic optimization", Operations Research 2015), not with one ranker that is best on average.
    """

    trace = (Column("dynamic_regret", "dynamic regret", "Float64", "last", False, 1),)
    dynamic_regret: Tensor

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Compute the largest DCG of every training query."""
        self.ideal = dcg(best[:, :CUTOFF])
        start_at_zero(self, "dynamic_regret", context)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the sum after each round."""
        ideal = self.ideal[rounds.query]
        lacking = (1 - ndcg(dcg(rounds.grades[:, :, :CUTOFF]), ideal)) * (ideal > 0)
        return {"dynamic_regret": add_up(self, "dynamic_regret", lacking)}


class Regret(Measure):
    """Kendall's tau distance of the served order of all documents to the best one, ties free.

    It needs the order of all documents, also of those that are not shown, which costs a tenth of a round or more.
    """

    trace = (TRACE_COLUMNS["regret"],)
    needs_order = needs_reasons = True

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Allocate room for the labels of whole lists."""
        self.grades = context.grades
        shape = context.measured_rounds, context.replicas, context.documents
        self.labels = torch.zeros(shape, dtype=torch.int8, device=context.device)

    def record(self, row: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Keep the labels in the order of the list."""
        self.labels[row, :, : labels.shape[1]] = labels.gather(1, interaction.order)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the number of misordered pairs: of documents above with a grade, and below with a higher one."""
        labels = self.labels[: len(rounds.query), :, None].long()  # [R B 1 D]
        lower = torch.arange(self.grades - 1, device=labels.device)[:, None]
        pairs = ((labels == lower).cumsum(3) * (labels > lower)).sum((2, 3))
        self.labels.zero_()  # the next lists may be shorter and leave places, which must have label 0
        return {"regret": pairs}


class ClickThroughRate(Measure):
    """The share of the shown documents that are clicked."""

    trace = (Column("ctr", "click-through rate", higher_is_better=True),)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return clicks divided by shown documents."""
        return {"ctr": rounds.clicks.sum(2) / rounds.shown.sum(2)}


class TimeToFirstClick(Measure):
    """The rank of the first click from the top. A simulated user has no clock, so that time is counted in documents.

    It does not apply to a round without a click. Radlinski, Kurup and Joachims, "How does clickthrough data reflect
    retrieval quality?" (CIKM 2008).
    """

    trace = (Column("time_to_first_click", "time to first click", higher_is_better=False, digits=2),)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the rank of the first clicked place, NaN without one."""
        rank = 1 + rounds.clicks.int().argmax(2)
        return {"time_to_first_click": torch.where(rounds.clicks.any(2), rank.double(), torch.nan)}


class Clicks(Measure):
    """What kind of user was simulated: clicks of a page, whether it has one or several, and the click at each place.

    Means over rounds are clicks a page, shares of pages, and click rates of the first ten places, which do not apply
    where fewer documents are shown.
    """

    trace = (
        Column("page_clicks", "clicks a page", digits=3),
        Column("any_click", "pages with a click", digits=3),
        Column("several_clicks", "pages with several", digits=3),
        *(Column(f"ctr_{rank}", f"click rate at {rank}", digits=3) for rank in range(1, CUTOFF + 1)),
    )

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the number of clicks, 0 or 1 for pages and places, and NaN where nothing is shown."""
        clicks = rounds.clicks.sum(2).double()
        by_place = rounds.clicks.double().masked_fill(~rounds.shown, torch.nan)[..., :CUTOFF].unbind(2)
        pages = clicks, (clicks > 0).double(), (clicks > 1).double(), *by_place
        return dict(zip((column.name for column in self.trace), pages, strict=False))


class ExpectedClicks(Measure):
    """The clicks that the simulated user makes on average on the shown list, which one page does not show.

    It does not apply to users of attractions by document, and to click models that do not tell their rates.
    """

    trace = (Column("expected_clicks", "expected clicks a page", "Float64", digits=3),)

    def setup(self, context: RunContext, best: Int[Tensor, "Q K"]) -> None:
        """Keep the user, in a tuple, because his state is not that of this measure."""
        self.users = () if context.attraction is not None or context.user is None else (context.user,)

    def of_rounds(self, rounds: Rounds) -> dict[str, Tensor]:
        """Return the sum of the click rates of the shown places, NaN where they are not known."""
        rates = self.users[0].click_rates(rounds.grades.flatten(0, 1).long()) if self.users else None
        if rates is None:
            return {"expected_clicks": torch.full(rounds.query.shape, torch.nan, dtype=torch.float64)}
        return {"expected_clicks": (rates * rounds.shown.flatten(0, 1)).sum(1).unflatten(0, rounds.query.shape)}
