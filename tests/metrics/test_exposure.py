"""Exposure of places and groups and the ratio due to groups, by definition and estimated from simulated users."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cache
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
from ol2r_cli.metrics.exposure import exposure_of, position_exposure
from tests.reference import exposure as reference
from tests.worlds import handmade


def test_exposure_of_places_is_its_definition():
    for model, positions in product(["reciprocal", "log", [1, 0.5, 0.5, 0.2, 0.1, 0, 0]], [1, 3, 7]):
        found = position_exposure(model, positions)
        assert found.dtype == torch.float64
        assert found.tolist() == reference.exposure(model, positions), (model, positions)


def one_query(labels: Sequence[int], group: Sequence[int]) -> Dataset:
    """One training query with these labels and groups."""
    return dataclasses.replace(handmade([list(labels)]), group=torch.tensor(group, dtype=torch.int8))


def test_settings_that_are_refused_or_accepted():
    dataset = one_query([1, 2, 0], [0, 1, 1])
    for model in ("linear", [1, 0.5], [1, 0.5, 1.1], [1, -0.1, 0]):
        for each in (dataset, handmade([[1]])):  # without groups too
            with pytest.raises(
                ValueError, match=r"^exposure must be (one of reciprocal, log, estimated or|at least 3)"
            ):
                exposure_of(each, user(), 3, model, 1)
    for model in ("reciprocal", "log", [1, 0.5, 0], [1, 1, 1, 0]):
        assert len(exposure_of(dataset, user(), 3, model, 1).position) == 3
    assert exposure_of(handmade([[1]]), user(), 3, "estimated", "merit") is None
    for beta in ("equal", -0.1, math.nan, True):
        with pytest.raises(ValueError, match=r"^beta must be one of merit, parity or (0 or more|a number) or a list "):
            exposure_of(dataset, user(), 3, "log", beta)


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


@cache
def user(*overrides: str) -> ClickModel:
    return build(compose(list(overrides)).config.click)


def estimated(dataset: Dataset, click: ClickModel, positions: int = 10) -> list[float]:
    exposure = exposure_of(dataset, click, positions, "estimated", 1.0)
    assert exposure is not None
    return exposure.position.tolist()


def test_estimated_exposure_is_that_of_the_authors():
    """Estimated exposure is that of the authors and the probability of examination.

    Users who may stop at every document leave with probability E[stop] at each place, as labels are independent.

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


def test_estimated_exposure_by_hand():
    """Users who read to the end expose every place alike; who looks at places, those; short lists as far as they go."""
    read = estimated(like_mslr(), user("click=perfect"))  # the authors' values fall to 0.982
    assert read == pytest.approx([1.0] * 10, abs=0.03)
    examination = [1.0, 0.7, 0.9, 0.2, 0.0]
    looked = estimated(like_mslr(), user("click=position_based", f"click.examination={examination}"), positions=5)
    assert looked == pytest.approx(examination, abs=0.03)
    assert looked[4] == 0
    short = dataclasses.replace(handmade([[1, 2], [3], [1, 1, 1]]), group=torch.tensor([0, 1] * 3, dtype=torch.int8))
    assert estimated(short, user("click=random", "click.click=[1,1,1,1,1]"), positions=5) == [1, 1, 1, 0, 0]
    # Of three queries all of one, all of two and none of three documents are clicked: 2/3 at rank 1, 1/2 at rank 2.
    own = dataclasses.replace(handmade([[4], [4, 4], [0, 0, 0]]), group=short.group)
    found = estimated(own, user("click=random", "click.click=[0,0,0,0,1]"), positions=3)
    assert found == pytest.approx([1, (1 / 2) / (2 / 3), 0], abs=0.02)
    with pytest.raises(ValueError, match=r"^exposure=estimated needs users who click: use exposure=reciprocal$"):
        estimated(own, user("click=random", "click.click=[0,0,0,0,0]"))
    state = torch.get_rng_state()
    first = estimated(own, user("click=informational"))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert estimated(own, user("click=informational")) == first, "the same every time"


def test_ratios_due_to_groups_are_of_the_training_split():
    """The ratios due to groups are counted on the training split.

    Query 0 is for training: mean labels 2 and 1, three documents and one. Query 1 would say otherwise.
    """
    dataset = handmade([[1, 1, 2, 3], [4, 4]])
    group = torch.tensor([0, 1, 0, 0, 1, 1], dtype=torch.int8)
    two = dataclasses.replace(dataset, group=group, splits={"train": torch.tensor([0]), "test": torch.tensor([1])})
    # Mean labels 2, 1 and 4 of two, three and one documents: group 0 is due 2 times group 1 and half of group 2.
    three = one_query([1, 3, 0, 2, 1, 4], [0, 0, 1, 1, 1, 2])
    for dataset, beta, expected in [
        (two, "merit", 2.0),
        (two, "parity", 3.0),
        (two, 0.25, 0.25),
        (three, "merit", (2.0, 0.5)),
        (three, "parity", (2 / 3, 2.0)),
        (three, [1, 0.25], (1.0, 0.25)),
    ]:
        found = exposure_of(dataset, user(), 2, "reciprocal", beta)
        assert found.beta == pytest.approx(expected), beta
        assert found.position.tolist() == [1, 0.5]
    assert found.merits() == (1.0, 1.0, 4.0)
    for beta, got in (0.5, "0.5"), ([1.0], r"\[1.0\]"), ([1.0, 2.0, 3.0], r"\[1.0, 2.0, 3.0\]"):
        with pytest.raises(ValueError, match=rf"^beta must be merit, parity or a list of 2 numbers, .* 3 .*got {got}$"):
            exposure_of(three, user(), 2, "log", beta, needed=False)
    with pytest.raises(ValueError, match=r"^beta must be merit, parity or a number, as the dataset has 2 groups, got "):
        exposure_of(two, user(), 2, "log", [0.5])
    for labels, number in ([1, 3, 0], 2), ([0, 3, 1], 0):
        dataset = one_query(labels, [0, 1, 2])
        assert exposure_of(dataset, user(), 2, "log", "merit", needed=False) is None
        message = rf"^beta must be a list of .*numbers, as group {number} has no relevant document in the train"
        with pytest.raises(ValueError, match=message):
            exposure_of(dataset, user(), 2, "log", "merit")
        assert exposure_of(dataset, user(), 2, "log", "parity").beta == (1.0, 1.0)


@given(st.lists(st.text("ABCD", min_size=1, max_size=5), min_size=1, max_size=6), st.data())
def test_unfairness_of_several_groups_is_the_largest_disparity(history, data):
    """The unfairness of several groups is the largest disparity.

    And with two groups it would be the size of the signed unfairness.
    """
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
