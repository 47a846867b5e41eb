"""Which settings are chosen: by validation or online, of which competitors, and what cannot be chosen."""

from __future__ import annotations

import pytest

from ol2r_cli.report.best_settings import Selection, select
from tests.report.runs import groups_and_labels, make, play


def chosen(root, *keep: str) -> tuple[Selection, list[str]]:
    rows, labels = groups_and_labels(root)
    selection = select(rows, labels, keep)
    return selection, [f"{labels.ranker(group)} {labels.short(group)}".strip() for group in selection.cells]


def names(root, *keep: str) -> list[str]:
    return chosen(root, *keep)[1]


CELLS = ((1, 0.9, (0.1, 0.5)), (2, 0.1, (0.4, 0.3)), (3, 0.9, (0.0, 0.6)))  # l2, test, and validation of two units


def test_validation_decides_and_the_test_split_has_no_part(tmp_path):
    for l2, test, validation in CELLS:
        make(tmp_path, f"ranker.l2={l2}", test=dict.fromkeys((0, 1), test), validation=dict(enumerate(validation)))
    selection, found = chosen(tmp_path)
    assert (found, [*selection.cells.values()], selection.warnings) == (["pairrank l2=2"], [3], [])


def test_validation_decides_over_folds(tmp_path):
    for l2, _, validation in CELLS:
        for fold, value in enumerate(validation, 1):
            make(tmp_path, f"ranker.l2={l2}", f"dataset.fold={fold}", validation={0: value})
    assert names(tmp_path) == ["pairrank l2=2"]


def test_online_performance_may_decide(tmp_path):
    for l2, online in ((1, 0.3), (2, 0.4), (3, 0.6)):
        play(tmp_path, f"ranker.l2={l2}", trace={"cumulative_ndcg": {0: [0, online]}}, rounds=2)
    rows, labels = groups_and_labels(tmp_path)
    assert [labels.short(cell) for cell in select(rows, labels, by="online").cells] == ["l2=3"]


def test_of_equally_good_cells_the_first_is_chosen(tmp_path):
    for l2, alpha in ((10, 1), (9, 2), (9, 10), (10, 0)):
        make(tmp_path, f"ranker.l2={l2}", f"exploration.alpha={alpha}", validation={0: 0.5})
    assert names(tmp_path) == ["pairrank l2=9 alpha=2"], "numbers by size"


def test_settings_are_chosen_for_each_task(tmp_path):
    for number, task in enumerate(["click.stop=0", "rounds=9", "click=cascade"]):
        for l2, validation in ((1, 0.5), (2, 0.6)):
            make(tmp_path, task, f"ranker.l2={l2}", validation={0: validation + number / 100})
            make(tmp_path, task, f"exploration.alpha={l2}", validation={0: 0.1})
    selection, found = chosen(tmp_path)
    assert ([*selection.cells.values()], all("l2=2 " in name for name in found)) == ([4] * 3, True)


def test_settings_are_chosen_by_exploration_and_kept_setting(tmp_path):
    for exploration in ("confidence", "none"):
        for pairs in ("matching", "all"):
            for l2 in (1, 2):
                words = f"exploration={exploration}", f"ranker.pairs={pairs}", f"ranker.l2={l2}"
                make(tmp_path, *words, validation={0: 0.1 * l2 + (pairs == "all") / 2})
    rows = [f"{ranker} l2=2 pairs=" for ranker in ("pairrank", "pairrank exploration=none")]
    assert names(tmp_path) == [f"{row}all" for row in rows]
    selection, found = chosen(tmp_path, "ranker.pairs")
    assert sorted(found) == sorted(f"{row}{pairs}" for row in rows for pairs in ("all", "matching"))
    assert [*selection.cells.values()] == [2] * 4


def test_settings_are_chosen_for_each_model(tmp_path):
    for width, validation in ((16, 0.4), (100, 0.3)):
        make(tmp_path, "ranker=pdgd", "ranker/model=mlp", f"ranker.model.width={width}", validation={0: validation})
    make(tmp_path, "ranker=pdgd", "ranker/model=linear", validation={0: 0.9})
    selection, found = chosen(tmp_path)
    by_name = dict(zip(found, selection.cells.values(), strict=True))
    assert by_name == {"pdgd ranker/model=mlp model.width=16": 2, "pdgd": 1}


def test_versions_of_own_code_are_competitors(tmp_path):
    for code in "old", "new":
        make(tmp_path, "ranker.l2=1", validation={0: 0.5}, code=code)
        make(tmp_path, "ranker.l2=2", validation={0: 0.6}, code=code)
    assert names(tmp_path) == ["pairrank l2=2 own_code=old", "pairrank l2=2 own_code=new"]
    rows, labels = groups_and_labels(tmp_path)
    assert {labels.overrides(group).partition(" ranker.")[2] for group in rows} == {"l2=1", "l2=2"}


def left_out(root) -> str:
    """What is left out of the choice."""
    (warning,) = chosen(root)[0].warnings
    assert warning.startswith("left out of the choice, ")
    return warning.rpartition(": ")[2]


WORDS = "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence ranker.l2=1"


def test_a_cell_with_fewer_seeds_is_not_chosen(tmp_path):
    make(tmp_path, "ranker.l2=1", test={0: 0.1}, validation={0: 0.9})
    for l2 in (2, 3):
        make(tmp_path, f"ranker.l2={l2}", test={0: 0.1, 1: 0.1}, validation={0: 0.1 * l2, 1: 0.1})
    assert (names(tmp_path), left_out(tmp_path)) == (["pairrank l2=3"], WORDS)


def test_a_cell_with_fewer_folds_is_not_chosen(tmp_path):
    make(tmp_path, "ranker.l2=1", test={0: 0.1, 1: 0.1}, validation={0: 0.9, 1: 0.9})
    for fold in (1, 2):
        make(tmp_path, "ranker.l2=2", f"dataset.fold={fold}", validation={0: 0.1})
    assert (names(tmp_path), left_out(tmp_path)) == (["pairrank l2=2"], WORDS)


LACKING = r"settings are chosen by validation_ndcg_10, which .* lacks: leave it out, or run it with evaluate_on="


@pytest.mark.parametrize("words", [(), ("evaluate_on=[test]",)])
def test_without_validation_it_says_what_to_type(tmp_path, words):
    make(tmp_path, "ranker.l2=1", *words, validation=None)
    make(tmp_path, "ranker.l2=2", *words, validation={0: 0.5})
    with pytest.raises(ValueError, match=LACKING):
        names(tmp_path)


def test_a_ranker_that_is_not_evaluated_may_have_one_cell(tmp_path):
    make(tmp_path, "ranker=toprank", evaluated=False)
    assert names(tmp_path) == ["toprank"]
    make(tmp_path, "ranker=toprank", "ranker.l2=2", evaluated=False)
    with pytest.raises(ValueError, match=LACKING):
        names(tmp_path)
    assert len(names(tmp_path, "ranker.l2")) == 2
    with pytest.raises(ValueError, match=r"--keep must be settings such as .*ranker\.l2, .*, got ranker\.l3"):
        names(tmp_path, "ranker.l3")
