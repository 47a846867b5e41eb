"""What a run's settings `exposure` and `beta` become, and exposure estimated from simulated users."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ol2r_cli.compose import build, compose
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.exposure import exposure_of
from ol2r_cli.interfaces import ClickModel
from ol2r_cli.metrics.exposure import Exposure
from tests.worlds import handmade

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
    return build(compose(list(overrides)).click)


def estimated(dataset: Dataset, click: ClickModel, positions: int = 10) -> list[float]:
    exposure = exposure_of(dataset, click, positions, "estimated", 1.0)
    assert exposure is not None
    return exposure.position.tolist()


@pytest.mark.parametrize("click", AUTHORS)
def test_estimated_exposure_is_that_of_the_authors(click):
    """Whose users may stop at every document. Their 50,000 lists and ours leave standard errors of .01 at most."""
    found = estimated(like_mslr(), user(f"click={click}", "click.stop_without_click=true"))
    assert found == pytest.approx(AUTHORS[click], abs=0.03)
    assert found[0] == 1


def test_users_who_read_to_the_end_expose_every_place():
    """The authors' vector for perfect clicks goes from 1 to .982; whoever never stops clicks as much at every place."""
    assert estimated(like_mslr(), user("click=perfect")) == pytest.approx([1.0] * 10, abs=0.03)


@pytest.mark.parametrize("click", ["navigational", "informational"])
def test_estimated_exposure_is_how_likely_a_user_is_to_come_so_far(click):
    """Independent labels: at every place another user in E[stop] leaves, whatever is clicked."""
    table = user(f"click={click}").tables[5]
    labels = like_mslr().labels.bincount() / len(like_mslr().labels)
    leaves = float((labels * torch.tensor(table["stop"])).sum())
    found = estimated(like_mslr(), user(f"click={click}", "click.stop_without_click=true"))
    assert found == pytest.approx([(1 - leaves) ** rank for rank in range(10)], abs=0.02)


def test_estimated_exposure_of_users_who_look_at_places_is_their_examination():
    examination = [1.0, 0.7, 0.9, 0.2, 0.0]
    found = estimated(like_mslr(), user("click=position_based", f"click.examination={examination}"), positions=5)
    assert found == pytest.approx(examination, abs=0.03)
    assert found[4] == 0


def test_estimated_exposure_is_the_same_every_time_and_leaves_no_trace():
    dataset, state = like_mslr(40), torch.get_rng_state()
    first = estimated(dataset, user("click=informational"))
    torch.rand(5)
    assert estimated(dataset, user("click=informational")) == first
    torch.set_rng_state(state)
    assert estimated(dataset, user("click=informational")) == first
    assert estimated(dataset, user("click=navigational")) != first


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


def test_what_groups_are_due_is_counted_on_the_training_split():
    """Query 0 is for training: mean labels 2 and 1, three documents and one. Query 1 would say otherwise."""
    dataset = handmade([[1, 1, 2, 3], [4, 4]])
    group = torch.tensor([0, 1, 0, 0, 1, 1], dtype=torch.int8)
    dataset = dataclasses.replace(dataset, group=group, splits={"train": torch.tensor([0]), "test": torch.tensor([1])})
    for beta, expected in {"merit": 2.0, "parity": 3.0, 0.25: 0.25}.items():
        found = exposure_of(dataset, user(), 2, "reciprocal", beta)
        assert isinstance(found, Exposure)
        assert found.beta == pytest.approx(expected)
        assert found.position.tolist() == [1, 0.5]


@pytest.mark.parametrize("groups", [None, [0, 1, 2, 0]])
def test_without_two_groups_nobody_is_due_anything(groups):
    dataset = handmade([[1, 0, 2, 0]])
    group = None if groups is None else torch.tensor(groups, dtype=torch.int8)
    assert exposure_of(dataclasses.replace(dataset, group=group), user(), 3, "estimated", "merit") is None


def test_settings_are_checked_also_where_there_are_no_groups():
    with pytest.raises(ValueError, match=r"^exposure must be one of reciprocal, log, estimated or a list of numbers"):
        exposure_of(handmade([[1]]), user(), 3, "cubic", "merit")
    with pytest.raises(ValueError, match=r"^beta must be 'merit', 'parity' or a number from 0 up, got 'size'$"):
        exposure_of(handmade([[1]]), user(), 3, "log", "size")


def test_a_ratio_that_cannot_be_had_is_an_error_only_where_it_is_needed():
    dataset = dataclasses.replace(handmade([[1, 0, 2]]), group=torch.tensor([0, 1, 0], dtype=torch.int8))
    assert exposure_of(dataset, user(), 2, "log", "merit", needed=False) is None
    with pytest.raises(ValueError, match=r"^beta must be a number, as group 1 has no relevant document"):
        exposure_of(dataset, user(), 2, "log", "merit")
