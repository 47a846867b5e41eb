"""Recipes: every file is complete, its overrides compose, its printed numbers are in the papers; mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import Catalogue, config_dir, dotted
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.report.figures.kinds import KINDS
from ol2r_cli.reproduce import recipe as recipe_module
from ol2r_cli.reproduce.paper_plan import PaperPlan
from ol2r_cli.reproduce.recipe import SCALES, Recipe, load_dataset, load_recipe, recipe_dir, recipe_names
from ol2r_cli.reproduce.run_plan import by_name

PAPERS = Path(__file__).parents[3] / "shared" / "papers"
FIGURES_AND_TABLES = {  # of the papers, those with results
    *(f"pairrank_fig{number}" for number in (3, 4, 5, 6, 7)),
    *(f"olranknet_fig{number}" for number in (3, 4, 5, 6)),
    *(f"p2neurrank_fig{number}" for number in (2, 3, 4, 5, 7, 8, 9)),
    "p2neurrank_table",
    "fairexp_table1",
    *(f"fairexp_fig{number}" for number in range(2, 11)),
    "dissertation_fig3_2",
    "dissertation_fig3_3",
    "pdgd_offline",
    "pdgd_online",
}
CLICK_MODELS = {"perfect", "navigational", "informational"}
MINIMAL = {
    "title": "A figure",
    "paper": "pairrank",
    "where": "figure 1",
    "shows": "something",
    "claims": ["A is best"],
    "seen": ["no, B is"],
    "data": ["mslr"],
    "scale": {"quick": "", "paper": ""},
}


@pytest.fixture(scope="module")
def recipes() -> dict[str, Recipe]:
    """All recipes by name."""
    return {name: load_recipe(name) for name in recipe_names()}


class Checker:
    """Composes overrides and builds the objects that they name, equal ones once; ValueError for bad overrides."""

    def __init__(self) -> None:
        self.composer = Composer()
        self.built: set[str] = set()
        self.seen: set[tuple[str, str]] = set()  # a competitor and one of its overrides

    def __call__(self, overrides: tuple[str, ...]) -> None:
        config = self.composer(overrides).config
        for group in ("click", "ranker", "exploration", "fairness", "dataset"):
            text = OmegaConf.to_yaml(config[group])
            if text not in self.built:
                self.built.add(text)
                build(config[group])


@pytest.fixture(scope="module")
def check() -> Checker:
    return Checker()


def test_all_figures_and_tables_are_listed_in_the_order_of_the_papers():
    names = recipe_names()
    assert set(names) == FIGURES_AND_TABLES
    fairexp = [name for name in names if name.startswith("fairexp")]
    assert fairexp == ["fairexp_table1", *(f"fairexp_fig{number}" for number in range(2, 11))]


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_every_override_of_every_recipe_composes(recipes, check, scale):
    """One run for what all runs of a recipe share, and as few as contain every override of every competitor."""
    for recipe in recipes.values():
        plan = PaperPlan(recipe, scale)
        for trials in (list(plan.final()), list(plan.candidates())):
            for trial in trials:
                words = recipe.competitors[trial.condition.competitor].words
                overrides = {(words, override) for override in (words, *trial.settings.values())}
                if trial is trials[0] or not overrides <= check.seen:
                    check.seen |= overrides
                    check(trial.runs[0])


def test_settings_of_every_recipe_exist(recipes):
    """Every name is in the YAML files of the choices; `test_every_override_of_every_recipe_composes` checks values."""
    catalogue = Catalogue()
    for recipe in recipes.values():
        for scale in SCALES:
            for trial in list(PaperPlan(recipe, scale).final())[: len(recipe.competitors)]:  # of the first condition
                grid = recipe.competitors[trial.condition.competitor].grid
                settings = [f"{name}." for name, _ in dotted(catalogue.tree(trial.runs[0]))]
                for name in by_name(trial.runs[0], grid, recipe.choose):
                    exists = name in catalogue.choices or any(setting.startswith(f"{name}.") for setting in settings)
                    assert exists, (recipe.name, trial.condition.competitor, name)


def test_datasets_and_their_replacements_compose(check):
    for path in (recipe_dir() / "data").glob("*.yaml"):
        dataset = load_dataset(path.stem)
        for choice in (None, "synthetic", "mq2008"):
            source = dataset.source(choice)
            fold = [f"dataset.fold={source.folds}"] if source.folds else []
            check((*by_name(source.words).values(), *fold))


def test_click_models_figures_and_options_exist(recipes):
    for name, recipe in recipes.items():
        for overrides in (recipe.words, *recipe.scale.values()):
            click = by_name(overrides).get("click", "click=perfect").partition("=")[2]
            assert set(click.split(",")) <= CLICK_MODELS, name
        assert recipe.figures or recipe.printed, name
        for figure in recipe.figures:
            assert set(figure.options) <= {*KINDS[figure.kind].options, "width"}, name
            assert set(figure.click) <= CLICK_MODELS, name


def test_quick_settings_are_settings_of_the_grid(recipes):
    for name, recipe in recipes.items():
        for competitor in recipe.competitors.values():
            for click in CLICK_MODELS:
                settings = by_name(competitor.quick_settings(click))
                assert settings.keys() <= by_name(competitor.grid).keys(), name


def test_printed_numbers_are_in_the_papers_close_to_the_phrase_that_is_named(recipes):
    if not PAPERS.is_dir():
        pytest.skip(f"no papers: {PAPERS} does not exist")
    printed_numbers = [printed for recipe in recipes.values() for printed in recipe.printed]
    assert printed_numbers
    for printed in printed_numbers:
        lines = (PAPERS / printed.text).read_text().splitlines()
        positions = [position for position, line in enumerate(lines) if printed.near in line]
        near = [line for position in positions for line in lines[max(0, position - 20) : position + 2]]
        number = f"{printed.value:.2f}%" if printed.metric == "size" else f"{printed.value:.4f}"
        assert any(number in line for line in near), printed


def test_recipes_are_not_choices_of_a_group():
    assert not [group for group in Catalogue().choices if "reproduce" in group]
    assert (config_dir() / "reproduce" / "pairrank_fig3.yaml").is_file()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of recipes."""
    monkeypatch.setattr(recipe_module, "recipe_dir", lambda: tmp_path)
    return tmp_path


def write(folder: Path, name: str, **changes) -> None:
    content = {**MINIMAL, **changes}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"figure": []}, "pairrank_x.yaml: a key must be one of name, title, .*, got figure"),
        ({"title": None}, "pairrank_x.yaml: title is missing"),
        ({"claims": "one"}, "pairrank_x.yaml: claims must be list, got 'one'"),
        ({"claims": [1]}, "pairrank_x.yaml: claims 0 must be str, got 1"),
        ({"claims": ["A", "B"]}, "pairrank_x.yaml: seen must be yes, no, undecided for each of the claims"),
        ({"seen": ["not quite"]}, "pairrank_x.yaml: seen must be yes, no, undecided for each of the claims"),
        ({"paper": "another"}, "pairrank_x.yaml: paper must be one of pairrank, .*, got another"),
        ({"scale": {"quick": ""}}, "pairrank_x.yaml: scale must have quick and paper, got quick"),
        ({"alone": 1}, "pairrank_x.yaml: alone must be bool, got 1"),
        ({"queries": True}, "pairrank_x.yaml: queries must be .*, got True"),
        ({"competitors": {"A": {"word": "x"}}}, r"competitors.A: a key must be one of words, grid, quick, got word"),
        ({"competitors": {"A": {"words": "x", "grid": "y=1,2"}}}, "choose must say how settings are chosen"),
        ({"figures": [{"options": {}}]}, "pairrank_x.yaml: figures 0: kind is missing"),
        ({"figures": ["blocks"]}, "pairrank_x.yaml: figures 0 must be a mapping of kind, .*, got 'blocks'"),
        (
            {"printed": [{"data": "yahoo", "competitor": "A", "metric": "m", "value": 1, "text": "t", "near": "n"}]},
            "printed must name data and competitors of the recipe",
        ),
    ],
)
def test_a_mistake_in_a_recipe_is_one_line(folder, changes, message):
    write(folder, "pairrank_x", **changes)
    with pytest.raises(ValueError, match=message) as error:
        load_recipe("pairrank_x")
    assert "\n" not in str(error.value)


def test_like_takes_everything_else_from_another_recipe(folder):
    write(folder, "pairrank_x", words="click=perfect")
    (folder / "pairrank_y.yaml").write_text("like: pairrank_x\nwhere: figure 2\n")
    with pytest.raises(
        ValueError, match="seen must be yes, no, undecided for each"
    ):  # another figure shows other things
        load_recipe("pairrank_y")
    (folder / "pairrank_y.yaml").write_text("like: pairrank_x\nwhere: figure 2\nseen: [undecided]\n")
    recipe = load_recipe("pairrank_y")
    assert (recipe.name, recipe.where, recipe.words) == ("pairrank_y", "figure 2", "click=perfect")


def test_without_leaves_out_competitors_of_another_recipe(folder):
    write(folder, "pairrank_x", competitors={"A": {"words": "x=1"}, "B": {"words": "x=2"}})
    (folder / "pairrank_y.yaml").write_text("like: pairrank_x\nwithout: [A]\nseen: [undecided]\n")
    assert list(load_recipe("pairrank_y").competitors) == ["B"]
    (folder / "pairrank_z.yaml").write_text("like: pairrank_x\nwithout: [C]\n")
    with pytest.raises(ValueError, match=r"pairrank_z.yaml: without must name competitors, got C"):
        load_recipe("pairrank_z")


def test_the_message_for_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"got pairrank_fig8: did you mean pairrank_fig\d"):
        load_recipe("pairrank_fig8")
