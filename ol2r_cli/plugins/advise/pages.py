"""What users of a world click on given pages: the click models of runs, on lists that are not served but given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.interfaces import ClickModel, RunContext
from ol2r_cli.plugins.advise.worlds import GRID, WorldUser
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Streams

_AT_ONCE = 20_000  # pages


class SimulatedUser(NamedTuple):
    """A choice of the group `click`, and its settings; `click` has a number for each grade."""

    choice: str
    settings: Mapping[str, Any]

    def words(self) -> list[str]:
        """Return the words by which runs have this user."""
        typed = [f"click.{name}={as_typed(value)}" for name, value in self.settings.items()]
        return [f"click={self.choice}", *typed]

    def model(self, places: int) -> ClickModel:
        """Return the click model for lists of so many places, on a CPU."""
        choice = Catalogue().choices["click"][self.choice]
        user: ClickModel = build({"_target_": choice.content["_target_"], **choice.values, **self.settings}, "click")
        user.setup(
            RunContext(
                replicas=1,
                documents=places,
                features=1,
                positions=places,
                queries=1,
                rounds=1,
                grades=len(self.settings["click"]),
            ),
            torch.zeros(1, 1),
        )
        return user


def simulated_user(user: WorldUser) -> SimulatedUser:
    """Return a user of a world, whose attraction by grade g is GRID[g]."""
    click, values = GRID.round(6).tolist(), np.clip(user.values, 0, 1)
    if user.kind == "dbn":
        goes_on = float(values[0, 0].round(6))
        stop = np.clip(1 - values[1] / goes_on, 0, 1).round(6).tolist()
        return SimulatedUser("dynamic_bayesian", {"click": click, "stop": stop, "continuation": goes_on})
    if user.kind == "ubm":
        rows = [row[: rank + 1] for rank, row in enumerate(values.round(6).tolist())]
        return SimulatedUser("user_browsing", {"click": click, "examination": rows})
    return SimulatedUser("position_based", {"click": click, "examination": values.round(6).tolist()})


def expected(user: ClickModel, grades: Int[np.ndarray, "L K"]) -> Float[np.ndarray, "L"]:
    """Return the expected clicks on lists with these grades, -1 where a list has no document."""
    shown = grades >= 0
    rates = user.click_rates(torch.from_numpy(np.where(shown, grades, 0)))
    assert rates is not None
    return (rates.numpy() * shown).sum(1)


def simulated(user: ClickModel, grades: Int[np.ndarray, "L K"], seed: int) -> Bool[np.ndarray, "L K"]:
    """Return one draw of the clicks on each of these lists."""
    clicks = []
    for first in range(0, len(grades), _AT_ONCE):
        part = torch.from_numpy(grades[first : first + _AT_ONCE].astype(np.int64))
        streams = Streams(torch.arange(first, first + len(part)) + (seed << 32))
        shown = part >= 0
        clicks.append(user.click(part.clamp(min=0), shown, streams.at("click", 0)).numpy() & shown.numpy())
    return np.concatenate(clicks)


def ordered(score: Float[np.ndarray, "N"], offsets: Int[np.ndarray, "Q1"], places: int) -> Int[np.ndarray, "Q K"]:
    """Return the documents at the first places of each query by descending score, -1 behind the last one."""
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-score, query))
    place = np.arange(len(order)) - offsets[query]
    lists = np.full((len(offsets) - 1, places), -1)
    first = place < places
    lists[query[first], place[first]] = order[first]
    return lists


def grades_of(lists: Int[np.ndarray, "Q K"], grades: Int[np.ndarray, "N"]) -> Int[np.ndarray, "Q K"]:
    """Return the grades of the documents of lists, -1 where there is none."""
    return np.where(lists >= 0, grades[lists], -1)
