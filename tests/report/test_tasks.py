"""What is comparable with what, and which row the words for a baseline mean."""

from __future__ import annotations

import pytest

from ol2r_cli.report.labels import Labels
from ol2r_cli.report.tasks import find_baseline, of_task, task_name, tasks
from tests.report.runs import found, make


def names(root, groups) -> list[str]:
    labels = Labels(found(root))
    return [f"{labels.ranker(group)} {labels.short(group)}".strip() for group in groups]


def test_dataset_users_and_settings_of_the_run_make_the_task(tmp_path):
    make(tmp_path)
    for other in ("dataset=yahoo", "click=cascade", "rounds=9", "click.stop=1", "dataset.normalise=none"):
        make(tmp_path, other, fingerprint="other" if other.startswith("dataset") else None)
    assert [len(task) for task in tasks(found(tmp_path))] == [1] * 6


@pytest.mark.parametrize(
    "other",
    [
        "ranker=pdgd",
        "ranker.l2=1",
        "exploration=none",
        "exploration.alpha=1",
        "fairness=fairexp",
        "device.dtype=float32",
        "trace_blocks=false",
        "evaluate_on=[test]",
    ],
)
def test_competitors_and_what_is_written_down_do_not(tmp_path, other):
    make(tmp_path)
    make(tmp_path, other)
    assert [len(task) for task in tasks(found(tmp_path))] == [2]


def test_names_of_settings():
    assert [
        name for name in ("rounds", "click.stop", "dataset.fold", "ranker.l2", "trace_regret") if of_task(name)
    ] == [
        "rounds",
        "click.stop",
        "dataset.fold",
    ]


@pytest.mark.parametrize(
    ("words", "row"),
    [
        ("pdgd", "pdgd"),
        ("ranker=pdgd", "pdgd"),
        ("ranker=pairrank ranker.l2=0.1", "pairrank l2=0.1"),
        ("pairrank ranker.l2=1e-1", "pairrank l2=0.1"),
        ("ranker.l2=2.0", "pairrank l2=2"),
        ("ranker.pairs=all", "pdgd"),
        ("exploration=none", "pdgd"),
    ],
)
def test_words_for_a_baseline(tmp_path, words, row):
    make(tmp_path, "ranker.l2=0.1")
    make(tmp_path, "ranker.l2=2")
    make(tmp_path, "ranker=pdgd", "exploration=none", "ranker.l2=7", "ranker.pairs=all")
    (task,) = tasks(found(tmp_path))
    assert names(tmp_path, [find_baseline(words, task, Labels(task))]) == [row]


@pytest.mark.parametrize("words", ["dbgd", "ranker.l2=3", "ranker.l2=x", "ranker.new=1", "pdgd ranker.l2=2"])
def test_words_that_are_true_of_none(tmp_path, words):
    make(tmp_path, "ranker.l2=2")
    make(tmp_path, "ranker=pdgd")
    (task,) = tasks(found(tmp_path))
    assert find_baseline(words, task, Labels(task)) is None


def test_words_that_are_true_of_several_say_what_tells_them_apart(tmp_path):
    make(tmp_path, "ranker.l2=1", "rounds=9")
    make(tmp_path, "ranker.l2=2", "rounds=9")
    make(tmp_path, "rounds=8")
    labels = Labels(rows := found(tmp_path))
    first, second = tasks(rows)
    assert find_baseline("pairrank", second, labels) is second[0]
    message = (
        "--baseline must be true of one row of each task, got pairrank, which is true of 2 with dataset=mq2008 "
        "click=perfect rounds=9: add what tells them apart, such as --baseline 'pairrank ranker.l2=1'"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        find_baseline("pairrank", first, labels)
    assert task_name(second[0], labels) == "dataset=mq2008 click=perfect rounds=8"
