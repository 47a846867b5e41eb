"""The composer against Hydra's own composition, and what it does beside it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import config_dir, dotted
from ol2r_cli.config.composer import Composer, check_grid, compose
from ol2r_cli.config.mistyped import unresolved
from ol2r_cli.config.overrides import escaped, full_names
from ol2r_cli.plugins import other_kinds
from ol2r_cli.run.identity import identity
from tests import cases
from tests.finished import refused
from tests.worlds import TINY

DEFAULT = "measures=[ndcg,blocks,unfairness]"

LINES = [
    "",
    "ranker=pdgd ranker.learning_rate=0.3 seed=4",
    "ranker.l2=1e-3 exploration.alpha=${ranker.l2}",
    "ranker=pdgd ranker/model=mlp ranker.model.width=7",
    "ranker=pepairrank exploration=ensemble click=navigational",
    "experiment=grid_dbgd ranker.learning_rate=0.5",
    "experiment=smoke dataset.queries={train:5,validation:2,test:2} evaluate_on=[test]",
    "seed=1 seed=2 ++seed=3",
    "checkpoint_rounds=null output_dir='a_b' ~ranker.l2 +ranker.l2=3",
    "~ranker.l2=0.01 +ranker.l2=3",
    "++ranker.l2=2 +evaluate_on=[test]",
    "dataset=mq2008 dataset.path=/nowhere dataset.fold=3",
    "ranker=oracle click=perfect",
    "ranker={l2:3} seed=1",
    "click=navigational rounds=3",
    "experiment=smoke ranker=random",
    "experiment=grid_dbgd fairness=fairco click=perfect",
    "click=perfect click.click=null dataset=clueweb09 click=trust_bias",
    "ranker=oracle ranker=pairrank",
    "ranker=olranknet",
    "experiment=grid_pdgd ranker=mgd ranker/model=mlp",
]


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def names(tree: Any) -> set[str]:
    """The settings in a tree: `_target_` is none, at whatever depth."""
    return {name for name, value in dotted(tree) if value != {} and not name.endswith("_target_")}


@pytest.mark.parametrize("line", LINES)
def test_composition_and_catalogue_agree_with_hydra(composer, line):
    words = line.split()
    composed = composer(words)  # first, as it stores the lines of plug-ins for Hydra
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(config_dir())):
        whole = hydra.compose("run", words, return_hydra_config=True)
    choices = {group: name for group, name in whole.hydra.runtime.choices.items() if name is not None}
    grid = dict(whole.hydra.sweeper.params or {})
    without_hydra = OmegaConf.masked_copy(whole, [key for key in whole if key != "hydra"])
    assert list(composed.config) == [*without_hydra, "measure"], "in the same order"
    assert list(composed.settings.pop("measure")) == ["ndcg", "blocks", "unfairness"]
    assert composed.settings == OmegaConf.to_container(without_hydra, resolve=True)
    assert (dict(composed.choices), dict(composed.grid)) == (choices, grid)
    chosen = composer.catalogue.chosen(words)
    assert chosen == {group: choices.get(group) for group in chosen}
    assert names(composer.catalogue.tree(words)) == names(composed.settings)


def test_hydra_composes_once_for_each_ranker(composer, monkeypatch):
    assert composer(["ranker=dbgd", "seed=0", "ranker.learning_rate=0.5"]).config.ranker.learning_rate == 0.5
    monkeypatch.setattr(hydra, "compose", None)
    for words in ["seed=7"], ["seed=7", "click=perfect", "dataset=mq2008"]:
        config = composer(["ranker=dbgd", *words]).config
        assert (config.seed, config.ranker.learning_rate) == (7, 0.01), "the other configuration does not show"


def test_interpolations_are_resolved_but_shown(composer):
    words = ["exploration.alpha=${ranker.l2}", "ranker.l2=.5"]
    composition = composer(words)
    assert OmegaConf.to_container(composition.config) == composition.settings
    assert composition.settings["exploration"]["alpha"] == 0.5
    shown = OmegaConf.to_container(composer.shown(words, "job"))
    assert shown["exploration"]["alpha"] == "${ranker.l2}"
    with pytest.raises(ValueError, match=r"exploration.alpha cannot be resolved"):
        composer.shown(["exploration.alpha=${nope}"], "job")


USUAL = {"data_dir": "~/.cache/ol2r/data", "cache_dir": "~/.cache/ol2r/parsed"}


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_variable_of_the_environment_is_unset(monkeypatch, value):
    """Its value would be the working folder."""
    for name in "OL2R_DATA", "OL2R_CACHE":
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    assert compose([]).settings.items() >= USUAL.items()
    for kind in other_kinds():
        assert Composer(root=kind.name)([]).settings["data_dir"] == USUAL["data_dir"]


def test_a_variable_of_the_environment_is_a_default(monkeypatch):
    monkeypatch.setenv("OL2R_DATA", "/elsewhere")
    assert compose([]).settings["data_dir"] == "/elsewhere"


@pytest.mark.parametrize("name", ["note", "output_dir"])
@pytest.mark.parametrize("text", ["${x}", "a/${seed} b", r"\\${x}", "$HOME", "$x", "${oc.env:HOME}"])
def test_interpolations_are_text_where_they_are_escaped(composer, text, name):
    composition = composer([f"{name}='{escaped(text)}'", "exploration.alpha=${ranker.l2}", "ranker.l2=.5"])
    assert composition.settings[name] == composition.config[name] == text, "as a node, too"
    assert composition.settings["exploration"]["alpha"] == 0.5


@pytest.mark.parametrize("word", [r"note=\${x}", r"output_dir=\${x}/y"])
def test_escaped_interpolations_need_no_quotes_for_hydra(composer, word):
    name, _, value = word.partition("=")
    assert composer([word]).settings[name] == value.replace("\\", "")


def test_an_interpolation_that_is_not_resolved_is_typed_as_told(composer):
    (told,) = re.findall("type (.*)$", unresolved("output_dir", "a ${x}", "there is no x"))
    assert composer(shlex.split(told)).settings["output_dir"] == "a ${x}"


SHORT = """
exploration=conf | exploration=confidence
click=inf | click=informational
+fairness=fairc | +fairness=fairco
ranker=pairrank | ranker=pairrank
ranker=pepair,pdgd | ranker=pepairrank,pdgd
ranker=pdgd ranker/model=ml | ranker=pdgd ranker/model=ml
experiment=null | experiment=null
ranker=glob(p*) | ranker=glob(p*)
rounds=5 | rounds=5
"""


@pytest.mark.parametrize(("typed", "name"), cases.lines(SHORT))
def test_choices_have_short_names_and_unique_beginnings(composer, typed, name):
    assert full_names(typed.split(), composer.catalogue.choices) == name.split()


@pytest.mark.parametrize("taken", ["ndcg blocks unfairness", "ndcg regret", "err err@5 mrr@1", ""])
def test_a_list_takes_the_measures_that_it_names(taken):
    names = taken.split()
    assert list(compose([*TINY, f"measures=[{','.join(names)}]"]).settings["measure"]) == names


def test_measures_with_other_cutoffs_have_their_settings():
    nodes = compose(["measures=[ndcg,ndcg@20,err@5]", "measure.ndcg.discount=1"]).settings["measure"].values()
    assert [(node["cutoff"], node.get("discount")) for node in nodes] == [(10, 1), (20, 1), (5, None)]


def id_of(*overrides: str) -> str:
    return identity(compose([*TINY, *overrides]).settings, "data", {})


def test_the_id_depends_on_measures_and_not_on_their_spelling():
    """The id depends on the measures that are taken and not on how they are typed."""
    assert id_of() == id_of(DEFAULT) == id_of("measures=[unfairness,blocks,ndcg]")
    lists = ["[ndcg,unfairness,blocks,regret]", "[ndcg,unfairness]", "[ndcg,unfairness,err]", "[ndcg,unfairness,err@5]"]
    lists += ["[ndcg]", "[unfairness]", "[]", "[err]", "[ndcg,err]"]
    assert len({id_of(), *(id_of(f"measures={each}") for each in lists)}) == len(lists) + 1
    assert id_of("measures=[ndcg,unfairness,err@10]") != id_of(), "it has other columns"


@pytest.fixture
def folders(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """A folder in a package with `ranker=mine`, and one with `click=mine`."""
    package, other = tmp_path / "own_package" / "configs", tmp_path / "other"
    for path, text in (
        (package / "ranker" / "mine.yaml", "_target_: ol2r_cli.ranker.model_ranker.OracleRanker\n"),
        (other / "click" / "mine.yaml", "defaults: [perfect]\n"),
        (package / "__init__.py", ""),
        (package.parent / "__init__.py", ""),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return package, other


@pytest.mark.parametrize(
    "words",
    [["--config-dir", "{}"], ["hydra.searchpath=['{}']"], ["hydra.searchpath=[pkg://own_package.configs]"]],
    ids=["option", "path", "package"],
)
def test_own_choices_are_found_by_config_dir_and_search_path(folders, words):
    package, _ = folders
    composer = Composer(["seed=1", *(word.format(package) for word in words)])
    assert composer(["ranker=mine"]).choices["ranker"] == "mine"
    assert composer.options == ["--config-dir", str(package)]
    assert ["ranker=mine"] in composer.jobs(["ranker=glob(m*)"])


@pytest.mark.parametrize("order", [1, -1])
def test_both_ways_of_naming_folders_go_together(folders, order):
    package, other = folders
    words = ["ranker=mine", "click=mine", f"hydra.searchpath=[file://{other}]", f"--config-dir={package}"]
    assert compose(words[::order]).choices.items() >= {"ranker": "mine", "click": "mine"}.items()


def test_a_folder_or_file_that_cannot_be_read_is_one_line(folders):
    _, other = folders
    with pytest.raises(ValueError, match="must name packages that can be found, got pkg://nowhere"):
        Composer(["hydra.searchpath=[pkg://nowhere]"])
    (other / "click" / "broken.yaml").write_text("# Broken.\nmemory: [20\n")
    with pytest.raises(ValueError, match=r"must be YAML: [^\n]*broken\.yaml[^\n]* line \d+[^\n]*$"):
        compose([f"--config-dir={other}", "click=broken"])


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        ({"ranker/mine": "[mine]"}, "ranker=mine lists ranker=mine"),
        (
            {"ranker/mine": "[pdgd, other]", "ranker/other": "[mine]"},
            "ranker=mine lists ranker=other lists ranker=mine",
        ),
        (
            {"experiment/a": "[{/ranker: mine}, {/experiment: b}]", "experiment/b": "[{/experiment: a}]"},
            "experiment=a lists experiment=b lists experiment=a",
        ),
    ],
)
def test_defaults_that_lead_back_to_their_file_are_one_line(tmp_path, capsys, files, circle):
    for name, listed in files.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# @package _global_\ndefaults: {listed}\n")
    group, name = next(iter(files)).split("/")
    line = f"defaults of a file must not lead back to it: {circle}"
    assert refused(capsys, "run", f"--config-dir={tmp_path}", f"{group}={name}").endswith(line)
    if group == "ranker":
        assert refused(capsys, "list", f"--config-dir={tmp_path}", group, name).endswith(line)


def test_the_jobs_of_several_presets(composer):
    words = ["experiment=smoke,grid_pairrank", "force=true"]
    assert composer.jobs(words) == [[word, words[1]] for word in ("experiment=smoke", "experiment=grid_pairrank")]


def test_the_grid_of_a_preset_needs_all_its_settings(composer):
    words = ["experiment=grid_pairrank", "ranker.l2=1"]
    with pytest.raises(ValueError, match=r"^experiment=grid_pairrank is a grid, .* in exploration\.alpha: add -m$"):
        check_grid(composer(words), words, "add -m")
    check_grid(composer([*words, "exploration.alpha=1"]), [*words, "+exploration.alpha=1"], "add -m")
    assert len(composer.jobs(["experiment=grid_pairrank"])) == 16
    assert len(composer.jobs(["experiment=grid_pairrank", "ranker.l2=7"])) == 4, "the command line decides"


def parsed(words: list[str]) -> list[tuple[str, object]]:
    """What Hydra reads of words."""
    return [(word.get_key_element(), word.value()) for word in OverridesParser.create().parse_overrides(words)]


@pytest.mark.parametrize(
    "line", ["a=1", "a=1,2 b=x c=range(0,3)", "a=[1,2],[3] b='x,y'", "+a=1,2 ~b", "a={x:1},2", "a=sort(3,1,2)"]
)
def test_without_pairs_the_jobs_are_the_product_that_hydra_makes(composer, line):
    words = OverridesParser.create().parse_overrides(line.split())
    (hydras,) = BasicSweeper.split_arguments(words, None)
    assert [parsed(job) for job in composer.jobs(line.split())] == [parsed(job) for job in hydras]


def test_paired_settings_advance_together(composer):
    """And the rest is a product."""
    jobs = composer.jobs(["a=1,2", "z=0,1", "b=x,y", "c=5"], [["a", "b"]])
    assert jobs == [[f"a={a}", f"z={z}", f"b={b}", "c=5"] for a, b in (("1", "x"), ("2", "y")) for z in "01"]
    jobs = composer.jobs(["a=1,2", "b=x,y", "c=3,4,5", "d=6,7,8"], [["b", "a"], ["c", "d"]])
    assert jobs == [[f"a={a}", f"b={b}", f"c={c}", f"d={c + 3}"] for a, b in ((1, "x"), (2, "y")) for c in (3, 4, 5)]


UNPAIRED = """
a=1,2 b=1,2,3 | a,b | --paired a,b must have equally many values: a has 2, b has 3
a=1,2 | a,a | --paired may name a once
alpha=1,2 b=1,2 | alpah,b | there is no alpah=.. in this sweep
a=1,2 b=1,2 c=1,2 | a,b b,c | --paired may name b once
"""


@pytest.mark.parametrize(("line", "pairs", "message"), cases.lines(UNPAIRED))
def test_settings_that_cannot_be_paired_are_refused(composer, line, pairs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        composer.jobs(line.split(), [pair.split(",") for pair in pairs.split()])
