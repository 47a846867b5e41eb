"""The measures that are no part of a default run against their definitions, round by round and list by list."""

from __future__ import annotations

import math
from functools import cache
from itertools import accumulate, product

import pytest
import torch

from ol2r_cli.columns import Column
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import Measure
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.simulation import Simulation
from tests.choices import play
from tests.worlds import handmade, measured, simulate, tiny

ROUNDS = 70  # more than are measured at once
LISTS = [[0, 0, 0], [2], [0, 1, 4, 2, 0, 0, 3, 1, 0, 0, 1, 2, 0], [1, 0, 0, 2, 0], [0] * 12]
GRADES = 5


def err(labels: list[int], every: list[int], places: int) -> float:
    """The sum over ranks of the probability to stop there, divided by the rank."""
    total, reaches = 0.0, 1.0
    for rank, label in enumerate(labels, 1):
        stops = (2**label - 1) / 2 ** (GRADES - 1)
        total += reaches * stops / rank
        reaches *= 1 - stops
    return total


def mrr(labels: list[int], every: list[int], places: int) -> float:
    return next((1 / rank for rank, label in enumerate(labels, 1) if label), 0.0)


def dcg(labels: list[int], every: list[int], places: int) -> float:
    return sum((2**label - 1) / math.log2(rank + 1) for rank, label in enumerate(labels, 1))


def ndcg(labels: list[int], every: list[int], places: int) -> float:
    ideal = dcg(sorted(every, reverse=True)[:places], every, places)
    return dcg(labels, every, places) / ideal if ideal else 0.0


# By the labels of a list down to the cutoff, those of all documents of the query, and the number of places.
DEFINITIONS = {"err": err, "mrr": mrr, "dcg": dcg, "ndcg": ndcg}
CUTOFFS = (1, 4, 25)
EVERY = [(name, cutoff) for name in DEFINITIONS for cutoff in CUTOFFS]
CASES = [("zero", False), ("skip", True)]  # what becomes of queries without a relevant document; the evaluation


def taken(*names: str) -> dict[str, Measure]:
    discount = ("measure.ndcg.discount=.9",) if any(name.startswith("ndcg") for name in names) else ()
    config = tiny(f"measures=[{','.join(names)}]", *discount)
    return {str(name): build(node) for name, node in config.measure.items()}


def playing(*names: str, **more) -> Simulation:
    """A simulation that takes these measures."""
    return simulate(tiny("click=navigational"), [3, 4], ROUNDS, handmade(LISTS), measures=taken(*names), **more)


def shown_labels(interaction, replica: int) -> list[int]:
    labels = LISTS[int(interaction.candidates.query[replica])]
    ranking, shown = interaction.ranking[replica].tolist(), interaction.shown[replica].tolist()
    return [labels[document] for document, there in zip(ranking, shown, strict=True) if there]


@cache
def played(no_relevant: str):
    """The columns of rounds that all of EVERY give, and what happened."""
    return measured(playing(*(f"{name}@{cutoff}" for name, cutoff in EVERY), no_relevant=no_relevant))


@pytest.mark.parametrize("no_relevant", ["zero", "skip"])
def test_columns_of_rounds_are_those_of_the_measures(no_relevant: str):
    columns = {f"online_{name}_{cutoff}" for name, cutoff in EVERY} | {f"cumulative_ndcg_{each}" for each in CUTOFFS}
    assert played(no_relevant)[0].keys() == {"query", "clicks", "pairs", *columns}


@pytest.mark.parametrize("no_relevant", ["zero", "skip"])
@pytest.mark.parametrize(("name", "cutoff"), EVERY)
def test_measures_of_rounds_are_their_definitions(name: str, cutoff: int, no_relevant: str):
    """Ten places are shown. A query that is skipped adds nothing to cumulative NDCG."""
    values, seen = played(no_relevant)
    for b in range(2):
        expected = []
        for interaction in seen:
            every = LISTS[int(interaction.candidates.query[b])]
            value = DEFINITIONS[name](shown_labels(interaction, b)[:cutoff], every, min(cutoff, 10))
            expected.append(math.nan if no_relevant == "skip" and not any(every) else value)
        assert values[f"online_{name}_{cutoff}"][:, b].tolist() == pytest.approx(expected, abs=1e-12, nan_ok=True)
        assert any(map(math.isnan, expected)) == (no_relevant == "skip")
        if name == "ndcg":
            weighed = (0.9**t * (0 if math.isnan(value) else value) for t, value in enumerate(expected))
            assert values[f"cumulative_ndcg_{cutoff}"][:, b].tolist() == pytest.approx([*accumulate(weighed)])


@pytest.mark.parametrize(("no_relevant", "compiled"), CASES)
def test_measures_of_lists_are_their_definitions(no_relevant: str, compiled: bool):
    every = [*EVERY, *(("ndcg", cutoff) for cutoff in (3, 5, 10))]  # of the default measure
    names = [f"{name}@{cutoff}" for name, cutoff in EVERY]
    simulation, measures, seeds = playing(*names), taken(*names, "ndcg"), torch.tensor([3, 4])
    play(simulation, 20)
    evaluate = Evaluator(handmade(LISTS), "test", seeds, no_relevant, torch.float64, measures, compiled=compiled)
    deployed = simulation.ranker.deploy()
    values = evaluate(simulation.ranker, torch.stack([deployed, 0 * deployed]))
    for b in range(2):
        lists = [
            labels[:length]
            for some in evaluate.lists(simulation.ranker, deployed)
            for length, labels in zip(some.length.tolist(), some.label[b].tolist(), strict=True)
            if no_relevant == "zero" or any(labels)
        ]
        expected = {
            f"{name}_{cutoff}": sum(DEFINITIONS[name](labels[:cutoff], labels, cutoff) for labels in lists) / len(lists)
            for name, cutoff in every
        }
        assert {name: float(found[0, b]) for name, found in values.items()} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("b", range(2))
def test_click_measures_are_their_definitions(b: int):
    values, seen = measured(playing("ctr", "time_to_first_click", "clicks"))
    for t, interaction in enumerate(seen):
        shown, clicks = int(interaction.shown[b].sum()), interaction.clicks[b].tolist()
        expected = {
            "ctr": sum(clicks) / shown,
            "page_clicks": sum(clicks),
            "any_click": int(any(clicks)),
            "several_clicks": int(sum(clicks) > 1),
            "time_to_first_click": 1 + clicks.index(True) if any(clicks) else math.nan,
            **{
                f"ctr_{rank}": int(clicks[rank - 1]) if rank <= shown else math.nan
                for rank in range(1, len(clicks) + 1)
            },
        }
        found = {name: float(values[name][t, b]) for name in expected}
        assert found == pytest.approx(expected, nan_ok=True), f"round {t}"
    assert values["time_to_first_click"].isnan().any()
    assert values["ctr"].max() > 0


def test_without_measures_only_columns_of_every_run_remain():
    simulation = playing()
    values, _ = measured(simulation)
    assert values.keys() == {"query", "clicks", "pairs"}
    assert not simulation.context.needs_reasons
    assert simulation.context.ranking_depth == simulation.context.positions


class Wrong(Measure):
    """Returns what it is told to return."""

    def __init__(self, result):
        super().__init__()
        self.result = result
        self.trace = taken("ctr")["ctr"].trace

    def of_rounds(self, rounds):
        return self.result


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"mine": torch.zeros(1, 2)}, "columns of ctr, got mine"),
        ({"ctr": torch.zeros(2)}, r"ctr as a tensor \[3, 2\], got \[2\]"),
        ({"ctr": 0.5}, r"ctr as a tensor \[3, 2\], got float"),
    ],
)
def test_a_measure_that_returns_something_else_is_named(result, message):
    with pytest.raises(ValueError, match=f"^the measure wrong must return {message}$"):
        measured(simulate(tiny(), [3, 4], 3, handmade(LISTS), measures={"wrong": Wrong(result)}))


class Places(Measure):
    """The number of places that it receives."""

    evaluation = (Column("seen"),)

    def __init__(self, places: int | None = None):
        super().__init__()
        self.places = self.places if places is None else places

    def of_lists(self, lists):
        return {"seen": torch.full(lists.labels.shape[:-1], float(lists.labels.shape[-1]), dtype=torch.float64)}


def test_a_measure_receives_its_own_places():
    """A measure receives its own places, whatever else is measured."""
    dataset = handmade([[0, 1, 2] * 5] * 2)  # fifteen documents
    simulation = simulate(tiny(), [3], 1, dataset)
    for others, (places, expected) in product(({}, taken("ndcg"), taken("dcg@12")), ((None, 15), (3, 3), (20, 15))):
        measures = {"places": Places(places), **others}
        evaluate = Evaluator(dataset, "test", torch.tensor([3]), "zero", torch.float64, measures)
        assert float(evaluate(simulation.ranker, simulation.ranker.deploy()[None])["seen"]) == expected
