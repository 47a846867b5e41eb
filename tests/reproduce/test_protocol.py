from __future__ import annotations

from dataclasses import replace

import pytest

from ol2r_cli.reproduce.caveat import caveat
from ol2r_cli.reproduce.protocol import Place, Protocol
from ol2r_cli.reproduce.recipe import Competitor, Recipe
from ol2r_cli.reproduce.words import expand, values, words

RECIPE = Recipe(
    name="pairrank_x",
    title="A figure",
    paper="pairrank",
    where="figure 1",
    shows="something",
    claims=[],
    data=["mslr", "yahoo"],
    words="click=perfect,informational",
    scale={"quick": "rounds=100 replicas=3", "paper": "rounds=5000 replicas=20"},
    choose="seed=1000 replicas=2",
    competitors={
        "A": Competitor("ranker=pairrank", "ranker.l2=0.1,1 exploration.alpha=0.1,0.2,0.3", "ranker.l2=7"),
        "B": Competitor("ranker=pdgd", quick={"perfect": "ranker.decay=1", "informational": "ranker.decay=0.9"}),
    },
)


def test_the_later_word_stands_in_the_place_of_the_first():
    assert words("a=1 b=2", ["a=3", "+c=4"]) == {"a": "a=3", "b": "b=2", "c": "+c=4"}


def test_a_word_with_several_values_is_several_words_and_a_list_is_one():
    assert values("a=1,2") == ("a=1", "a=2")
    assert values("a=[1,2]") == ("a=[1,2]",)
    assert values("g={feature:1,threshold:0}") == ("g={feature:1,threshold:0}",)
    assert [tuple(run.values()) for run in expand(words("a=1,2 b=x c=3,4"))] == [
        ("a=1", "b=x", "c=3"),
        ("a=1", "b=x", "c=4"),
        ("a=2", "b=x", "c=3"),
        ("a=2", "b=x", "c=4"),
    ]
    with pytest.raises(ValueError, match="an override must be NAME=VALUE, got a"):
        values("a")


def test_quick_runs_every_competitor_with_every_click_model_once_on_what_stands_in_for_both_datasets():
    protocol = Protocol(RECIPE)
    assert [ground.named for ground in protocol.grounds] == [("mslr", "yahoo")]
    shared = ("dataset=synthetic", "rounds=100", "replicas=3")
    assert [(trial.place, trial.runs) for trial in protocol.final()] == [
        (Place("synthetic", click, name), (sorted_run(shared, f"click={click}", *own),))
        for click, last in (("perfect", "1"), ("informational", "0.9"))
        for name, own in (("A", ("ranker=pairrank", "ranker.l2=7")), ("B", ("ranker=pdgd", f"ranker.decay={last}")))
    ]
    assert list(protocol.candidates()) == []


def sorted_run(shared: tuple[str, ...], click: str, *own: str) -> tuple[str, ...]:
    """In the order in which a protocol mentions its words: dataset, of all runs, of the scale, of the competitor."""
    return (shared[0], click, *shared[1:], *own)


def test_the_protocol_of_the_paper_chooses_from_the_grid_on_every_fold_with_other_seeds():
    protocol = Protocol(RECIPE, "paper")
    assert [(ground.title, ground.folds) for ground in protocol.grounds] == [("MSLR-WEB10K", 5), ("Yahoo", 0)]
    candidates = list(protocol.candidates())
    assert len(candidates) == 2 * 2 * 6  # datasets, click models, cells of A; B has no grid
    assert [len(trial.runs) for trial in candidates] == [5] * 12 + [1] * 12
    assert all({"seed=1000", "replicas=2", "rounds=5000"} <= set(run) for trial in candidates for run in trial.runs)
    assert [run[1] for run in candidates[0].runs] == [f"dataset.fold={fold}" for fold in range(1, 6)]
    chosen = {trial.place: trial.settings for trial in candidates}  # the last cell of each place
    final = {trial.place: trial.runs for trial in protocol.final(chosen)}
    run = set(final[Place("Yahoo", "perfect", "A")][0])
    assert {"ranker.l2=1", "exploration.alpha=0.3", "replicas=20"} <= run
    assert not [word for word in run if word.startswith("seed=")]
    assert len(final[Place("MSLR-WEB10K", "perfect", "B")]) == 5


def test_typed_words_stand_in_place_of_the_recipes():
    protocol = Protocol(RECIPE, "quick", ["click=inf", "rounds=7", "dataset=mq2008", "launcher.jobs=2"])
    trials = list(protocol.final())
    assert {trial.place for trial in trials} == {Place("mq2008", "informational", name) for name in "AB"}
    assert all({"rounds=7", "dataset=mq2008"} <= set(run) for trial in trials for run in trial.runs)
    assert not any("launcher" in word for trial in trials for run in trial.runs for word in run)
    assert protocol.launcher == ["launcher.jobs=2"]


def test_folds_are_for_the_scale_of_the_paper():
    quick = [len(trial.runs) for trial in Protocol(RECIPE, "quick", ["dataset=mq2008"]).final()]
    paper = [len(trial.runs) for trial in Protocol(RECIPE, "paper", ["dataset=mq2008"]).final()]
    two = [len(trial.runs) for trial in Protocol(RECIPE, "quick", ["dataset=mq2008", "dataset.fold=1,2"]).final()]
    assert (set(quick), set(paper), set(two)) == ({1}, {5}, {2})


def test_a_dataset_that_nobody_thought_of_takes_the_place_of_all():
    protocol = Protocol(RECIPE, "paper", ["dataset=istella_s"])
    assert [(ground.title, ground.named) for ground in protocol.grounds] == [("istella_s", ("mslr", "yahoo"))]
    assert not protocol.own_data


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (["ranker=mgd"], "ranker is what pairrank_x compares or chooses: leave out ranker=mgd"),
        (["exploration.alpha=1"], "exploration.alpha is what pairrank_x compares or chooses"),
        (["positions=5,10"], "positions must have one value, got positions=5,10"),
    ],
)
def test_words_that_would_change_what_is_compared_are_refused(typed, complaint):
    with pytest.raises(ValueError, match=complaint):
        Protocol(RECIPE, "quick", typed)


def test_there_are_two_scales():
    with pytest.raises(ValueError, match="scale must be one of quick, paper, got large"):
        Protocol(RECIPE, "large")


def test_groups_are_told_apart_where_one_dataset_has_several():
    fair = Recipe(**{**vars(RECIPE), "data": ["mslr_inlink", "mslr_pagerank", "yahoo_9"]})
    assert [(ground.title, ground.named) for ground in Protocol(fair).grounds] == [
        ("synthetic, group_ratio=0.65", ("mslr_inlink",)),
        ("synthetic, group_ratio=0.5", ("mslr_pagerank", "yahoo_9")),
    ]


def test_ten_queries_are_chosen_as_the_dataset_wants_it():
    ten = Recipe(**{**vars(RECIPE), "queries": 10})
    assert "dataset.queries.train=10" in next(iter(Protocol(ten).final())).runs[0]
    assert "dataset.queries=10" in next(iter(Protocol(ten, "paper").final())).runs[0]


@pytest.mark.parametrize(
    ("scale", "typed", "said"),
    [
        ("quick", [], "quick: T = 100, 3 seeds, generated data: shapes can be compared, numbers cannot"),
        ("quick", ["replicas=1"], "quick: T = 100, 1 seed, generated data: shapes can be compared, numbers cannot"),
        ("quick", ["dataset=yahoo"], "quick: T = 100, 3 seeds, Yahoo: shapes can be compared, numbers cannot"),
        ("paper", ["dataset=yahoo"], ""),
        (
            "paper",
            ["dataset=mq2008"],
            "paper: T = 5,000, 20 seeds x 5 folds, mq2008, which is not the data of the paper: "
            "numbers cannot be compared",
        ),
        ("paper", [], ""),
        ("paper", ["output_dir=there", "click=inf", "device.threads=1"], ""),
        (
            "paper",
            ["positions=5"],
            "paper: T = 5,000, 20 seeds x 5 folds, MSLR-WEB10K and Yahoo, with positions=5, "
            "which is not the protocol of the paper",
        ),
    ],
)
def test_what_is_not_the_paper_is_said(scale, typed, said):
    assert caveat(Protocol(RECIPE, scale, typed)) == said


def test_rounds_that_a_shorter_run_does_not_have_are_not_asked_for():
    recipe = replace(RECIPE, words="click=perfect block_rounds=[10,100,500]")
    words_of = {rounds: next(Protocol(recipe, typed=[f"rounds={rounds}"]).final()).runs[0] for rounds in (50, 500)}
    assert "block_rounds=[10]" in words_of[50]
    assert "block_rounds=[10,100,500]" in words_of[500]
