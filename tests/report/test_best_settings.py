"""Which settings are chosen: by validation or online, of which competitors, and what cannot be chosen."""

from __future__ import annotations

import pytest

from ol2r_cli.report.best_settings import Selection, select
from tests.report.runs import groups_and_labels, make, play


def chosen(root, *keep: str) -> tuple[Selection, list[str]]:
    rows, labels = groups_and_labels(root)
    selection = select(rows, labels, keep)
    return selection, [f"{labels.ranker(group)} {labels.short(group)}".strip() for group in selection.cells]


def test_validation_decides_over_folds_and_seeds(tmp_path):
    """Validation decides over folds and seeds, and the test split has no part in it."""
    for l2, test, validation in ((1, 0.9, (0.1, 0.5)), (2, 0.1, (0.4, 0.3)), (3, 0.9, (0.0, 0.6))):
        make(
            tmp_path / "a", f"ranker.l2={l2}", test=dict.fromkeys((0, 1), test), validation=dict(enumerate(validation))
        )
        for fold, value in enumerate(validation, 1):
            make(tmp_path / "b", f"ranker.l2={l2}", f"dataset.fold={fold}", validation={0: value})
    selection, names = chosen(tmp_path / "a")
    assert (names, [*selection.cells.values()], selection.warnings) == (["pairrank l2=2"], [3], [])
    for l2, online in ((1, 0.3), (2, 0.4), (3, 0.6)):
        play(tmp_path / "e", f"ranker.l2={l2}", trace={"cumulative_ndcg": {0: [0, online]}}, rounds=2)
    rows, labels = groups_and_labels(tmp_path / "e")
    assert [labels.short(cell) for cell in select(rows, labels, by="online").cells] == ["l2=3"]
    assert chosen(tmp_path / "b")[1] == ["pairrank l2=2"]
    for l2, alpha in ((10, 1), (9, 2), (9, 10), (10, 0)):
        make(tmp_path / "c", f"ranker.l2={l2}", f"exploration.alpha={alpha}", validation={0: 0.5})
    assert chosen(tmp_path / "c")[1] == ["pairrank l2=9 alpha=2"], "of equally good cells the first, numbers by size"


def test_settings_of_ranker_model_and_exploration_are_chosen(tmp_path):
    """Settings of ranker, model and exploration are chosen, and others are kept."""
    for number, task in enumerate(["click.stop=0", "rounds=9", "click=cascade"]):
        for l2, validation in ((1, 0.5), (2, 0.6)):
            make(tmp_path / "a", task, f"ranker.l2={l2}", validation={0: validation + number / 100})
            make(tmp_path / "a", task, f"exploration.alpha={l2}", validation={0: 0.1})
    selection, names = chosen(tmp_path / "a")
    assert ([*selection.cells.values()], all("l2=2 " in name for name in names)) == ([4] * 3, True)
    for exploration in ("confidence", "none"):
        for pairs in ("matching", "all"):
            for l2 in (1, 2):
                words = f"exploration={exploration}", f"ranker.pairs={pairs}", f"ranker.l2={l2}"
                make(tmp_path / "b", *words, validation={0: 0.1 * l2 + (pairs == "all") / 2})
    rows = [f"{ranker} l2=2 pairs=" for ranker in ("pairrank", "pairrank exploration=none")]
    assert chosen(tmp_path / "b")[1] == [f"{row}all" for row in rows]
    selection, names = chosen(tmp_path / "b", "ranker.pairs")
    assert sorted(names) == sorted(f"{row}{pairs}" for row in rows for pairs in ("all", "matching"))
    assert [*selection.cells.values()] == [2] * 4
    for width, validation in ((16, 0.4), (100, 0.3)):
        words = "ranker=pdgd", "ranker/model=mlp", f"ranker.model.width={width}"
        make(tmp_path / "c", *words, validation={0: validation})
    make(tmp_path / "c", "ranker=pdgd", "ranker/model=linear", validation={0: 0.9})
    selection, names = chosen(tmp_path / "c")
    by_name = dict(zip(names, selection.cells.values(), strict=True))
    assert by_name == {"pdgd ranker/model=mlp model.width=16": 2, "pdgd": 1}
    for code in "old", "new":
        make(tmp_path / "d", "ranker.l2=1", validation={0: 0.5}, code=code)
        make(tmp_path / "d", "ranker.l2=2", validation={0: 0.6}, code=code)
    selection, names = chosen(tmp_path / "d")
    assert names == ["pairrank l2=2 own_code=old", "pairrank l2=2 own_code=new"], "versions of code are competitors"
    rows, labels = groups_and_labels(tmp_path / "d")
    assert {labels.overrides(group).partition(" ranker.")[2] for group in rows} == {"l2=1", "l2=2"}


def test_a_cell_with_fewer_seeds_or_folds_is_not_chosen(tmp_path):
    """A cell with fewer seeds or folds is named and not chosen."""
    make(tmp_path / "a", "ranker.l2=1", test={0: 0.1}, validation={0: 0.9})
    for l2 in (2, 3):
        make(tmp_path / "a", f"ranker.l2={l2}", test={0: 0.1, 1: 0.1}, validation={0: 0.1 * l2, 1: 0.1})
    make(tmp_path / "b", "ranker.l2=1", test={0: 0.1, 1: 0.1}, validation={0: 0.9, 1: 0.9})
    for fold in (1, 2):
        make(tmp_path / "b", "ranker.l2=2", f"dataset.fold={fold}", validation={0: 0.1})
    words = "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence ranker.l2=1"
    for place, name in (("a", "pairrank l2=3"), ("b", "pairrank l2=2")):
        selection, names = chosen(tmp_path / place)
        assert names == [name]
        (warning,) = selection.warnings
        assert warning.startswith("left out of the choice, ")
        assert warning.endswith(f": {words}")


def test_without_validation_it_says_what_to_type(tmp_path):
    lacking = r"settings are chosen by validation_ndcg_10, which .* lacks: leave it out, or run it with evaluate_on="
    for place, words in (("a", ()), ("b", ("evaluate_on=[test]",))):
        make(tmp_path / place, "ranker.l2=1", *words, validation=None)
        make(tmp_path / place, "ranker.l2=2", *words, validation={0: 0.5})
        with pytest.raises(ValueError, match=lacking):
            chosen(tmp_path / place)
    make(tmp_path / "one", "ranker=toprank", evaluated=False)
    assert chosen(tmp_path / "one")[1] == ["toprank"], "a ranker that is not evaluated may have one cell"
    make(tmp_path / "one", "ranker=toprank", "ranker.l2=2", evaluated=False)
    with pytest.raises(ValueError, match=lacking):
        chosen(tmp_path / "one")
    assert len(chosen(tmp_path / "one", "ranker.l2")[1]) == 2
    with pytest.raises(ValueError, match=r"--keep must be settings such as .*ranker\.l2, .*, got ranker\.l3"):
        chosen(tmp_path / "one", "ranker.l3")
