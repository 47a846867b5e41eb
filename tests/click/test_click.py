"""Click rates against the probabilities worked out by enumeration in tests/reference."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from ol2r_cli.click.dependent import DependentClick
from ol2r_cli.click.position_based import PositionBased
from ol2r_cli.click.probabilities import interpolated
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


def set_up(grades: int, *overrides: str) -> ClickModel:
    """The click model of a configuration, ready for a dataset with so many grades."""
    model: ClickModel = build(compose(list(overrides)).config.click)
    model.setup(context(grades), torch.zeros(1, 1))
    return model


@pytest.mark.parametrize(
    ("name", "grades", "click", "stop"),
    [
        # Grade g of G is at place g (n - 1) / (G - 1) of a table for n grades. 4 of 5 grades: 0, 4/3, 8/3, 4.
        ("perfect", 4, [0, 0.8 / 3, 2 / 3, 1], [0, 0, 0, 0]),  # .2 + .2 / 3, .4 + .4 2/3
        ("informational", 4, [0.4, 1.9 / 3, 2.3 / 3, 0.9], [0.1, 0.7 / 3, 1.1 / 3, 0.5]),  # .6 + .1 / 3, .7 + .1 2/3
        ("navigational", 4, [0.05, 1.1 / 3, 1.9 / 3, 0.95], [0.2, 1.1 / 3, 1.9 / 3, 0.9]),
        # 6 grades, more than any table has: 0, .8, 1.6, 2.4, 3.2, 4.
        ("perfect", 6, [0, 0.16, 0.32, 0.56, 0.84, 1], [0] * 6),
        # 9 grades: every grade of the table, and the middle between them.
        ("almost_random", 9, [0.4, 0.425, 0.45, 0.475, 0.5, 0.525, 0.55, 0.575, 0.6], [0.5] * 9),
    ],
)
def test_another_number_of_grades_is_interpolated_from_the_next_larger_table(name, grades, click, stop):
    model = set_up(grades, f"click={name}")
    assert model.click_probability.tolist() == pytest.approx(click, abs=1e-15)
    assert model.stop_probability.tolist() == pytest.approx(stop, abs=1e-15)
    assert [float(model.click_probability[end]) for end in (0, -1)] == [click[0], click[-1]]
    start = f"click.click for {grades} grades is interpolated from that for 5 grades: [{click[0]:.4g},{click[1]:.4g},"
    assert model.warnings[0].startswith(start)
    assert model.warnings[0].endswith("]; click.click=[..] sets your own")
    assert [line.partition(" for ")[0] for line in model.warnings] == ["click.click", "click.stop"]


def test_the_papers_tables_for_three_grades_follow_from_those_for_five():
    """Of all users but the perfect one, whose middle grade the papers give a half."""
    for name in ("navigational", "informational", "almost_random", "random", "cascade", "position_based"):
        tables = compose([f"click={name}"]).config.click.tables
        for column in tables[5]:
            assert interpolated(tables[5][column], 3) == pytest.approx(list(tables[3][column]), abs=1e-15)


def test_a_table_that_fits_is_taken_as_it_is_without_a_warning():
    for grades in (2, 3, 5):
        model = set_up(grades, "click=perfect")
        assert model.warnings == ()
        assert len(model.click_probability) == grades
    own = set_up(4, "click=perfect", "click.click=[0,.1,.2,1]")
    assert own.click_probability.tolist() == [0, 0.1, 0.2, 1]
    assert [line.partition(" for ")[0] for line in own.warnings] == ["click.stop"]
    table = set_up(4, "click=perfect", "+click.tables.4={click:[0,.1,.2,1],stop:[0,0,0,0]}")
    assert (table.click_probability.tolist(), table.warnings) == ([0, 0.1, 0.2, 1], ())
    words = "+click.tables.7={click:[0,0,0,0,0,0,1]}", "+click.tables.9={click:[1,1,1,1,1,1,1,1,1]}"
    larger = set_up(6, "click=position_based", *words)  # the table for 7, and not that for 5
    assert larger.click_probability.tolist() == pytest.approx([0, 0, 0, 0, 0, 1])


def test_a_table_that_cannot_be_used_is_named():
    bad = {
        "+click.tables.4={click:[0,0,0,1]}": r"click\.tables must have stop for 4 grades, got none: "
        r"type click\.stop=\[\.,\.,\.,\.\]$",
        "click.tables={5:{click:[0,1]}}": r"click\.tables\.5\.click must be 5 probabilities, .*, got \[0, 1\]$",
    }
    for override, message in bad.items():
        with pytest.raises(ValueError, match=f"^{message}"):
            set_up(4, "click=perfect", override)
    with pytest.raises(ValueError, match=r"^click\.tables must have click for 4 grades, got none: type click\.click="):
        DependentClick(None, None, {}, False).setup(context(4), torch.zeros(1, 1))


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
