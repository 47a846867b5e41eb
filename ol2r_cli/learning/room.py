"""Room for the rounds of a run, in which the history of a shorter run finds its place when it is loaded."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from torch import nn


class ByRound(nn.Module):
    """Keeps something of every round: the buffers named in `by_round` are [B, places + 1, ..], and the last place takes
    what a round does not use.

    A state with fewer places is that of a run of fewer rounds. It is taken over by a module that has just been set up
    for more: what has been kept stays in front, the shorter run's last place is left out, and the rest is as allocated.
    """

    by_round: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_pre_hook(_make_room)


def aligned(places: int) -> int:
    """At least so many places that every replica's begin at a multiple of 64 bytes.

    Sums of products differ in the last bit with where their terms begin: without this, the first rounds of a run would
    depend on how many there will be.
    """
    return -(-places // 16) * 16


def _make_room(module: ByRound, state: MutableMapping[str, Any], prefix: str, *_: object) -> None:
    """Not a method: the hook would make the module hold itself. What fits in no other axis is left to be refused."""
    for name in module.by_round:
        own, saved = getattr(module, name), state.get(prefix + name)
        if saved is None or own[:, :0].shape != saved[:, :0].shape or saved.shape[1] >= own.shape[1]:
            continue
        own[:, : saved.shape[1] - 1] = saved[:, :-1]
        state[prefix + name] = own
