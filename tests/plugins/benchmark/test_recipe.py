"""Recipes: every file is complete, its overrides compose, and its printed numbers are in the papers."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import Catalogue, config_dir, dotted
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.grammar import expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.plugins import other_kinds
from ol2r_cli.plugins.benchmark.recipe import PAPERS, SCALES, by_name, load_recipe, recipe_names
from ol2r_cli.plugins.benchmark.run_plan import plan_of
from ol2r_cli.plugins.figures.kinds import KINDS
from tests.plugins.benchmark.small import PAPER, write

TEXTS = Path(__file__).parents[4] / "shared" / "papers"
FIGURES_AND_TABLES = {  # of the papers, those with results
    *(f"pairrank_fig{number}" for number in (3, 4, 5, 6, 7)),
    *(f"olranknet_fig{number}" for number in (3, 4, 5, 6)),
    *(f"p2neurrank_fig{number}" for number in (2, 3, 4, 5, 7, 8, 9)),
    *("p2neurrank_table", "fairexp_table1", "dissertation_fig3_2", "dissertation_fig3_3"),
    *(f"fairexp_fig{number}" for number in range(2, 11)),
    *("pdgd_offline", "pdgd_online"),
}
VERDICTS = {"yes", "no", "undecided"}  # on a claim of a paper; a comma and the reason may follow
GROUPS = {"click", "ranker", "exploration", "fairness", "dataset"}  # whose objects are built
GROUPS |= {group for kind in other_kinds() for group in (kind.data, kind.ranker)}
CLICK_MODELS = {"perfect", "navigational", "informational"}
FOLDS = {
    "mq2008": 5,
    "mq2007_part": 5,
    "ohsumed": 5,
    "clueweb09": 2,
    "mslr_web10k": 5,
    "mslr_web30k": 5,
}  # that are played; others have one split
OF_PAPERS = {name: load_recipe("reproduce", name) for name in recipe_names("reproduce")}
OF_BENCHMARK = {name: load_recipe("benchmark", name) for name in recipe_names("benchmark")}


def test_recipes_are_listed_in_the_order_of_the_papers():
    """All are listed in the order of the papers, linear rankers first."""
    assert {name for name, recipe in OF_PAPERS.items() if recipe.runs == "run"} == FIGURES_AND_TABLES
    fairexp = [name for name in OF_PAPERS if name.startswith("fairexp")]
    assert fairexp == ["fairexp_table1", *(f"fairexp_fig{number}" for number in range(2, 11))]
    assert list(OF_BENCHMARK) == ["linear", "linear_mslr", "clicks", "drift", "fairness", "million", "neural", "users"]
    assert not [group for group in Catalogue().choices if "reproduce" in group or "benchmark" in group]
    assert (config_dir() / "reproduce" / "pairrank_fig3.yaml").is_file()


def check(overrides: tuple[str, ...], built: set[str], composer: Composer) -> None:
    """Compose overrides and build the objects that they name, equal ones once; ValueError for bad overrides."""
    config = composer(overrides).config
    for group in config.keys() & GROUPS:
        text = OmegaConf.to_yaml(config[group])
        if text not in built:
            built.add(text)
            build(config[group])


@pytest.mark.slow
def test_every_override_of_every_paper_composes():
    """One run for what all runs of a recipe share, and as few as contain every override of every competitor."""
    built, seen = set(), set()
    for recipe in OF_PAPERS.values():
        for plan in (plan_of(recipe, scale=scale) for scale in SCALES["reproduce"]):
            composer = plan.composer
            for trials in (list(plan.final()), list(plan.candidates())):
                for trial in trials:
                    words = recipe.competitors[trial.condition.competitor].words
                    overrides = {(words, override) for override in (words, *trial.settings.values())}
                    if trial is trials[0] or not overrides <= seen:
                        seen |= overrides
                        check(trial.runs[0], built, composer)


def test_settings_of_every_paper_exist_and_its_datasets_compose():
    """Every name is in the YAML files of the choices; the test above checks values."""
    built = set()
    for recipe in OF_PAPERS.values():
        for plan in (plan_of(recipe, scale=scale) for scale in SCALES["reproduce"]):
            catalogue = plan.composer.catalogue
            for trial in list(plan.final())[: len(recipe.competitors)]:  # of the first condition
                grid = recipe.competitors[trial.condition.competitor].grid
                settings = [f"{name}." for name, _ in dotted(catalogue.tree(trial.runs[0]))]
                for name in by_name(trial.runs[0], grid, recipe.choose):
                    exists = name in catalogue.choices or any(setting.startswith(f"{name}.") for setting in settings)
                    assert exists, (recipe.name, trial.condition.competitor, name)
    of_titles = {data.title: (data, recipe.runs) for recipe in OF_PAPERS.values() for data in recipe.data.values()}
    for data, kind in of_titles.values():
        for source in map(data.source, ("", *data.stands_in)):
            fold = [f"dataset.fold={source.folds}"] if source.folds else []
            check((*by_name(source.words).values(), *fold), built, Composer(root=kind))


@pytest.mark.parametrize("recipe", [*OF_PAPERS.values(), *OF_BENCHMARK.values()], ids=lambda recipe: recipe.name)
def test_scales_choices_and_baseline_of_a_recipe_fit_its_command(recipe):
    assert set(recipe.scale) == set(SCALES[recipe.command])
    assert recipe.choose or not any(competitor.grid for competitor in recipe.competitors.values())
    assert recipe.baseline in recipe.competitors or recipe.command == "reproduce"


@pytest.fixture(params=OF_PAPERS.values(), ids=OF_PAPERS)
def of_paper(request):
    return request.param


def test_every_claim_of_a_paper_has_a_verdict(of_paper):
    assert of_paper.paper in PAPERS
    assert len(of_paper.seen) == len(of_paper.claims)
    assert {seen.partition(",")[0] for seen in of_paper.seen} <= VERDICTS


def test_printed_numbers_and_figures_are_of_what_is_run(of_paper):
    """Data, competitors and users that are named elsewhere in the recipe."""
    assert of_paper.figures or of_paper.printed or of_paper.where.startswith("Table")
    assert {printed["data"] for printed in of_paper.printed} <= set(of_paper.data)
    named = {printed["competitor"] for printed in of_paper.printed}
    assert named <= set(of_paper.competitors) or not of_paper.competitors
    clicks = [by_name(words).get("click", "click=perfect") for words in (of_paper.words, *of_paper.scale.values())]
    users = {user for click in clicks for user in click.partition("=")[2].split(",")}
    for figure in of_paper.figures:
        assert figure.keys() <= {"kind", "options", "click"}
        assert set(figure.get("options", ())) <= {*KINDS[figure["kind"]].options, "width"}
        users |= set(figure.get("click", ()))
    assert users <= CLICK_MODELS


def test_settings_of_a_recipe_are_of_its_grid(of_paper):
    for trial in plan_of(of_paper).final():
        competitor = of_paper.competitors[trial.condition.competitor]
        assert trial.settings.keys() <= by_name(competitor.grid, competitor.over).keys(), trial.condition


def test_printed_numbers_stand_near_their_phrase_in_the_paper():
    """Printed numbers are in the papers close to the phrase that is named."""
    if not TEXTS.is_dir():
        pytest.skip(f"no papers: {TEXTS} does not exist")
    printed_numbers = [printed for recipe in OF_PAPERS.values() for printed in recipe.printed]
    assert printed_numbers
    for printed in printed_numbers:
        lines = (TEXTS / printed["text"]).read_text().splitlines()
        positions = [position for position, line in enumerate(lines) if printed["near"] in line]
        near = [line for position in positions for line in lines[max(0, position - 20) : position + 2]]
        number = f"{printed['value']:.2f}%" if printed["metric"] == "size" else f"{printed['value']:.4f}"
        assert any(number in line for line in near), printed


@pytest.fixture(params=OF_BENCHMARK.values(), ids=OF_BENCHMARK)
def of_benchmark(request):
    return request.param


def test_runs_of_every_benchmark_compose(of_benchmark):
    """Of each dataset one run, of each competitor one with the first settings of its grid and one without."""
    plan, seen, composer = plan_of(of_benchmark), set[object](), Composer()
    for trial in [*plan.candidates(), *plan.final(), *plan_of(of_benchmark, scale="check").final()]:
        row = {trial.condition.data, (trial.condition.competitor, bool(trial.settings))}
        if not row <= seen:
            seen |= row
            assert composer(list(trial.runs[0])).settings["replicas"] <= 10, trial.condition


def test_other_seeds_choose_than_are_reported_on_all_folds(of_benchmark):
    plan = plan_of(of_benchmark)
    for trial in plan.candidates():
        named = by_name(trial.words)
        assert (named["seed"], named["evaluate_on"]) == ("seed=1000", "evaluate_on=[validation]")
        assert ("dataset.validation" in named) == (named["dataset"] == "dataset=clueweb09")
    for trial in plan.final():
        named = by_name(trial.words)
        assert not {"seed", "dataset.validation"} & named.keys()
        assert len(trial.runs) == FOLDS.get(named["dataset"].partition("=")[2], 1)


def test_grids_have_three_values_or_more_in_order(of_benchmark):
    for competitor in of_benchmark.competitors.values():
        for override in by_name(competitor.grid).values():
            values = [float(each.partition("=")[2]) for each in expand(override)]
            assert values == sorted(set(values)), override
            assert len(values) >= 3, override


def test_like_takes_everything_else_from_another_recipe(recipes):
    """`like` takes everything else from another recipe, and an unknown name suggests the nearest."""
    write(recipes, "pairrank_x", **PAPER, competitors={"A": {"words": "x=1"}, "B": {"words": "x=2"}})
    write(recipes, "pairrank_y", like="pairrank_x", where="figure 2", without=["A"])
    recipe = load_recipe("reproduce", "pairrank_y")
    assert (recipe.name, recipe.where, recipe.words) == ("pairrank_y", "figure 2", "click=perfect")
    assert list(recipe.competitors) == ["B"]
    assert recipe.seen == [], "another figure shows others"
    for command in ("reproduce", "benchmark"):
        with pytest.raises(ValueError, match=rf"`ol2r {command}` lists, got pairank_x: did you mean pairrank_x\?$"):
            load_recipe(command, "pairank_x")


@pytest.mark.parametrize(
    ("name", "short", "whole"),
    [("olranknet_fig4", "click=perf", "click=perfect"), ("fairexp_fig8", "dataset=syn", "dataset=synthetic")],
)
def test_beginnings_of_names_stand_for_names(name, short, whole):
    """Settings of a click model, and data that stand for others, are found by whole names."""
    plans = [plan_of(load_recipe("reproduce", name), [word]) for word in (short, whole)]
    first, second = ([trial.words for trial in plan.final()] for plan in plans)
    assert first == second
