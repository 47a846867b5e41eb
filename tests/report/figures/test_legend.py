"""One style for each ranker, which colour-blind readers can distinguish; names with few settings."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ol2r_cli.report.names import (
    RANKERS as NAMED,
)
from ol2r_cli.report.names import (
    Legend,
    distinguishing_settings,
    shade,
    variants,
)
from ol2r_cli.report.names import (
    ranker_style as style,
)

RANKERS = {k: v[1] for k, v in NAMED.items()}
from tests.report.figures.runs import groups_and_labels, play

# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as the colour-blind see it.
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
PROTANOPIA = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]


def lab(colour: str, sight) -> np.ndarray:
    """CIE L*a*b* (D65) of an sRGB colour with normal or impaired colour vision."""
    srgb = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.array(XYZ) @ np.clip(np.array(sight) @ linear, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = [float(np.cbrt(v)) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_rankers_differ_in_colour_for_everybody_or_in_both_dash_and_marker():
    for first, second in combinations(RANKERS.values(), 2):
        least = min(
            float(np.linalg.norm(lab(first.colour, sight) - lab(second.colour, sight)))
            for sight in (np.eye(3), DEUTERANOPIA, PROTANOPIA)
        )
        assert least > 15 or (first.dash != second.dash and first.marker != second.marker), (first, second)


def test_known_rankers_keep_their_colours():
    """Figures of different versions can be compared."""
    colours = {name: look.colour for name, look in RANKERS.items()}
    assert colours["pairrank"] == "#0072b2"
    assert colours["olranknet"] == "#d55e00"
    assert colours["p2neurrank"] == "#009e73"
    assert colours["pdgd"] == "#cc79a7"


def test_a_ranker_has_the_same_style_beside_any_other(tmp_path):
    play(tmp_path / "a", "ranker=pdgd")
    play(tmp_path / "a", "ranker=my_own")
    play(tmp_path / "b", "ranker=my_own", "click=informational")
    play(tmp_path / "b", "ranker=pairrank")
    play(tmp_path / "b", "ranker=dbgd")
    first, second = (
        Legend(*groups_and_labels(tmp_path / "a")).styles,
        Legend(*groups_and_labels(tmp_path / "b")).styles,
    )
    assert first["PDGD"] == RANKERS["pdgd"]
    assert first["my_own"] == second["my_own"]


def test_fairness_keeps_the_colour_and_changes_dash_and_marker():
    plain, fair = style("pairrank"), style("pairrank", "fairexp")
    assert fair.colour == plain.colour
    assert fair.dash != plain.dash
    assert fair.hollow
    assert not plain.hollow


@pytest.mark.parametrize("count", [2, 5, 9])
def test_variants_differ_and_keep_to_their_ranker(count):
    own = variants(RANKERS["pairrank"], count)
    assert len({look.colour for look in own}) == count
    assert len({look.marker for look in own}) == count
    lightness = [lab(look.colour, np.eye(3))[0] for look in own]
    assert lightness == sorted(lightness), "from dark to light"
    assert variants(RANKERS["pairrank"], 1) == [RANKERS["pairrank"]]


def test_shades_end_in_black_and_white():
    assert [shade("#0072b2", step) for step in (-1, 0, 0.5, 1)] == ["#000000", "#0072b2", "#80b8d8", "#ffffff"]


def test_names_are_those_of_the_papers(tmp_path):
    play(tmp_path, "ranker=pepairrank")
    play(tmp_path, "fairness=fairexp")
    play(tmp_path, "ranker=ips_regression", "fairness=fairco")
    play(tmp_path, "ranker=pdgd", "ranker/model=mlp")
    play(tmp_path, "ranker=pdgd", "ranker/model=linear")
    entries = list(Legend(*groups_and_labels(tmp_path)).styles)
    assert entries == ["FairExp-PairRank", "P²LinRank", "Linear-PDGD", "Neural-PDGD", "FairCo"]


def test_runs_of_versions_without_models_say_nothing_of_a_model(tmp_path):
    play(tmp_path, "ranker=p2neurrank", "ranker/model=mlp", "click=perfect")
    play(tmp_path, "ranker=p2neurrank", "click=informational")
    assert Legend(*groups_and_labels(tmp_path)).styles == {"P²NeurRank": RANKERS["p2neurrank"]}


def test_settings_are_named_only_where_a_panel_has_several(tmp_path):
    play(tmp_path, "click=perfect", "ranker.l2=0.1")
    play(tmp_path, "click=informational", "ranker.l2=10")
    assert list(Legend(*groups_and_labels(tmp_path)).styles) == ["PairRank"]
    play(tmp_path, "click=perfect", "ranker.l2=1", "ranker.pairs=all")
    assert list(Legend(*groups_and_labels(tmp_path)).styles) == ["PairRank λ=0.1", "PairRank λ=1", "PairRank λ=10"]


def test_settings_of_users_and_data_stand_in_the_title(tmp_path):
    play(tmp_path, "click.stop=0.5")
    play(tmp_path, "click.stop=0.25")
    legend = Legend(*groups_and_labels(tmp_path))
    assert list(legend.styles) == ["PairRank"]
    assert [legend.title(panel) for panel in legend.panels] == [
        "MQ2008, perfect, stop=0.25",
        "MQ2008, perfect, stop=0.5",
    ]


@pytest.mark.parametrize(
    ("panels", "names"),
    [
        ([[{"a": "1"}]], []),
        ([[{"a": "1", "b": "1"}, {"a": "2", "b": "2"}]], ["a"]),
        ([[{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]], ["b"]),
        ([[{"a": x, "b": y, "c": x + y} for x in "12" for y in "12"]], ["c"]),
        ([[{"a": x, "b": y} for x in "12" for y in "123"]], ["a", "b"]),
        ([[{"a": "1"}, {}]], ["a"]),
        ([[{"a": "1"}], [{"a": "2"}]], []),
    ],
)
def test_the_fewest_settings(panels, names):
    assert distinguishing_settings(panels) == names
