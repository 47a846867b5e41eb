from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from ol2r_cli.catalogue import Catalogue
from ol2r_cli.compose import build, config_dir
from ol2r_cli.report.figures import KINDS
from ol2r_cli.reproduce import book
from ol2r_cli.reproduce.protocol import Protocol
from ol2r_cli.reproduce.recipe import SCALES
from ol2r_cli.reproduce.words import words
from ol2r_cli.sweep.compositions import Composer

NAMES = book.names()
PAPERS = Path(__file__).parents[3] / "shared" / "papers"
LISTED = {  # the figures and tables with results that the papers have
    *(f"pairrank_fig{number}" for number in (3, 4, 5, 6, 7)),
    *(f"olranknet_fig{number}" for number in (3, 4, 5, 6)),
    *(f"p2neurrank_fig{number}" for number in (2, 3, 4, 5, 7, 8, 9)),
    "p2neurrank_table",
    "fairexp_table1",
    *(f"fairexp_fig{number}" for number in range(2, 11)),
    "dissertation_fig3_2",
    "dissertation_fig3_3",
}
MINIMAL = {
    "title": "A figure",
    "paper": "pairrank",
    "where": "figure 1",
    "shows": "something",
    "claims": ["so it is"],
    "data": ["mslr"],
    "scale": {"quick": "", "paper": ""},
}


def test_every_figure_and_table_is_there_in_the_order_of_the_papers():
    assert set(NAMES) == LISTED
    assert [name for name in NAMES if name.startswith("fairexp")][:3] == [
        "fairexp_table1",
        "fairexp_fig2",
        "fairexp_fig3",
    ]
    assert NAMES.index("fairexp_fig10") == NAMES.index("fairexp_fig9") + 1


@cache
def composer() -> Composer:
    return Composer.alone()


@cache
def built(settings: str) -> None:
    """ValueError for settings that their class refuses; asked once for equal ones."""
    build(yaml.safe_load(settings))


@cache
def composed(run: tuple[str, ...]) -> None:
    """ValueError for words that make no configuration, or settings that their class refuses."""
    config = composer()(run).config
    for group in ("click", "ranker", "exploration", "fairness", "dataset"):
        built(yaml.safe_dump(OmegaConf.to_container(config[group], resolve=True)))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_every_word_of_every_competitor_is_allowed(name, scale):
    """As few runs as have every word of every competitor, on the first dataset and with the first click model."""
    protocol = Protocol(book.recipe(name), scale)
    trials = [*protocol.final(), *protocol.candidates()]
    seen: set[object] = set()
    for trial in trials:
        here = (trial.place.ground, trial.place.click) == (trials[0].place.ground, trials[0].place.click)
        own = {(trial.place.competitor, word) for word in (*trial.settings.values(), trial.runs[0][-1])}
        if here and not own <= seen:
            seen |= own
            composed(trial.runs[0])
    assert seen or not protocol.recipe.competitors


@pytest.mark.parametrize("path", sorted((book.folder() / "data").glob("*.yaml")), ids=lambda path: path.stem)
def test_datasets_and_what_stands_in_for_them_compose(path):
    found = book.data(path.stem)
    for choice in (None, "synthetic", "mq2008"):
        source = found.source(choice)
        fold = [f"dataset.fold={source.folds}"] if source.folds else []
        composed((*words(source.words).values(), *fold))


@pytest.mark.parametrize("name", NAMES)
def test_click_models_are_those_there_are(name):
    found = book.recipe(name)
    for text in (found.words, *found.scale.values()):
        typed = words(text).get("click", "click=perfect").partition("=")[2].split(",")
        assert set(typed) <= {"perfect", "navigational", "informational"}


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_of_kinds_that_there_are_with_options_they_take(name):
    found = book.recipe(name)
    assert found.figures or found.printed
    for picture in found.figures:
        assert set(picture.options) <= {*KINDS[picture.kind].options, "width"}
        assert set(picture.click) <= set(Catalogue().choices["click"])


@pytest.mark.parametrize("name", NAMES)
def test_quick_settles_what_is_chosen_otherwise(name):
    for competitor in book.recipe(name).competitors.values():
        for click in ("perfect", "navigational", "informational"):
            assert words(competitor.settled(click)).keys() <= words(competitor.grid).keys()


@pytest.mark.parametrize("name", [name for name in NAMES if book.recipe(name).printed])
def test_printed_numbers_are_in_the_paper_near_the_place_that_is_named(name):
    if not PAPERS.is_dir():
        pytest.skip(f"no papers: {PAPERS} is not there")
    for printed in book.recipe(name).printed:
        lines = (PAPERS / printed.text).read_text().splitlines()
        places = [place for place, line in enumerate(lines) if printed.near in line]
        near = [line for place in places for line in lines[max(0, place - 20) : place + 2]]
        number = f"{printed.value:.2f}%" if printed.metric == "size" else f"{printed.value:.4f}"
        assert any(number in line for line in near), printed


def test_recipes_are_no_choices():
    assert not [group for group in Catalogue().choices if "reproduce" in group]
    assert (config_dir() / "reproduce" / "pairrank_fig3.yaml").is_file()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(book, "folder", lambda: tmp_path)
    return tmp_path


def write(folder: Path, name: str, **changes) -> None:
    content = {**MINIMAL, **changes}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"figure": []}, "pairrank_x.yaml: a key must be one of name, title, .*, got figure"),
        ({"title": None}, "pairrank_x.yaml: title is missing"),
        ({"claims": "one"}, "pairrank_x.yaml: claims must be list, got 'one'"),
        ({"claims": [1]}, "pairrank_x.yaml: claims 0 must be str, got 1"),
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
def test_a_mistake_in_a_recipe_is_told_in_one_line(folder, changes, complaint):
    write(folder, "pairrank_x", **changes)
    with pytest.raises(ValueError, match=complaint) as told:
        book.recipe("pairrank_x")
    assert "\n" not in str(told.value)


def test_a_recipe_says_what_differs_from_another(folder):
    write(folder, "pairrank_x", words="click=perfect")
    (folder / "pairrank_y.yaml").write_text("like: pairrank_x\nwhere: figure 2\n")
    assert book.recipe("pairrank_y").where == "figure 2"
    assert book.recipe("pairrank_y").words == "click=perfect"
    assert book.recipe("pairrank_y").name == "pairrank_y"


def test_a_recipe_leaves_out_competitors_of_another(folder):
    write(folder, "pairrank_x", competitors={"A": {"words": "x=1"}, "B": {"words": "x=2"}})
    (folder / "pairrank_y.yaml").write_text("like: pairrank_x\nwithout: [A]\n")
    assert list(book.recipe("pairrank_y").competitors) == ["B"]
    (folder / "pairrank_z.yaml").write_text("like: pairrank_x\nwithout: [C]\n")
    with pytest.raises(ValueError, match=r"pairrank_z.yaml: without must name competitors, got C"):
        book.recipe("pairrank_z")


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"got pairrank_fig8: did you mean pairrank_fig\d"):
        book.recipe("pairrank_fig8")
