"""The choices that are held to the laws: simulations of them, with everything checked that they return."""

from __future__ import annotations

import functools
import linecache
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.config.composer import Composition
from ol2r_cli.config.instantiate import build
from ol2r_cli.contracts.small_world import LISTS, ROUNDS, SEEDS, Lists, play, seen, simulation, small, world
from ol2r_cli.dataset.table import Dataset, DatasetSource
from ol2r_cli.formatting import plural
from ol2r_cli.interfaces import Candidates, Interaction, Prediction, Proposal
from ol2r_cli.simulation import Simulation

# A law is a function of a subject, named as it is reported, with blanks; its docstring says what it demands. It returns
# nothing if the subject keeps it, and raises `Broken` or `NotApplicable`, or what the code of the subject raises.
Law = Callable[["Subject"], None]
Fault = tuple[Tensor, str, Tensor]  # where it is, [B, ..], what must be, and what is, [B, ..]


class Broken(Exception):
    """Raised by a law that is broken: on which input, and what differs there."""

    def __init__(self, input: str, difference: str):
        super().__init__(f"{difference} ({input})")
        self.input, self.difference = input, difference


class Stopped(Broken):
    """Raised where a law cannot be checked to its end; others that need the same stop there, too."""


class NotApplicable(Exception):
    """Raised by a law that says nothing about a choice; the message says why."""


@dataclass(frozen=True)
class Played:
    """Rounds that were played: the simulation after them, the seed of each replica, and the labels of each query."""

    simulation: Simulation
    rounds: Sequence[Interaction]
    seeds: Sequence[int]
    lists: Lists = LISTS
    first: int = 1  # number of the first of the rounds

    def place(self, index: int, replica: int) -> str:
        """Return the input of one list: seed, round, query and labels, in words."""
        query = int(self.rounds[index].candidates.query[replica])
        documents = f"{plural(len(self.lists[query]), 'document')} of labels {_words(self.lists[query])}"
        return f"seed {self.seeds[replica]}, round {self.first + index}, query {query} with {documents}"

    def measures(self) -> Mapping[str, Tensor]:
        """Return the measures of the rounds that were played last, each [rounds, B]."""
        return self.simulation.measurement.measures()[1]


class Subject:
    """A composed configuration that is held to the laws.

    `groups` are those of its choices that are asked about. `folder` is for files, and removed after the check.
    """

    def __init__(self, composition: Composition, groups: Sequence[str], folder: Path):
        self.composition, self.groups, self.folder = composition, groups, folder
        self.config = small(composition.config)
        OmegaConf.set_readonly(self.config, False)
        self.config.output_dir = str(folder / "outputs")
        for name in ("cache_dir", "ranker.cache_dir"):
            if OmegaConf.select(self.config, name) is not None:
                OmegaConf.update(self.config, name, str(folder / "cache"))
        OmegaConf.set_readonly(self.config, True)
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self._world = ""
        self._running: Simulation | None = None

    def simulation(
        self, world_name: str = "the small world", lists: Lists = LISTS, seeds: Sequence[int] = SEEDS, **more: Any
    ) -> Simulation:
        """Return a simulation of the choices, ready for round 1; `more` is what `small_world.simulation` takes.

        It has the engine that a run on a CPU would have. NotApplicable if a role refuses the world with a ValueError of
        its own.
        """
        more.setdefault("loops", loops.available() and self.config.device.engine != "tensors")
        self._world, self._running = f"{world_name}, seeds {_words(seeds)}", None
        try:
            running = simulation(self.config, seeds=seeds, **{"dataset": world(lists)} | more)
        except ValueError as error:
            if is_refusal(error):
                raise NotApplicable(str(error)) from error
            raise
        # What the methods of roles return is checked at once, because another role would fail on it later.
        for group, (method, *_) in _RETURNED.items():
            role: Any = getattr(running, group)
            setattr(role, method, _checked(getattr(role, method), group))
        self._running = running
        return running

    def played(self, world_name: str = "the small world", rounds: int = ROUNDS, **more: Any) -> Played:
        """Return so many rounds of a new simulation; `more` is what `simulation` takes."""
        running = self.simulation(world_name, **more)
        return self.go_on(running, rounds, more.get("seeds", SEEDS), more.get("lists", LISTS))

    def go_on(
        self, running: Simulation, rounds: int = ROUNDS, seeds: Sequence[int] = SEEDS, lists: Lists = LISTS
    ) -> Played:
        """Return the next so many rounds of a simulation."""
        self._running, first = running, int(running.round) + 1
        return Played(running, play(running, rounds), seeds, lists, first)

    @functools.cached_property
    def ordinary(self) -> Played:
        """Return an ordinary run, which most laws look at."""
        return self.played()

    @functools.cached_property
    def ordinary_measures(self) -> Mapping[str, Tensor]:
        """Return the measures of the ordinary run."""
        return self.ordinary.measures()

    @functools.cached_property
    def dataset(self) -> Dataset:
        """Return the table of the chosen dataset, as it is with all its settings."""
        return load(self.composition.config.dataset)

    def situation(self) -> str:
        """Return where an exception was raised: the world, and the round or the set-up."""
        if not self._world:
            return f"dataset={self.composition.choices.get('dataset')}"
        where = "in the set-up" if self._running is None else f"round {int(self._running.round) + 1}"
        return f"{self._world}, {where}"


def load(node: DictConfig) -> Dataset:
    """Return the table of a dataset; ValueError for a bad setting, bad data, and a class without `load`."""
    source = build(node)
    if not isinstance(source, DatasetSource):
        raise ValueError(f"dataset._target_ must be a class with a method `load`, got {type(source).__name__}")
    return source.load()


def is_refusal(error: ValueError) -> bool:
    """Return whether a `raise` statement raised the error on purpose, not Python or numpy inside an expression."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise ")


def score_faults(one: Interaction) -> list[Fault]:
    """Return scores of documents that are not finite, or of padding that are NaN or above all."""
    scores, mask = one.prediction.scores, one.candidates.mask[:, None]
    bad = (mask & ~scores.isfinite()) | scores.isnan() | (scores == torch.inf)
    return [(bad, "the scores of documents must be finite, and those of padding numbers", scores)]


def order_faults(one: Interaction) -> list[Fault]:
    """Return orders in which a document is absent."""
    return [
        (orders.sort(1).values != torch.arange(orders.shape[1]), f"{name} must have every document once", orders)
        for name, orders in _orders(one).items()
    ]


def padding_faults(one: Interaction) -> list[Fault]:
    """Return orders with padding before a document."""
    mask, must = one.candidates.mask, "must have documents before padding, which has the higher numbers"
    return [(mask.gather(1, orders) != mask, f"{name} {must}", orders) for name, orders in _orders(one).items()]


def click_faults(one: Interaction) -> list[Fault]:
    """Return clicks on places that show nothing."""
    return [(one.clicks & ~one.shown, "clicks must be on the documents that are shown", one.clicks)]


def _orders(one: Interaction) -> dict[str, Tensor]:
    return {"the order that is proposed": one.proposal.order, "the order that is served": one.order}


def check_rounds(played: Played, *faults: Callable[[Interaction], list[Fault]], where: str = "") -> None:
    """Raise Broken at the first round that has one of the faults, or any fault. The input begins with `where`."""
    for index, one in enumerate(played.rounds):
        for find in faults or (score_faults, order_faults, padding_faults, click_faults):
            for bad, what, values in find(one):
                if bad.any():
                    replica = int(bad.nonzero()[0, 0])
                    raise Broken(where + played.place(index, replica), f"{what}, got {values[replica].tolist()}")


def check_same(found: Mapping[str, Any], expected: Mapping[str, Any], what: str, input: str) -> None:
    """Raise Broken unless two mappings, such as states, are equal to the last bit, with NaN in the same places."""
    try:
        torch.testing.assert_close(dict(found), dict(expected), rtol=0, atol=0, equal_nan=True)
    except AssertionError as error:
        raise Broken(input, f"the {what} differ: {' '.join(str(error).split())}") from None


def check_shown(
    found: Played, expected: Played, named: tuple[str, str], replicas: Sequence[tuple[int, int]] | None = None
) -> None:
    """Raise Broken at the first round in which two runs show other documents, or get other clicks.

    `replicas` are the pairs of replicas to compare; None for each with itself.
    """
    pairs = replicas or [(replica, replica) for replica in range(len(found.seeds))]
    for index, rounds in enumerate(zip(found.rounds, expected.rounds, strict=True)):
        for pair in pairs:
            if seen(rounds[:1], pair[0]) != seen(rounds[1:], pair[1]):
                lists = []
                for one, name, replica in zip(rounds, named, pair, strict=True):
                    shown = one.shown[replica]
                    clicked = (one.clicks[replica] & shown).nonzero().flatten() + 1
                    documents = _words(one.ranking[replica][shown].tolist())
                    lists.append(f"{name} documents {documents}, clicks {_words(clicked.tolist()) or 'none'}")
                raise Broken(found.place(index, pair[0]), "; ".join(lists))


def _words(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


# The method of a role, the record that it returns, the part of it that is a tensor, and the axes of the tensor.
_RETURNED: dict[str, tuple[str, type, str, str]] = {
    "ranker": ("predict", Prediction, "scores", "[B, N, D]"),
    "exploration": ("propose", Proposal, "order", "[B, D]"),
    "fairness": ("rerank", Tensor, "order", "[B, D]"),
    "click": ("click", Tensor, "clicks", "[B, K]"),
}


def _checked(function: Callable[..., Any], group: str) -> Callable[..., Any]:
    """Return a method of a role that raises Stopped where its result is not as `interfaces.py` states."""
    method, record, name, axes = _RETURNED[group]
    where = f"what the {group}'s `{method}` returns"

    @functools.wraps(function)
    def checked(*arguments: Any) -> Any:
        result = function(*arguments)
        if not isinstance(result, record):
            raise Stopped(where, f"it must be a {record.__name__}, got {type(result).__name__}")
        values = result if isinstance(result, Tensor) else getattr(result, name)
        candidates = next((one for one in arguments if isinstance(one, Candidates)), None)
        shape = list(arguments[0].shape if candidates is None else candidates.mask.shape)
        dtype = torch.bool if candidates is None else torch.int64
        if name == "scores":
            shape.insert(1, values.shape[1] if values.ndim == 3 else 1)
            dtype = arguments[0].features.dtype
        if (values.dtype, list(values.shape)) != (dtype, shape):
            must = f"{name} must be {dtype} {axes}, here {shape}"
            raise Stopped(where, f"{must}, got {values.dtype} {list(values.shape)}")
        if name == "order" and ((values < 0) | (values >= shape[1])).any():
            numbers = f"{int(values.min())} to {int(values.max())}"
            raise Stopped(where, f"order must have numbers of documents, from 0 to {shape[1] - 1}, got {numbers}")
        return result

    return checked
