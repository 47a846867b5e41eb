"""Offline evaluation: measures of deployed rankers. Many snapshots of a run are scored together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ol2r_cli.dataset.table import Dataset, Split
from ol2r_cli.interfaces import Candidates, Measure, RankedLists, Ranker
from ol2r_cli.metrics.measurement import check_shape
from ol2r_cli.metrics.ranking import ideal_lists
from ol2r_cli.stages import other_method
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Streams

GROUP = 4_000  # largest number of documents, with padding, in a group of queries, so that it fits a cache
ON_GPU = 2**27  # documents x replicas of a group on a GPU, which is fast where it has much to do at once
PADDING = torch.finfo(torch.float32).min  # below every score; its last bits are 0, which means label 0
CACHED = {"cpu": 2**18, "cuda": 2**26}  # labels that are measured at once, so that they fit a cache
LARGEST = torch.finfo(torch.float32).max
TINY = 2.0**-1000  # the key of 0.0 and -0.0: 0.0 with a tail would be subnormal, which some processes take as 0


class ScoresOverflow(ValueError):
    """Scores leave the range of single precision, in which they are compared. `replicas` has those that do."""

    def __init__(self, split: str, replicas: list[int]):
        self.split, self.replicas = split, replicas
        super().__init__(
            f"scores of {split} queries must be finite in single precision (below 3.4e38), got larger ones or NaN: "
            "features must be smaller, for example with dataset.normalise=query_minmax"
        )


def is_evaluated(round: int, every: int, spacing: str) -> bool:
    """Return whether a round from 1 on is one of the regular evaluations.

    Those are every `every` rounds, or, if `spacing` is `log`, ten in each power of ten: the rounds nearest to
    10^(k / 10) for whole numbers k.
    """
    nearest = 10 ** (math.floor(10 * math.log10(round) + 0.5) / 10)
    return round == int(nearest + 0.5) if spacing == "log" else round % every == 0


class Lists(NamedTuple):
    """Queries of a split and their documents in the order of a deployed ranker, with the evaluation's tie breaks."""

    query: Int[Tensor, "Q"]  # numbers within the split
    length: Int[Tensor, "Q"]  # number of documents; padding follows them
    document: Int[Tensor, "B Q D"]  # rows of the document table, best first
    score: Float[Tensor, "B Q D"]
    label: Int[Tensor, "B Q D"]


class _Groups(NamedTuple):
    """The queries of a split in groups of similar length: their numbers, and each group as it is served, None where all
    are too large to stay in memory. `tables` are those of `_table`, if loops score by them. Runs share them, so that
    each needs memory and time for its tie breaks only."""

    numbers: list[Int[Tensor, "Q"]]
    served: list[tuple[Candidates, Tensor]] | None
    tables: list[tuple[Float[Tensor, "N F"], float]]


def groups_by_length(split: Split, at_once: int) -> list[Int[Tensor, "Q"]]:
    """Return the numbers of the queries of a split in groups of similar length, of at most so many documents."""
    by_length = split.length.argsort(stable=True)
    return [by_length[i] for i in _even_groups(split.length[by_length].tolist(), at_once)]


def _groups_of(split: Split, at_once: int, cached_bytes: int, with_tables: bool) -> _Groups:
    """Return the groups of a split, of at most so many documents."""
    numbers = groups_by_length(split, at_once)
    served = [split.serve(group) for group in numbers]
    size = sum(labels.numel() for _, labels in served) * split.features.shape[1] * split.dtype.itemsize
    if size > cached_bytes:
        return _Groups(numbers, None, [])
    return _Groups(numbers, served, [_table(split, candidates) for candidates, _ in served] if with_tables else [])


def _table(split: Split, candidates: Candidates) -> tuple[Float[Tensor, "N F"], float]:
    """Return the features of a group in single precision, row by row, and the norm of the longest row."""
    table = split.features.index_select(0, candidates.document.flatten())
    return table, float(table.norm(dim=1).max())


class Evaluator:
    """Computes the means of measures of deployed rankers over the queries of one split.

    `measures` are by name; those without a column of the evaluation are ignored, and without any other nothing is
    scored. Queries are served in groups of similar length, which keeps padding small. Ties are broken by a random
    number that is fixed per (seed, split, document), never by file order. `no_relevant` says how a query without a
    relevant document counts: `zero` as it is measured (NDCG 0), `skip` not at all.
    """

    cells = 4_000_000  # documents x snapshots scored at once
    cached_bytes = 2**29  # largest size of the features that stay in memory; a larger split is served for every call

    def __init__(
        self,
        dataset: Dataset,
        split: str,
        seeds: Int[Tensor, "B"],
        no_relevant: str,
        dtype: torch.dtype,
        measures: Mapping[str, Measure],
        compiled: bool = False,
    ):
        self.name, self.skips, self.compiled = split, no_relevant == "skip", compiled
        self.measures = {name: measure for name, measure in measures.items() if measure.evaluation}
        places = max((measure.places for measure in self.measures.values()), default=1)
        self.split: Split = dataset.split(split, seeds.device, dtype)
        self.replicas = len(seeds)
        at_once = GROUP if seeds.device.type == "cpu" else max(GROUP, ON_GPU // len(seeds))
        how = at_once, self.cached_bytes, compiled and dtype == torch.float64
        shared: _Groups = self.split.once(how, lambda: _groups_of(self.split, *how))
        self.groups, self.served, self.tables = shared
        of_split = *self.split.judged(), len(self.split)
        by_length = torch.cat(self.groups)
        self.best = ideal_lists(*of_split, min(places, self.split.longest))[by_length]  # [Q K] in the order of groups
        self.grades = dataset.grades
        self.label_bits = max(1, (dataset.grades - 1).bit_length())
        chance = Streams(seeds, ahead=1).uniform(f"evaluate/{split}", 0, int(self.split.length.sum()))
        first = self.split.length.cumsum(0) - self.split.length
        self.tails = []  # the last 29 bits of the keys [B Q D], which a float32 leaves empty
        for number, group in enumerate(self.groups):
            candidates, labels = self._serve(number)
            slot = torch.arange(labels.shape[1], device=labels.device)
            tie = chance[:, (first[group, None] + slot).clamp(max=chance.shape[1] - 1)]
            rank = tie.masked_fill(~candidates.mask, -1).argsort(2).argsort(2)  # in a random order, which breaks ties
            self.tails.append(rank << self.label_bits | labels)  # labels can then be read from the largest keys
        counted = self.best[:, 0] > 0
        if self.skips and not counted.any():
            raise ValueError(f"no query of the {split} split has a relevant document: use no_relevant=zero")
        self.counted = int(counted.sum()) if self.skips else len(counted)

    @property
    def columns(self) -> list[str]:
        """The columns of the evaluation."""
        return list(dict.fromkeys(column.name for measure in self.measures.values() for column in measure.evaluation))

    def __call__(
        self, ranker: Ranker, deployed: Float[Tensor, "E B P"], rounds: Sequence[int] = ()
    ) -> dict[str, Float[Tensor, "E B"]]:
        """Return the mean of every column of the evaluation for E snapshots of B replicas, by name.

        `rounds` are those after which the snapshots were taken; only `IntentEvaluator` needs them. ScoresOverflow for
        scores that are not finite in single precision.
        """
        columns = self.columns
        if not columns:
            return {}
        largest = max(self.best.numel(), max(tails[0].numel() for tails in self.tails))
        parts = deployed.split(max(1, self.cells // (largest * self.replicas)))
        means = torch.cat([self._means(self._first_labels(ranker, part)) for part in parts])
        return {name: means[..., place] for place, name in enumerate(columns)}

    def _serve(self, number: int) -> tuple[Candidates, Int[Tensor, "Q D"]]:
        """Return the queries of a group as they are served, with their labels."""
        return self.split.serve(self.groups[number]) if self.served is None else self.served[number]

    def _first_labels(self, ranker: Ranker, deployed: Float[Tensor, "E B P"]) -> Int[Tensor, "E B Q K"]:
        """Return the labels of the first places of every list."""
        top = torch.zeros(*deployed.shape[:2], *self.best.shape, dtype=torch.int8, device=deployed.device)
        first = 0
        for number, group in enumerate(self.groups):
            candidates, _ = self._serve(number)
            labels = self._top_labels(ranker, deployed, number, candidates)
            top[:, :, first : first + len(group), : labels.shape[3]] = labels
            first += len(group)
        return top

    def _means(self, top: Int[Tensor, "E B Q K"]) -> Float[Tensor, "E B C"]:
        """Return the mean of every column over lists with these first labels."""
        means = []
        for labels in top.flatten(0, 1).split(max(1, CACHED[top.device.type] // self.best.numel())):
            values = dict[str, Tensor]()
            for name, measure in self.measures.items():
                given = labels[..., : measure.places].long(), self.best[..., : measure.places]
                computed = measure.of_lists(RankedLists(*given, self.grades))
                for column in measure.evaluation:
                    check_shape(name, column.name, computed.get(column.name), labels.shape[:-1])
                    values[column.name] = computed[column.name]
            stacked = torch.stack([values[name] for name in self.columns], -1)
            means.append((stacked * (self.best[:, :1] > 0) if self.skips else stacked).sum(1) / self.counted)
        return torch.cat(means).unflatten(0, top.shape[:2])

    def _top_labels(
        self, ranker: Ranker, deployed: Float[Tensor, "E B P"], number: int, candidates: Candidates
    ) -> Int[Tensor, "E B Q K"]:
        """Return the labels of the first places of every list of one group; fewer places if its lists are shorter."""
        tails = self.tails[number]
        places = min(self.best.shape[1], tails.shape[2])
        if self.compiled:
            from ol2r_cli.metrics import evaluation_loops  # imports numba

            length = self.split.length[self.groups[number]]
            tensors = *self._single(ranker, deployed, number, candidates), tails
            arrays: list[Any] = [tensor.contiguous().numpy() for tensor in tensors]
            given: dict[str, Any] = {"label_bits": self.label_bits, "length": length.numpy(), "places": places}
            return torch.from_numpy(evaluation_loops.top_labels(*arrays, **given))
        scores = self._checked_scores(ranker, deployed, candidates)
        keys = _keys(scores, tails).masked_fill_(~candidates.mask, PADDING)
        return keys.topk(places, dim=-1).values.view(torch.int64) & ((1 << self.label_bits) - 1)

    def _single(
        self, ranker: Ranker, deployed: Float[Tensor, "E B P"], number: int, candidates: Candidates
    ) -> tuple[Float[Tensor, "E B Q D"], Float[Tensor, "E B"], Tensor, Tensor]:
        """Return what `top_labels` begins with: scores in single precision, how far they are at most from the rounded
        ones, and the weights [E, B, F] and features [Q, D, F] of which these are the products.

        Linear scores of double precision come from a product in single precision, which takes half the time. In any
        order, its sums of F products are off by less than about F u |w| |x| with u = 2^-24 (Higham, "Accuracy and
        Stability of Numerical Algorithms", 2002, section 3.1); rounding the weights and the sums adds u |w| |x| each.
        """
        features, shape = self.split.features.shape[1], candidates.mask.shape
        model = getattr(ranker, "model", None)
        own = other_method(ranker, "score") or (model is not None and other_method(model, "forward"))
        if not ranker.linear or own or deployed.shape[2] != features or deployed.dtype != torch.float64:
            scores = self._checked_scores(ranker, deployed, candidates).float()
            slack, nothing = torch.zeros(deployed.shape[:2], dtype=torch.float64), torch.empty(0, 0, 0)
            return scores, slack, nothing.double(), nothing
        table, longest = self.tables[number] if self.tables else _table(self.split, candidates)
        size = deployed.norm(dim=2)
        if not (size * longest < LARGEST).all():  # |w| |x| bounds all scores, and is NaN for 0 times infinity
            self._checked_scores(ranker, deployed, candidates)
        # Far from 1, where products may leave the range of single precision, nothing is known.
        usual = (size > 1e-10) & (size < 1e10) & (1e-10 < longest < 1e10)
        slack = torch.where(usual, (features + 8) * 2**-24 * longest * size, torch.inf).masked_fill(size == 0, 0)
        weights = deployed.where(usual[..., None], 0).float()
        scores = (weights.flatten(0, 1) @ table.T).view(*deployed.shape[:2], *shape)
        return scores, slack, deployed, table.view(*shape, features)

    def _checked_scores(
        self, ranker: Ranker, deployed: Float[Tensor, "E B P"], candidates: Candidates
    ) -> Float[Tensor, "E B Q D"]:
        """Return the scores; ScoresOverflow if one is not finite in single precision."""
        scores = ranker.score(deployed.flatten(0, 1), candidates).unflatten(0, deployed.shape[:2])
        bad = ~(scores.abs() <= LARGEST) & candidates.mask
        if bad.any():
            raise ScoresOverflow(self.name, bad.any(3).any(2).any(0).nonzero().flatten().tolist())
        return scores

    def lists(self, ranker: Ranker, deployed: Float[Tensor, "B P"]) -> Iterator[Lists]:
        """Yield the lists of one snapshot, group by group: those whose mean NDCG a call returns, with its error."""
        for number, group in enumerate(self.groups):
            candidates, labels = self._serve(number)
            scores = self._checked_scores(ranker, deployed[None], candidates)[0]
            keys = _keys(scores, self.tails[number]).masked_fill_(~candidates.mask, PADDING)
            order = keys.argsort(-1, descending=True)
            yield Lists(
                group,
                self.split.length[group],
                candidates.document.expand_as(order).gather(2, order),
                scores.gather(2, order),
                labels.expand_as(order).gather(2, order),
            )


class IntentEvaluator(Evaluator):
    """Measures a deployed ranker by what users want: labels are those of the intents at the time of the snapshot.

    A value is the mean over the users of the round after which the snapshot was taken (of the first round, for one
    before it): that of each intent, weighed by its share. `make` returns the evaluator of a dataset, `shares` the
    shares [1, I] of the intents in a round, which counts from 0.
    """

    def __init__(
        self, dataset: Dataset, make: Callable[[Dataset], Evaluator], shares: Callable[[int], Float[Tensor, "1 I"]]
    ):
        self.shares = shares
        self.of_intent = [make(dataset.judged_by(1 + intent)) for intent in range(shares(0).shape[1])]
        first = self.of_intent[0]
        self.name, self.measures, self.replicas = first.name, first.measures, first.replicas

    def __call__(
        self, ranker: Ranker, deployed: Float[Tensor, "E B P"], rounds: Sequence[int] = ()
    ) -> dict[str, Float[Tensor, "E B"]]:
        """Return the mean of every column of the evaluation for the intents of these rounds, which count from 1."""
        shares = torch.cat([self.shares(max(0, round - 1)) for round in rounds]).to(deployed.device)  # [E, I]
        total: dict[str, Float[Tensor, "E B"]] = {}
        zeros = torch.zeros(deployed.shape[:2], dtype=torch.float64, device=deployed.device)
        for intent, evaluator in enumerate(self.of_intent):
            wanted = (shares[:, intent] > 0).nonzero().flatten()
            if not len(wanted):
                continue
            for name, values in evaluator(ranker, deployed[wanted]).items():
                total.setdefault(name, zeros.clone())[wanted] += shares[wanted, intent, None] * values
        return total


def _keys(scores: Float[Tensor, "*S"], tails: Int[Tensor, "*T"]) -> Float[Tensor, "*S"]:
    """Return the scores rounded to float32, so that rounding errors are ties, with `tails` in the remaining bits."""
    return ((scores.float().double() + TINY).view(torch.int64) | tails).view(torch.float64)


def _even_groups(lengths: list[int], documents: int) -> Iterator[slice]:
    """Yield slices of ascending `lengths` in which the longest is at most an eighth plus 4 longer than the shortest,
    and that have at most so many documents, with padding."""
    start = 0
    for place, length in enumerate(lengths):
        if length > lengths[start] * 1.125 + 4 or (place - start) * length > documents:
            yield slice(start, place)
            start = place
    yield slice(start, len(lengths))
