"""Click rates against the probabilities worked out by enumeration in tests/reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.click.dependent import DependentClick
from ol2r_cli.click.position_based import PositionBased
from ol2r_cli.compose import build, compose
from ol2r_cli.interfaces import ClickModel, Sizes
from ol2r_cli.random import Streams
from tests.reference import clicks as reference

GRADES = [1, 0, 2, 0]
DRAWS = 20_000


def sizes(grades: int, positions: int = 4) -> Sizes:
    return Sizes(replicas=1, documents=9, features=1, positions=positions, queries=1, rounds=1, grades=grades)


def rates(model: ClickModel, grades: list[int]) -> np.ndarray:
    """Share of clicks at each place over DRAWS independent users."""
    model.setup(sizes(3, len(grades)), torch.zeros(1, 1))
    random = Streams(torch.arange(DRAWS), ahead=1).at("click", 0)
    shown = torch.ones(DRAWS, len(grades), dtype=torch.bool)
    return model.click(torch.tensor(grades).repeat(DRAWS, 1), shown, random).double().mean(0).numpy()


def close(found: np.ndarray, expected: list[float]) -> None:
    error = np.sqrt(np.maximum(np.array(expected) * (1 - np.array(expected)), 1e-12) / DRAWS)
    assert (np.abs(found - expected) <= 4 * error + 1e-9).all(), (found, expected)


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational", "almost_random", "random", "cascade"])
@pytest.mark.parametrize("stop_without_click", [False, True])
def test_dependent_click_rates_are_the_analytic_ones(name, stop_without_click):
    config = compose([f"click={name}", f"click.stop_without_click={stop_without_click}"])
    click, stop = (list(config.click.tables[3][column]) for column in ("click", "stop"))
    close(rates(build(config.click), GRADES), reference.dependent_clicks(GRADES, click, stop, stop_without_click))


def test_cascade_is_the_dependent_model_that_stops_at_the_first_click():
    click = [0.05, 0.5, 0.95]
    model = DependentClick(click, [1, 1, 1], {}, False)
    close(rates(model, GRADES), reference.cascade_clicks(GRADES, click))


@pytest.mark.parametrize("eta", [0.0, 1.0, 2.0])
def test_position_based_click_rates_are_the_analytic_ones(eta):
    click = [0.4, 0.7, 0.9]
    close(rates(PositionBased(click, {}, eta, None), GRADES), reference.position_based_clicks(GRADES, click, eta))


def test_examination_can_be_given():
    model = PositionBased([1, 1, 1], {}, 1.0, [1, 0, 0.5, 0])
    close(rates(model, GRADES), [1, 0, 0.5, 0])


def test_whole_click_patterns_have_their_probabilities():
    from collections import Counter

    click, stop, grades = [0.4, 0.7, 0.9], [0.1, 0.3, 0.5], [2, 0, 1]
    model = DependentClick(click, stop, {}, False)
    model.setup(sizes(3, 3), torch.zeros(1, 1))
    random = Streams(torch.arange(DRAWS), ahead=1).at("click", 5)
    drawn = model.click(torch.tensor(grades).repeat(DRAWS, 1), torch.ones(DRAWS, 3, dtype=torch.bool), random)
    counts = Counter(tuple(row) for row in drawn.tolist())
    for pattern, probability in reference.dependent_patterns(grades, click, stop, False).items():
        share = counts[tuple(bool(c) for c in pattern)] / DRAWS
        assert abs(share - float(probability)) <= 4 * np.sqrt(float(probability) / DRAWS)


def test_nothing_is_clicked_where_nothing_is_shown():
    model = DependentClick([1, 1, 1], [0, 0, 0], {}, False)
    model.setup(sizes(3, 3), torch.zeros(1, 1))
    shown = torch.tensor([[True, False, False]])
    clicks = model.click(torch.tensor([[2, 2, 2]]), shown, Streams(torch.tensor([0])).at("click", 0))
    assert clicks.tolist() == [[True, False, False]]


def test_another_number_of_grades_names_what_to_type():
    model = build(compose(["click=perfect"]).click)
    with pytest.raises(
        ValueError, match=r"5, 3, 2 grades, the dataset has 4: give click\.click=\[\.,\.,\.,\.\] click\.stop="
    ):
        model.setup(sizes(4), torch.zeros(1, 1))


def test_wrong_probabilities_are_refused():
    with pytest.raises(ValueError, match=r"click\.click must be 3 probabilities, one per grade, got \[0, 2, 1\]"):
        DependentClick([0, 2, 1], [0, 0, 0], {}, False).setup(sizes(3), torch.zeros(1, 1))
    with pytest.raises(ValueError, match=r"click\.examination must be 4 probabilities"):
        PositionBased([0, 1, 1], {}, 1.0, [1, 0.5]).setup(sizes(3), torch.zeros(1, 1))
    with pytest.raises(ValueError, match="eta must be 0 or more, got -1"):
        PositionBased([0, 1, 1], {}, -1, None)
