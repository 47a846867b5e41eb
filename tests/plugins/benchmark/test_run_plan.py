"""The runs of a recipe: scales, typed overrides, folds, a ranker that is added, and the caveat above the results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ol2r_cli.plugins.benchmark import play
from ol2r_cli.plugins.benchmark.paper import protocol
from ol2r_cli.plugins.benchmark.play import extensions, run_recipe
from ol2r_cli.plugins.benchmark.recipe import AIMS, Condition, Recipe, by_name, load_recipe
from ol2r_cli.plugins.benchmark.results import Row
from ol2r_cli.plugins.benchmark.run_plan import RunPlan, plan_of
from ol2r_cli.run import DONE
from ol2r_cli.sweep.sweeper import SweepResult
from tests.plugins.benchmark.small import load
from tests.report.runs import only
from tests.report.runs import play as play_run

PAPER = {
    "words": "click=perfect,informational block_rounds=[3,10,500]",
    "choose": "seed=1000 replicas=2",
    "competitors": {
        "A": {
            "words": "ranker=pairrank",
            "grid": "ranker.l2=0.1,1 exploration.alpha=0.1,0.2,0.3",
            "quick": "ranker.l2=7",
        },
        "B": {"words": "ranker=pdgd", "quick": {"perfect": "ranker.decay=1", "informational": "ranker.decay=0.9"}},
    },
}


@pytest.fixture
def paper(recipes) -> Recipe:
    return load("reproduce", recipes, **PAPER)


@pytest.fixture
def tiny(recipes) -> Recipe:
    return load("benchmark", recipes)


def test_quick_runs_every_competitor_once_for_each_click_model(paper):
    """`--quick` runs every competitor once for each click model, on the dataset that replaces both."""
    assert by_name("a=1 b=2", ["a=3", "+c=4"]) == {"a": "a=3", "b": "b=2", "c": "+c=4"}
    plan = plan_of(paper)
    assert [slot.stands_for for slot in plan.slots] == [("mslr", "yahoo")]
    shared = ("block_rounds=[3,10]", "rounds=100", "replicas=3")  # blocks of later rounds are left out
    assert [(trial.condition, trial.runs) for trial in plan.final()] == [
        (
            Condition("generated data", click, name),
            [("dataset=synthetic", f"click={click}", *shared, f"ranker={ranker}", setting)],
        )
        for click, decay in (("perfect", "1"), ("informational", "0.9"))
        for name, ranker, setting in (("A", "pairrank", "ranker.l2=7"), ("B", "pdgd", f"ranker.decay={decay}"))
    ]
    assert list(plan.candidates()) == []


def test_the_protocol_of_the_paper_chooses_on_every_fold(paper):
    """Of two datasets, two click models and the six settings of A; B has no grid."""
    plan = plan_of(paper, scale="paper")
    assert [slot.title for slot in plan.slots] == ["MSLR-WEB10K", "Yahoo"]
    candidates = list(plan.candidates())
    assert [trial.settings for trial in candidates[:3]] == [
        {"ranker.l2": "ranker.l2=0.1", "exploration.alpha": f"exploration.alpha={alpha}"} for alpha in (0.1, 0.2, 0.3)
    ]
    assert [len(trial.runs) for trial in candidates] == [5] * 12 + [1] * 12
    assert all({"seed=1000", "replicas=2", "rounds=5000"} <= set(run) for trial in candidates for run in trial.runs)
    assert [run[1] for run in candidates[0].runs] == [f"dataset.fold={fold}" for fold in range(1, 6)]


def test_chosen_settings_are_run_with_other_seeds_on_every_fold(paper):
    plan = plan_of(paper, scale="paper")
    best = {trial.condition: trial.settings for trial in plan.candidates()}  # the last settings of each condition
    final = {trial.condition: trial.runs for trial in plan.final(best)}
    (run,) = final[Condition("Yahoo", "perfect", "A")]
    assert {"ranker.l2=1", "exploration.alpha=0.3", "replicas=20"} <= set(run)
    assert not [word for word in run if word.startswith("seed=")]
    assert len(final[Condition("MSLR-WEB10K", "perfect", "B")]) == 5


def test_typed_overrides_replace_those_of_the_paper(paper):
    """Blocks of rounds that are not played are left out; where jobs run is not a part of them."""
    plan = plan_of(paper, ["click=inf", "rounds=7", "dataset=mq2008", "launcher.jobs=2"], "quick")
    trials = list(plan.final())
    assert {trial.condition for trial in trials} == {Condition("MQ2008", "informational", name) for name in "AB"}
    runs = [set(run) for trial in trials for run in trial.runs]
    assert all({"rounds=7", "dataset=mq2008", "block_rounds=[3]"} <= run for run in runs)
    assert not any("launcher" in word for run in runs for word in run)
    assert plan.launcher == ["launcher.jobs=2"]


@pytest.mark.parametrize(
    ("scale", "typed", "folds"), [("quick", [], 1), ("paper", [], 5), ("quick", ["dataset.fold=1,2"], 2)]
)
def test_folds_are_those_of_the_scale_or_typed(paper, scale, typed, folds):
    final = plan_of(paper, ["dataset=mq2008", *typed], scale).final()
    assert {len(trial.runs) for trial in final} == {folds}


def test_a_typed_dataset_stands_for_all_of_the_paper(paper):
    plan = plan_of(paper, ["dataset=istella_s"], "paper")
    assert [(slot.title, slot.stands_for) for slot in plan.slots] == [("Istella-S", ("mslr", "yahoo"))]


def test_generated_data_have_the_groups_of_what_they_stand_for(recipes):
    """And as many queries as the recipe says, in quick runs alone."""
    recipe = load("reproduce", recipes, **PAPER | {"data": ["mslr_inlink", "mslr_pagerank", "yahoo_9"], "queries": 10})
    plan = plan_of(recipe)
    assert [(slot.title, slot.stands_for) for slot in plan.slots] == [
        ("generated data, group_ratio=0.65", ("mslr_inlink",)),
        ("generated data, group_ratio=0.5", ("mslr_pagerank", "yahoo_9")),
    ]
    assert "dataset.queries.train=10" in next(iter(plan.final())).runs[0]
    assert "dataset.queries=10" in next(iter(plan_of(recipe, scale="paper").final())).runs[0]


@pytest.mark.parametrize(
    ("scale", "typed", "complaint"),
    [
        ("quick", "ranker=mgd", "ranker is what pairrank_x compares or chooses: leave out ranker=mgd"),
        ("quick", "exploration.alpha=1", "exploration.alpha is what pairrank_x compares or chooses"),
        ("quick", "positions=5,10", "positions must have one value, got positions=5,10"),
        ("large", "rounds=3", "scale must be one of quick, paper, got large"),
    ],
)
def test_overrides_that_change_what_a_paper_compares_are_refused(paper, scale, typed, complaint):
    with pytest.raises(ValueError, match=complaint):
        plan_of(paper, [typed], scale)


@pytest.mark.parametrize("typed", ["rounds=3", "ranker.l2=1", "seed=4", "measures=[ndcg]"])
def test_a_benchmark_fixes_all_settings_but_where_it_runs(tiny, typed):
    with pytest.raises(ValueError, match=f"tiny fixes all settings but dataset, .*: leave out {typed[:4]}"):
        plan_of(tiny, [typed])


CANNOT, FIVE_FOLDS = "shapes can be compared, numbers cannot", "paper: T = 5,000, 20 seeds x 5 folds"


@pytest.mark.parametrize(
    ("scale", "typed", "expected"),
    [
        ("quick", "replicas=1", f"quick: T = 100, 1 seed, generated data: {CANNOT}"),
        ("quick", "dataset=yahoo", f"quick: T = 100, 3 seeds, Yahoo: {CANNOT}"),
        ("paper", "dataset=mq2008", f"{FIVE_FOLDS}, MQ2008, which is not the data of the paper: numbers cannot"),
        ("paper", "positions=5", f"{FIVE_FOLDS}, MSLR-WEB10K and Yahoo, with positions=5, which is not the"),
    ],
)
def test_the_protocol_names_what_differs_from_the_paper(paper, scale, typed, expected):
    line, comparable = protocol(plan_of(paper, [typed], scale))
    assert line.startswith(expected)
    assert not comparable


def test_the_protocol_of_the_paper_can_be_compared(paper):
    """Where it runs, and a part of the users, change nothing."""
    plan = plan_of(paper, ["dataset=yahoo", "output_dir=x", "click=inf"], "paper")
    assert protocol(plan) == ("paper: T = 5,000, 20 seeds, Yahoo", True)


@pytest.mark.parametrize(
    ("name", "comparable"), [("olranknet_fig4", False), ("p2neurrank_fig7", False), ("pairrank_fig3", True)]
)
def test_networks_are_not_fitted_as_in_the_papers(name, comparable):
    line, compared = protocol(plan_of(load_recipe("reproduce", name), ["dataset=yahoo"], "paper"))
    differs = ", with networks that are not fitted as in the paper: numbers cannot be compared"
    assert compared == comparable == (not line.endswith(differs))


def test_overrides_limit_a_benchmark_and_add_a_ranker(tiny):
    """Typed overrides limit a benchmark, and a ranker is added with its grid."""
    plan = plan_of(tiny, ["click=inf", "output_dir=x", "launcher.jobs=1"])
    assert [trial.condition[1:4] for trial in plan.final()] == [
        ("informational", "random", ""),
        ("informational", "SGD", "offline"),
        ("informational", "SGD", "online"),
    ]
    assert all("output_dir=x" in trial.words for trial in plan.final())
    assert plan.launcher == ["launcher.jobs=1"]
    assert len(list(plan.candidates())) == 3
    where = ["output_dir=x", "launcher.jobs=1"]
    plan = plan_of(tiny, added=["ranker=pdgd", "ranker.learning_rate=0.1,1", "click=per", *where])
    assert plan.launcher == where[1:]
    assert {trial.condition[1:4] for trial in plan.final()} == {("perfect", "pdgd (added)", aim) for aim in AIMS}
    settings = [trial.settings["ranker.learning_rate"] for trial in plan.candidates()]
    assert settings == ["ranker.learning_rate=0.1", "ranker.learning_rate=1"]


def test_what_is_not_shared_says_what_a_run_is(tiny):
    """Words of the protocol, of its choice and of the place are shared; of two datasets, those of both."""
    plan = plan_of(tiny, added=["ranker=pdgd", "ranker.learning_rate=0.1,1", "click=per", "output_dir=x"])
    runs = [run for trial in [*plan.candidates(), *plan.final()] for run in trial.runs]
    own = {" ".join(word for word in plan.job(run) if word not in plan.shared) for run in runs}
    assert own == {"ranker=pdgd ranker.learning_rate=0.1", "ranker=pdgd ranker.learning_rate=1", "ranker=pdgd"}
    (slot,) = plan.slots
    other = replace(slot, shared=slot.shared | {"dataset": "dataset=letor"})
    assert set(plan.shared) - set(replace(plan, slots=[slot, other]).shared) == {"dataset=synthetic"}


def test_a_grid_grows_with_all_other_overrides_of_its_cells(tiny, tmp_path):
    """The highest learning rate is the best, so that the threefold of it is tried."""
    plan = plan_of(tiny, ["click=perfect"])
    cells = []
    for place, trial in enumerate(plan.candidates()):
        values = {0: [0, place / 10]}
        play_run(tmp_path / str(place), "ranker=pdgd", trace={"cumulative_ndcg": values}, validation=values)
        cells.append(Row(trial.condition, trial.settings, trial.words, only(tmp_path / str(place))))
    (extension,) = extensions(plan, {cells[0].condition: cells})
    assert extension.settings == {"ranker.learning_rate": "ranker.learning_rate=15"}
    assert extension.words == (*cells[-1].words[:-1], "ranker.learning_rate=15")


def test_runs_that_are_timed_are_played_one_at_a_time(recipes, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Neither beside nor together with others, unless the user says where they run."""
    received: list[list[str]] = []

    def sweep(jobs: object, launcher: list[str], **_: object) -> SweepResult:
        received.append(launcher)
        return SweepResult([], [], DONE, 0.0)

    monkeypatch.setattr(play, "sweep", sweep)
    monkeypatch.setattr(RunPlan, "final", lambda *_: [])
    for alone in (True, False):
        for typed in [], ["launcher.jobs=4"]:
            recipe = load("reproduce", recipes, **PAPER, alone=alone)
            plan = plan_of(recipe, [f"output_dir={tmp_path}", *typed], "quick")
            run_recipe(plan)
    single = ["launcher=processes", "launcher.jobs=1", "launcher.batch=1"]
    assert received == [single, ["launcher.jobs=4"], [], ["launcher.jobs=4"]]
