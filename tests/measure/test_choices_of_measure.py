"""The measures that are no part of a default run against their definitions, round by round and list by list."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from ol2r_cli.columns import Column
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import Measure
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.simulation import Simulation
from tests.worlds import handmade, measured, simulate, tiny

ROUNDS = 70  # more than are measured at once
LISTS = [[0, 0, 0], [2], [0, 1, 4, 2, 0, 0, 3, 1, 0, 0, 1, 2, 0], [1, 0, 0, 2, 0], [0] * 12]
GRADES = 5


def err(labels: list[int]) -> float:
    """The sum over ranks of the probability to stop there, divided by the rank."""
    total, reaches = 0.0, 1.0
    for rank, label in enumerate(labels, 1):
        stops = (2**label - 1) / 2 ** (GRADES - 1)
        total += reaches * stops / rank
        reaches *= 1 - stops
    return total


def mrr(labels: list[int]) -> float:
    return next((1 / rank for rank, label in enumerate(labels, 1) if label), 0.0)


def dcg(labels: list[int]) -> float:
    return sum((2**label - 1) / math.log2(rank + 1) for rank, label in enumerate(labels, 1))


DEFINITIONS = {"err": err, "mrr": mrr, "dcg": dcg}


def taken(*names: str) -> dict[str, Measure]:
    config = tiny(f"measures=[{','.join(names)}]")
    return {str(name): build(node) for name, node in config.measure.items()}


def playing(*names: str, **more) -> Simulation:
    """A simulation that takes these measures."""
    return simulate(tiny("click=navigational"), [3, 4], ROUNDS, handmade(LISTS), measures=taken(*names), **more)


def shown_labels(interaction, replica: int) -> list[int]:
    labels = LISTS[int(interaction.candidates.query[replica])]
    ranking, shown = interaction.ranking[replica].tolist(), interaction.shown[replica].tolist()
    return [labels[document] for document, there in zip(ranking, shown, strict=True) if there]


@pytest.mark.parametrize("no_relevant", ["zero", "skip"])
def test_measures_of_rounds_are_their_definitions(no_relevant: str):
    every = [(name, cutoff) for name in DEFINITIONS for cutoff in (1, 4, 10, 25)]
    values, seen = measured(playing(*(f"{name}@{cutoff}" for name, cutoff in every), no_relevant=no_relevant))
    assert values.keys() == {"query", "clicks", "pairs", *(f"online_{name}_{cutoff}" for name, cutoff in every)}
    skipped = 0
    for t, interaction in enumerate(seen):
        for b, (name, cutoff) in product(range(2), every):
            value, labels = float(values[f"online_{name}_{cutoff}"][t, b]), shown_labels(interaction, b)
            if no_relevant == "skip" and not any(LISTS[int(interaction.candidates.query[b])]):
                assert math.isnan(value)
                skipped += 1
            else:
                assert value == pytest.approx(DEFINITIONS[name](labels[:cutoff]), abs=1e-12)
    assert bool(skipped) == (no_relevant == "skip")


def ndcg(labels: list[int], all_labels: list[int], places: int) -> float:
    ideal = dcg(sorted(all_labels, reverse=True)[:places])
    return dcg(labels[:places]) / ideal if ideal else 0.0


@pytest.mark.parametrize(
    ("cutoff", "no_relevant", "loops"), [(4, "zero", True), (10, "skip", False), (25, "skip", True)]
)
def test_ndcg_at_any_cutoff_is_its_definition(cutoff: int, no_relevant: str, loops: bool):
    words = "click=navigational", "measure.ndcg.discount=.9", f"measures=[ndcg@{cutoff}]"
    taken = {str(name): build(node) for name, node in tiny(*words).measure.items()}
    settings = {"measures": taken, "loops": loops, "no_relevant": no_relevant}
    simulation = simulate(tiny(*words), [3, 4], ROUNDS, handmade(LISTS), **settings)
    values, seen = measured(simulation)
    name = "" if cutoff == 10 else f"_{cutoff}"
    assert values.keys() == {"query", "clicks", "pairs", f"online_ndcg{name}", f"cumulative_ndcg{name}"}
    for b in range(2):
        total = 0.0
        for t, interaction in enumerate(seen):
            labels = LISTS[int(interaction.candidates.query[b])]
            expected = ndcg(shown_labels(interaction, b), labels, min(cutoff, 10))  # ten places are shown
            total += 0.9**t * expected
            value = float(values[f"online_ndcg{name}"][t, b])
            if no_relevant == "skip" and not any(labels):
                assert math.isnan(value)
            else:
                assert value == pytest.approx(expected, abs=1e-12)
            assert float(values[f"cumulative_ndcg{name}"][t, b]) == pytest.approx(total)
    evaluate = Evaluator(handmade(LISTS), "test", torch.tensor([3, 4]), "zero", torch.float64, taken, compiled=loops)
    deployed = simulation.ranker.deploy()
    columns = evaluate(simulation.ranker, deployed[None])
    assert list(columns) == ([f"ndcg_{each}" for each in (1, 3, 5, 10)] if cutoff == 10 else [f"ndcg_{cutoff}"])
    for column, means in columns.items():
        for b in range(2):
            expected = []
            for lists in evaluate.lists(simulation.ranker, deployed):
                for length, labels in zip(lists.length.tolist(), lists.label[b].tolist(), strict=True):
                    expected.append(ndcg(labels[:length], labels[:length], int(column.removeprefix("ndcg_"))))
            assert float(means[0, b]) == pytest.approx(sum(expected) / len(expected), abs=1e-12)


@pytest.mark.parametrize("no_relevant", ["zero", "skip"])
def test_measures_of_lists_are_their_definitions(no_relevant: str):
    names = [f"{name}@{cutoff}" for name in DEFINITIONS for cutoff in (1, 4, 25)]
    simulation, measures = playing(*names), taken(*names)
    for _, _ in zip(range(20), simulation.play(), strict=False):
        pass
    evaluate = Evaluator(handmade(LISTS), "test", torch.tensor([3, 4]), no_relevant, torch.float64, measures)
    deployed = simulation.ranker.deploy()
    values = evaluate(simulation.ranker, torch.stack([deployed, 0 * deployed]))
    for name in names:
        column = name.replace("@", "_")
        assert values[column].shape == (2, 2)
        for b in range(2):
            expected = []
            for lists in evaluate.lists(simulation.ranker, deployed):
                for length, labels in zip(lists.length.tolist(), lists.label[b].tolist(), strict=True):
                    if no_relevant == "zero" or any(labels):
                        kept = labels[:length][: int(name.partition("@")[2])]
                        expected.append(DEFINITIONS[name.partition("@")[0]](kept))
            assert float(values[column][0, b]) == pytest.approx(sum(expected) / len(expected), abs=1e-12)


def test_click_measures_are_their_definitions():
    values, seen = measured(playing("ctr", "time_to_first_click"))
    for t, interaction in enumerate(seen):
        for b in range(2):
            shown, clicks = int(interaction.shown[b].sum()), interaction.clicks[b].tolist()
            assert float(values["ctr"][t, b]) == pytest.approx(sum(clicks) / shown)
            first = float(values["time_to_first_click"][t, b])
            assert first == 1 + clicks.index(True) if any(clicks) else math.isnan(first)
    assert values["time_to_first_click"].isnan().any()
    assert values["ctr"].max() > 0


def test_without_measures_there_are_only_the_columns_of_every_run():
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


def test_a_measure_that_returns_something_else_is_named():
    for result, message in [
        ({"mine": torch.zeros(1, 2)}, "the measure wrong must return columns of ctr, got mine"),
        ({"ctr": torch.zeros(2)}, r"the measure wrong must return ctr as a tensor \[3, 2\], got \[2\]"),
        ({"ctr": 0.5}, r"the measure wrong must return ctr as a tensor \[3, 2\], got float"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}$"):
            measured(simulate(tiny(), [3, 4], 3, handmade(LISTS), measures={"wrong": Wrong(result)}))


class Places(Measure):
    """The number of places that it receives."""

    evaluation = (Column("seen"),)

    def __init__(self, places: int | None = None):
        super().__init__()
        self.places = self.places if places is None else places

    def of_lists(self, lists):
        return {"seen": torch.full(lists.labels.shape[:-1], float(lists.labels.shape[-1]), dtype=torch.float64)}


def test_a_measure_receives_its_own_places_whatever_else_is_measured():
    dataset = handmade([[0, 1, 2] * 5] * 2)  # fifteen documents
    simulation = simulate(tiny(), [3], 1, dataset)
    for others, (places, expected) in product(({}, taken("ndcg"), taken("dcg@12")), ((None, 15), (3, 3), (20, 15))):
        measures = {"places": Places(places), **others}
        evaluate = Evaluator(dataset, "test", torch.tensor([3]), "zero", torch.float64, measures)
        assert float(evaluate(simulation.ranker, simulation.ranker.deploy()[None])["seen"]) == expected
