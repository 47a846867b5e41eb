"""Users as the units of fits, and the styles of their models beside those of rankers."""

from __future__ import annotations

import math

import pytest

from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.plugins.recommend.kind import KIND
from ol2r_cli.plugins.recommend.styles import MODEL_STYLES
from ol2r_cli.plugins.recommend.users import Users
from ol2r_cli.report.estimates import of_values, paired_t, two_sided, unit_values
from ol2r_cli.report.names import RANKERS, dataset_name, known_rankers, paper_name


def test_a_user_of_several_splits_is_one_unit():
    """The standard error is the root of u / (u - 1) times the sum over users of their summed errors squared, over n."""
    of_users = {7: [0.2, 0.4, 0.6], 9: [1.0], 4: [0.0, 0.8]}
    values = {(user, split): value for user, own in of_users.items() for split, value in enumerate(own)}
    estimate = of_values(values, Users().independent)
    assert estimate.mean == pytest.approx(0.5)
    summed = [-0.3 - 0.1 + 0.1, 0.5, -0.5 + 0.3]
    error = math.sqrt(3 / 2 * sum(one**2 for one in summed)) / 6
    assert (estimate.n, estimate.units) == (6, 3)
    assert estimate.half_width == pytest.approx(quantile(2) * error)
    assert paired_t(unit_values(values, Users().independent)) == pytest.approx(two_sided(0.5, error, 2))
    of_one_split = {(user, 0): own[0] for user, own in of_users.items()}
    assert unit_values(of_one_split, Users().independent) == pytest.approx([0.2, 1.0, 0.0])
    copied = {(user, split): own[0] for user, own in of_users.items() for split in range(3)}
    one, three = (of_values(values, Users().independent) for values in (of_one_split, copied))
    assert three.half_width == pytest.approx(one.half_width)


def test_figures_know_models_and_reviews():
    """Every model has a name and a style of its own, which no ranker has."""
    assert paper_name("fact", {}) == "FacT"
    assert dataset_name("amazon_cellphones") == "Amazon"
    assert KIND.rankers.keys() == MODEL_STYLES.keys()
    assert [*known_rankers()] == [*RANKERS, *KIND.rankers], "in the order of a legend"
    assert len({ranker.style for ranker in known_rankers().values()}) == len(RANKERS) + len(MODEL_STYLES)
