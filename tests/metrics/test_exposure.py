"""Exposure of places and groups, and what groups are due, against the plain port of the definitions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.metrics.exposure import Exposure, check_beta, check_exposure, coefficient, position_exposure
from tests.reference import exposure as reference

words = st.text("AB", min_size=1, max_size=9)
labelled = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("AB")), min_size=1, max_size=30)


@pytest.mark.parametrize("model", ["reciprocal", "log", [1, 0.5, 0.5, 0.2, 0.1, 0, 0]])
@pytest.mark.parametrize("positions", [1, 3, 7])
def test_exposure_of_places_is_its_definition(model, positions):
    found = position_exposure(model, positions)
    assert found.dtype == torch.float64
    assert found.tolist() == reference.exposure(model, positions)


def test_exposure_by_hand():
    assert position_exposure("reciprocal", 3).tolist() == [1, 1 / 2, 1 / 3]
    assert position_exposure("log", 4).tolist() == [1, 1 / 2, 1 / (1 + math.log2(3)), 1 / 3]


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


@given(labelled, st.sampled_from(["merit", "parity", 0, 0.5, 2]))
def test_what_groups_are_due_is_its_definition(documents, beta):
    labels, groups = zip(*documents, strict=True)
    given = torch.tensor(labels), torch.tensor(["AB".index(letter) for letter in groups])
    try:
        expected = reference.coefficient(beta, labels, "".join(groups))
    except ValueError:
        with pytest.raises(ValueError, match=r"^beta must be a number, as group 1 has no .*, got '(merit|parity)'$"):
            coefficient(beta, *given)
    else:
        assert coefficient(beta, *given) == pytest.approx(expected)


def test_what_groups_are_due_by_hand():
    """Labels 1, 2 of group 0 and 0, 1, 1 of group 1: mean labels 3/2 and 2/3, sizes 2 and 3."""
    labels, group = torch.tensor([1, 0, 1, 2, 1]), torch.tensor([0, 1, 1, 0, 1])
    assert coefficient("merit", labels, group) == pytest.approx(9 / 4)
    assert coefficient("parity", labels, group) == pytest.approx(2 / 3)


def test_exposure_goes_where_it_is_sent():
    there = Exposure(position_exposure("log", 3), 0.5).to(torch.device("meta"))
    assert (there.position.device.type, there.beta) == ("meta", 0.5)


@pytest.mark.parametrize("model", ["linear", [1, 0.5], [1, 0.5, 1.1], [1, -0.1, 0]])
def test_what_is_no_exposure_is_refused(model):
    with pytest.raises(
        ValueError, match=r"^exposure must be (one of reciprocal, log, estimated or|at least 3 numbers)"
    ):
        check_exposure(model, 3)


@pytest.mark.parametrize("model", ["reciprocal", "log", "estimated", [1, 0.5, 0], [1, 1, 1, 0]])
def test_what_is_an_exposure_is_not(model):
    check_exposure(model, 3)


@pytest.mark.parametrize("beta", ["equal", -0.1, math.nan, True])
def test_what_nobody_can_be_due_is_refused(beta):
    with pytest.raises(ValueError, match=r"^beta must be 'merit', 'parity' or a number from 0 up, got "):
        check_beta(beta)
