"""Feedback that ranker and exploration learn from later than it is given: from several rounds at once, or some rounds
late, as where clicks are collected before a model is trained (`update_every`, `delay` of configs/run.yaml)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import fields
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
        self.waiting: deque[tuple[int, dict[str, Tensor]]] = deque()  # round, from 0, and what is kept of it

    def add(self, t: int, interaction: Interaction) -> None:
        """Keep round `t`."""
        kept = {"query": interaction.candidates.query}
        if self.network is not None:
            self.serving = self.ranker.weights().clone() if self.serving is None else self.serving
            kept["serving"] = self.serving
        for record in ("", "prediction", "proposal", "preferences"):
            values: Any = getattr(interaction, record) if record else interaction
            given = {f"{record}.{field.name}": getattr(values, field.name) for field in fields(values)}
            kept |= {name: value for name, value in given.items() if isinstance(value, Tensor)}
        self.waiting.append((t, kept))

    def due(self, t: int) -> Iterator[tuple[int, Interaction]]:
        """Yield the rounds to learn from after round `t`, by number."""
        while (t + 1) % self.every == 0 and self.waiting and self.waiting[0][0] <= t - self.delay:
            self.serving = None
            played, kept = self.waiting.popleft()
            yield played, self._interaction(played, kept)

    def _interaction(self, played: int, kept: dict[str, Tensor]) -> Interaction:
        candidates, tangents = self.serve(kept["query"], kept["prediction.scores"].shape[2]), list[Tangent]()

        def of(record: str) -> dict[str, Any]:
            return {name.partition(".")[2]: value for name, value in kept.items() if name.startswith(f"{record}.")}

        def tangent() -> Tangent:
            if not tangents and self.network is None:  # that of a linear score depends on features alone
                tangents.append(self.ranker.predict(candidates, self.streams.at("judge", played)).tangent())
            elif not tangents:
                tangents.append(self.network.forward(kept["serving"], candidates.features).tangent())
            return tangents[0]

        prediction, proposal = Prediction(**of("prediction"), tangent=tangent), Proposal(**of("proposal"))
        preferences = Preferences(**of("preferences"))
        return Interaction(candidates, prediction, proposal, preferences=preferences, **of(""))

    def get_extra_state(self) -> list[Any]:
        return list(self.waiting)

    def set_extra_state(self, state: list[Any]) -> None:
        device = self.streams.device
        self.waiting = deque((t, {name: value.to(device) for name, value in kept.items()}) for t, kept in state)
