"""Which groups compete in one task, and the row that words of the command line name."""

from __future__ import annotations

import shlex

import pytest

from ol2r_cli.report.names import Labels, Legend
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.tasks import find_row, fixed_names, task_name, tasks
from tests import cases
from tests.report.runs import groups_and_labels, groups_below, make


def test_a_task_is_of_dataset_users_and_settings_of_the_run(tmp_path):
    tasks_of = ("dataset=yahoo", "click=cascade", "rounds=9", "click.stop=1", "dataset.normalise=none")
    same = ("ranker=pdgd", "ranker.l2=1", "exploration=none", "exploration.alpha=1", "fairness=fairexp")
    for words in ("rounds=2", *tasks_of, *same, "device.dtype=float32"):
        make(tmp_path, words, fingerprint="other" if words.startswith("dataset") else None)
    assert sorted(len(task) for task in tasks(groups_below(tmp_path))) == [1] * len(tasks_of) + [2 + len(same)]


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> tuple[list[Group], Labels]:
    """The rows of a task, and their labels: two of pairrank, and one of pdgd."""
    root = tmp_path_factory.mktemp("three")
    for l2 in ("0.1", "2"):
        make(root, f"ranker.l2={l2}")
    make(root, "ranker=pdgd", "exploration=none", "ranker.l2=7", "ranker.pairs=all")
    (task,) = tasks(groups_below(root))
    return task, Labels(task)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (0, ("ranker=pairrank ranker.l2=0.1", "pairrank ranker.l2=1e-1")),
        (1, ("ranker.l2=2.0",)),
        (2, ("pdgd", "ranker=pdgd", "ranker.pairs=all", "exploration=none")),
        (None, ("dbgd", "ranker.l2=3", "ranker.l2=x", "ranker.new=1", "pdgd ranker.l2=2")),
    ],
)
def test_words_name_a_row(three, row, words):
    task, labels = three
    found = {each: find_row(each, task, labels) for each in words}
    assert found == dict.fromkeys(words, None if row is None else task[row])


def test_words_must_name_one_row_of_each_task(tmp_path):
    for other in ("ranker.l2=1 rounds=9", "ranker.l2=2 rounds=9", "rounds=8"):
        make(tmp_path, *other.split())
    rows, labels = groups_and_labels(tmp_path)
    first, second = tasks(rows)
    assert find_row("pairrank", second, labels) is second[0]
    message = (
        "--baseline must match one row of each task, got pairrank, which matches 2 with dataset=mq2008 "
        "click=perfect rounds=9: type 'pairrank ranker.l2=1' or 'pairrank ranker.l2=2'"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        find_row("pairrank", first, labels)
    assert task_name(second[0], labels) == "dataset=mq2008 click=perfect rounds=8"


def test_words_that_match_several_rows_are_completed(tmp_path):
    """What is printed matches one row each; that there is no fairness is said only where nothing else tells."""
    for words in (("ranker.l2=1",), ("ranker.l2=2",), ("ranker.l2=2", "fairness=fairexp"), ("ranker.l2=3", "rounds=2")):
        make(tmp_path, *words)
    make(tmp_path, "ranker.l2=1", "start.run=x", "ranker.pairs=two words")
    (task,) = tasks(groups_below(tmp_path))
    labels = Labels(task)
    with pytest.raises(ValueError, match=" which matches 5 ") as error:
        find_row("pairrank", task, labels)
    *typed, more = shlex.split(str(error.value).partition(": type ")[2].replace(" or ", " "))
    assert more == ".."
    assert typed[1:] == ["pairrank ranker.l2=2 fairness=none", "pairrank fairness=fairexp"]
    assert [find_row(words, task, labels) for words in typed] == task[:3]
    assert find_row("pairrank ranker.pairs='two words'", task, labels) is task[4]


@pytest.fixture(scope="module")
def six(tmp_path_factory) -> tuple[list[Group], Labels]:
    """Three rows in each of two tasks, and their labels."""
    root = tmp_path_factory.mktemp("six")
    for click in ("perfect", "informational"):
        for words in ((), ("ranker=pdgd",), ("ranker=pdgd", "ranker/model=mlp")):
            make(root, f"click={click}", *words)
    return groups_and_labels(root)


def test_names_of_rows_are_given_by_words(six):
    """A row has its name in every task in which the words match one row."""
    groups, labels = six
    called, rankers = fixed_names({"pairrank": "ours", "ranker=pdgd ranker/model=mlp": "a network"}, groups, labels)
    assert (sorted(called.values()), rankers) == (["a network"] * 2 + ["ours"] * 2, {})
    named = Labels(groups, called)
    assert {named.ranker(group) for group in groups} == {"ours", "a network", "pdgd"}
    assert list(Legend(groups, named).styles) == ["ours", "PDGD", "a network"]


NOT_APART = r"""
pairank=ours | must begin with .* of some row, got pairank: did you mean pairrank\?
pdgd exploration=plackett_luce=theirs | must match one row of each task, got .*, which matches 2 .*: type 'pdgd
exploration=none=x | must begin with .*: the rankers are pairrank, pdgd
pairrank=x, ranker/model=mlp=x | must give each row of a task another name, got x for 2
ranker/model=mlp=pairrank | must give each row of a task another name, got pairrank for 2
pdgd=x, pairrank=x | must give each row of a task another name, got x for 2
pdgd=pairrank | must give each row of a task another name, got pairrank for 2
"""


@pytest.mark.parametrize(("typed", "message"), cases.lines(NOT_APART))
def test_names_that_tell_no_rows_apart_are_refused(six, typed, message):
    names = dict(each.rsplit("=", 1) for each in typed.split(", "))
    with pytest.raises(ValueError, match=f"^--name {message}"):
        fixed_names(names, *six)


@pytest.fixture(scope="module")
def eight(tmp_path_factory) -> tuple[list[Group], Labels]:
    """Three rows of PDGD and one of PairRank in each of two tasks, and their labels."""
    root = tmp_path_factory.mktemp("eight")
    for click in ("perfect", "informational"):
        for words in (("ranker.learning_rate=1",), ("ranker.learning_rate=2",), ("ranker/model=mlp",)):
            make(root, "ranker=pdgd", f"click={click}", *words)
        make(root, f"click={click}")
    return groups_and_labels(root)


@pytest.mark.parametrize("words", ["pdgd", "ranker=pdgd"])
def test_all_rows_of_a_ranker_have_its_name(eight, words):
    """They are told apart as before."""
    groups, labels = eight
    called, rankers = fixed_names({words: "ours"}, groups, labels)
    named = Labels(groups, called, one_row_each=True, rankers=rankers)
    assert {named.ranker(group) for group in groups} == {"ours", "ours ranker/model=mlp", "pairrank"}
    assert list(Legend(groups, named).styles) == ["PairRank", "ours η=1", "ours η=2", "Neural-ours"]


def test_a_row_of_a_named_ranker_may_have_a_name_of_its_own(eight):
    groups, labels = eight
    called, rankers = fixed_names({"pdgd": "ours", "pdgd ranker.learning_rate=2": "fast"}, groups, labels)
    named = Labels(groups, called, one_row_each=True, rankers=rankers)
    assert list(Legend(groups, named).styles) == ["PairRank", "ours η=1", "fast", "Neural-ours"]
