"""Feedback that ranker and exploration learn from later than it is given: from several rounds at once, or some rounds
late, as where clicks are collected before a model is trained (`update_every`, `delay` of configs/run.yaml)."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli.interfaces import Candidates, Exploration, Interaction, Prediction, Preferences, Proposal, Ranker, Tangent
from ol2r_cli.tensor.streams import Streams

_RECORDS = {"prediction": Prediction, "proposal": Proposal, "preferences": Preferences}
_OWN = ("order", "ranking", "shown", "clicks")  # tensors of an interaction itself


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
        self.waiting: deque[dict[str, Any]] = deque()
        self._weights: Tensor | None = None  # of a network, as they serve

    def add(self, t: int, interaction: Interaction) -> None:
        """Keep round `t`, from 0."""
        kept: dict[str, Any] = {"round": t, "query": interaction.candidates.query}
        if self._model() is not None and self._weights is None:
            self._weights = self.ranker.weights().clone()
        kept |= {"weights": self._weights} | {name: getattr(interaction, name) for name in _OWN}
        for name, record in _RECORDS.items():
            values = getattr(interaction, name)
            fields = {field.name: getattr(values, field.name) for field in dataclasses.fields(record)}
            kept[name] = {field: value for field, value in fields.items() if isinstance(value, Tensor)}
        self.waiting.append(kept)

    def due(self, t: int) -> Iterator[tuple[int, Interaction]]:
        """Yield the rounds to learn from after round `t`, by number."""
        if (t + 1) % self.every:
            return
        while self.waiting and self.waiting[0]["round"] <= t - self.delay:
            self._weights = None
            kept = self.waiting.popleft()
            yield kept["round"], self._interaction(kept)

    def _model(self) -> Any:
        return None if self.ranker.linear else getattr(self.ranker, "model", None)

    def _interaction(self, kept: Mapping[str, Any]) -> Interaction:
        candidates = self.serve(kept["query"], kept["prediction"]["scores"].shape[2])

        def tangent() -> Tangent:
            if not tangents:
                model, random = self._model(), self.streams.at("judge", kept["round"])
                served = model and model.forward(kept["weights"], candidates.features)
                tangents.append((served or self.ranker.predict(candidates, random)).tangent())
            return tangents[0]

        tangents: list[Tangent] = []
        prediction, proposal = Prediction(**kept["prediction"], tangent=tangent), Proposal(**kept["proposal"])
        own, preferences = {name: kept[name] for name in _OWN}, Preferences(**kept["preferences"])
        return Interaction(candidates, prediction, proposal, preferences=preferences, **own)

    def get_extra_state(self) -> dict[str, Any]:
        return {"waiting": list(self.waiting), "weights": self._weights}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        moved = _to(state, self.streams.device)
        self.waiting, self._weights = deque(moved["waiting"]), moved["weights"]


def _to(value: Any, device: torch.device) -> Any:
    """Return nested containers with their tensors on a device."""
    if isinstance(value, dict):
        return {name: _to(each, device) for name, each in value.items()}
    if isinstance(value, list):
        return [_to(each, device) for each in value]
    return value.to(device) if isinstance(value, Tensor) else value
