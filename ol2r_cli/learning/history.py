"""Histories of a run: buffers with room for every round, and how old entries are forgotten: a sliding window, or a
discount (SW-UCB and D-UCB, Garivier and Moulines, ALT 2011; D-LinUCB, Russac, Vernade and Cappé, NeurIPS 2019)."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
from ol2r_cli.interfaces import Forgetting, Preferences, Ranker, RunContext
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int

Discount = Annotated[float, Range(0, 1, open_below=True)]  # factor by which pairs count less every round


def forgetting_of(ranker: Ranker, window: int | None, discount: float) -> Forgetting:
    """Return what a ranker with these settings forgets; ValueError where both are set."""
    if window is not None and discount < 1:
        raise ValueError(
            f"{ranker.setting('discount')} must be 1 with {ranker.setting('window')}={window}, got {discount}"
        )
    return Forgetting(window, float(discount))


def check_forgets_nothing(ranker: Ranker, name: str, allowed: str, value: str) -> None:
    """Raise ValueError if a ranker forgets, which it cannot with this value of a setting."""
    if ranker.forgetting != Forgetting():
        forgetting = f"{ranker.setting('window')} or {ranker.setting('discount')}"
        raise ValueError(f"{ranker.setting(name)} must be {allowed} with {forgetting}, got {value}")


class CountedBuffer(nn.Module):
    """A buffer of every round, in which replica b owns the first `count`[b] entries.

    `mass`[b] is what they weigh together: with forgetting (`RunContext.forgetting`) those before `first`[b] no longer
    count, and the others by age. Then `pass_round` must follow the entries of every round.
    """

    count: Tensor
    born: Tensor  # [B, capacity + 1]: the round of each entry, from 0
    first: Tensor
    mass: Tensor
    rounds: Tensor
    replica: Tensor  # 0 .. B - 1 as a column, to index the buffers
    capacity: int
    per_round: int

    def reserve(self, context: RunContext, capacity: int, per_round: int) -> None:
        """Start without entries; a round adds `per_round` of them at most."""
        self.capacity, self.per_round = capacity, per_round
        self.register_buffer("count", torch.zeros(context.replicas, dtype=torch.int64, device=context.device))
        self.replica = torch.arange(context.replicas, device=context.device)[:, None]
        self.forgetting, self.dtype = context.forgetting, context.dtype
        self.forgets = context.forgetting != Forgetting()
        self.register_buffer("first", torch.zeros_like(self.count))
        self.register_buffer("rounds", torch.zeros((), dtype=torch.int64))
        if not self.forgets:
            self.mass = self.count
            return
        self.register_entries("born", torch.int32)
        whole = context.forgetting.discount == 1
        self.register_buffer("mass", torch.zeros_like(self.count, dtype=torch.int64 if whole else torch.float64))

    def register_entries(self, name: str, dtype: torch.dtype, *shape: int, fill: int = 0) -> None:
        """Register a buffer [B, capacity + 1, *shape], whose last entry takes what is not to be kept."""
        size = len(self.count), self.capacity + 1, *shape
        self.register_buffer(name, torch.full(size, fill, dtype=dtype, device=self.count.device))

    def pass_round(self, valid: Bool[Tensor, "B M"]) -> None:
        """Note that the latest entries, one for each `valid`, are those of a new round, and drop what has become too
        old: `dropped` [B] entries before `first`."""
        reach, now = self.forgetting.reach, int(self.rounds)
        assert reach is not None
        new, places = valid.sum(1), cached_arange(self.per_round, self.count.device)
        index = (self.count - new)[:, None] + valid.cumsum(1) - 1
        # A number that is put at indices would be copied to a GPU, which waits for it.
        self.born[self.replica, torch.where(valid, index, self.capacity)] = torch.full_like(index, now).int()
        oldest = (self.first[:, None] + places).clamp(max=self.capacity)  # entries of one round leave at most
        self.dropped = ((now - self.born[self.replica, oldest] >= reach) & (oldest < self.count[:, None])).sum(1)
        self.first += self.dropped
        if self.forgetting.discount == 1:
            self.mass.copy_(self.count - self.first)
        else:  # what is dropped weighs nothing to speak of, unless nothing else is there
            self.mass.mul_(self.forgetting.discount).add_(new).mul_(self.first < self.count)
        self.rounds += 1

    def changed(self) -> Bool[Tensor, "B"]:
        """Return the replicas in which the latest round has made entries count less, whatever it has added."""
        return self.dropped > 0 if self.forgetting.discount == 1 else self.count > 0

    def weights(self, replica: int | slice | Tensor, entries: slice | Tensor) -> Float[Tensor, "*S n"]:
        """Return the weights of some entries that were kept, by age; where the run forgets."""
        age = int(self.rounds) - 1 - self.born[replica, entries]
        return self.forgetting.weights(age).to(self.dtype)


class PairLog(CountedBuffer):
    """Keeps pairs (winner, loser) as document numbers."""

    pairs: Tensor
    rows: Tensor  # their feature differences [B, capacity + 1, F] in double precision, or no rows

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], per_round: int) -> None:
        """Reserve room for the whole run; memory that no round has used yet is not touched."""
        self.features = features.to(context.device)
        # Every replica's entries begin at a multiple of 64 bytes. Sums of products differ in the last bit with where
        # their terms begin: otherwise the first rounds of a run would depend on how many there will be.
        self.reserve(context, -(-(context.rounds * per_round + 1) // 16) * 16 - 1, per_round)
        self.register_entries("pairs", torch.int32, 2)
        self.rows = torch.zeros(context.replicas, 0, context.features, dtype=torch.float64, device=context.device)

    def remember(
        self, document: Int[Tensor, "B D"], preferences: Preferences, differences: Float[Tensor, "B M F"]
    ) -> None:
        """Keep one round's pairs, which compare the candidates with these document numbers; where there are rows, also
        their feature differences."""
        of_round = preferences.winner, preferences.loser, preferences.valid, differences
        kept = self.count, self.pairs, self.rows
        loops.launch.launch(loops.single.append_pairs, len(self.count), 0, document, *of_round, *kept)
        if self.forgets:
            self.pass_round(preferences.valid)


class PairHistory(PairLog):
    """Keeps pairs and their rows, which are not part of the state: they are computed again after the pairs have been
    loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_post_hook(_rebuild)

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], per_round: int) -> None:
        super().setup(context, features, per_round)
        self.dtype = torch.float64
        # On a GPU, whose memory they would fill, loops compute rows again. Tensors read them where pairs are forgotten.
        if context.device.type == "cpu" or self.forgets:
            self.rows = self.rows.new_zeros(context.replicas, self.capacity + 1, context.features)


def _rebuild(history: PairHistory, _: object) -> None:
    """Fill `rows` again after the pairs have been loaded. A bound method as hook would make the module hold itself."""
    if not history.rows.shape[1]:
        return
    for rows, pairs, count in zip(history.rows, history.pairs.long(), history.count.tolist(), strict=True):
        winner, loser = history.features[pairs[:count, 0]], history.features[pairs[:count, 1]]
        rows[:count] = winner.to(rows.dtype) - loser.to(rows.dtype)
