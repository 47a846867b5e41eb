"""Recipes of the benchmark: all files are read and composed, and mistakes are told in one line."""

from __future__ import annotations

import pytest
import yaml

from ol2r_cli.benchmark import benchmark_recipe
from ol2r_cli.benchmark.benchmark_plan import BenchmarkPlan
from ol2r_cli.benchmark.benchmark_recipe import benchmark_names, load_benchmark
from ol2r_cli.config.composer import compose, expand
from ol2r_cli.reproduce.run_plan import by_name

TINY = {
    "title": "Tiny",
    "shows": "two rankers",
    "data": {
        "small": {"words": "dataset=synthetic dataset.queries={train:10,validation:5,test:5} dataset.documents=8"},
        "other": {"words": "dataset=synthetic dataset.queries={train:9,validation:5,test:5} dataset.documents=8"},
    },
    "words": "click=perfect,informational device.threads=1",
    "baseline": "random",
    "competitors": {
        "random": {"words": "ranker=random"},
        "SGD": {"words": "ranker=sgd_ranknet", "grid": "ranker.learning_rate=0.001,0.01,5"},
    },
    "choose": "seed=1000 replicas=1 evaluate_on=[validation]",
    "scale": {
        "full": "rounds=40 replicas=3 evaluate_every=20",
        "check": "click=informational rounds=10 replicas=2 evaluate_every=10",
    },
}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with the benchmark `tiny` alone; the fixture writes changed content."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    monkeypatch.setattr(benchmark_recipe, "benchmark_dir", lambda: folder)

    def write(**changed):
        (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY | changed, sort_keys=False))

    write()
    return write


def test_linear_comes_first():
    assert benchmark_names()[0] == "linear"
    assert set(benchmark_names()) == {"linear", "neural", "fairness", "drift", "million"}


@pytest.mark.parametrize("name", benchmark_names())
def test_every_row_is_composed(name):
    """With each of its settings once; only the ends of grids, which are the values most likely to be refused."""
    recipe = load_benchmark(name)
    seen = set()
    for full in (True, False):
        plan = BenchmarkPlan(recipe, full=full)
        for trial in [*plan.candidates(), *plan.final()]:
            row = (full, trial.condition.slot, trial.condition.competitor, bool(trial.settings))
            if row not in seen:
                seen.add(row)
                config = compose(list(trial.runs[0])).config
                assert config.replicas <= 10
    assert {row[2] for row in seen} == set(recipe.competitors)


@pytest.mark.parametrize("name", benchmark_names())
def test_the_protocol_holds(name):
    """Other seeds choose than are reported, and the chosen seeds, rounds and folds are those of the page."""
    recipe = load_benchmark(name)
    plan = BenchmarkPlan(recipe)
    for trial in plan.candidates():
        named = by_name(trial.words)
        assert named["seed"] == "seed=1000"
        assert named["evaluate_on"] == "evaluate_on=[validation]"
        assert ("dataset.validation" in named) == (named["dataset"] == "dataset=clueweb09")
    for trial in plan.final():
        named = by_name(trial.words)
        assert "seed" not in named
        assert "dataset.validation" not in named
        folds = {"dataset=mq2008": 5, "dataset=clueweb09": 2, "dataset=synthetic": 1}[named["dataset"]]
        assert len(trial.runs) == folds
    for competitor in recipe.competitors.values():
        for override in by_name(competitor.grid).values():
            values = [float(each.partition("=")[2]) for each in expand(override)]
            assert values == sorted(set(values))
            assert len(values) >= 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"baseline": "PDGD"}, r"tiny.yaml: baseline must be one of its competitors, got PDGD"),
        ({"scale": {"full": ""}}, r"tiny.yaml: scale must have full and check, got full"),
        ({"choose": ""}, r"tiny.yaml: choose must say how settings are chosen from the grids, got nothing"),
        ({"data": {"small": {"word": "x"}}}, r"tiny.yaml: data.small: a key must be one of words, choose, got word"),
    ],
)
def test_mistakes_in_a_recipe(tiny, changed, message):
    tiny(**changed)
    with pytest.raises(ValueError, match=message):
        load_benchmark("tiny")


def test_an_unknown_name(tiny):
    with pytest.raises(ValueError, match=r"NAME tinny: did you mean tiny\? NAME must be one of tiny"):
        load_benchmark("tinny")


def test_typed_overrides_limit_the_plan(tiny):
    recipe = load_benchmark("tiny")
    plan = BenchmarkPlan(recipe, ["click=inf", "output_dir=x", "launcher.jobs=1"])
    assert [trial.condition.click for trial in plan.final()] == ["informational"] * 4
    assert all("output_dir=x" in trial.words for trial in plan.final())
    assert plan.launcher == ["launcher.jobs=1"]
    assert len(list(plan.candidates())) == 6


@pytest.mark.parametrize("typed", ["rounds=3", "ranker.l2=1", "seed=4", "measures=[ndcg]", "trace_blocks=true"])
def test_the_protocol_cannot_be_changed(tiny, typed):
    with pytest.raises(ValueError, match=f"is part of the protocol of tiny: leave out {typed[:4]}"):
        BenchmarkPlan(load_benchmark("tiny"), [typed])


def test_another_dataset(tiny):
    with pytest.raises(ValueError, match=r"dataset must be synthetic, got mq2008"):
        BenchmarkPlan(load_benchmark("tiny"), ["dataset=mq2008"])


def test_a_ranker_is_added_with_its_grid(tiny):
    added = ["ranker=pdgd", "ranker.learning_rate=0.1,1", "click=per", "output_dir=x"]
    plan = BenchmarkPlan(load_benchmark("tiny"), added=added)
    assert {trial.condition.competitor for trial in plan.final()} == {"pdgd (added)"}
    assert {trial.condition.click for trial in plan.final()} == {"perfect"}
    settings = [trial.settings["ranker.learning_rate"] for trial in plan.candidates()]
    assert settings == ["ranker.learning_rate=0.1", "ranker.learning_rate=1"] * 2
    with pytest.raises(ValueError, match=r"--add must name one ranker, such as --add ranker=mine, got ranker\.l2=1"):
        BenchmarkPlan(load_benchmark("tiny"), added=["ranker.l2=1"])
