"""Feedback that ranker and exploration learn from later than it is given: from several rounds at once, or some rounds
late, as where clicks are collected before a model is trained (`update_every`, `delay` of configs/run.yaml)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from torch import Tensor, nn

from ol2r_cli.interfaces import Candidates, Exploration, Interaction, Prediction, Preferences, Proposal, Ranker, Tangent
from ol2r_cli.tensor.streams import Streams


class LateFeedback(nn.Module):
    """Rounds that wait for `ranker` and `exploration` to learn from them, in the order in which they were played.

    After every round whose number is a multiple of `every`, those are due that were played `delay` rounds ago or
    earlier. Until then the roles do not change. What waits is in the state, without features, which `serve` has: it
    returns the candidates of a query [B] of so many documents. A tangent is computed again; that of a network from the
    parameters that served the round. ValueError for a role that cannot learn late.
    """

    ranker: Any

    def __init__(
        self,
        every: int,
        delay: int,
        ranker: Ranker,
        exploration: Exploration,
        streams: Streams,
        serve: Callable[[Tensor, int], Candidates],
    ):
        super().__init__()
        for role in (ranker, exploration):
            if not role.learns_late:
                cannot = f"{role.group} {type(role).__name__} with its settings cannot learn late"
                raise ValueError(f"update_every and delay must be 1 and 0, got {every} and {delay}: the {cannot}")
        self.every, self.delay, self.streams, self.serve = every, delay, streams, serve
        object.__setattr__(self, "ranker", ranker)  # not as a submodule: its state is in that of the simulation
        self.network: Any = None if ranker.linear else getattr(ranker, "model", None)
        self.serving: Tensor | None = None  # the parameters of a network, once for all rounds that they serve
        # Of each round its number, from 0, and the tensors of each record by field.
        self.waiting: deque[tuple[int, dict[str, dict[str, Tensor]]]] = deque()

    def add(self, t: int, interaction: Interaction) -> None:
        """Keep round `t`."""
        served = {"query": interaction.candidates.query}
        if self.network is not None:
            self.serving = self.ranker.weights().clone() if self.serving is None else self.serving
            served["parameters"] = self.serving
        records = {
            "interaction": interaction,
            "prediction": interaction.prediction,
            "proposal": interaction.proposal,
            "preferences": interaction.preferences,
        }
        kept = {name: tensors_of(record) for name, record in records.items()}
        self.waiting.append((t, {"served": served, **kept}))

    def due(self, t: int) -> Iterator[tuple[int, Interaction]]:
        """Yield the rounds to learn from after round `t`, by number."""
        while (t + 1) % self.every == 0 and self.waiting and self.waiting[0][0] <= t - self.delay:
            self.serving = None
            played, kept = self.waiting.popleft()
            yield played, self._interaction(played, kept)

    def _interaction(self, played: int, kept: dict[str, dict[str, Tensor]]) -> Interaction:
        served = kept["served"]
        candidates = self.serve(served["query"], kept["prediction"]["scores"].shape[2])

        @cache
        def tangent() -> Tangent:
            if self.network is None:  # that of a linear score depends on features alone
                random = self.streams.at("judge", played)
                tangent: Tangent = self.ranker.predict(candidates, random).tangent()
            else:
                tangent = self.network.forward(served["parameters"], candidates.features).tangent()
            return tangent

        return Interaction(
            candidates,
            Prediction(**kept["prediction"], tangent=tangent),
            Proposal(**kept["proposal"]),
            preferences=Preferences(**kept["preferences"]),
            **kept["interaction"],
        )

    def get_extra_state(self) -> list[Any]:
        return list(self.waiting)

    def set_extra_state(self, state: list[Any]) -> None:
        device = self.streams.device
        self.waiting = deque(
            (t, {name: {field: value.to(device) for field, value in record.items()} for name, record in kept.items()})
            for t, kept in state
        )


def tensors_of(record: Any) -> dict[str, Tensor]:
    """Return the fields of a record that are tensors."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
