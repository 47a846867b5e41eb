"""Names that distinguish groups with few words, tasks, and the row that a baseline names."""

from __future__ import annotations

from itertools import product

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hypothesis import given, settings
from hypothesis import strategies as st

from ol2r_cli.config.overrides import as_typed as text
from ol2r_cli.report.names import Labels, defines_task, find_baseline, task_name, tasks
from tests.report.runs import groups_below, make


def short(root) -> list[tuple[str, str]]:
    labels = Labels(rows := groups_below(root))
    return [(labels.ranker(group), labels.short(group)) for group in rows]


def test_settings_in_which_the_same_choice_differs(tmp_path):
    make(tmp_path, "ranker.l2=0.01", "exploration.alpha=1")
    make(tmp_path, "ranker.l2=0.1")
    # of another ranker, with another exploration: that their settings differ is no news
    make(tmp_path, "ranker=pdgd", "exploration=none", "ranker.l2=7", "exploration.alpha=7", "ranker._target_=a.PDGD")
    assert short(tmp_path) == [("pairrank", "l2=0.01 alpha=1"), ("pairrank", "l2=0.1"), ("pdgd", "")]


def test_settings_of_the_run_are_compared_among_all(tmp_path):
    make(tmp_path, "rounds=10")
    make(tmp_path, "ranker=pdgd", "rounds=20")
    assert short(tmp_path) == [("pairrank", "rounds=10"), ("pdgd", "rounds=20")]


def test_the_default_of_a_measure_is_left_out_like_those_of_choices(tmp_path):
    make(tmp_path, "measure.ndcg.discount=0.9995", command="ol2r run")
    make(tmp_path, "measure.ndcg.discount=1")
    assert short(tmp_path) == [("pairrank", ""), ("pairrank", "measure.ndcg.discount=1")]


def test_the_exploration_is_named_where_a_ranker_has_several(tmp_path):
    make(tmp_path)
    make(tmp_path, "exploration=none")
    make(tmp_path, "ranker=pdgd", "exploration=none")
    assert [ranker for ranker, _ in short(tmp_path)] == [
        "pairrank exploration=confidence",
        "pairrank exploration=none",
        "pdgd",
    ]


def test_a_setting_that_follows_the_rankers_is_left_out_unless_it_was_typed(tmp_path):
    make(tmp_path / "a", "ranker.l2=1")
    make(tmp_path / "a", "ranker.l2=2")
    assert short(tmp_path / "a") == [("pairrank", "l2=1"), ("pairrank", "l2=2")]
    make(tmp_path / "a", "ranker.l2=3", "exploration.l2=3")
    assert short(tmp_path / "a")[0] == ("pairrank", "ranker.l2=1")
    make(tmp_path / "b", "ranker.l2=1")
    make(tmp_path / "b", "ranker.l2=1", "exploration.l2=2", command="ol2r run experiment=mine")
    assert short(tmp_path / "b") == [("pairrank", ""), ("pairrank", "l2=2")], "it does not follow in all of them"


def test_an_ambiguous_short_name_keeps_its_part(tmp_path):
    make(tmp_path, "dataset.seed=1", fingerprint="one")
    make(tmp_path, "dataset.seed=2", fingerprint="two")
    assert short(tmp_path) == [("pairrank", "dataset.seed=1"), ("pairrank", "dataset.seed=2")]


def test_a_setting_that_not_all_have(tmp_path):
    make(tmp_path)
    make(tmp_path, "ranker.new=null")
    assert short(tmp_path) == [("pairrank", ""), ("pairrank", "new=null")]


def test_no_two_groups_look_the_same(tmp_path):
    for l2, alpha, other, path in product((1, 2), (1, 2), ("ranker=pdgd", "exploration=none", "rounds=9"), "ab"):
        make(tmp_path, f"ranker.l2={l2}", f"exploration.l2={alpha}", other, f"dataset.path={path}", fingerprint=path)
    make(tmp_path, fingerprint="a")
    make(tmp_path, fingerprint="b")
    names = short(tmp_path)
    assert len(set(names)) == len(names) == 2 * 2 * 3 * 2 + 2


def test_overrides_are_words_for_the_shell(tmp_path):
    make(tmp_path, "ranker.l2=0.01", "ranker.pairs=two words")
    make(tmp_path, "ranker.l2=0.1", "fairness=fairexp")
    labels = Labels(rows := groups_below(tmp_path))
    assert [labels.overrides(group) for group in rows] == [
        "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence ranker.l2=0.01 "
        """'ranker.pairs='"'"'two words'"'"''""",
        "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence fairness=fairexp ranker.l2=0.1 "
        "ranker.pairs=matching",
    ]


def test_fingerprints_are_no_overrides(tmp_path):
    make(tmp_path, fingerprint="before")
    make(tmp_path, fingerprint="after")
    labels = Labels(rows := groups_below(tmp_path))
    assert {labels.short(group) for group in rows} == {"fingerprint=before", "fingerprint=after"}
    assert {labels.overrides(group) for group in rows} == {
        "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence"
    }


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"])),
    st.sampled_from(["~/MQ2008", "tRue", "1e5", "a'b", "a\\'b", "\\", "null", "a/b.c", "ä"]),
)


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.text if isinstance(value, QuotedString) else value


@settings(max_examples=40, deadline=None)
@given(st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.from_regex(r"\A[a-z]+\Z"), SCALARS)))
def test_hydra_reads_back_what_is_typed(value):
    found = plain(OverridesParser.create().parse_override(f"name={text(value)}").value())
    assert (found, repr(found)) == (value, repr(value))


@pytest.mark.parametrize(("value", "typed"), [(1e-05, "1e-05"), ([1, "a"], "[1,a]"), (None, "null"), (True, "true")])
def test_typed_without_blanks(value, typed):
    assert text(value) == typed


def test_a_ranker_with_several_models_says_which_and_their_settings_are_their_own(tmp_path):
    linear = ["ranker=pdgd", "ranker/model=linear", "ranker.model._target_=a.Linear"]
    network = ["ranker=pdgd", "ranker/model=mlp", "ranker.model._target_=a.MLP"]
    make(tmp_path, *linear)
    make(tmp_path, *network, "ranker.model.width=16")
    assert short(tmp_path) == [("pdgd ranker/model=linear", ""), ("pdgd ranker/model=mlp", "")]
    make(tmp_path, *network, "ranker.model.width=100")
    make(tmp_path, "ranker=olranknet", *network[1:], "ranker.model.width=16")
    assert short(tmp_path) == [
        ("pdgd ranker/model=linear", ""),
        ("pdgd ranker/model=mlp", "model.width=16"),
        ("pdgd ranker/model=mlp", "model.width=100"),
        ("olranknet", "model.width=16"),
    ]
    labels = Labels(rows := groups_below(tmp_path))
    assert labels.overrides(rows[1]) == (
        "dataset=mq2008 click=perfect ranker=pdgd ranker/model=mlp exploration=confidence ranker.model.width=16"
    )


def names(root, groups) -> list[str]:
    labels = Labels(groups_below(root))
    return [f"{labels.ranker(group)} {labels.short(group)}".strip() for group in groups]


def test_dataset_users_and_settings_of_the_run_make_the_task(tmp_path):
    make(tmp_path)
    for other in ("dataset=yahoo", "click=cascade", "rounds=9", "click.stop=1", "dataset.normalise=none"):
        make(tmp_path, other, fingerprint="other" if other.startswith("dataset") else None)
    assert [len(task) for task in tasks(groups_below(tmp_path))] == [1] * 6


@pytest.mark.parametrize(
    "other",
    [
        "ranker=pdgd",
        "ranker.l2=1",
        "exploration=none",
        "exploration.alpha=1",
        "fairness=fairexp",
        "device.dtype=float32",
    ],
)
def test_competitors_and_precision_do_not_make_a_task(tmp_path, other):
    make(tmp_path)
    make(tmp_path, other)
    assert [len(task) for task in tasks(groups_below(tmp_path))] == [2]


def test_names_of_settings():
    assert [
        name for name in ("rounds", "click.stop", "dataset.fold", "ranker.l2", "trace_regret") if defines_task(name)
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
    (task,) = tasks(groups_below(tmp_path))
    assert names(tmp_path, [find_baseline(words, task, Labels(task))]) == [row]


@pytest.mark.parametrize("words", ["dbgd", "ranker.l2=3", "ranker.l2=x", "ranker.new=1", "pdgd ranker.l2=2"])
def test_words_that_match_no_group(tmp_path, words):
    make(tmp_path, "ranker.l2=2")
    make(tmp_path, "ranker=pdgd")
    (task,) = tasks(groups_below(tmp_path))
    assert find_baseline(words, task, Labels(task)) is None


def test_words_that_match_several_groups_are_an_error_with_advice(tmp_path):
    make(tmp_path, "ranker.l2=1", "rounds=9")
    make(tmp_path, "ranker.l2=2", "rounds=9")
    make(tmp_path, "rounds=8")
    labels = Labels(rows := groups_below(tmp_path))
    first, second = tasks(rows)
    assert find_baseline("pairrank", second, labels) is second[0]
    message = (
        "--baseline must match one row of each task, got pairrank, which matches 2 with dataset=mq2008 "
        "click=perfect rounds=9: add what distinguishes them, such as --baseline 'pairrank ranker.l2=1'"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        find_baseline("pairrank", first, labels)
    assert task_name(second[0], labels) == "dataset=mq2008 click=perfect rounds=8"
