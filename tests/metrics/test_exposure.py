"""Exposure of places and groups and the ratio due to groups, by definition and estimated from simulated users."""

from __future__ import annotations

import dataclasses
import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import ClickModel, Exposure
from ol2r_cli.metrics.exposure import check_exposure_settings, coefficient, exposure_of, position_exposure
from tests.reference import exposure as reference
from tests.worlds import handmade

words = st.text("AB", min_size=1, max_size=9)
labelled = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("AB")), min_size=1, max_size=30)


def test_exposure_of_places_is_its_definition():
    for model, positions in product(["reciprocal", "log", [1, 0.5, 0.5, 0.2, 0.1, 0, 0]], [1, 3, 7]):
        found = position_exposure(model, positions)
        assert found.dtype == torch.float64
        assert found.tolist() == reference.exposure(model, positions), (model, positions)


@given(words, st.integers(0, 9), st.sampled_from(["reciprocal", "log"]), st.floats(0, 3))
def test_exposure_and_unfairness_of_a_list_are_their_definitions(word, beyond, model, beta):
    """Also of lists shorter than K, some of which are filled up with places that show nothing."""
    positions = len(word) + beyond
    exposure, p = Exposure(position_exposure(model, positions), beta), reference.exposure(model, positions)
    for padding in range(0, beyond + 1, 3):
        group = torch.tensor([["AB".index(letter) for letter in word] + [padding % 2] * padding])
        exposed = exposure.of_groups(group, torch.arange(group.shape[1])[None] < len(word))
        expected = [reference.group_exposure(word, letter, p) for letter in "AB"]
        assert exposed[0].tolist() == pytest.approx(expected)
        unfair = float(exposure.unfairness(exposed)[0])
        assert unfair == pytest.approx(reference.list_unfairness(word, p, beta), abs=1e-12)


@given(labelled, st.sampled_from(["merit", "parity"]))
def test_the_ratio_due_to_groups_is_its_definition(documents, beta):
    labels, groups = zip(*documents, strict=True)
    given = torch.tensor(labels), torch.tensor(["AB".index(letter) for letter in groups])
    try:
        expected = reference.coefficient(beta, labels, "".join(groups))
    except ValueError:
        with pytest.raises(ValueError, match=r"^beta must be a number, as group 1 has no .*, got '(merit|parity)'$"):
            coefficient(beta, *given)
    else:
        assert coefficient(beta, *given) == pytest.approx(expected)


def test_exposure_moves_to_a_device():
    there = Exposure(position_exposure("log", 3), 0.5).to(torch.device("meta"))
    assert (there.position.device.type, there.beta) == ("meta", 0.5)


def test_settings_that_are_refused_or_accepted():
    for model in ("linear", [1, 0.5], [1, 0.5, 1.1], [1, -0.1, 0]):
        with pytest.raises(ValueError, match=r"^exposure must be (one of reciprocal, log, estimated or|at least 3)"):
            check_exposure_settings(model, 1, 3)
    for model in ("reciprocal", "log", "estimated", [1, 0.5, 0], [1, 1, 1, 0]):
        check_exposure_settings(model, 1, 3)
    for beta in ("equal", -0.1, math.nan, True):
        with pytest.raises(ValueError, match=r"^beta must be one of merit, parity or (0 or more|a number) or a list "):
            check_exposure_settings("log", beta, 3)


MSLR = [0.52, 0.322, 0.133, 0.0176, 0.0074]  # shares of the grades in MSLR-WEB10K, as in dataset=synthetic
AUTHORS = {  # exposure of ten places as the authors' code of FairExp has it
    "navigational": [1, 0.700, 0.496, 0.353, 0.248, 0.179, 0.128, 0.091, 0.067, 0.046],
    "informational": [1, 0.836, 0.697, 0.581, 0.491, 0.410, 0.346, 0.290, 0.245, 0.205],
}


def like_mslr(queries: int = 300, documents: int = 20) -> Dataset:
    """Independent labels with these shares; every third document in group 1."""
    random = np.random.default_rng(0)
    dataset = handmade(random.choice(5, (queries, documents), p=np.array(MSLR) / sum(MSLR)).tolist())
    return dataclasses.replace(dataset, group=(torch.arange(queries * documents) % 3 == 0).to(torch.int8))


def user(*overrides: str) -> ClickModel:
    return build(compose(list(overrides)).config.click)


def estimated(dataset: Dataset, click: ClickModel, positions: int = 10) -> list[float]:
    exposure = exposure_of(dataset, click, positions, "estimated", 1.0)
    assert exposure is not None
    return exposure.position.tolist()


def test_estimated_exposure_is_that_of_the_authors_and_the_probability_of_examination():
    """Users who may stop at every document leave with probability E[stop] at each place, as labels are independent.

    The authors' 50,000 lists and ours leave standard errors of at most 0.01.
    """
    for click, authors in AUTHORS.items():
        model = user(f"click={click}", "click.stop_without_click=true")
        labels = like_mslr().labels.bincount() / len(like_mslr().labels)
        leaves = float((labels * torch.tensor(model.tables[5]["stop"])).sum())
        result = estimated(like_mslr(), model)
        assert result[0] == 1
        assert result == pytest.approx(authors, abs=0.03)
        assert result == pytest.approx([(1 - leaves) ** rank for rank in range(10)], abs=0.02)


def test_users_who_read_to_the_end_expose_every_place():
    """A user who never stops clicks alike at every place. The authors' values for perfect clicks fall to 0.982."""
    assert estimated(like_mslr(), user("click=perfect")) == pytest.approx([1.0] * 10, abs=0.03)


def test_estimated_exposure_of_users_who_look_at_places_is_their_examination():
    examination = [1.0, 0.7, 0.9, 0.2, 0.0]
    found = estimated(like_mslr(), user("click=position_based", f"click.examination={examination}"), positions=5)
    assert found == pytest.approx(examination, abs=0.03)
    assert found[4] == 0


def test_estimated_exposure_is_the_same_every_time_and_leaves_no_trace():
    dataset, state = like_mslr(40), torch.get_rng_state()
    first = estimated(dataset, user("click=informational"))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert estimated(dataset, user("click=informational")) == first


def test_lists_shorter_than_k_are_shown_as_far_as_they_go():
    """Users who read everything and click on everything: every place that there is counts fully, the others nothing."""
    dataset = dataclasses.replace(handmade([[1, 2], [3], [1, 1, 1]]), group=torch.tensor([0, 1] * 3, dtype=torch.int8))
    assert estimated(dataset, user("click=random", "click.click=[1,1,1,1,1]"), positions=5) == [1, 1, 1, 0, 0]


def test_lists_show_the_documents_of_their_own_query():
    """Of three queries all of one, all of two and none of three documents are clicked: 2/3 at rank 1, 1/2 at rank 2."""
    dataset = handmade([[4], [4, 4], [0, 0, 0]])
    dataset = dataclasses.replace(dataset, group=torch.tensor([0, 1] * 3, dtype=torch.int8))
    found = estimated(dataset, user("click=random", "click.click=[0,0,0,0,1]"), positions=3)
    assert found == pytest.approx([1, (1 / 2) / (2 / 3), 0], abs=0.02)


def test_users_who_never_click_estimate_nothing():
    with pytest.raises(ValueError, match=r"^exposure=estimated needs users who click: use exposure=reciprocal$"):
        estimated(like_mslr(5), user("click=random", "click.click=[0,0,0,0,0]"))


def test_the_ratio_due_to_groups_is_counted_on_the_training_split():
    """Query 0 is for training: mean labels 2 and 1, three documents and one. Query 1 would say otherwise."""
    dataset = handmade([[1, 1, 2, 3], [4, 4]])
    group = torch.tensor([0, 1, 0, 0, 1, 1], dtype=torch.int8)
    dataset = dataclasses.replace(dataset, group=group, splits={"train": torch.tensor([0]), "test": torch.tensor([1])})
    for beta, expected in {"merit": 2.0, "parity": 3.0, 0.25: 0.25}.items():
        found = exposure_of(dataset, user(), 2, "reciprocal", beta)
        assert isinstance(found, Exposure)
        assert found.beta == pytest.approx(expected)
        assert found.position.tolist() == [1, 0.5]


def test_without_groups_there_is_no_exposure_but_settings_are_checked():
    assert exposure_of(handmade([[1, 0, 2, 0]]), user(), 3, "estimated", "merit") is None
    with pytest.raises(ValueError, match=r"^exposure must be one of reciprocal, log, estimated or a list "):
        exposure_of(handmade([[1]]), user(), 3, "cubic", "merit")


def three_groups(labels: list[int], group: list[int]) -> Dataset:
    """One training query with these labels and groups."""
    return dataclasses.replace(handmade([labels]), group=torch.tensor(group, dtype=torch.int8))


def test_each_group_but_the_first_has_its_ratio():
    """Mean labels 2, 1 and 4 of two, three and one documents: group 0 is due 2 times group 1 and half of group 2."""
    dataset = three_groups([1, 3, 0, 2, 1, 4], [0, 0, 1, 1, 1, 2])
    for beta, expected in {"merit": (2.0, 0.5), "parity": (2 / 3, 2.0)}.items():
        found = exposure_of(dataset, user(), 2, "reciprocal", beta)
        assert found.beta == pytest.approx(expected)
        assert found.groups == 3
    assert exposure_of(dataset, user(), 2, "reciprocal", [1, 0.25]).beta == (1.0, 0.25)
    assert exposure_of(dataset, user(), 2, "reciprocal", [1, 0.25]).merits() == (1.0, 1.0, 4.0)


def test_the_number_of_betas_is_that_of_the_groups():
    dataset = three_groups([1, 3, 0], [0, 1, 2])
    for beta, got in (0.5, "0.5"), ([1.0], r"\[1.0\]"), ([1.0, 2.0, 3.0], r"\[1.0, 2.0, 3.0\]"):
        with pytest.raises(ValueError, match=rf"^beta must be merit, parity or a list of 2 numbers, .* 3 .*got {got}$"):
            exposure_of(dataset, user(), 2, "log", beta, needed=False)
    with pytest.raises(ValueError, match=r"^beta must be merit, parity or a number, as the dataset has 2 groups, got "):
        exposure_of(three_groups([1, 3, 0], [0, 1, 1]), user(), 2, "log", [0.5])
    with pytest.raises(ValueError, match=r"^beta must be one of merit, parity or 0 or more or a list"):
        exposure_of(dataset, user(), 2, "log", [1.0, 0.0])


def test_a_group_without_merit_needs_numbers():
    for labels, number in ([1, 3, 0], 2), ([0, 3, 1], 0):
        dataset = three_groups(labels, [0, 1, 2])
        assert exposure_of(dataset, user(), 2, "log", "merit", needed=False) is None
        message = rf"^beta must be a list of .*numbers, as group {number} has no relevant document in the train"
        with pytest.raises(ValueError, match=message):
            exposure_of(dataset, user(), 2, "log", "merit")
        assert exposure_of(dataset, user(), 2, "log", "parity").beta == (1.0, 1.0)


@given(st.lists(st.text("ABCD", min_size=1, max_size=5), min_size=1, max_size=6), st.data())
def test_the_unfairness_of_several_groups_is_the_largest_disparity(history, data):
    """And with two groups it would be the size of the signed unfairness."""
    betas = data.draw(st.lists(st.floats(0.1, 5), min_size=2, max_size=3))
    history = [word.replace("D", "A") for word in history] if len(betas) == 2 else history
    p = reference.exposure("log", 5)
    exposure = Exposure(position_exposure("log", 5), tuple(betas))
    total = torch.zeros(len(betas) + 1, dtype=torch.float64)
    for word, expected in zip(history, reference.largest_disparity(history, p, betas), strict=True):
        group = torch.tensor(["ABCD".index(letter) for letter in word])
        total += exposure.of_groups(group, torch.ones(len(word), dtype=torch.bool))
        assert float(exposure.unfairness(total)) == pytest.approx(expected, abs=1e-9)
    two = [word.replace("C", "B").replace("D", "B") for word in history]
    sizes = [abs(value) for value in reference.unfairness(two, p, betas[0])]
    assert reference.largest_disparity(two, p, betas[:1]) == pytest.approx(sizes, abs=1e-9)


def test_a_ratio_that_cannot_be_computed_is_an_error_only_if_it_is_needed():
    dataset = dataclasses.replace(handmade([[1, 0, 2]]), group=torch.tensor([0, 1, 0], dtype=torch.int8))
    assert exposure_of(dataset, user(), 2, "log", "merit", needed=False) is None
    with pytest.raises(ValueError, match=r"^beta must be a number, as group 1 has no relevant document"):
        exposure_of(dataset, user(), 2, "log", "merit")
