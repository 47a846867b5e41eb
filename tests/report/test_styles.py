"""Styles of figures: they do not change, and are told apart by everybody."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ol2r_cli.report.names import RANKERS, Legend, ranker_style
from ol2r_cli.report.styles import setting_styles, shade
from tests.report.runs import groups_and_labels, make

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


def test_rankers_differ_in_colour_or_in_dash_and_marker():
    """Colours that are alike for somebody are of rankers with another dash and another marker."""
    for first, second in combinations((ranker.style for ranker in RANKERS.values()), 2):
        least = min(
            float(np.linalg.norm(lab(first.colour, sight) - lab(second.colour, sight)))
            for sight in (np.eye(3), DEUTERANOPIA, PROTANOPIA)
        )
        assert least > 15 or (first.dash != second.dash and first.marker != second.marker), (first, second)


def test_styles_are_the_same_in_every_figure(tmp_path):
    """Whatever else a figure shows; that of a ranker without a style follows from its name."""
    known = {"pairrank": "#0072b2", "olranknet": "#d55e00", "p2neurrank": "#009e73", "pdgd": "#cc79a7"}
    assert {name: RANKERS[name].style.colour for name in known} == known, "figures of versions can be compared"
    make(tmp_path / "a", "ranker=pdgd")
    make(tmp_path / "a", "ranker=my_own")
    for words in (("ranker=my_own", "click=informational"), ("ranker=pairrank",), ("ranker=dbgd",)):
        make(tmp_path / "b", *words)
    first, second = (Legend(*groups_and_labels(tmp_path / name)).styles for name in "ab")
    assert (first["PDGD"], first["my_own"]) == (RANKERS["pdgd"].style, second["my_own"])


def test_a_fairness_keeps_the_colour_of_its_ranker():
    plain, fair = ranker_style("pairrank", {}), ranker_style("pairrank", {"fairness": "fairexp"})
    assert (fair.colour, fair.hollow, plain.hollow) == (plain.colour, True, False)
    assert fair.dash != plain.dash


@pytest.mark.parametrize("count", [2, 5, 9])
def test_settings_of_a_ranker_go_from_dark_to_light(count):
    own = setting_styles(RANKERS["pairrank"].style, [[str(number)] for number in range(count)])
    assert len({look.colour for look in own}) == len({look.marker for look in own}) == count
    lightness = [lab(look.colour, np.eye(3))[0] for look in own]
    assert lightness == sorted(lightness)


def test_shades_are_mixed_with_black_or_white():
    assert [shade("#0072b2", step) for step in (-1, 0, 0.5, 1)] == ["#000000", "#0072b2", "#80b8d8", "#ffffff"]


def test_explorations_and_models_have_styles_of_their_own(tmp_path):
    for words in ("", "exploration=none", "exploration=ensemble", "ranker/model=mlp", "fairness=fairexp"):
        make(tmp_path, "ranker=pdgd", *words.split())
    styles = Legend(*groups_and_labels(tmp_path)).styles.values()
    assert len(set(styles)) == 5


def test_two_settings_are_colour_and_dash(tmp_path):
    for l2 in "123":
        for alpha in "12":
            make(tmp_path, f"ranker.l2={l2}", f"exploration.alpha={alpha}")
    styles = Legend(*groups_and_labels(tmp_path)).styles
    assert len(styles) == 6
    for l2 in "123":
        assert len({style.colour for name, style in styles.items() if f"λ={l2}" in name}) == 1
    for alpha in "12":
        of_alpha = [style for name, style in styles.items() if f"α={alpha}" in name]
        assert len({(style.dash, style.marker) for style in of_alpha}) == 1
        assert len({style.colour for style in of_alpha}) == 3
    assert len({style.dash for style in styles.values()}) == 2
