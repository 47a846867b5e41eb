"""Names that distinguish groups with few words."""

from __future__ import annotations

import re
from itertools import product

import pytest

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.plugins.benchmark.results import published_dir, read_results
from ol2r_cli.plugins.latex.results_table import ResultsTable
from ol2r_cli.report.names import Labels, Legend
from ol2r_cli.report.parts import TASK_PARTS, part_of
from ol2r_cli.report.run_groups import group_runs
from tests import cases
from tests.report.runs import groups_and_labels, make

OTHERS = ("_choice", "processors")  # files that are no results
PUBLISHED = sorted(path.stem for path in published_dir().glob("*.parquet") if not path.stem.endswith(OTHERS))
SLOW = pytest.mark.slow
FAST = ("linear_check", "drift", "million")
CHOICES = "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence"


def short(root) -> list[tuple[str, str]]:
    rows, labels = groups_and_labels(root)
    return [(labels.ranker(group), labels.short(group)) for group in rows]


def test_settings_in_which_the_same_choice_differs_are_told(tmp_path):
    make(tmp_path, "ranker.l2=0.01", "exploration.alpha=1")
    make(tmp_path, "ranker.l2=0.1")
    # of another ranker, with another exploration: that their settings differ is no news
    make(tmp_path, "ranker=pdgd", "exploration=none", "ranker.l2=7", "exploration.alpha=7", "ranker._target_=a.B")
    assert short(tmp_path) == [
        ("pairrank", "l2=0.01 alpha=1"),
        ("pairrank", "l2=0.1"),
        ("pdgd exploration=none", ""),
    ]


def test_settings_of_the_run_are_told_among_all(tmp_path):
    make(tmp_path, "rounds=10")
    make(tmp_path, "ranker=pdgd", "rounds=20")
    assert short(tmp_path) == [("pairrank", "rounds=10"), ("pdgd", "rounds=20")]


def test_defaults_are_not_told(tmp_path):
    make(tmp_path, "measure.ndcg.discount=0.9995", command="ol2r run")
    make(tmp_path, "measure.ndcg.discount=1")
    make(tmp_path, "ranker.new=null")
    assert [name for _, name in short(tmp_path)] == ["", "measure.ndcg.discount=1", "new=null"]


def test_seeds_of_generated_data_are_told(tmp_path):
    for seed in "12":
        make(tmp_path, f"dataset.seed={seed}", fingerprint=seed)
    assert [name for _, name in short(tmp_path)] == ["dataset.seed=1", "dataset.seed=2"]


NAMES = """
ranker=pairrank exploration=confidence fairness=none | pairrank
ranker=pairrank fairness=fairexp | pairrank fairness=fairexp
ranker=pairrank exploration=none | pairrank exploration=none
ranker=pdgd ranker/model=linear | pdgd
ranker=pdgd ranker/model=mlp | pdgd ranker/model=mlp
ranker=olranknet ranker/model=mlp1 exploration=neural_confidence | olranknet
ranker=olranknet ranker/model=linear exploration=none | olranknet ranker/model=linear exploration=none
"""


@pytest.mark.parametrize(("words", "name"), cases.lines(NAMES))
def test_a_part_that_is_not_the_rankers_default_is_named(tmp_path, words, name):
    """A part that does not come with the ranker is in its name, also where it is the same in all rows."""
    make(tmp_path, *words.split())
    assert short(tmp_path) == [(name, "")]


def test_parts_of_ones_own_ranker_are_named_when_typed(tmp_path):
    """Which exploration comes with a ranker of the user is not known; no exploration of two groups is hidden."""
    make(tmp_path / "a", "ranker=mine", "exploration=none", command="ol2r run ranker=mine")
    assert short(tmp_path / "a") == [("mine", "")]
    make(tmp_path / "b", "ranker=mine", "exploration=none")  # typed
    assert short(tmp_path / "b") == [("mine exploration=none", "")]
    make(tmp_path / "a", "ranker=mine", "exploration=ensemble", command="ol2r run ranker=mine")
    assert short(tmp_path / "a") == [("mine exploration=none", ""), ("mine exploration=ensemble", "")]
    make(tmp_path / "c", "ranker=mine", "fairness=fairexp", command="ol2r run")
    assert short(tmp_path / "c") == [("mine fairness=fairexp", "")]


def test_settings_of_a_model_are_compared_among_equal_models(tmp_path):
    network = ["ranker=pdgd", "ranker/model=mlp", "ranker.model._target_=a.MLP"]
    make(tmp_path, "ranker=pdgd", "ranker/model=linear", "ranker.model._target_=a.Linear")
    make(tmp_path, *network, "ranker.model.width=16")
    assert short(tmp_path) == [("pdgd", ""), ("pdgd ranker/model=mlp", "")]
    make(tmp_path, *network, "ranker.model.width=100")
    make(tmp_path, "ranker=olranknet", *network[1:], "ranker.model.width=16", "exploration=neural_confidence")
    assert short(tmp_path) == [
        ("pdgd", ""),
        ("pdgd ranker/model=mlp", "model.width=16"),
        ("pdgd ranker/model=mlp", "model.width=100"),
        ("olranknet ranker/model=mlp", "model.width=16"),
    ]
    rows, labels = groups_and_labels(tmp_path)
    words = "dataset=mq2008 click=perfect ranker=pdgd ranker/model=mlp exploration=plackett_luce ranker.model.width=16"
    assert labels.overrides(rows[1]) == words


def test_a_default_of_null_is_not_told(tmp_path):
    """That a window is null says that there is none: the name has it only where another group were the same."""
    make(tmp_path, "ranker.window=null")
    make(tmp_path, "ranker.window=100")
    assert short(tmp_path) == [("pairrank", ""), ("pairrank", "window=100")]


def test_a_setting_that_follows_the_rankers_is_left_out(tmp_path):
    """A setting that follows the ranker's is left out unless it was typed."""
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


def test_overrides_are_words_for_the_shell_without_fingerprints(tmp_path):
    make(tmp_path / "a", "ranker.l2=0.01", "ranker.pairs=two words")
    make(tmp_path / "a", "ranker.l2=0.1", "fairness=fairexp")
    rows, labels = groups_and_labels(tmp_path / "a")
    assert [labels.overrides(group) for group in rows] == [
        CHOICES + """ ranker.l2=0.01 'ranker.pairs='"'"'two words'"'"''""",
        f"{CHOICES} fairness=fairexp ranker.l2=0.1 ranker.pairs=matching",
    ]
    for popularity in ("popularity=uniform", "popularity.zipf=2"):
        make(tmp_path / "c", "dataset=synthetic", f"dataset.{popularity}", fingerprint=popularity)
    rows, labels = groups_and_labels(tmp_path / "c")
    assert [labels.overrides(group).rpartition(" ")[2] for group in rows] == [
        "dataset.popularity=uniform",
        "'dataset.popularity={zipf:2}'",
    ]
    for data in ("before", "after"):
        make(tmp_path / "b", fingerprint=data)
    rows, labels = groups_and_labels(tmp_path / "b")
    assert {labels.short(group) for group in rows} == {"fingerprint=before", "fingerprint=after"}
    assert {labels.overrides(group) for group in rows} == {CHOICES}


@pytest.mark.parametrize("file", [name if name in FAST else pytest.param(name, marks=SLOW) for name in PUBLISHED])
def test_published_rows_have_one_name_in_every_form(file):
    """The settings of a row in Markdown are in its name in figures and in LaTeX; those of users are in titles."""
    groups = group_runs(run for run, _ in read_results(published_dir() / f"{file}.parquet"))
    labels = Labels(groups)
    legend = Legend(groups, labels)
    for panel, members in legend.panels.items():
        assert len({legend.names[group] for group in members}) == len(members), panel.title
    for group in groups:
        told = {name: value for name, value in labels.told[group].items() if part_of(name) not in TASK_PARTS}
        assert sorted(re.findall(r"=(\S+)", legend.names[group])) == sorted(map(as_typed, told.values()))
    table = ResultsTable(groups, labels, ["test_ndcg_10"], None, ()).latex([], [])
    assert {row[0].text for block in table.blocks for row in block.rows} == {*legend.styles}
