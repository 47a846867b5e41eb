"""Exposure of places and groups and the ratio due to groups, by definition and estimated from simulated users."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
import torch

from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import ClickModel
from ol2r_cli.metrics.exposure import exposure_of, position_exposure
from tests.reference import exposure as reference
from tests.worlds import handmade


@pytest.mark.parametrize("model", ["reciprocal", "log", [1, 0.5, 0.5, 0.2, 0.1, 0, 0]], ids=str)
@pytest.mark.parametrize("positions", [1, 3, 7])
def test_exposure_of_places_is_its_definition(model, positions):
    found = position_exposure(model, positions)
    assert found.dtype == torch.float64
    assert found.tolist() == reference.exposure(model, positions)


def grouped(lists: list[list[int]], group: Sequence[int] | None, **more) -> Dataset:
    """Queries with these labels, and the groups of all documents."""
    numbers = group and torch.tensor(group, dtype=torch.int8)
    return dataclasses.replace(handmade(lists), group=numbers, **more)


@pytest.mark.parametrize("model", ["linear", [1, 0.5], [1, 0.5, 1.1], [1, -0.1, 0]], ids=str)
@pytest.mark.parametrize("group", [[0, 1, 1], None], ids=["groups", "no groups"])
def test_an_exposure_that_is_none_is_refused(model, group):
    dataset = grouped([[1, 2, 0]], group)
    with pytest.raises(ValueError, match=r"^exposure must be (one of reciprocal, log, estimated or|at least 3)"):
        exposure_of(dataset, user(), 3, model, 1)


def test_a_dataset_without_groups_has_no_exposure():
    assert exposure_of(handmade([[1]]), user(), 3, "estimated", "merit") is None


MSLR = [0.52, 0.322, 0.133, 0.0176, 0.0074]  # shares of the grades in MSLR-WEB10K, as in dataset=synthetic
AUTHORS = {  # exposure of ten places as the authors' code of FairExp has it
    "navigational": [1, 0.700, 0.496, 0.353, 0.248, 0.179, 0.128, 0.091, 0.067, 0.046],
    "informational": [1, 0.836, 0.697, 0.581, 0.491, 0.410, 0.346, 0.290, 0.245, 0.205],
}


def like_mslr(queries: int = 300, documents: int = 20) -> Dataset:
    """Independent labels with these shares; every third document in group 1."""
    labels = np.random.default_rng(0).choice(5, (queries, documents), p=np.array(MSLR) / sum(MSLR))
    return grouped(labels.tolist(), [int(row % 3 == 0) for row in range(queries * documents)])


@cache
def user(*overrides: str) -> ClickModel:
    return build(compose(list(overrides)).config.click)


def estimated(dataset: Dataset, click: ClickModel, positions: int = 10) -> list[float]:
    return exposure_of(dataset, click, positions, "estimated", 1.0).position.tolist()


@pytest.mark.parametrize("click", AUTHORS)
def test_estimated_exposure_is_that_of_the_authors(click):
    """And the probability of examination: users who may stop at every document leave with probability E[stop] at each
    place, as labels are independent. The authors' 50,000 lists and ours leave standard errors of at most 0.01."""
    model, dataset = user(f"click={click}", "click.stop_without_click=true"), like_mslr()
    leaves = np.take(model.tables[5]["stop"], dataset.labels.numpy()).mean()
    result = estimated(dataset, model)
    assert result[0] == 1
    assert result == pytest.approx(AUTHORS[click], abs=0.03)
    assert result == pytest.approx([(1 - leaves) ** rank for rank in range(10)], abs=0.02)


SHORT = grouped([[1, 2], [3], [1, 1, 1]], [0, 1] * 3)
# Of three queries all of one, all of two and none of three documents are clicked: 2/3 at rank 1, 1/2 at rank 2.
UNEVEN = grouped([[4], [4, 4], [0, 0, 0]], [0, 1] * 3)
EXAMINATION = [1.0, 0.7, 0.9, 0.2, 0.0]
CLICKED_BELOW = [1, (1 / 2) / (2 / 3), 0]


@pytest.mark.parametrize(
    ("dataset", "words", "expected"),
    [
        pytest.param(None, "click=perfect", [1.0] * 10, id="who reads to the end"),  # the authors' fall to 0.982
        pytest.param(None, f"click=position_based click.examination={EXAMINATION}", EXAMINATION, id="by place"),
        pytest.param(SHORT, "click=random click.click=[1,1,1,1,1]", [1, 1, 1, 0, 0], id="short lists"),
        pytest.param(UNEVEN, "click=random click.click=[0,0,0,0,1]", CLICKED_BELOW, id="by grade"),
    ],
)
def test_estimated_exposure_by_hand(dataset, words, expected):
    words = words.replace(", ", ",").split()
    found = estimated(dataset or like_mslr(), user(*words), positions=len(expected))
    assert found == pytest.approx(expected, abs=0.03)
    assert [value == 0 for value in found] == [value == 0 for value in expected]


def test_estimated_exposure_needs_clicks():
    with pytest.raises(ValueError, match=r"^exposure=estimated needs users who click: use exposure=reciprocal$"):
        estimated(UNEVEN, user("click=random", "click.click=[0,0,0,0,0]"))


def test_estimated_exposure_is_the_same_every_time():
    """It neither takes numbers of torch nor gives any."""
    state = torch.get_rng_state()
    first = estimated(UNEVEN, user("click=informational"))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert estimated(UNEVEN, user("click=informational")) == first


# Query 0 is for training: mean labels 2 and 1, three documents and one. Query 1 would say otherwise.
SPLITS = {"train": torch.tensor([0]), "test": torch.tensor([1])}
TWO = grouped([[1, 1, 2, 3], [4, 4]], [0, 1, 0, 0, 1, 1], splits=SPLITS)
# Mean labels 2, 1 and 4 of two, three and one documents: group 0 is due 2 times group 1 and half of group 2.
THREE = grouped([[1, 3, 0, 2, 1, 4]], [0, 0, 1, 1, 1, 2])


@pytest.mark.parametrize(
    ("dataset", "beta", "expected", "merits"),
    [
        (TWO, "merit", 2.0, (2.0, 1.0)),
        (TWO, "parity", 3.0, (3.0, 1.0)),
        (TWO, 0.25, 0.25, (0.25, 1.0)),
        (THREE, "merit", (2.0, 0.5), (2.0, 1.0, 4.0)),
        (THREE, "parity", (2 / 3, 2.0), (2 / 3, 1.0, 1 / 3)),
        (THREE, [1, 0.25], (1.0, 0.25), (1.0, 1.0, 4.0)),
    ],
    ids=lambda value: str(value) if isinstance(value, str | float | list) else "",
)
def test_ratios_due_to_groups_are_of_the_training_split(dataset, beta, expected, merits):
    found = exposure_of(dataset, user(), 2, "reciprocal", beta)
    assert found.beta == pytest.approx(expected)
    assert found.merits() == pytest.approx(merits)


@pytest.mark.parametrize(
    ("dataset", "beta", "message"),
    [
        *((TWO, beta, "one of merit, parity or (0 or more|a number) or a list ") for beta in ("equal", -0.1, math.nan)),
        (TWO, [0.5], r"merit, parity or a number, as the dataset has 2 groups, got \[0.5\]$"),
        (THREE, 0.5, "merit, parity or a list of 2 numbers, .* 3 .*got 0.5$"),
        (THREE, [1.0], r"merit, parity or a list of 2 numbers, .* 3 .*got \[1.0\]$"),
        (THREE, [1.0, 2.0, 3.0], r"merit, parity or a list of 2 numbers, .* 3 .*got \[1.0, 2.0, 3.0\]$"),
    ],
)
def test_a_ratio_that_is_none_is_refused(dataset, beta, message):
    with pytest.raises(ValueError, match=f"^beta must be {message}"):
        exposure_of(dataset, user(), 2, "log", beta, needed=False)


@pytest.mark.parametrize(("labels", "number"), [([1, 3, 0], 2), ([0, 3, 1], 0)])
def test_a_group_without_merit_needs_ratios_that_are_given(labels, number):
    dataset = grouped([labels], [0, 1, 2])
    found = exposure_of(dataset, user(), 2, "log", "merit", needed=False)
    assert found.recorded() == {"position": [1.0, 0.5], "beta": None}, "the exposure of places counts without ratios"
    assert found.unfairness(torch.ones(1, 3).double()).isnan().all()
    message = rf"^beta must be a list of .*numbers, as group {number} has no relevant document in the train"
    with pytest.raises(ValueError, match=message):
        exposure_of(dataset, user(), 2, "log", "merit")
    assert exposure_of(dataset, user(), 2, "log", "parity").beta == (1.0, 1.0)
