"""A small world in which every choice can be run through any law, lists of many lengths, two groups and few rounds,
and the choices that are held to the laws there: simulations of them, with everything checked that they return."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from torch import Tensor

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import Composition
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset, DatasetSource, loaded
from ol2r_cli.interfaces import Candidates, Interaction, Measure, Prediction, Proposal, RunContext
from ol2r_cli.metrics.exposure import exposure_of
from ol2r_cli.run.own_code import is_refusal
from ol2r_cli.simulation import Roles, RoundSettings, Simulation
from ol2r_cli.text.formatting import plural

LISTS = (  # the labels of each query
    (0,),
    (4,),
    (1, 0),
    (0, 0, 0),
    (2, 0, 1),
    (3, 1, 0, 0, 2, 0, 0),
    (0,) * 9,
    (0, 1, 2, 3, 4, 0, 1, 0, 2, 0, 1, 0),
)
GRADES = 5
POSITIONS = 5  # some queries are shorter, some longer
ROUNDS = 12
SEEDS = (3, 4, 11)
SMALL = {  # networks and trees need not be large to keep the laws
    "ranker.model.width": 6,
    "ranker.batch": 16,
    "ranker.epochs": 2,
    "ranker.steps": 2,
    "ranker.trees": 4,
    "ranker.min_documents": 2,  # or the small world is too small for a tree
}

Lists = Sequence[Sequence[int]]
Seen = tuple[int, list[int], list[bool]]  # query, rows of the documents shown, and which of them were clicked


def handmade(lists: Lists, features: int = 4, seed: int = 0) -> Dataset:
    """Return a dataset with these labels, a list per query, and random features; every split has all queries."""
    labels = torch.tensor([label for labels in lists for label in labels], dtype=torch.int8)
    lengths = torch.tensor([0, *map(len, lists)])
    values = torch.rand(len(labels), features, generator=torch.Generator().manual_seed(seed))
    every = torch.arange(len(lists))
    return Dataset(
        name="handmade",
        fingerprint=f"handmade-{seed}",
        features=values,
        labels=labels,
        offsets=lengths.cumsum(0),
        query_ids=[str(q) for q in range(len(lists))],
        grades=GRADES,
        splits={"train": every, "validation": every, "test": every},
    )


def world(lists: Lists = LISTS) -> Dataset:
    """Return a dataset with these labels, whose documents alternate between two groups."""
    dataset = handmade(lists)
    return dataclasses.replace(dataset, group=(torch.arange(len(dataset.labels)) % 2).to(torch.int8))


def small(config: DictConfig) -> DictConfig:
    """Return a copy of a configuration with small networks and few steps, where the ranker's class is one of ol2r.

    The copy is read-only, so that it can be shared.
    """
    config = config.copy()
    with open_dict(config):
        for setting, value in SMALL.items():
            target = OmegaConf.select(config, f"{setting.rpartition('.')[0]}._target_")
            if str(target).startswith("ol2r_cli.") and OmegaConf.select(config, setting) is not None:
                OmegaConf.update(config, setting, value)
    OmegaConf.set_readonly(config, True)
    return config


def chosen(group: str, name: str) -> DictConfig:
    """Return the default settings of a choice."""
    return OmegaConf.create({group: Catalogue().choices[group][name].content})[group]


def clicking(probability: float) -> DictConfig:
    """Return the settings of a user who clicks every shown document with this probability, whatever its label."""
    return OmegaConf.create({"click": {**chosen("click", "random"), "click": [probability] * GRADES}}).click


def measures_of(config: DictConfig, blocks: bool = True, regret: bool = True) -> dict[str, Measure]:
    """Return the measures that a configuration names, with blocks and regret, or without them."""
    nodes = {str(name): node for name, node in config.measure.items() if name not in ("blocks", "regret")}
    more = [name for name, taken in (("regret", regret), ("blocks", blocks)) if taken]
    return {name: build(node) for name, node in (nodes | {name: chosen("measure", name) for name in more}).items()}


def simulation(
    config: DictConfig,
    dataset: Dataset | None = None,
    *,
    seeds: Sequence[int] = SEEDS,
    click: DictConfig | None = None,
    measures: Mapping[str, Measure] | None = None,
    blocks: bool = True,
    regret: bool = True,
    device: str = "cpu",
    start: Callable[[RunContext], Tensor] | None = None,
    **settings: Any,
) -> Simulation:
    """Return a simulation of the roles that a configuration names, in the small world or on `dataset`, before round 1.

    `click` takes the place of the configured click model. Without `measures`, those of the configuration are taken,
    with blocks and regret unless they are switched off. `settings` are those of `RoundSettings`: rounds and positions
    are `ROUNDS` and `POSITIONS`, and exposure is reciprocal, unless they are given. ValueError where the choices do not
    go together.
    """
    dataset = dataset or world()
    click = config.click if click is None else click
    settings = {"rounds": ROUNDS, "positions": POSITIONS} | settings
    if "exposure" not in settings:
        settings["exposure"] = exposure_of(dataset, build(click), settings["positions"], "reciprocal", 0.5)
    return Simulation(
        dataset,
        Roles(build(click), build(config.ranker), build(config.exploration), build(config.fairness)),
        RoundSettings(**settings),
        seeds=torch.tensor(list(seeds), device=device),
        measures=measures_of(config, blocks, regret) if measures is None else measures,
        intent=build(config.intent),
        start=start,
    )


def play(simulation: Simulation, rounds: int = ROUNDS) -> list[Interaction]:
    """Return the next so many rounds."""
    interactions = []
    for _, (_, interaction) in zip(range(rounds), simulation.play(), strict=False):
        interactions.append(interaction)
        if simulation.measurement.full():
            simulation.measurement.measures()
    return interactions


def seen(interactions: Sequence[Interaction], replica: int | None = None) -> list[list[Seen]]:
    """Return what a user can see of each round: for every replica (or one) the query, the documents and the clicks."""
    rounds = []
    for interaction in interactions:
        replicas = range(len(interaction.shown)) if replica is None else [replica]
        rounds.append([_seen_by(interaction, b) for b in replicas])
    return rounds


def _seen_by(interaction: Interaction, replica: int) -> Seen:
    """Return what the user of a replica sees of a round."""
    shown = interaction.shown[replica]
    ranking = interaction.ranking[replica][shown]
    documents = interaction.candidates.document[replica][ranking]
    query = int(interaction.candidates.query[replica])
    return query, documents.tolist(), interaction.clicks[replica][shown].tolist()


# A law is a function of a subject, named as it is reported, with blanks; its docstring says what it demands. It returns
# nothing if the subject keeps it, and raises `Broken` or `NotApplicable`, or what the code of the subject raises.
Law = Callable[["Subject"], None]


class Broken(Exception):
    """Raised by a law that is broken: on which input, and what differs there."""

    def __init__(self, input: str, difference: str):
        super().__init__(f"{difference} ({input})")
        self.input, self.difference = input, difference


class Stopped(Broken):
    """Raised where a law cannot be checked to its end; others that need the same stop there, too."""


class NotApplicable(Exception):
    """Raised by a law that says nothing about a choice. The message says why; without one it is not mentioned."""


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
        documents = f"{plural(len(self.lists[query]), 'document')} of labels {joined(self.lists[query])}"
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

    def graded(self, dataset: Dataset) -> Dataset:
        """Return a dataset of the small world with as many grades as the user has probabilities."""
        by_grade = OmegaConf.select(self.config, "click.click")
        grades = len(by_grade) if isinstance(by_grade, ListConfig) and by_grade else GRADES
        labels = dataset.labels if grades == GRADES else (dataset.labels * (grades - 1) // (GRADES - 1)).to(torch.int8)
        return dataclasses.replace(dataset, labels=labels, grades=grades)

    def simulation(
        self, world_name: str = "the small world", lists: Lists = LISTS, seeds: Sequence[int] = SEEDS, **more: Any
    ) -> Simulation:
        """Return a simulation of the choices, ready for round 1; `more` is what `small_world.simulation` takes.

        NotApplicable if a role refuses the world with a ValueError of its own.
        """
        running = self.unchecked_simulation(world_name, lists, seeds, **more)
        # What the methods of roles return is checked at once, because another role would fail on it later.
        for group, returned in _RETURNED.items():
            role: Any = getattr(running, group)
            setattr(role, returned.method, _checked(getattr(role, returned.method), group))
        return running

    def unchecked_simulation(
        self,
        world_name: str,
        lists: Lists = LISTS,
        seeds: Sequence[int] = SEEDS,
        config: DictConfig | None = None,
        **more: Any,
    ) -> Simulation:
        """Return a simulation whose roles have their own methods, without checks of what these return. `config` takes
        the place of the subject's."""
        self._world, self._running = f"{world_name}, seeds {joined(seeds)}", None
        config = self.config if config is None else config
        dataset = self.graded(more.pop("dataset", None) or world(lists))
        if more.get("click") is not None and more["click"].get("click"):  # of all grades alike
            more["click"] = more["click"].copy()
            more["click"].click = [more["click"].click[0]] * dataset.grades
        try:
            self._running = simulation(config, dataset, seeds=seeds, **more)
        except ValueError as error:
            if is_refusal(error):
                raise NotApplicable(str(error)) from error
            raise
        return self._running

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
    dataset: Dataset = loaded(source)
    return dataset


def check_rounds(played: Played, *laws: str, where: str = "") -> None:
    """Raise Broken at the first round that breaks one of these laws, or any. The input begins with `where`.

    scores: those of documents are finite, those of padding neither NaN nor above all. order: every document is there.
    padding_last: it comes after all documents. clicks: they are on places that show something.
    """
    for index, interaction in enumerate(played.rounds):
        values, mask = interaction.prediction.scores, interaction.candidates.mask
        bad = (mask[:, None] & ~values.isfinite()) | values.isnan() | (values == torch.inf)
        faults = [("scores", bad, "the scores of documents must be finite, and those of padding numbers", values)]
        proposed, served = interaction.proposal.order, interaction.order
        orders = {"the order that is proposed": proposed, "the order that is served": served}
        for name, order in orders.items():
            absent = order.sort(1).values != torch.arange(order.shape[1])
            faults.append(("order", absent, f"{name} must have every document once", order))
        for name, order in orders.items():
            must = f"{name} must have documents before padding, which has the higher numbers"
            faults.append(("padding_last", mask.gather(1, order) != mask, must, order))
        must = "clicks must be on the documents that are shown"
        faults.append(("clicks", interaction.clicks & ~interaction.shown, must, interaction.clicks))
        for law, bad, what, values in faults:
            if bad.any() and (law in laws or not laws):
                replica = int(bad.nonzero()[0, 0])
                raise Broken(where + played.place(index, replica), f"{what}, got {values[replica].tolist()}")


def check_same(
    found: Mapping[str, Any], expected: Mapping[str, Any], what: str, input: str, tolerance: float = 0
) -> None:
    """Raise Broken unless two mappings, such as states, are equal, with NaN in the same places: to the last bit without
    a tolerance."""
    try:
        torch.testing.assert_close(dict(found), dict(expected), rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        raise Broken(input, f"the {what} differ: {' '.join(str(error).split())}") from None


def check_shown(
    found: Played, expected: Played, named: tuple[str, str], replicas: Sequence[tuple[int, int]] | None = None
) -> None:
    """Raise Broken at the first round in which two runs show other documents, or get other clicks.

    `named` are words for the two runs. `replicas` are the pairs of replicas to compare; None for each with itself.
    """
    pairs = replicas or [(replica, replica) for replica in range(len(found.seeds))]
    for index, (first, second) in enumerate(zip(found.rounds, expected.rounds, strict=True)):
        for first_replica, second_replica in pairs:
            if _seen_by(first, first_replica) != _seen_by(second, second_replica):
                lists = f"{named[0]} {_list(first, first_replica)}; {named[1]} {_list(second, second_replica)}"
                raise Broken(found.place(index, first_replica), lists)


def _list(interaction: Interaction, replica: int) -> str:
    """Return the list that a replica shows, and the places that are clicked, in words."""
    shown = interaction.shown[replica]
    clicked = (interaction.clicks[replica] & shown).nonzero().flatten() + 1
    documents = interaction.ranking[replica][shown]
    return f"documents {joined(documents.tolist())}, clicks {joined(clicked.tolist()) or 'none'}"


def joined(numbers: Sequence[float]) -> str:
    """Return numbers as text, separated by blanks."""
    return " ".join(map(str, numbers))


class Returned(NamedTuple):
    """What a method of a role returns: a record, whose tensor `part` has these axes."""

    method: str
    record: type
    part: str
    axes: str


_RETURNED = {
    "ranker": Returned("predict", Prediction, "scores", "[B, N, D]"),
    "exploration": Returned("propose", Proposal, "order", "[B, D]"),
    "fairness": Returned("rerank", Tensor, "order", "[B, D]"),
    "click": Returned("click", Tensor, "clicks", "[B, K]"),
}


def _checked(function: Callable[..., Any], group: str) -> Callable[..., Any]:
    """Return a method of a role that raises Stopped where its result is not as `interfaces.py` states."""
    returned = _RETURNED[group]
    where = f"what the {group}'s `{returned.method}` returns"

    @functools.wraps(function)
    def checked(*arguments: Any) -> Any:
        result = function(*arguments)
        if not isinstance(result, returned.record):
            raise Stopped(where, f"it must be a {returned.record.__name__}, got {type(result).__name__}")
        values = result if isinstance(result, Tensor) else getattr(result, returned.part)
        dtype, shape = _expected(returned, values, arguments)
        if (values.dtype, list(values.shape)) != (dtype, shape):
            must = f"{returned.part} must be {dtype} {returned.axes}, here {shape}"
            raise Stopped(where, f"{must}, got {values.dtype} {list(values.shape)}")
        if returned.part == "order" and ((values < 0) | (values >= shape[1])).any():
            numbers = f"{int(values.min())} to {int(values.max())}"
            raise Stopped(where, f"order must have numbers of documents, from 0 to {shape[1] - 1}, got {numbers}")
        return result

    return checked


def _expected(returned: Returned, values: Tensor, arguments: Sequence[Any]) -> tuple[torch.dtype, list[int]]:
    """Return dtype and shape that a role has to return for its arguments; scores may have any number of members."""
    if returned.part == "clicks":
        return torch.bool, list(arguments[0].shape)
    candidates = next(argument for argument in arguments if isinstance(argument, Candidates))
    replicas, documents = candidates.mask.shape
    if returned.part == "order":
        return torch.int64, [replicas, documents]
    members = values.shape[1] if values.ndim == 3 else 1
    return candidates.features.dtype, [replicas, members, documents]
