"""Certain pairs by the whole covariance matrix of a network's tangents, exactly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ol2r_cli.exploration.survey import Pairs, Survey
from ol2r_cli.host import on_host
from ol2r_cli.interfaces import Preferences, Sizes
from ol2r_cli.learning.covariance import FullCovariance
from ol2r_cli.learning.dual import Solution
from ol2r_cli.learning.kernel import Layers, chosen, joined, layers_of, rows, squared_distances
from ol2r_cli.learning.tangent import LayeredTangent
from ol2r_cli.rows import places
from ol2r_cli.shapes import Bool, Int


class FullTangents:
    """A itself. On a CPU every replica has its own, of its own pairs; on a GPU they are in step, as one batch."""

    def __init__(self, l2: float, sizes: Sizes, dtype: torch.dtype):
        self.l2, self.sizes, self.dtype, self.device = l2, sizes, dtype, sizes.device
        self.in_step = not on_host(torch.empty(0, device=sizes.device))
        self.parts: list[FullCovariance] = []
        self.solved: dict[int, tuple[Solution, Tensor]] = {}  # by part: what was asked last, and in which order

    def begin(self, tangent: LayeredTangent, pairs: Pairs | None) -> None:
        """Start with nothing in the first round."""
        self.layers, self.solved = layers_of(tangent.factors, self.dtype), {}
        self.pairs = None if pairs is None else (layers_of(pairs[0].factors, self.dtype), pairs[1])
        if not self.parts:
            self.parts = self._parts()

    def certain(self, some: Tensor | slice, order: Int[Tensor, "b d"], survey: Survey) -> Bool[Tensor, "b s s"]:
        """Each part by itself; what one needs less of than another ranks below what it needs, like padding."""
        layers = chosen(rows(self.layers, some, slice(order.shape[1])), order)
        if self.in_step:
            return self._ask(0, slice(None), layers, order, survey)
        found = []
        for place, replica in enumerate(torch.arange(len(self.parts))[some].tolist()):
            own = slice(place, place + 1)
            found.append(self._ask(replica, slice(replica, replica + 1), rows(layers, own), order[own], survey.of(own)))
        return found[0] if len(found) == 1 else _stacked(found)

    def _ask(
        self, part: int, replicas: slice, layers: Layers, order: Int[Tensor, "b d"], survey: Survey
    ) -> Bool[Tensor, "b s s"]:
        """Of one part; pairs that wait to be added come along as the first documents."""
        first, waiting = 0, self._waiting(replicas)
        if waiting is not None:
            first, layers = 2 * waiting[1].shape[1], joined([waiting[0], layers])

        def narrow(residual: Tensor) -> int:
            return survey.kept(squared_distances(residual).div_(self.l2))

        solved = self.parts[part].solve(layers, None if survey.positions is None else narrow, first)
        if waiting is not None:
            pair = places(first // 2, order.device).expand(len(order), -1) * 2
            self.parts[part].append(solved, pair, pair + 1, waiting[1])
        else:
            self.solved[part] = solved, order
        return survey.certain(squared_distances(solved.residual[:, first:, first:]).div_(self.l2))

    def _waiting(self, replicas: slice) -> tuple[Layers, Tensor] | None:
        """Pairs of the round before; without those that do not count where replicas are on their own."""
        if self.pairs is None:
            return None
        layers, valid = rows(self.pairs[0], replicas), self.pairs[1][replicas]
        if not self.in_step:
            index = valid.repeat_interleave(2, 1)[0].nonzero()[:, 0]
            layers, valid = chosen(layers, index[None]), valid[valid][None]
        return (layers, valid) if valid.shape[1] else None

    def learn(self, preferences: Preferences) -> None:
        """Add pairs of documents that have been asked about: that costs next to nothing."""
        for part, (solved, order) in self.solved.items():
            own = slice(None) if self.in_step else slice(part, part + 1)
            winner, loser, valid = preferences.winner[own], preferences.loser[own], preferences.valid[own]
            if not self.in_step:
                winner, loser, valid = winner[valid][None], loser[valid][None], valid[valid][None]
            if not valid.shape[1]:
                continue
            rank = torch.empty_like(order).scatter_(1, order, places(order.shape[1], order.device).expand_as(order))
            last = solved.residual.shape[1] - 1  # what does not count may be anywhere
            self.parts[part].append(
                solved, rank.gather(1, winner).clamp_(max=last), rank.gather(1, loser).clamp_(max=last), valid
            )

    def state(self) -> list[Any]:
        """Of every replica its history."""
        replicas = range(self.sizes.replicas if self.parts else 0)
        return [self.parts[0].state(b) if self.in_step else self.parts[b].state(0) for b in replicas]

    def restore(self, state: list[Any]) -> None:
        """Take over a history; the rest is computed anew."""
        self.parts = self._parts() if state else []
        for part, covariance in enumerate(self.parts):
            covariance.restore(state if self.in_step else state[part : part + 1], self.device)

    def _parts(self) -> list[FullCovariance]:
        return [FullCovariance(self.l2) for _ in range(1 if self.in_step else self.sizes.replicas)]


def _stacked(found: list[Tensor]) -> Bool[Tensor, "b s s"]:
    """Certain pairs of several replicas, of the same number of documents: what is added ranks certainly below."""
    most = max(certain.shape[1] for certain in found)
    table = torch.ones(most, most, dtype=torch.bool).triu_(1).repeat(len(found), 1, 1)
    for own, certain in zip(table, found, strict=True):
        own[: certain.shape[1], : certain.shape[1]] = certain[0]
    return table
