"""The cell with the best validation stands for its competitor."""

from __future__ import annotations

import pytest

from ol2r_cli.report.comparison import Selection, select
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import collect, group_runs
from tests.report.runs import groups_below, make


def chosen(root, *keep: str) -> tuple[Selection, list[str]]:
    labels = Labels(rows := groups_below(root))
    selection = select(rows, labels, keep)
    return selection, [f"{labels.ranker(group)} {labels.short(group)}".strip() for group in selection.groups]


def test_validation_decides_and_the_test_split_has_no_part_in_it(tmp_path):
    make(tmp_path, "ranker.l2=1", test={0: 0.9, 1: 0.9}, validation={0: 0.1, 1: 0.5})  # mean 0.3
    make(tmp_path, "ranker.l2=2", test={0: 0.1, 1: 0.1}, validation={0: 0.4, 1: 0.3})  # mean 0.35
    make(tmp_path, "ranker.l2=3", test={0: 0.9, 1: 0.9}, validation={0: 0.0, 1: 0.6})  # mean 0.3
    selection, names = chosen(tmp_path)
    assert (names, selection.cells, selection.warnings) == (["pairrank l2=2"], [3], [])


def test_settings_of_ranker_and_exploration_are_chosen_others_are_other_tasks(tmp_path):
    for number, task in enumerate(["click.stop=0", "rounds=9", "dataset.normalise=none", "click=cascade"]):
        for l2, validation in ((1, 0.5), (2, 0.6)):
            data = "raw" if task.startswith("dataset") else None
            make(tmp_path, task, f"ranker.l2={l2}", fingerprint=data, validation={0: validation + number / 100})
            make(tmp_path, task, f"exploration.alpha={l2}", fingerprint=data, validation={0: 0.1})
    selection, names = chosen(tmp_path)
    assert len(names) == 4
    assert all("l2=2 " in name for name in names)
    assert selection.cells == [4] * 4


def test_of_equally_good_cells_the_first_in_the_order_of_settings(tmp_path):
    for l2, alpha in ((10, 1), (9, 2), (9, 10), (10, 0)):
        make(tmp_path, f"ranker.l2={l2}", f"exploration.alpha={alpha}", validation={0: 0.5})
    assert chosen(tmp_path)[1] == ["pairrank l2=9 alpha=2"], "numbers by their size"


def test_explorations_and_what_is_kept_are_competitors_of_their_own(tmp_path):
    for exploration in ("confidence", "none"):
        for pairs in ("matching", "all"):
            for l2 in (1, 2):
                words = f"exploration={exploration}", f"ranker.pairs={pairs}", f"ranker.l2={l2}"
                make(tmp_path, *words, validation={0: 0.1 * l2 + (pairs == "all") / 2})
    assert chosen(tmp_path)[1] == [
        "pairrank exploration=confidence l2=2 pairs=all",
        "pairrank exploration=none l2=2 pairs=all",
    ]
    selection, names = chosen(tmp_path, "ranker.pairs")
    assert sorted(names) == [
        "pairrank exploration=confidence l2=2 pairs=all",
        "pairrank exploration=confidence l2=2 pairs=matching",
        "pairrank exploration=none l2=2 pairs=all",
        "pairrank exploration=none l2=2 pairs=matching",
    ]
    assert selection.cells == [2] * 4


def test_a_cell_with_fewer_seeds_is_named_and_not_chosen(tmp_path):
    make(tmp_path, "ranker.l2=1", test={0: 0.1}, validation={0: 0.9})
    for l2 in (2, 3):
        make(tmp_path, f"ranker.l2={l2}", test={0: 0.1, 1: 0.1}, validation={0: 0.1 * l2, 1: 0.1})
    selection, names = chosen(tmp_path)
    assert (names, selection.cells) == (["pairrank l2=3"], [2])
    assert selection.warnings == [
        "left out of the choice, 1 value in fold 1 where the fullest has 2 values in fold 1: "
        "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence ranker.l2=1"
    ]


def test_as_many_values_in_fewer_folds_are_not_as_good(tmp_path):
    make(tmp_path, "ranker.l2=1", test={0: 0.1, 1: 0.1}, validation={0: 0.9, 1: 0.9})
    for fold in (1, 2):
        make(tmp_path, "ranker.l2=2", f"dataset.fold={fold}", validation={0: 0.1})
    selection, names = chosen(tmp_path)
    assert names == ["pairrank l2=2"]
    assert "2 values in fold 1 where the fullest has 2 values in folds 1 and 2" in selection.warnings[0]


def test_the_mean_is_over_folds_and_seeds(tmp_path):
    for l2, first, second in ((1, 0.9, 0.1), (2, 0.4, 0.8)):
        make(tmp_path, f"ranker.l2={l2}", validation={0: first})
        make(tmp_path, f"ranker.l2={l2}", "dataset.fold=2", validation={0: second})
    assert chosen(tmp_path)[1] == ["pairrank l2=2"]


@pytest.mark.parametrize(
    ("more", "advice"),
    [
        ((), "run it with dataset.validation=0.2"),
        (("evaluate_on=[test]",), r"run it with evaluate_on=\[validation,test\]"),
    ],
)
def test_without_validation_it_says_what_to_type(tmp_path, more, advice):
    make(tmp_path, "ranker.l2=1", *more, validation=None)
    make(tmp_path, "ranker.l2=2", *more, validation={0: 0.5})
    with pytest.raises(ValueError, match=f"--select validation needs validation_ndcg_10, which .* lacks: {advice}"):
        chosen(tmp_path)


def test_a_ranker_that_is_not_evaluated_may_have_one_cell(tmp_path):
    make(tmp_path / "one", "ranker=toprank", evaluated=False)
    assert chosen(tmp_path / "one")[1] == ["toprank"]
    make(tmp_path / "one", "ranker=toprank", "ranker.l2=2", evaluated=False)
    with pytest.raises(ValueError, match="not evaluated offline, so name its settings behind --keep"):
        chosen(tmp_path / "one")
    assert len(chosen(tmp_path / "one", "ranker.l2")[1]) == 2


def test_keep_must_name_a_setting(tmp_path):
    make(tmp_path)
    with pytest.raises(ValueError, match=r"--keep must be settings such as .*ranker\.l2, .*, got ranker\.l3"):
        chosen(tmp_path, "ranker.l3")


def test_models_are_competitors_and_their_settings_are_chosen(tmp_path):
    for width, validation in ((16, 0.4), (100, 0.3)):
        words = "ranker=pdgd", "ranker/model=mlp", f"ranker.model.width={width}"
        make(tmp_path, *words, validation={0: validation})
    make(tmp_path, "ranker=pdgd", "ranker/model=linear", validation={0: 0.9})
    selection, names = chosen(tmp_path)
    assert sorted(zip(names, selection.cells, strict=True)) == [
        ("pdgd ranker/model=linear", 1),
        ("pdgd ranker/model=mlp model.width=16", 2),
    ]


def test_versions_of_code_are_competitors_and_no_overrides(tmp_path):
    for code in "old", "new":
        make(tmp_path, "ranker.l2=1", validation={0: 0.5}, code=code)
        make(tmp_path, "ranker.l2=2", validation={0: 0.6}, code=code)
    labels = Labels(rows := group_runs(collect([tmp_path]).runs))
    selection = select(rows, labels)
    assert [labels.short(group) for group in selection.groups] == ["l2=2 own_code=old", "l2=2 own_code=new"]
    assert {labels.overrides(group).partition(" ranker.")[2] for group in selection.groups} == {"l2=2"}
