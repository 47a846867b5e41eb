"""Every click model against its definition, the tables of probabilities, and limits in which two models agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor

from ol2r_cli.click.models import DependentClick
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import ClickModel, RunContext
from ol2r_cli.tensor.streams import Streams
from tests.choices import names
from tests.reference import clicks as reference

GRADES = [1, 0, 3, 4, 0, 2, 0, 1, 4, 0, 2, 3]
PLACES = len(GRADES)  # two more than ULTRA's table has
DRAWS, BOUND = 40_000, 5  # lists, and standard errors within which the share of clicks must be

# Tables for five grades and curves by place, from the sources that docs/algorithms/clicks.md names.
NAVIGATIONAL = [0.05, 0.3, 0.5, 0.7, 0.95]
INFORMATIONAL, SATISFIED = [0.4, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]
QUARTERS = [0, 0.25, 0.5, 0.75, 1]
ULTRA = [0.1 + 0.9 * (2**grade - 1) / 15 for grade in range(5)]
PROPENSITIES = [0.68, 0.61, 0.48, 0.34, 0.28, 0.20, 0.11, 0.10, 0.08, 0.06]
RANKS = range(1, PLACES + 1)
TRUST = (
    [0.35 / k + 0.65 / (1 + 0.05 * (k - 1)) for k in RANKS],
    [1 / (1 + 0.005 * (k - 1)) for k in RANKS],
    [0.65 / k for k in RANKS],
)
TRIANGLE = [
    [1.0],
    [0.98, 1.0],
    [1.0, 0.62, 0.95],
    [1.0, 0.77, 0.42, 0.82],
    [1.0, 0.92, 0.55, 0.31, 0.69],
    [1.0, 0.96, 0.63, 0.4, 0.22, 0.54],
    [1.0, 0.99, 0.73, 0.46, 0.29, 0.17, 0.47],
    [1.0, 1.0, 0.89, 0.52, 0.35, 0.24, 0.14, 0.43],
    [1.0, 1.0, 0.95, 0.68, 0.4, 0.29, 0.19, 0.12, 0.41],
    [1.0, 1.0, 1.0, 0.96, 0.52, 0.36, 0.27, 0.18, 0.12, 0.43],
]


@dataclass
class Definition:
    """Of a click model: P(click) at every place of a list, and the clicks of one user with given random numbers."""

    clicks: Callable[[Sequence[int]], list[float]]
    user: Callable[[Sequence[int], Sequence[float]], list[bool]]
    draws: int = 1  # random numbers for every place


def cascade(click: Sequence[float], goes_on: reference.GoesOn) -> Definition:
    def clicks(grades: Sequence[int]) -> list[float]:
        examined = reference.cascade_examination(grades, click, goes_on)
        return [reached * click[grade] for reached, grade in zip(examined, grades, strict=True)]

    return Definition(clicks, lambda grades, chance: reference.cascade_user(grades, chance, click, goes_on), 2)


def independent(clicks: Callable[[Sequence[int]], list[float]]) -> Definition:
    return Definition(clicks, lambda grades, chance: reference.independent_user(clicks(grades), chance))


def by_place(eta: float) -> Definition:
    return independent(lambda grades: reference.position_based_clicks(grades, INFORMATIONAL, eta))


def dependent(click: Sequence[float], stop: Sequence[float], stop_without_click: bool = False) -> Definition:
    return cascade(click, lambda rank, grade, clicked: 1 - stop[grade] * (clicked or stop_without_click))


DEFINITIONS = {
    "perfect": dependent([0, 0.2, 0.4, 0.8, 1], [0] * 5),
    "navigational": dependent(NAVIGATIONAL, [0.2, 0.3, 0.5, 0.7, 0.9]),
    "informational": dependent(INFORMATIONAL, SATISFIED),
    "informational click.stop_without_click=true": dependent(INFORMATIONAL, SATISFIED, True),
    "almost_random": dependent([0.4, 0.45, 0.5, 0.55, 0.6], [0.5] * 5),
    "random": dependent([0.5] * 5, [0] * 5),
    "cascade": dependent(NAVIGATIONAL, [1] * 5),
    "position_based": by_place(eta=1.0),
    "position_based click.eta=2": by_place(eta=2.0),
    "trust_bias": independent(lambda grades: reference.trust_bias_clicks(grades, QUARTERS, *TRUST)),
    "dependent_by_place": cascade(NAVIGATIONAL, lambda rank, grade, clicked: 0.9 / rank if clicked else 1),
    "dynamic_bayesian": cascade(INFORMATIONAL, lambda rank, grade, clicked: 0.9 * (1 - SATISFIED[grade] * clicked)),
    "user_browsing": Definition(
        lambda grades: reference.user_browsing_clicks(grades, ULTRA, TRIANGLE),
        lambda grades, chance: reference.user_browsing_user(grades, chance, ULTRA, TRIANGLE),
    ),
}


COMPOSER = Composer()


@cache
def composed(*overrides: str) -> DictConfig:
    return COMPOSER(overrides).config.click


def context(positions: int, grades: int = 5, **more: Any) -> RunContext:
    return RunContext(1, 9, 1, positions, 1, 1, grades=grades, **more)


def set_up(settings: DictConfig, context: RunContext) -> ClickModel:
    model: ClickModel = build(settings)
    model.setup(context, torch.zeros(1, 1))
    return model


def user(*overrides: str, positions: int = PLACES, grades: int = 5) -> ClickModel:
    """A click model for so many places and grades."""
    return set_up(composed(*overrides), context(positions, grades))


def clicks_of(model: ClickModel, grades: Tensor, shown: Tensor | None = None) -> Tensor:
    """The clicks on these lists [B, K], of which all places are shown by default."""
    random = Streams(torch.arange(len(grades)), ahead=1).at("click", 3)
    return model.click(grades, torch.ones_like(grades, dtype=torch.bool) if shown is None else shown, random)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_user_does_what_the_definition_says(name):
    """On the same random numbers, whatever the number of places, and whatever is not shown; the share of clicks at
    every place is the formula."""
    definition, words = DEFINITIONS[name], f"click={name}".split()
    grades = torch.randint(5, (600, PLACES), generator=torch.Generator().manual_seed(5))
    shown = torch.arange(PLACES) < torch.arange(len(grades))[:, None] % (PLACES + 1)
    chance = Streams(torch.arange(len(grades)), ahead=1).at("click", 3).uniform(definition.draws * PLACES)
    expected = torch.tensor([definition.user(*one) for one in zip(grades.tolist(), chance.tolist(), strict=True)])
    assert torch.equal(clicks_of(user(*words), grades), expected)
    assert torch.equal(clicks_of(user(*words), grades, shown), expected & shown)
    for places in (1, 3, 11):
        part = clicks_of(user(*words, positions=places), grades[:, :places].contiguous())
        assert torch.equal(part, expected[:, :places]), places
    observed = clicks_of(user(*words), torch.tensor(GRADES).repeat(DRAWS, 1)).double().mean(0).numpy()
    share = np.array(definition.clicks(GRADES))
    assert (abs(observed - share) <= BOUND * np.sqrt(share * (1 - share) / DRAWS) + 1e-9).all(), (observed, share)


@pytest.mark.parametrize("name", sorted(set(DEFINITIONS) - {"perfect", "trust_bias"}))
def test_propensities_are_clicks_over_attraction(name):
    grades, model = torch.tensor([GRADES, GRADES[::-1]]), user(*f"click={name}".split())
    clicks = model.propensities(grades).double() * model.click_probability[grades].double()
    assert clicks.tolist() == [pytest.approx(DEFINITIONS[name].clicks(row), abs=1e-12) for row in grades.tolist()]


@pytest.mark.parametrize(("name", "expected"), [("perfect", [1.0] * PLACES), ("trust_bias", TRUST[0])])
def test_propensities_where_clicks_do_not_tell_them(name, expected):
    """Documents of grade 0 are never clicked, and with trust bias clicks are affine in attraction."""
    assert user(f"click={name}").propensities(torch.tensor([GRADES])).tolist() == [pytest.approx(expected)]


def test_trust_curves_are_published_ones():
    probability = user("click=trust_bias", positions=10).probability
    beta, alpha = probability[:, 0], probability[:, 4] - probability[:, 0]  # r = 0 and r = 1
    published = [0.350, 0.532, 0.547, 0.537, 0.520, 0.502, 0.483, 0.465, 0.447, 0.431]
    assert alpha.tolist() == pytest.approx(published, abs=6e-4)
    published = [0.650, 0.258, 0.153, 0.106, 0.080, 0.063, 0.051, 0.043, 0.036, 0.031]
    assert beta.tolist() == pytest.approx(published, abs=6e-4)


def test_any_affine_model_can_be_typed():
    curves = "click.examination=[1,1,1]", "click.epsilon_minus=[0.5,0.25,0]", "click.epsilon_plus=[0.8,0.85,0.1]"
    expected = np.add(np.outer([0.3, 0.6, 0.1], QUARTERS), [[0.5], [0.25], [0]])
    assert user("click=trust_bias", *curves, positions=3).probability.numpy() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["position_based_ultra", "user_browsing"])
def test_users_of_ultra_follow_its_formulas(name):
    for grades, table in composed(f"click={name}").tables.items():
        formula = [0.1 + 0.9 * (2**grade - 1) / (2 ** (grades - 1) - 1) for grade in range(grades)]
        assert list(table.click) == pytest.approx(formula), grades


def test_positions_of_ultra_are_its_table():
    probability = user("click=position_based_ultra", positions=10).probability
    assert probability.numpy() == pytest.approx(np.outer(PROPENSITIES, ULTRA))


ATTRACTION, GRADE_OF_DOCUMENT = [0.05, 0.9, 0.3, 0.6, 0.5, 1.0], [0, 0, 1, 2, 3, 4]
OF_DOCUMENTS = context(10, attraction=(torch.tensor(ATTRACTION).double(), torch.tensor(GRADE_OF_DOCUMENT)))
INTERPOLATED = [
    # Grade g of G is at place g (n - 1) / (G - 1) of a table for n grades. 4 of 5 grades: 0, 4/3, 8/3, 4.
    ("perfect", 4, [0, 0.8 / 3, 2 / 3, 1], [0, 0, 0, 0]),  # .2 + .2 / 3, .4 + .4 2/3
    ("informational", 4, [0.4, 1.9 / 3, 2.3 / 3, 0.9], [0.1, 0.7 / 3, 1.1 / 3, 0.5]),  # .6 + .1 / 3, .7 + .1 2/3
    # 6 grades, more than any table has: 0, .8, 1.6, 2.4, 3.2, 4.
    ("perfect", 6, [0, 0.16, 0.32, 0.56, 0.84, 1], [0] * 6),
]


@pytest.mark.parametrize(("name", "grades", "click", "stop"), INTERPOLATED)
def test_other_numbers_of_grades_are_interpolated(name, grades, click, stop):
    """From the next larger table; a table with the same number for all grades says nothing by it."""
    model = user(f"click={name}", grades=grades)
    assert model.click_probability.tolist() == pytest.approx(click, abs=1e-15)
    assert model.stop_probability.tolist() == pytest.approx(stop, abs=1e-15)
    start = f"click.click for {grades} grades is interpolated from that for 5 grades: [{click[0]:.4g},{click[1]:.4g},"
    assert model.warnings[0].startswith(start)
    assert model.warnings[0].endswith("]; click.click=[..] sets your own")
    assert settings_of(model) == ["click.click", "click.stop"][: 1 + any(stop)]


def settings_of(model: ClickModel) -> list[str]:
    """The settings that warnings are about."""
    return [line.partition(" for ")[0] for line in model.warnings]


@pytest.mark.parametrize("name", names("click"))
def test_attraction_of_the_dataset_decides_clicks(name):
    """Documents 0 to 5 of grades 0, 0, 1, .. instead of grades: clicks are those of a user with P(click | grade) of
    each document, on the same numbers; stops are those of its grade."""
    by_document = set_up(composed(f"click={name}"), OF_DOCUMENTS)
    settings = composed(f"click={name}").copy()
    if "stop" in settings:
        settings.stop = [settings.tables[5]["stop"][number] for number in GRADE_OF_DOCUMENT]
    settings.click = ATTRACTION
    by_grade = set_up(settings, context(10, grades=6))
    documents = torch.randint(6, (2_000, 10), generator=torch.Generator().manual_seed(3))
    clicks = clicks_of(by_document, documents)
    assert torch.equal(clicks, clicks_of(by_grade, documents))
    assert 0 < clicks.double().mean() < 1


def test_a_setting_wins_over_the_attraction_of_the_dataset():
    fixed = set_up(composed("click=cascade", "click.click=[0,0,0,0,1]"), OF_DOCUMENTS)
    assert fixed.click_probability.tolist() == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    "name", ["navigational", "informational", "almost_random", "random", "cascade", "position_based"]
)
def test_tables_for_three_grades_follow_from_those_for_five(name):
    """The papers' tables, of all users but the perfect one, whose middle grade the papers give a half."""
    settings = composed(f"click={name}").copy()
    three = settings.tables[3]
    settings.tables = {5: settings.tables[5]}
    model = set_up(settings, context(4, grades=3))
    assert model.click_probability.tolist() == pytest.approx(list(three.click), abs=1e-15)
    if "stop" in three:
        assert model.stop_probability.tolist() == pytest.approx(list(three.stop), abs=1e-15)


@pytest.mark.parametrize(
    ("words", "grades", "click", "warned"),
    [
        ("perfect", 3, None, []),
        ("navigational click.click=[0,.1,.2,1]", 4, [0, 0.1, 0.2, 1], ["click.stop"]),
        ("perfect +click.tables.4={click:[0,.1,.2,1],stop:[0,0,0,0]}", 4, [0, 0.1, 0.2, 1], []),
        (  # the next larger table, and not that for 5
            "position_based +click.tables.7={click:[0,0,0,0,0,0,1]} +click.tables.9={click:[1,1,1,1,1,1,1,1,1]}",
            *(6, [0, 0, 0, 0, 0, 1], ["click.click"]),
        ),
    ],
)
def test_a_table_that_fits_is_taken_as_it_is_without_a_warning(words, grades, click, warned):
    model = user(*f"click={words}".split(), grades=grades)
    expected = click or composed("click=perfect").tables[grades].click
    assert model.click_probability.tolist() == pytest.approx(list(expected))
    assert settings_of(model) == warned


NO_TABLE = r"click\.tables must have {0} for 4 grades, got none: type 'click\.{0}=\[\.,\.,\.,\.\]'$"


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("perfect", "click.click=[0,2,1]", r"click\.click must be .* each is from 0 to 1, got \[0, 2, 1\]"),
        ("perfect", "click.click=[0,1]", r"click\.click must be 4 probabilities, one per grade, got \[0, 1\]"),
        ("perfect", "click.tables={5:{click:[7]}}", r"click\.tables\.5\.click must be .* from 0 to 1, got \[7\]"),
        ("perfect", "click.tables={5:{click:[0,1]}}", r"click\.tables\.5\.click must be 5 probabilities, .*\[0, 1\]$"),
        ("perfect", "+click.tables.4={click:[0,0,0,1]}", NO_TABLE.format("stop")),
        ("position_based", "click.examination=[1,.5]", r"click\.examination must be 12 probabilities, one per rank"),
        ("dependent_by_place", "click.continuation=[1,.5]", r"click\.continuation must be 12 prob.*one per rank"),
        ("user_browsing", "click.examination=[[1],[1]]", r"click\.examination must have k probabilities in row k"),
        ("user_browsing", "click.examination=[]", r"click\.examination must have k probabilities.*\[\] in row 1$"),
        ("user_browsing", "click.examination=[[1],[1,7]]", r"click\.examination must be .*each is from 0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused(name, setting, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        user(f"click={name}", setting, grades=4)


def test_a_model_without_any_table_is_refused():
    with pytest.raises(ValueError, match=f"^{NO_TABLE.format('click')}"):
        DependentClick(None, None, {}, False).setup(context(4, grades=4), torch.zeros(1, 1))
