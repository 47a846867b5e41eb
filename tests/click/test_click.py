"""Click rates against the probabilities worked out by enumeration in tests/reference."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from ol2r_cli.click.dependent import DependentClick
from ol2r_cli.click.position_based import PositionBased
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import ClickModel, RunContext
from ol2r_cli.tensor.streams import Streams
from tests.reference import clicks as reference

GRADES = [1, 0, 2, 0]
DRAWS = 20_000


def context(grades: int, positions: int = 4) -> RunContext:
    return RunContext(replicas=1, documents=9, features=1, positions=positions, queries=1, rounds=1, grades=grades)


def rates(model: ClickModel, grades: list[int]) -> np.ndarray:
    """Share of clicks at each place over DRAWS independent users."""
    model.setup(context(3, len(grades)), torch.zeros(1, 1))
    random = Streams(torch.arange(DRAWS), ahead=1).at("click", 0)
    shown = torch.ones(DRAWS, len(grades), dtype=torch.bool)
    return model.click(torch.tensor(grades).repeat(DRAWS, 1), shown, random).double().mean(0).numpy()


def check_rates(observed: np.ndarray, expected: list[float]) -> None:
    error = np.sqrt(np.maximum(np.array(expected) * (1 - np.array(expected)), 1e-12) / DRAWS)
    assert (np.abs(observed - expected) <= 4 * error + 1e-9).all(), (observed, expected)


@pytest.mark.parametrize("name", ["perfect", "navigational", "informational", "almost_random", "random", "cascade"])
@pytest.mark.parametrize("stop_without_click", [False, True])
def test_dependent_click_rates_are_the_analytic_ones(name, stop_without_click):
    config = compose([f"click={name}", f"click.stop_without_click={stop_without_click}"]).config
    click, stop = (list(config.click.tables[3][column]) for column in ("click", "stop"))
    check_rates(rates(build(config.click), GRADES), reference.dependent_clicks(GRADES, click, stop, stop_without_click))


def test_cascade_is_the_dependent_model_that_stops_at_the_first_click():
    click = [0.05, 0.5, 0.95]
    model = DependentClick(click, [1, 1, 1], {}, False)
    check_rates(rates(model, GRADES), reference.cascade_clicks(GRADES, click))


@pytest.mark.parametrize("eta", [0.0, 1.0, 2.0])
def test_position_based_click_rates_are_the_analytic_ones(eta):
    click = [0.4, 0.7, 0.9]
    check_rates(rates(PositionBased(click, {}, eta, None), GRADES), reference.position_based_clicks(GRADES, click, eta))


def test_examination_can_be_a_setting():
    model = PositionBased([1, 1, 1], {}, 1.0, [1, 0, 0.5, 0])
    check_rates(rates(model, GRADES), [1, 0, 0.5, 0])


def test_whole_click_patterns_have_their_probabilities():
    click, stop, grades = [0.4, 0.7, 0.9], [0.1, 0.3, 0.5], [2, 0, 1]
    model = DependentClick(click, stop, {}, False)
    model.setup(context(3, 3), torch.zeros(1, 1))
    random = Streams(torch.arange(DRAWS), ahead=1).at("click", 5)
    drawn = model.click(torch.tensor(grades).repeat(DRAWS, 1), torch.ones(DRAWS, 3, dtype=torch.bool), random)
    counts = Counter(tuple(row) for row in drawn.tolist())
    for pattern, probability in reference.dependent_patterns(grades, click, stop, False).items():
        share = counts[tuple(bool(c) for c in pattern)] / DRAWS
        assert abs(share - float(probability)) <= 4 * np.sqrt(float(probability) / DRAWS)


def test_nothing_is_clicked_where_nothing_is_shown():
    model = DependentClick([1, 1, 1], [0, 0, 0], {}, False)
    model.setup(context(3, 3), torch.zeros(1, 1))
    shown = torch.tensor([[True, False, False]])
    clicks = model.click(torch.tensor([[2, 2, 2]]), shown, Streams(torch.tensor([0])).at("click", 0))
    assert clicks.tolist() == [[True, False, False]]


def test_another_number_of_grades_names_what_to_type():
    model = build(compose(["click=perfect"]).config.click)
    with pytest.raises(
        ValueError, match=r"5, 3, 2 grades, the dataset has 4: give click\.click=\[\.,\.,\.,\.\] click\.stop="
    ):
        model.setup(context(4), torch.zeros(1, 1))


def test_wrong_probabilities_are_refused():
    with pytest.raises(ValueError, match=r"^click\.click must be 3 probabilities, one per grade, got \[0, 1\]"):
        DependentClick([0, 1], [0, 0, 0], {}, False).setup(context(3), torch.zeros(1, 1))
    with pytest.raises(ValueError, match=r"^click\.examination must be 4 probabilities, one per place, got \[1, 0.5\]"):
        PositionBased([0, 1, 1], {}, 1.0, [1, 0.5]).setup(context(3), torch.zeros(1, 1))


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("perfect", "click.click=[0,2,1]", r"^click\.click must be .* each is from 0 to 1, got \[0, 2, 1\]"),
        ("perfect", "click.stop=[-1,0,0]", r"^click\.stop must be .* each is from 0 to 1, got \[-1, 0, 0\]"),
        (
            "perfect",
            "click.tables={5:{click:[7]}}",
            r"^click\.tables\.5\.click must be .* each is from 0 to 1, got \[7\]",
        ),
        ("position_based", "click.eta=-1", r"^click\.eta must be 0 or more, got -1$"),
        ("position_based", "click.examination=[1,1.5]", r"^click\.examination must be .*each is from 0 to 1"),
    ],
)
def test_settings_outside_their_range_are_refused(name, setting, message):
    with pytest.raises(ValueError, match=message):
        build(compose([f"click={name}", setting]).config.click)
