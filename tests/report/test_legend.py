"""Names of figures are those of the papers and show the same parts as tables; styles that do not change."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ol2r_cli.report.legend import RANKERS, Legend, distinguishing_settings, ranker_style, setting_styles, shade
from ol2r_cli.report.names import Labels
from tests.report.runs import groups_and_labels, make, play

FAIRCO = "ranker=ips_regression exploration=none fairness=fairco"

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
    for (_, first), (_, second) in combinations(RANKERS.values(), 2):
        least = min(
            float(np.linalg.norm(lab(first.colour, sight) - lab(second.colour, sight)))
            for sight in (np.eye(3), DEUTERANOPIA, PROTANOPIA)
        )
        assert least > 15 or (first.dash != second.dash and first.marker != second.marker), (first, second)


def test_styles_are_the_same_in_every_figure_and_fairness_and_settings_keep_to_their_ranker(tmp_path):
    known = {"pairrank": "#0072b2", "olranknet": "#d55e00", "p2neurrank": "#009e73", "pdgd": "#cc79a7"}
    assert {name: RANKERS[name][1].colour for name in known} == known, "figures of versions can be compared"
    make(tmp_path / "a", "ranker=pdgd")
    make(tmp_path / "a", "ranker=my_own")
    for words in (("ranker=my_own", "click=informational"), ("ranker=pairrank",), ("ranker=dbgd",)):
        make(tmp_path / "b", *words)
    first, second = (Legend(*groups_and_labels(tmp_path / name)).styles for name in "ab")
    assert (first["PDGD"], first["my_own"]) == (RANKERS["pdgd"][1], second["my_own"])
    plain, fair = ranker_style("pairrank", {}), ranker_style("pairrank", {"fairness": "fairexp"})
    assert (fair.colour, fair.hollow, plain.hollow) == (plain.colour, True, False)
    assert fair.dash != plain.dash
    for count in (2, 5, 9):
        own = setting_styles(plain, [[str(number)] for number in range(count)])
        assert len({look.colour for look in own}) == len({look.marker for look in own}) == count
        lightness = [lab(look.colour, np.eye(3))[0] for look in own]
        assert lightness == sorted(lightness), "from dark to light"
    assert [shade("#0072b2", step) for step in (-1, 0, 0.5, 1)] == ["#000000", "#0072b2", "#80b8d8", "#ffffff"]


def test_names_are_those_of_the_papers_with_settings_only_where_a_panel_has_several(tmp_path):
    for words in ("ranker=pepairrank exploration=ensemble", "fairness=fairexp", FAIRCO):
        make(tmp_path / "papers", *words.split())
    make(tmp_path / "papers", "ranker=pdgd", "ranker/model=mlp")
    make(tmp_path / "papers", "ranker=pdgd", "ranker/model=linear")
    legend = Legend(*groups_and_labels(tmp_path / "papers"))
    assert [*legend.styles] == ["FairExp-PairRank", "P2LinRank", "PDGD", "Neural-PDGD", "FairCo"]
    assert [legend.styles[name].hollow for name in ("PDGD", "Neural-PDGD")] == [False, True]
    play(tmp_path / "a", "click=perfect", "ranker.l2=0.1")
    play(tmp_path / "a", "click=informational", "ranker.l2=10")
    assert list(Legend(*groups_and_labels(tmp_path / "a")).styles) == ["PairRank"]
    play(tmp_path / "a", "click=perfect", "ranker.l2=1", "ranker.pairs=all")
    names = list(Legend(*groups_and_labels(tmp_path / "a")).styles)
    assert names == ["PairRank λ=0.1", "PairRank λ=1", "PairRank λ=10"]
    groups, _ = groups_and_labels(tmp_path / "a")
    called = dict(zip(sorted(groups, key=lambda each: -each.settings["ranker.l2"]), "AZB", strict=True))
    assert list(Legend(groups, Labels(groups, called)).styles) == ["A", "Z", "B"], "in the order of the caller"
    play(tmp_path / "b", "click.stop=0.5")
    play(tmp_path / "b", "click.stop=0.25")
    legend = Legend(*groups_and_labels(tmp_path / "b"))
    assert list(legend.styles) == ["PairRank"]
    titles = [panel.title for panel in legend.panels]
    assert titles == ["MQ2008, perfect, stop=0.25", "MQ2008, perfect, stop=0.5"], "of users and data, in the title"
    for panels, names in (
        ([[{"a": "1"}]], []),
        ([[{"a": "1", "b": "1"}, {"a": "2", "b": "2"}]], ["a"]),
        ([[{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]], ["b"]),
        ([[{"a": x, "b": y, "c": x + y} for x in "12" for y in "12"]], ["c"]),
        ([[{"a": x, "b": y} for x in "12" for y in "123"]], ["a", "b"]),
        ([[{"a": "1"}, {}]], ["a"]),
        ([[{"a": "1"}], [{"a": "2"}]], []),
    ):
        assert distinguishing_settings(panels) == names, panels


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("ranker=pairrank exploration=none", "PairRank without exploration"),
        ("ranker=pairrank exploration=plackett_luce", "PairRank, plackett luce"),
        ("ranker=pairrank fairness=fairexp", "FairExp-PairRank"),
        ("ranker=pairrank fairness=fairco", "FairCo-PairRank"),
        (FAIRCO, "FairCo"),
        ("ranker=pdgd ranker/model=mlp", "Neural-PDGD"),
        ("ranker=pdgd ranker/model=mlp fairness=mcfair", "MCFair-Neural-PDGD"),
        ("ranker=pdgd ranker/model=mlp1", "PDGD (mlp1)"),
        ("ranker=p2neurrank ranker/model=linear exploration=ensemble", "Linear-P2NeurRank"),
        ("ranker=pairrank fairness=mine", "PairRank with mine"),
    ],
)
def test_a_figure_names_what_does_not_come_with_a_ranker(tmp_path, words, name):
    """Also where the figure has no other group."""
    make(tmp_path, *words.split())
    assert list(Legend(*groups_and_labels(tmp_path)).styles) == [name]


def test_explorations_and_models_have_styles_of_their_own(tmp_path):
    for words in ("", "exploration=none", "exploration=ensemble", "ranker/model=mlp", "fairness=fairexp"):
        make(tmp_path, "ranker=pdgd", *words.split())
    styles = Legend(*groups_and_labels(tmp_path)).styles.values()
    assert len(set(styles)) == 5


def test_a_fixed_name_is_of_one_group_of_a_panel(tmp_path):
    """Not that of another ranker in the papers, and not that of several tasks in one panel."""
    for words in (("rounds=4",), ("rounds=8",), ("ranker=pdgd", "rounds=4")):
        make(tmp_path, *words)
    groups, _ = groups_and_labels(tmp_path)
    short, long, pdgd = sorted(groups, key=lambda group: (group.choices["ranker"], group.settings["rounds"]))
    for called, name in (({pdgd: "PDGD", short: "PDGD"}, "PDGD"), ({short: "a", long: "a"}, "a")):
        with pytest.raises(ValueError, match=f"^--name must give each row of a figure another name, got {name} for 2"):
            Legend(groups, Labels(groups, called, one_row_each=True))
    with pytest.raises(ValueError, match="got PDGD for 2"):
        Legend([short, pdgd], Labels(groups, {short: "PDGD"}, one_row_each=True))
    assert list(Legend(groups, Labels(groups, {short: "a", long: "b"})).styles) == ["a", "b", "PDGD"]


def test_a_legend_does_not_tell_defaults_that_nobody_typed(tmp_path):
    """A PairRank with a window and one with a discount differ from the default in one setting each."""
    defaults = ("ranker.window=null", "ranker.discount=1")
    for words in ((), ("ranker.window=100",), ("ranker.discount=0.99",)):
        make(tmp_path, *{word.partition("=")[0]: word for word in (*defaults, *words)}.values(), command="ol2r run")
    names = list(Legend(*groups_and_labels(tmp_path)).styles)
    assert sorted(names) == ["PairRank", "PairRank discount=0.99", "PairRank window=100"]


def test_a_default_typed_for_one_click_model_has_one_name(tmp_path):
    """It is a default elsewhere, and one row of a table, not two with a gap in each."""
    default = "ranker.l2=0.01"
    make(tmp_path, default, "click=perfect", command="ol2r run")
    make(tmp_path, default, "click=informational", command=f"ol2r run {default}")
    make(tmp_path, "ranker.l2=1", "click=informational", command="ol2r run ranker.l2=1")
    assert sorted(Legend(*groups_and_labels(tmp_path)).styles) == ["PairRank λ=0.01", "PairRank λ=1"]


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


def test_a_figure_names_precision_where_it_is_all_that_differs(tmp_path):
    for dtype in ("float32", "float64"):
        make(tmp_path, f"device.dtype={dtype}")
    names = list(Legend(*groups_and_labels(tmp_path)).styles)
    assert names == ["PairRank dtype=float32", "PairRank dtype=float64"]
    for rounds, dtype in ((4, "float32"), (8, "float64")):
        make(tmp_path / "more", f"rounds={rounds}", f"device.dtype={dtype}")
    assert list(Legend(*groups_and_labels(tmp_path / "more")).styles) == ["PairRank T=4", "PairRank T=8"]


def test_schedules_of_intents_have_panels_of_their_own(tmp_path):
    make(tmp_path, "intent=none")
    make(tmp_path, "intent=abrupt", "intent.every=5")
    titles = [panel.title for panel in Legend(*groups_and_labels(tmp_path)).panels]
    assert sorted(titles) == ["MQ2008, perfect", "MQ2008, perfect, intent abrupt"]


def test_users_stand_in_the_same_order_in_tables_and_figures(tmp_path):
    for click in ("informational", "cascade", "perfect", "navigational"):
        make(tmp_path, f"click={click}")
    groups, labels = groups_and_labels(tmp_path)
    order = ["perfect", "navigational", "informational", "cascade"]
    assert [group.choices["click"] for group in labels.ordered(groups)] == order
    assert [panel.title.partition(", ")[2] for panel in Legend(groups, labels).panels] == order
