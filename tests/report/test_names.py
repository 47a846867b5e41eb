"""Names that distinguish groups with few words, tasks, the row that a baseline names, and styles that do not change."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from ol2r_cli.report.names import (
    RANKERS,
    Labels,
    Legend,
    distinguishing_settings,
    find_baseline,
    ranker_styles,
    shade,
    task_name,
    tasks,
)
from tests.report.runs import groups_and_labels, groups_below, make, play

CHOICES = "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence"


def short(root) -> list[tuple[str, str]]:
    rows, labels = groups_and_labels(root)
    return [(labels.ranker(group), labels.short(group)) for group in rows]


def test_settings_in_which_the_same_choice_differs(tmp_path):
    make(tmp_path / "a", "ranker.l2=0.01", "exploration.alpha=1")
    make(tmp_path / "a", "ranker.l2=0.1")
    # of another ranker, with another exploration: that their settings differ is no news
    make(tmp_path / "a", "ranker=pdgd", "exploration=none", "ranker.l2=7", "exploration.alpha=7", "ranker._target_=a.B")
    make(tmp_path / "b", "rounds=10")
    make(tmp_path / "b", "ranker=pdgd", "rounds=20")
    make(tmp_path / "c", "measure.ndcg.discount=0.9995", command="ol2r run")
    make(tmp_path / "c", "measure.ndcg.discount=1")
    make(tmp_path / "c", "ranker.new=null")
    for seed in "12":
        make(tmp_path / "d", f"dataset.seed={seed}", fingerprint=seed)
    for place, rankers, names in (
        ("a", "pairrank pairrank pdgd", ["l2=0.01 alpha=1", "l2=0.1", ""]),
        ("b", "pairrank pdgd", ["rounds=10", "rounds=20"]),  # of the run, among all
        ("c", "pairrank pairrank pairrank", ["", "measure.ndcg.discount=1", "new=null"]),  # no defaults
        ("d", "pairrank pairrank", ["dataset.seed=1", "dataset.seed=2"]),
    ):
        assert short(tmp_path / place) == [*zip(rankers.split(), names, strict=True)], place


def test_explorations_and_models_are_named_where_a_ranker_has_several(tmp_path):
    make(tmp_path / "a")
    make(tmp_path / "a", "exploration=none")
    make(tmp_path / "a", "ranker=pdgd", "exploration=none")
    names = [ranker for ranker, _ in short(tmp_path / "a")]
    assert names == ["pairrank exploration=confidence", "pairrank exploration=none", "pdgd"]
    network = ["ranker=pdgd", "ranker/model=mlp", "ranker.model._target_=a.MLP"]
    make(tmp_path / "b", "ranker=pdgd", "ranker/model=linear", "ranker.model._target_=a.Linear")
    make(tmp_path / "b", *network, "ranker.model.width=16")
    assert short(tmp_path / "b") == [("pdgd ranker/model=linear", ""), ("pdgd ranker/model=mlp", "")]
    make(tmp_path / "b", *network, "ranker.model.width=100")
    make(tmp_path / "b", "ranker=olranknet", *network[1:], "ranker.model.width=16")
    assert short(tmp_path / "b") == [
        ("pdgd ranker/model=linear", ""),
        ("pdgd ranker/model=mlp", "model.width=16"),
        ("pdgd ranker/model=mlp", "model.width=100"),
        ("olranknet", "model.width=16"),
    ]
    rows, labels = groups_and_labels(tmp_path / "b")
    words = "dataset=mq2008 click=perfect ranker=pdgd ranker/model=mlp exploration=confidence ranker.model.width=16"
    assert labels.overrides(rows[1]) == words


def test_a_setting_that_follows_the_rankers_is_left_out_unless_it_was_typed(tmp_path):
    make(tmp_path / "a", "ranker.l2=1")
    make(tmp_path / "a", "ranker.l2=2")
    assert short(tmp_path / "a") == [("pairrank", "l2=1"), ("pairrank", "l2=2")]
    make(tmp_path / "a", "ranker.l2=3", "exploration.l2=3")
    assert short(tmp_path / "a")[0] == ("pairrank", "ranker.l2=1"), "an ambiguous short name keeps its part"
    make(tmp_path / "b", "ranker.l2=1")
    make(tmp_path / "b", "ranker.l2=1", "exploration.l2=2", command="ol2r run experiment=mine")
    assert short(tmp_path / "b") == [("pairrank", ""), ("pairrank", "l2=2")], "it does not follow in all of them"


def test_no_two_groups_look_the_same(tmp_path):
    for l2, alpha, other in product((1, 2), (1, 2), ("ranker=pdgd", "exploration=none", "rounds=9")):
        make(tmp_path, f"ranker.l2={l2}", f"exploration.l2={alpha}", other)
    for path in "ab":
        make(tmp_path, f"dataset.path={path}", fingerprint=path)
        make(tmp_path, "rounds=7", fingerprint=path)
    names = short(tmp_path)
    assert len(set(names)) == len(names) == 2 * 2 * 3 + 2 + 2


def test_overrides_are_words_for_the_shell_without_fingerprints_and_tasks_are_of_dataset_users_and_run(tmp_path):
    make(tmp_path / "a", "ranker.l2=0.01", "ranker.pairs=two words")
    make(tmp_path / "a", "ranker.l2=0.1", "fairness=fairexp")
    rows, labels = groups_and_labels(tmp_path / "a")
    assert [labels.overrides(group) for group in rows] == [
        CHOICES + """ ranker.l2=0.01 'ranker.pairs='"'"'two words'"'"''""",
        f"{CHOICES} fairness=fairexp ranker.l2=0.1 ranker.pairs=matching",
    ]
    for data in ("before", "after"):
        make(tmp_path / "b", fingerprint=data)
    rows, labels = groups_and_labels(tmp_path / "b")
    assert {labels.short(group) for group in rows} == {"fingerprint=before", "fingerprint=after"}
    assert {labels.overrides(group) for group in rows} == {CHOICES}
    tasks_of = ("dataset=yahoo", "click=cascade", "rounds=9", "click.stop=1", "dataset.normalise=none")
    same = ("ranker=pdgd", "ranker.l2=1", "exploration=none", "exploration.alpha=1", "fairness=fairexp")
    for words in ("rounds=2", *tasks_of, *same, "device.dtype=float32"):
        make(tmp_path / "c", words, fingerprint="other" if words.startswith("dataset") else None)
    assert sorted(len(task) for task in tasks(groups_below(tmp_path / "c"))) == [1] * len(tasks_of) + [2 + len(same)]


def test_words_for_a_baseline(tmp_path):
    make(tmp_path / "a", "ranker.l2=0.1")
    make(tmp_path / "a", "ranker.l2=2")
    make(tmp_path / "a", "ranker=pdgd", "exploration=none", "ranker.l2=7", "ranker.pairs=all")
    (task,) = tasks(groups_below(tmp_path / "a"))
    for row, several in enumerate(
        (
            ("ranker=pairrank ranker.l2=0.1", "pairrank ranker.l2=1e-1"),
            ("ranker.l2=2.0",),
            ("pdgd", "ranker=pdgd", "ranker.pairs=all", "exploration=none"),
            ("dbgd", "ranker.l2=3", "ranker.l2=x", "ranker.new=1", "pdgd ranker.l2=2"),
        )
    ):
        for words in several:
            assert find_baseline(words, task, Labels(task)) is [*task, None][row], words
    for other in ("ranker.l2=1 rounds=9", "ranker.l2=2 rounds=9", "rounds=8"):
        make(tmp_path / "b", *other.split())
    rows, labels = groups_and_labels(tmp_path / "b")
    first, second = tasks(rows)
    assert find_baseline("pairrank", second, labels) is second[0]
    message = (
        "--baseline must match one row of each task, got pairrank, which matches 2 with dataset=mq2008 "
        "click=perfect rounds=9: add what distinguishes them, such as --baseline 'pairrank ranker.l2=1'"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        find_baseline("pairrank", first, labels)
    assert task_name(second[0], labels) == "dataset=mq2008 click=perfect rounds=8"


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
    (plain,), (fair,) = ranker_styles("pairrank"), ranker_styles("pairrank", fairness="fairexp")
    assert (fair.colour, fair.hollow, plain.hollow) == (plain.colour, True, False)
    assert fair.dash != plain.dash
    assert {look.dash for look in ranker_styles("pairrank", 3, fairness="fairexp")} == {fair.dash}
    for count in (2, 5, 9):
        own = ranker_styles("pairrank", count)
        assert len({look.colour for look in own}) == len({look.marker for look in own}) == count
        lightness = [lab(look.colour, np.eye(3))[0] for look in own]
        assert lightness == sorted(lightness), "from dark to light"
    assert [shade("#0072b2", step) for step in (-1, 0, 0.5, 1)] == ["#000000", "#0072b2", "#80b8d8", "#ffffff"]


def test_names_are_those_of_the_papers_with_settings_only_where_a_panel_has_several(tmp_path):
    for words in ("ranker=pepairrank", "fairness=fairexp", "ranker=ips_regression fairness=fairco"):
        make(tmp_path / "papers", *words.split())
    make(tmp_path / "papers", "ranker=pdgd", "ranker/model=mlp")
    make(tmp_path / "papers", "ranker=pdgd", "ranker/model=linear")
    legend = Legend(*groups_and_labels(tmp_path / "papers"))
    assert [*legend.styles] == ["FairExp-PairRank", "P²LinRank", "Linear-PDGD", "Neural-PDGD", "FairCo"]
    assert [legend.styles[f"{model}-PDGD"].hollow for model in ("Linear", "Neural")] == [False, True]
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
