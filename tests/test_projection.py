"""Documents on two discriminant axes: by hand where grades are apart, and from a small run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.cli import main
from ol2r_cli.projection import _discriminants, _evenly, project
from ol2r_cli.report.collect import collect
from ol2r_cli.report.figures import draw
from ol2r_cli.report.groups import groups
from ol2r_cli.report.labels import Labels

SMALL = "dataset.queries={train:6,validation:2,test:2} dataset.documents=8 rounds=2 evaluate_every=2 device=cpu"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """olRankNet and PairRank after two rounds."""
    root = tmp_path_factory.mktemp("runs")
    for own in ("ranker=olranknet ranker.model.width=4 replicas=2", "ranker=pairrank"):
        assert main(["run", *SMALL.split(), *own.split(), f"output_dir={root}"]) == 0
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


def test_features_that_never_vary_or_repeat_others_do_no_harm():
    generator = torch.Generator().manual_seed(0)
    grades = np.repeat([0, 1, 2], 50)
    own = torch.randn(150, 2, generator=generator) + 3 * torch.from_numpy(grades)[:, None]
    values = torch.cat([own, own, torch.ones(150, 1)], 1)
    assert np.isfinite(_discriminants(values, grades)).all()


@pytest.mark.parametrize(("rows", "most", "kept"), [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (10, 2, [0, 9])])
def test_evenly(rows, most, kept):
    assert _evenly(torch.arange(rows), most).tolist() == kept


def test_of_a_run(network):
    found = project(network, documents=5)
    assert found.features.shape == found.network.shape == (len(found.grades), 2)
    assert max(np.unique(found.grades, return_counts=True)[1]) == 5
    assert list(found.grades) == sorted(found.grades)
    assert not np.allclose(project(network, 5, seed=1).network, found.network)
    assert np.array_equal(project(network, 5, seed=1).features, found.features)


def test_the_figure_has_a_panel_for_features_and_one_for_the_network(runs, network):
    own = groups(collect([runs]).runs)
    figure = draw("lda", own, Labels(own), documents="5")
    assert [axes.get_title().replace("\n", ", ") for axes in figure.axes] == [
        "synthetic, features",
        "olRankNet, informational, last hidden layer",
    ]
    expected = project(network, 5)
    for axes, places in zip(figure.axes, (expected.features, expected.network), strict=True):
        shown = {tuple(point) for line in axes.lines for point in line.get_xydata()}
        assert shown == {tuple(point) for point in places}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": "7"}, r"^seed must be one of 0, 1, got 7$"),
        ({"seed": "first"}, r"^seed must be a whole number from 0 to \d+, got first$"),
        ({"documents": 0}, r"^documents must be a whole number from 1 to 100000, got 0$"),
    ],
)
def test_what_is_asked_for_wrongly(runs, options, message):
    own = groups(collect([runs]).runs)
    with pytest.raises(ValueError, match=message):
        draw("lda", own, Labels(own), **options)


def test_a_linear_ranker_has_no_layers(runs):
    with pytest.raises(
        ValueError, match=r"lda needs a ranker with a network, got .*: run one, such as ranker=olranknet"
    ):
        project(next(run for run in runs.glob("*/pairrank-*")), 5)


def test_other_data_are_refused(network, tmp_path):
    import shutil

    copy = tmp_path / network.name
    shutil.copytree(network, copy)
    config = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(config.replace("noise: 0.8", "noise: 0.7"))
    with pytest.raises(ValueError, match=r"lda needs the data of the run .*: type .*ol2r.* force=true$"):
        project(copy, 5)
