"""RankNet's loss over all preferences so far (Burges et al., ICML 2005; olRankNet, 2022, equation 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ol2r_cli.interfaces import Interaction
from ol2r_cli.learning.history import PairLog
from ol2r_cli.learning.refit import Sample
from ol2r_cli.random import Random
from ol2r_cli.shapes import Bool, Float, Int

GUARD = 10.0  # difference of scores beyond which label noise no longer pulls: else the loss has no lower bound


class RankNetLoss(PairLog):
    """Cross-entropies -log sigma(s_winner - s_loser), each with the label 1, or 1 + noise where `noise` is given.

    `noise` maps pairs [B X], by their number in the history, to label noise [B N X].
    """

    chunk = 4096  # pairs worked on at once when the whole history is
    noise: Callable[[Tensor], Tensor] | None = None

    @property
    def total(self) -> Int[Tensor, "B"]:
        """Number of pairs."""
        return self.count

    def append(self, interaction: Interaction) -> Bool[Tensor, "B"]:
        """Remember the round's preferences; says where there were any."""
        self.remember(interaction.candidates.document, interaction.preferences)
        return interaction.preferences.valid.any(1)

    def draw(self, random: Random, size: int, steps: int) -> Iterator[Sample]:
        """For each step `size` pairs of the history, each of them any with the same probability."""
        chance = random.uniform(size * steps, "batch")
        for part in chance.split(size, dim=1):
            yield self._sample((part * self.count[:, None]).long())

    def whole(self, rounds: int | None = None) -> Iterator[Sample]:
        """The whole history, in parts; who says how many rounds that is need not ask a GPU."""
        most = self.most(rounds)
        for start in range(0, most, self.chunk):
            index = torch.arange(start, min(start + self.chunk, most), device=self.count.device)
            yield self._sample(index.expand(len(self.count), -1))

    def _sample(self, index: Int[Tensor, "B X"]) -> Sample:
        valid = (index < self.count[:, None])[:, None]
        document = self.pairs[self.replica, index].mT.flatten(1)

        def pull(scores: Float[Tensor, "B N Y"]) -> Float[Tensor, "B N Y"]:
            won, lost = scores.tensor_split(2, dim=2)
            margin = won - lost
            push = torch.sigmoid(-margin)
            if self.noise is not None:
                push = push + self.noise(index) * (margin.abs() < GUARD)
            push = push * valid
            return torch.cat([push, -push], dim=2)

        return Sample(document, pull, valid.sum((1, 2)).to(torch.float32))
