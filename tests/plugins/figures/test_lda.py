"""Documents on two discriminant axes: of constructed data, and of a small run."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from ol2r_cli.cli import main
from ol2r_cli.plugins.figures.drawn.lda import _discriminants, _evenly_spaced, project
from tests.manifests import accept_changes
from tests.report.runs import drawn

SMALL = "dataset.queries={train:6,validation:2,test:2} dataset.documents=8 rounds=2 evaluate_every=2 device=cpu"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """olRankNet and PairRank after two rounds."""
    root = tmp_path_factory.mktemp("runs")
    for words in ("ranker=olranknet ranker.model.width=4 replicas=2", "ranker=pairrank"):
        assert main(["run", *SMALL.split(), *words.split(), f"output_dir={root}"]) == 0
    return root


@pytest.fixture(scope="module")
def network(runs):
    return next(run for run in runs.glob("*/olranknet-*"))


def test_axes_are_those_along_which_grades_differ():
    """Grades differ along the first coordinate most, along the third less, along the second not at all."""
    generator = torch.Generator().manual_seed(0)
    grades = np.repeat([0, 1, 2], 200)
    means = torch.tensor([[0.0, 0.0, 0.0], [8.0, 0.0, 3.0], [16.0, 0.0, 0.0]])
    values = means[torch.from_numpy(grades)] + torch.randn(600, 3, generator=generator)
    places = _discriminants(values, grades)
    first = np.corrcoef(places[:, 0], values[:, 0])[0, 1]
    second = np.corrcoef(places[:, 1], values[:, 2])[0, 1]
    assert first > 0.99
    assert abs(second) > 0.9
    turned = _discriminants(-values, grades)
    assert np.corrcoef(turned[:, 0], grades)[0, 1] > 0.9, "grades grow along an axis, however features are signed"
    np.testing.assert_allclose(turned, places, atol=1e-9)
    assert abs(np.corrcoef(places[:, 1], values[:, 1])[0, 1]) < 0.2
    repeated = torch.cat([values, values, torch.ones(600, 1)], 1)
    assert np.isfinite(_discriminants(repeated, grades)).all(), "features that repeat or never vary do no harm"
    for rows, most, expected in [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (10, 2, [0, 9])]:
        assert _evenly_spaced(torch.arange(rows), most).tolist() == expected


def test_the_figure_has_panels_for_features_and_the_network(runs, network):
    (grades, *expected), (_, *other) = project(network, documents=5), project(network, 5, seed=1)
    assert expected[0].shape == expected[1].shape == (len(grades), 2)
    assert max(np.unique(grades, return_counts=True)[1]) == 5
    assert list(grades) == sorted(grades)
    assert np.array_equal(other[0], expected[0])
    assert not np.allclose(other[1], expected[1])
    figure = drawn(runs, "lda", documents="5")
    titles = [axes.get_title().replace("\n", ", ") for axes in figure.axes]
    assert titles == ["generated data, features", "olRankNet, informational, last hidden layer"]
    for axes, places in zip(figure.axes, expected, strict=True):
        shown = {tuple(point) for line in axes.lines for point in line.get_xydata()}
        assert shown == {tuple(point) for point in places}


@pytest.mark.parametrize(("options", "message"), [
    ({"seed": "7"}, r"^seed must be one of 0, 1, got 7$"),
    ({"seed": "first"}, r"^seed must be a whole number from 0 to \d+, got first$"),
    ({"documents": 0}, r"^documents must be a whole number from 1 to 100000, got 0$"),
])  # fmt: skip
def test_wrong_options_are_refused(runs, options, message):
    with pytest.raises(ValueError, match=message):
        drawn(runs, "lda", **options)


def test_a_linear_ranker_is_refused(runs):
    with pytest.raises(ValueError, match=r"lda needs a ranker with a network, got .*: run one, such as ranker=olrankn"):
        project(next(run for run in runs.glob("*/pairrank-*")), 5)


def test_other_data_are_refused(network, tmp_path):
    copy = tmp_path / network.name
    shutil.copytree(network, copy)
    config = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(config.replace("noise: 0.8", "noise: 0.7"))
    accept_changes(copy)
    with pytest.raises(ValueError, match=r"lda needs the data of the run .*: type .*ol2r.* force=true$"):
        project(copy, 5)
