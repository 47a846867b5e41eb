"""Names in figures are those of the papers, and show the same parts as in tables."""

from __future__ import annotations

import pytest

from ol2r_cli.report.names import Labels, Legend
from tests import cases
from tests.report.runs import groups_and_labels, make, play

FAIRCO = "ranker=ips_regression exploration=none fairness=fairco"


def test_names_are_those_of_the_papers(tmp_path):
    for words in ("ranker=pepairrank exploration=ensemble", "fairness=fairexp", FAIRCO):
        make(tmp_path, *words.split())
    make(tmp_path, "ranker=pdgd", "ranker/model=mlp")
    make(tmp_path, "ranker=pdgd", "ranker/model=linear")
    legend = Legend(*groups_and_labels(tmp_path))
    assert [*legend.styles] == ["FairExp-PairRank", "P2LinRank", "PDGD", "Neural-PDGD", "FairCo"]
    assert [legend.styles[name].hollow for name in ("PDGD", "Neural-PDGD")] == [False, True]


def test_a_name_has_the_settings_of_its_row_in_tables(tmp_path):
    """Also where a panel has one group of the ranker: an ablation is not called by the name of the ranker alone."""
    play(tmp_path, "click=perfect", "ranker.l2=0.1")
    play(tmp_path, "click=informational", "exploration.shuffle=random")
    groups, labels = groups_and_labels(tmp_path)
    assert [*Legend(groups, labels).styles] == ["PairRank", "PairRank shuffle=random"]
    play(tmp_path, "click=perfect", "ranker.l2=1", "ranker.pairs=all")
    play(tmp_path, "click=perfect", "ranker.l2=1", "exploration.l2=2", "ranker._target_=a.Changed")
    names = [*Legend(*groups_and_labels(tmp_path)).styles]
    assert names == [
        "PairRank class=a.Changed λ=1 exploration.l2=2",
        "PairRank class=a.Ranker λ=0.1",
        "PairRank class=a.Ranker λ=0.1 shuffle=random",
        "PairRank class=a.Ranker λ=1 pairs=all",
    ]
    groups, _ = groups_and_labels(tmp_path)
    called = dict(zip(groups, "AZBC", strict=True))
    assert list(Legend(groups, Labels(groups, called)).styles) == ["A", "Z", "B", "C"], "in the order of the caller"


def test_numbers_that_a_selection_chose_are_in_no_name(tmp_path):
    """So a ranker has one row in a table of click models, whose numbers differ. Words stay: shuffle=random is another
    ranker."""
    for click, l2, shuffle in (("perfect", 0.1, "within"), ("informational", 10, "within"), ("cascade", 1, "random")):
        play(tmp_path, f"click={click}", f"ranker.l2={l2}", f"exploration.shuffle={shuffle}")
    groups, labels = groups_and_labels(tmp_path)
    assert len(Legend(groups, labels).styles) == 3
    chosen = labels.after_selection(frozenset({"ranker.l2", "exploration.shuffle"}))
    assert [*Legend(groups, chosen).styles] == ["PairRank shuffle=within", "PairRank shuffle=random"]
    kept = labels.after_selection(frozenset({"exploration.shuffle"}))
    assert [*Legend(groups, kept).styles] == [*Legend(groups, labels).styles]


def test_settings_of_users_are_in_the_title(tmp_path):
    play(tmp_path, "click.stop=0.5")
    play(tmp_path, "click.stop=0.25")
    legend = Legend(*groups_and_labels(tmp_path))
    assert list(legend.styles) == ["PairRank"]
    assert [panel.title for panel in legend.panels] == ["MQ2008, perfect, stop=0.25", "MQ2008, perfect, stop=0.5"]


NAMES = f"""
ranker=pairrank exploration=none | PairRank without exploration
ranker=pairrank exploration=plackett_luce | PairRank, plackett luce
ranker=pairrank fairness=fairexp | FairExp-PairRank
ranker=pairrank fairness=fairco | FairCo-PairRank
{FAIRCO} | FairCo
ranker=pdgd ranker/model=mlp | Neural-PDGD
ranker=pdgd ranker/model=mlp fairness=mcfair | MCFair-Neural-PDGD
ranker=pdgd ranker/model=mlp1 | PDGD (mlp1)
ranker=p2neurrank ranker/model=linear exploration=ensemble | Linear-P2NeurRank
ranker=pairrank fairness=mine | PairRank with mine
"""


@pytest.mark.parametrize(("words", "name"), cases.lines(NAMES))
def test_a_figure_names_what_does_not_come_with_a_ranker(tmp_path, words, name):
    """Also where the figure has no other group."""
    make(tmp_path, *words.split())
    assert list(Legend(*groups_and_labels(tmp_path)).styles) == [name]


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
        Legend([short, pdgd], Labels([short, pdgd], {short: "PDGD"}, one_row_each=True))
    assert list(Legend(groups, Labels(groups, {short: "a", long: "b"})).styles) == ["a", "b", "PDGD T=4"]


def test_a_default_typed_for_one_click_model_has_one_name(tmp_path):
    """It is a default elsewhere, and one row of a table, not two with a gap in each."""
    default = "ranker.l2=0.01"
    make(tmp_path, default, "click=perfect", command="ol2r run")
    make(tmp_path, default, "click=informational", command=f"ol2r run {default}")
    make(tmp_path, "ranker.l2=1", "click=informational", command="ol2r run ranker.l2=1")
    assert sorted(Legend(*groups_and_labels(tmp_path)).styles) == ["PairRank λ=0.01", "PairRank λ=1"]


def test_a_figure_names_precision(tmp_path):
    for dtype in ("float32", "float64"):
        make(tmp_path, f"device.dtype={dtype}")
    names = list(Legend(*groups_and_labels(tmp_path)).styles)
    assert names == ["PairRank dtype=float32", "PairRank dtype=float64"]
    for rounds, dtype in ((4, "float32"), (8, "float64")):
        make(tmp_path / "more", f"rounds={rounds}", f"device.dtype={dtype}")
    names = list(Legend(*groups_and_labels(tmp_path / "more")).styles)
    assert names == ["PairRank T=4 dtype=float32", "PairRank T=8 dtype=float64"], "precision is last"


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
