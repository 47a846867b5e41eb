"""The choices that are held to the laws: simulations of them, with everything watched that they return."""

from __future__ import annotations

import functools
import linecache
import random
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from ol2r_cli import loops
from ol2r_cli.config.composer import Composition
from ol2r_cli.config.instantiate import build
from ol2r_cli.contracts.law import NotApplicable, Stopped
from ol2r_cli.contracts.small_world import LISTS, ROUNDS, SEEDS, Lists, play, simulation, small, world
from ol2r_cli.dataset.table import Dataset, DatasetSource
from ol2r_cli.interfaces import Interaction, Prediction, Proposal
from ol2r_cli.simulation import Simulation

DTYPE = "dtypes are mixed: a tensor made without dtype=context.dtype, or .float() or .double() on the way"
RECORDS = "a method returns another record, axis or dtype than interfaces.py states"
_PRECISION = "the precision of the run"


@dataclass(frozen=True)
class Played:
    """Rounds that were played: the simulation after them, the seed of each replica, and the labels of each query."""

    simulation: Simulation
    rounds: Sequence[Interaction]
    seeds: Sequence[int]
    lists: Lists = LISTS
    first: int = 1  # number of the first of the rounds

    def place(self, index: int, replica: int) -> str:
        """The input of one list: seed, round, query and labels, in words."""
        query = int(self.rounds[index].candidates.query[replica])
        labels = self.lists[query]
        told = f"query {query} with {len(labels)} document{'s' * (len(labels) > 1)} of labels {_words(labels)}"
        return f"seed {self.seeds[replica]}, round {self.first + index}, {told}"


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
        self.draws_elsewhere = False  # whether a generator of torch, numpy or Python moved while rounds were played
        self._world = ""
        self._running: Simulation | None = None

    def simulation(
        self, world_name: str = "the small world", lists: Lists = LISTS, seeds: Sequence[int] = SEEDS, **more: Any
    ) -> Simulation:
        """A simulation of the choices, ready for round 1; `more` is what `small_world.simulation` takes.

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
        _watch(running)
        self._running = running
        return running

    def played(self, world_name: str = "the small world", rounds: int = ROUNDS, **more: Any) -> Played:
        """So many rounds of a new simulation; `more` is what `simulation` takes."""
        running = self.simulation(world_name, **more)
        return self.go_on(running, rounds, more.get("seeds", SEEDS), more.get("lists", LISTS))

    def go_on(
        self, running: Simulation, rounds: int = ROUNDS, seeds: Sequence[int] = SEEDS, lists: Lists = LISTS
    ) -> Played:
        """The next so many rounds of a simulation."""
        self._running, first, before = running, int(running.round) + 1, _generators()
        interactions = play(running, rounds)
        self.draws_elsewhere |= _generators() != before
        return Played(running, interactions, seeds, lists, first)

    @functools.cached_property
    def ordinary(self) -> Played:
        """An ordinary run, which most laws look at."""
        return self.played()

    @functools.cached_property
    def ordinary_measures(self) -> Mapping[str, Tensor]:
        """The measures of the ordinary run."""
        return self.ordinary.simulation.measurement.measures()[1]

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The table of the chosen dataset, as it is with all its settings."""
        return load(self.composition.config.dataset)

    def situation(self) -> str:
        """Where an exception was raised: the world, and the round or the set-up."""
        if not self._world:
            return f"dataset={self.composition.choices.get('dataset')}"
        where = "in the set-up" if self._running is None else f"round {int(self._running.round) + 1}"
        return f"{self._world}, {where}"


def load(node: DictConfig) -> Dataset:
    """The table of a dataset's node; ValueError for a bad setting or bad data, and for a class without `load`."""
    source = build(node)
    if not isinstance(source, DatasetSource):
        raise ValueError(f"dataset._target_ must be a class with a method `load`, got {type(source).__name__}")
    return source.load()


def is_refusal(error: ValueError) -> bool:
    """Whether a `raise` statement raised the error on purpose, rather than Python or numpy inside an expression."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return linecache.getline(last.filename, last.lineno or 0).lstrip().startswith("raise ")


def plain_state(module: nn.Module) -> dict[str, bytes]:
    """What the attributes of a module and its parts hold besides buffers, parameters and parts, as bytes."""
    found: dict[str, bytes] = {}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if not name.startswith("_") and (content := _content(value)) is not None:
                found[f"{path}.{name}".lstrip(".")] = content
    return found


def _content(value: Any) -> bytes | None:
    """The value of a number, text, tensor or array, or of a collection of these; None for anything else."""
    if isinstance(value, bool | int | float | str | None):
        return repr(value).encode()
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Mapping):
        value = [part for item in value.items() for part in item]
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_content(item) for item in value]
        return None if None in parts else b"[" + b",".join(part for part in parts if part is not None) + b"]"
    return None


def _generators() -> tuple[bytes, object, str]:
    """The state of the generators that roles must not use."""
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), repr(np.random.get_state())  # noqa: NPY002


def _words(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def _watch(running: Simulation) -> None:
    """Check what the methods of the roles return when they return it, because another role would fail on it later."""
    roles = {"ranker": running.ranker, "exploration": running.exploration}
    roles |= {"fairness": running.fairness, "click": running.click}
    for (group, method), check in _RETURNED.items():
        role: Any = roles[group]
        setattr(role, method, _checked(getattr(role, method), f"{group}'s `{method}`", check))


def _checked(method: Callable[..., Any], name: str, check: Callable[..., str]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(*arguments: Any) -> Any:
        result = method(*arguments)
        if problem := check(result, *arguments):
            raise Stopped(f"what the {name} returns", problem, (DTYPE if _PRECISION in problem else RECORDS,))
        return result

    return checked


def _scores_problem(prediction: Any, candidates: Any, _: Any) -> str:
    if not isinstance(prediction, Prediction):
        return f"it must be a Prediction, got {type(prediction).__name__}"
    replicas, documents = candidates.mask.shape
    scores = prediction.scores
    if scores.ndim != 3 or (scores.shape[0], scores.shape[2]) != (replicas, documents):
        return f"scores must be [B, N, D], here [{replicas}, N, {documents}], got {list(scores.shape)}"
    if scores.dtype != candidates.features.dtype:
        return f"scores must be of {_PRECISION}, {candidates.features.dtype}, got {scores.dtype}"
    return ""


def _proposal_problem(proposal: Any, prediction: Any, candidates: Any, _: Any) -> str:
    if not isinstance(proposal, Proposal):
        return f"it must be a Proposal, got {type(proposal).__name__}"
    return _order_problem(proposal.order, proposal, candidates)


def _order_problem(order: Any, proposal: Any, candidates: Any, _: Any = None) -> str:
    """The orders of a simulation whose regret is traced have all places."""
    shape = candidates.mask.shape
    if not isinstance(order, Tensor) or order.dtype != torch.int64 or order.shape != shape:
        kind = f"{order.dtype} {list(order.shape)}" if isinstance(order, Tensor) else type(order).__name__
        return f"the order must be torch.int64 [B, D], here {list(shape)}, got {kind}"
    if bool(((order < 0) | (order >= shape[1])).any()):
        numbers = f"{int(order.min())} to {int(order.max())}"
        return f"the order must have numbers of documents, from 0 to {shape[1] - 1}, got {numbers}"
    return ""


def _clicks_problem(clicks: Any, grades: Any, *_: Any) -> str:
    if not isinstance(clicks, Tensor) or clicks.dtype != torch.bool or clicks.shape != grades.shape:
        kind = f"{clicks.dtype} {list(clicks.shape)}" if isinstance(clicks, Tensor) else type(clicks).__name__
        return f"clicks must be torch.bool [B, K], here {list(grades.shape)}, got {kind}"
    return ""


_RETURNED: dict[tuple[str, str], Callable[..., str]] = {
    ("ranker", "predict"): _scores_problem,
    ("exploration", "propose"): _proposal_problem,
    ("fairness", "rerank"): _order_problem,
    ("click", "click"): _clicks_problem,
}
