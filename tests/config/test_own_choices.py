"""Folders with own choices and the project file: who names them, what Python imports from them, what is refused."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest

from ol2r_cli.commands import report, run, status
from ol2r_cli.config.composer import Composer, compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import ChoiceFolder, ProjectFile, choice_folders, default_output_dir, read_project
from ol2r_cli.plugins.benchmark.recipe import load_recipe
from ol2r_cli.plugins.benchmark.run_plan import plan_of
from ol2r_cli.plugins.export import export
from ol2r_cli.plugins.look_after import clean, verify
from ol2r_cli.run.run import find_run
from tests import cases
from tests.finished import refused

CODE = "from ol2r_cli.ranker.model_ranker import RandomRanker\n\n\nclass Mine(RandomRanker):\n    pass\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, search_path) -> Path:
    """An empty working directory, and a search path for modules that ends with the test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("OL2R_CHOICES", raising=False)
    return folder


def own(folder: Path, name: str, module: str | None = None) -> Path:
    """A folder of choices with `ranker=NAME`, whose class is in `module`: that beside it, unless there is none."""
    (folder / "ranker").mkdir(parents=True, exist_ok=True)
    (folder / "ranker" / f"{name}.yaml").write_text(f"# {name}, 2024.\n_target_: {module or name}.Mine\n")
    (folder / f"{(module or name).partition('.')[0]}.py").write_text(CODE)
    return folder


def install(folder: Path, name: str, value: str, ending: str = "dist-info"):
    """The metadata of an installed distribution."""
    metadata = folder / f"{name}-1.{ending}"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[ol2r.choices]\nmine = {value}\n")


@pytest.fixture(scope="module")
def valued(tmp_path_factory) -> Composer:
    """A composer that knows choices whose names are values of YAML."""
    folder = tmp_path_factory.mktemp("valued")
    for name in ("nan", "1e3", "2024", "true", "inf", "null"):
        own(folder, name, "valued_a")
    return Composer(["--config-dir", str(folder)])


@pytest.mark.parametrize("name", ["nan", "1e3", "2024", "true", "inf"])
def test_names_that_are_values_of_yaml_are_names_of_choices(valued, name):
    assert valued([f"ranker={name}", "exploration=none"]).choices["ranker"] == name
    assert valued.jobs([f"ranker={name},pdgd"]) == [[f"ranker='{name}'"], ["ranker=pdgd"]]


def test_a_choice_with_the_name_null_needs_quotes(valued):
    with pytest.raises(ValueError, match=r"^ranker=null must have quotes: type .ranker='null'.$"):
        valued(["ranker=null"])
    assert valued(["ranker='null'"]).choices["ranker"] == "null"


@pytest.mark.parametrize("ending", ["dist-info", "egg-info"])
def test_packages_are_found_by_either_kind_of_metadata(tmp_path, here, monkeypatch, ending):
    """Those of pip, and of `setup.py develop`."""
    package = tmp_path / f"bundle_{ending[:3]}"
    package.mkdir()
    (package / "__init__.py").touch()
    install(tmp_path, "bundle-b", package.name, ending)
    monkeypatch.syspath_prepend(tmp_path)
    assert [(folder.path, folder.package) for folder in choice_folders()] == [(package, package.name)]


def test_folders_are_found_in_the_order_of_their_sources(tmp_path, here, monkeypatch):
    """Folders are found in the order of their sources, and once."""
    typed, first, second, project = (own(tmp_path / name, f"{name}_a") for name in ("typed", "first", "second", "p"))
    site = tmp_path / "site"
    package = own(site / "bundle_a" / "choices", "packaged_a", "bundle_a.packaged_a")
    (package / "bundle_a.py").unlink()
    (site / "bundle_a" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    install(site, "bundle-a", "bundle_a.choices")
    monkeypatch.syspath_prepend(site)
    assert choice_folders() == [ChoiceFolder(package, "the package bundle-a", "bundle_a")]
    monkeypatch.setenv("OL2R_CHOICES", os.pathsep.join([str(first), str(second), str(typed)]))
    (here / "ol2r.yaml").write_text("choices: [../p, ../second]\n")
    assert [(folder.path, folder.source) for folder in choice_folders([typed])] == [
        (typed, "--config-dir"),
        (first, "OL2R_CHOICES"),
        (second, "OL2R_CHOICES"),
        (project, "choices in ol2r.yaml"),
        (package, "the package bundle-a"),
    ]
    composer = Composer(["--config-dir", str(typed)])
    options = [word for folder in (typed, first, second, project) for word in ("--config-dir", str(folder))]
    assert composer.options == options, "an installed package is found anywhere"
    for name in ("typed_a", "first_a", "second_a", "p_a", "packaged_a"):
        assert composer([f"ranker={name}"]).choices["ranker"] == name
    assert type(build(composer(["ranker=first_a"]).config.ranker)).__module__ == "first_a"
    Composer()
    assert sys.path.count(str(first)) == 1
    assert sys.path.index(str(first)) > sys.path.index(os.path.dirname(os.__file__)), "after Python's own"
    assert str(package) not in sys.path
    assert "bundle_a" not in sys.modules


@pytest.mark.parametrize(
    ("source", "typed", "project", "environment"),
    [
        ("--config-dir", [Path("nowhere")], "", ""),
        ("choices in ol2r.yaml", [], "choices: nowhere\n", ""),
        ("OL2R_CHOICES", [], "", "nowhere"),
    ],
)
def test_a_folder_that_is_not_there_is_refused(here, monkeypatch, source, typed, project, environment):
    (here / "ol2r.yaml").write_text(project)
    monkeypatch.setenv("OL2R_CHOICES", environment)
    with pytest.raises(ValueError, match=f"^{source} must be a folder, got nowhere, which does not exist$"):
        choice_folders(typed)


@pytest.mark.parametrize("value", ["nowhere_d", "json", "sys"])
def test_a_package_that_is_not_there_is_refused(tmp_path, monkeypatch, value):
    install(tmp_path, "bundle-d", f"{value}.below")
    monkeypatch.syspath_prepend(tmp_path)
    message = rf"^ol2r\.choices of bundle-d must be a package that can be found, got '{value}\.below': type pip "
    with pytest.raises(ValueError, match=message):
        choice_folders()


@pytest.mark.parametrize("name", ["pairrank", "twice_e"])
def test_a_name_that_is_taken_is_refused_in_one_line(tmp_path, capsys, name):
    first, second = own(tmp_path / "first", "twice_e"), own(tmp_path / "second", name)
    line = refused(capsys, "run", "--config-dir", first, "--config-dir", second, "--cfg", "job")
    assert line.startswith(f"{second}/ranker/{name}.yaml must not have the name of ")
    assert line.endswith(f"/ranker/{name}.yaml: rename it")


def test_a_module_whose_name_is_taken_is_refused(tmp_path, monkeypatch):
    """A module that Python or another folder has by the same name is refused."""
    monkeypatch.setenv("OL2R_CHOICES", str(own(tmp_path / "own", "mine_f", "random")))
    with pytest.raises(ValueError) as error:
        compose(["ranker=mine_f"])
    assert str(error.value) == (
        f"ranker._target_=random.Mine must be in {tmp_path}/own/random.py, "
        f"but Python imports {random.__file__} as random: rename yours"
    )
    assert compose(["ranker=oracle"]).choices["ranker"] == "oracle", "only where it is chosen"
    first, second = own(tmp_path / "first", "first_g", "same_g"), own(tmp_path / "second", "second_g", "same_g")
    assert build(compose(["ranker=first_g", f"--config-dir={first}"]).config.ranker)
    with pytest.raises(ValueError, match=r"Python imports .*/first/same_g\.py as same_g: rename yours"):
        compose(["ranker=second_g", f"--config-dir={second}"])


MISTYPED = """
ranker=qwxyz | got 'qwxyz': own choices: --config-dir DIR
launcher=qwxyz | got 'qwxyz': own choices: --config-dir DIR
--config-dir ../own ranker=elswhere | did you mean ranker=elsewhere?
"""


@pytest.mark.parametrize(("typed", "end"), cases.lines(MISTYPED))
def test_messages_have_own_choices(tmp_path, capsys, typed, end):
    own(tmp_path / "own", "elsewhere")
    assert refused(capsys, "run", *typed.split()).endswith(end)


def test_help_has_own_choices(tmp_path, here, capsys):
    own(here / "choices", "listed_i")
    (here / "ol2r.yaml").write_text("choices: choices\n")
    with pytest.raises(SystemExit):
        run.main(["--help", "--config-dir", str(own(tmp_path / "own", "elsewhere"))])
    assert {"listed_i", "elsewhere"} <= set(re.split(r"[\s,]+", capsys.readouterr().out))


def test_without_a_project_file_there_are_no_defaults():
    assert read_project() == ProjectFile()
    assert ProjectFile().overrides(with_launcher=True) == []
    assert default_output_dir() == Path("outputs") == Path(compose().config.output_dir)


def test_the_launcher_of_the_project_is_a_default(here):
    (here / "ol2r.yaml").write_text("launcher: slurm\n")
    composer = Composer()
    assert [composer(words).choices["launcher"] for words in ([], ["launcher=processes"])] == ["slurm", "processes"]


def test_settings_of_the_project_file_are_defaults(here):
    """They are not what is typed, and those of a launcher are not those of another."""
    (here / "ol2r.yaml").write_text("output_dir: my results\ndata_dir: /data\nlauncher: {jobs: 4, retries: 1}\n")
    composer = Composer()
    for words, place, jobs in ([], "my results", 4), (["output_dir=typed", "launcher.jobs=2"], "typed", 2):
        config = composer(words).config
        found = config.output_dir, config.data_dir, config.launcher.jobs, config.launcher.retries
        assert found == (place, "/data", jobs, 1)
    assert "jobs" not in composer(["launcher=slurm"]).config.launcher
    assert composer.shown([], "all").output_dir == "my results"
    assert composer.jobs(["seed=1,2"]) == [["seed=1"], ["seed=2"]]


def test_its_output_dir_is_the_default_of_reading_commands(here, capsys):
    """Its `output_dir` is the default of the commands that read runs."""
    (here / "ol2r.yaml").write_text("output_dir: results\n")
    assert run.main(["experiment=smoke", "rounds=3", "evaluate_every=3"]) == 0
    assert "ol2r status (all runs)" in capsys.readouterr().out
    (path,) = (here / "results" / "synthetic").iterdir()
    assert find_run(path.name.rpartition("-")[2]) == path.relative_to(here)
    assert not (here / "outputs").exists()
    for command in (status, report, clean, verify):
        assert command.main([]) == 0
        assert "1 finished" in (out := capsys.readouterr().out) or "pairrank" in out or "1 run below results" in out
    assert export.main(["--to", "per-query", "--out", "values.csv"]) == 0
    assert plan_of(load_recipe("reproduce", "pairrank_fig3")).output_dir == Path("results")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("choices: [a\n", r"must be a YAML file that can be read: "),
        ("- choices\n", r"must be lines `KEY: VALUE` with the keys choices, output_dir, data_dir, launcher"),
        ("chioces: a\n", r".* has no setting 'chioces': did you mean choices\?$"),
        ("1: a\n", r".* has no setting '1': it has choices, output_dir, data_dir, launcher$"),
        ("choices: [1]\n", r"choices must be a list \[\.\.,\.\.\] of which each is text, got \[1\]$"),
        ("output_dir: 3\n", r"output_dir must be null or text, got 3$"),
        ("launcher: [slurm]\n", r"launcher must be null or text or settings in quotes"),
    ],
)
def test_a_slip_in_the_project_file_is_one_line_and_2(here, capsys, text, message):
    (here / "ol2r.yaml").write_text(text)
    with pytest.raises(ValueError, match=rf"^ol2r\.yaml:? {message}"):
        read_project()
    for command in (run, status, clean, verify, report):
        assert command.main([]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_value_that_hydra_does_not_have_is_refused(here):
    (here / "ol2r.yaml").write_text("launcher: {jobs: 2024-01-01}\n")
    with pytest.raises(ValueError, match=r"^launcher\.jobs in ol2r\.yaml must be a number, text, "):
        compose()
