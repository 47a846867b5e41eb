"""The runs of a recipe: scales, typed overrides, folds, and the caveat above the results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ol2r_cli.reproduce.paper_plan import PaperPlan
from ol2r_cli.reproduce.recipe import Competitor, Recipe, load_recipe
from ol2r_cli.reproduce.recipe_page import caveat
from ol2r_cli.reproduce.run_plan import Condition, by_name

RECIPE = Recipe(
    name="pairrank_x",
    title="A figure",
    paper="pairrank",
    where="figure 1",
    shows="something",
    claims=[],
    seen=[],
    data=["mslr", "yahoo"],
    words="click=perfect,informational",
    scale={"quick": "rounds=100 replicas=3", "paper": "rounds=5000 replicas=20"},
    choose="seed=1000 replicas=2",
    competitors={
        "A": Competitor("ranker=pairrank", "ranker.l2=0.1,1 exploration.alpha=0.1,0.2,0.3", "ranker.l2=7"),
        "B": Competitor("ranker=pdgd", quick={"perfect": "ranker.decay=1", "informational": "ranker.decay=0.9"}),
    },
)


def test_a_later_override_replaces_an_earlier_one_in_its_place():
    assert by_name("a=1 b=2", ["a=3", "+c=4"]) == {"a": "a=3", "b": "b=2", "c": "+c=4"}


def test_quick_runs_every_competitor_once_for_each_click_model_on_the_dataset_that_replaces_both():
    plan = PaperPlan(RECIPE)
    assert [slot.stands_for for slot in plan.slots] == [("mslr", "yahoo")]
    competitors = {
        "perfect": {"A": ["ranker=pairrank", "ranker.l2=7"], "B": ["ranker=pdgd", "ranker.decay=1"]},
        "informational": {"A": ["ranker=pairrank", "ranker.l2=7"], "B": ["ranker=pdgd", "ranker.decay=0.9"]},
    }
    assert [(trial.condition, trial.runs) for trial in plan.final()] == [
        (
            Condition("synthetic", click, name),
            (("dataset=synthetic", f"click={click}", "rounds=100", "replicas=3", *overrides),),
        )
        for click, by_name in competitors.items()
        for name, overrides in by_name.items()
    ]
    assert list(plan.candidates()) == []


def test_the_protocol_of_the_paper_chooses_from_the_grid_on_every_fold_with_other_seeds():
    plan = PaperPlan(RECIPE, "paper")
    assert [(slot.title, slot.folds) for slot in plan.slots] == [("MSLR-WEB10K", 5), ("Yahoo", 0)]
    candidates = list(plan.candidates())
    assert len(candidates) == 2 * 2 * 6  # datasets, click models, settings of A; B has no grid
    assert [trial.settings for trial in candidates[:3]] == [
        {"ranker.l2": "ranker.l2=0.1", "exploration.alpha": f"exploration.alpha={alpha}"} for alpha in (0.1, 0.2, 0.3)
    ]
    assert [len(trial.runs) for trial in candidates] == [5] * 12 + [1] * 12
    assert all({"seed=1000", "replicas=2", "rounds=5000"} <= set(run) for trial in candidates for run in trial.runs)
    assert [run[1] for run in candidates[0].runs] == [f"dataset.fold={fold}" for fold in range(1, 6)]
    best = {trial.condition: trial.settings for trial in candidates}  # the last settings of each condition
    final = {trial.condition: trial.runs for trial in plan.final(best)}
    run = set(final[Condition("Yahoo", "perfect", "A")][0])
    assert {"ranker.l2=1", "exploration.alpha=0.3", "replicas=20"} <= run
    assert not [word for word in run if word.startswith("seed=")]
    assert len(final[Condition("MSLR-WEB10K", "perfect", "B")]) == 5


def test_typed_overrides_replace_those_of_the_recipe():
    plan = PaperPlan(RECIPE, "quick", ["click=inf", "rounds=7", "dataset=mq2008", "launcher.jobs=2"])
    trials = list(plan.final())
    assert {trial.condition for trial in trials} == {Condition("mq2008", "informational", name) for name in "AB"}
    assert all({"rounds=7", "dataset=mq2008"} <= set(run) for trial in trials for run in trial.runs)
    assert not any("launcher" in word for trial in trials for run in trial.runs for word in run)
    assert plan.launcher == ["launcher.jobs=2"]


def test_folds_are_for_the_scale_of_the_paper():
    quick = [len(trial.runs) for trial in PaperPlan(RECIPE, "quick", ["dataset=mq2008"]).final()]
    paper = [len(trial.runs) for trial in PaperPlan(RECIPE, "paper", ["dataset=mq2008"]).final()]
    two = [len(trial.runs) for trial in PaperPlan(RECIPE, "quick", ["dataset=mq2008", "dataset.fold=1,2"]).final()]
    assert (set(quick), set(paper), set(two)) == ({1}, {5}, {2})


def test_a_dataset_without_an_entry_in_the_recipe_replaces_all_datasets():
    plan = PaperPlan(RECIPE, "paper", ["dataset=istella_s"])
    assert [(slot.title, slot.stands_for) for slot in plan.slots] == [("istella_s", ("mslr", "yahoo"))]
    assert not plan.uses_paper_data


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (["ranker=mgd"], "ranker is what pairrank_x compares or chooses: leave out ranker=mgd"),
        (["exploration.alpha=1"], "exploration.alpha is what pairrank_x compares or chooses"),
        (["positions=5,10"], "positions must have one value, got positions=5,10"),
    ],
)
def test_overrides_that_would_change_what_is_compared_are_refused(typed, complaint):
    with pytest.raises(ValueError, match=complaint):
        PaperPlan(RECIPE, "quick", typed)


def test_there_are_two_scales():
    with pytest.raises(ValueError, match="scale must be one of quick, paper, got large"):
        PaperPlan(RECIPE, "large")


def test_slots_of_one_dataset_have_their_settings_in_the_title():
    fair = Recipe(**{**vars(RECIPE), "data": ["mslr_inlink", "mslr_pagerank", "yahoo_9"]})
    assert [(slot.title, slot.stands_for) for slot in PaperPlan(fair).slots] == [
        ("synthetic, group_ratio=0.65", ("mslr_inlink",)),
        ("synthetic, group_ratio=0.5", ("mslr_pagerank", "yahoo_9")),
    ]


def test_the_number_of_queries_is_a_setting_of_the_dataset():
    ten = Recipe(**{**vars(RECIPE), "queries": 10})
    assert "dataset.queries.train=10" in next(iter(PaperPlan(ten).final())).runs[0]
    assert "dataset.queries=10" in next(iter(PaperPlan(ten, "paper").final())).runs[0]


def test_the_caveat_names_what_differs_from_the_paper():
    cannot = "shapes can be compared, numbers cannot"
    all_folds = "paper: T = 5,000, 20 seeds x 5 folds"
    for scale, typed, expected in (
        ("quick", [], f"quick: T = 100, 3 seeds, generated data: {cannot}"),
        ("quick", ["replicas=1"], f"quick: T = 100, 1 seed, generated data: {cannot}"),
        ("quick", ["dataset=yahoo"], f"quick: T = 100, 3 seeds, Yahoo: {cannot}"),
        ("paper", ["dataset=yahoo"], ""),
        ("paper", [], ""),
        ("paper", ["output_dir=there", "click=inf", "device.threads=1"], ""),
        (
            "paper",
            ["dataset=mq2008"],
            f"{all_folds}, mq2008, which is not the data of the paper: numbers cannot be compared",
        ),
        (
            "paper",
            ["positions=5"],
            f"{all_folds}, MSLR-WEB10K and Yahoo, with positions=5, which is not the protocol of the paper",
        ),
    ):
        assert caveat(PaperPlan(RECIPE, scale, typed)) == expected, (scale, typed)


@pytest.mark.parametrize(
    ("name", "differs"), [("olranknet_fig4", True), ("p2neurrank_fig7", True), ("pairrank_fig3", False)]
)
def test_networks_that_are_fitted_otherwise_have_a_caveat(name: str, differs: bool):
    plan = PaperPlan(load_recipe(name), "paper", ["dataset=yahoo"])
    assert (
        caveat(plan).endswith("with networks that are not fitted as in the paper: numbers cannot be compared")
        is differs
    )
    assert bool(caveat(plan)) is differs


def test_block_rounds_beyond_the_typed_rounds_are_left_out():
    recipe = replace(RECIPE, words="click=perfect block_rounds=[10,100,500]")
    runs = {rounds: next(PaperPlan(recipe, typed=[f"rounds={rounds}"]).final()).runs[0] for rounds in (50, 500)}
    assert "block_rounds=[10]" in runs[50]
    assert "block_rounds=[10,100,500]" in runs[500]
