"""Folders with own choices: who names them, what Python imports from them, and what is refused."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest

from ol2r_cli.commands.run import main
from ol2r_cli.config.catalogue import ChoiceFolder, choice_folders
from ol2r_cli.config.composer import Composer, compose
from ol2r_cli.config.instantiate import build

CODE = "from ol2r_cli.ranker.anchors import RandomRanker\n\n\nclass Mine(RandomRanker):\n    pass\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and a search path for modules that ends with the test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("OL2R_CHOICES", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return folder


def own(folder: Path, name: str, module: str | None = None) -> Path:
    """A folder of choices with `ranker=NAME`, whose class is in `module`: that beside it, unless there is none."""
    (folder / "ranker").mkdir(parents=True, exist_ok=True)
    (folder / "ranker" / f"{name}.yaml").write_text(f"# {name}, 2024.\n_target_: {module or name}.Mine\n")
    (folder / f"{(module or name).partition('.')[0]}.py").write_text(CODE)
    return folder


def install(folder: Path, name: str, value: str, group: str = "ol2r.choices") -> None:
    """The metadata of an installed distribution."""
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\nmine = {value}\n")


def test_folders_are_found_in_the_order_of_their_sources_and_once(tmp_path, here, monkeypatch):
    typed, first, second, project = (own(tmp_path / name, f"{name}_a") for name in ("typed", "first", "second", "p"))
    site = tmp_path / "site"
    package = own(site / "bundle_a", "packaged_a", "bundle_a.packaged_a")
    install(site, "bundle-a", "bundle_a")
    monkeypatch.syspath_prepend(site)
    assert choice_folders() == [ChoiceFolder(package, "the package bundle-a", "bundle_a")]
    monkeypatch.setenv("OL2R_CHOICES", os.pathsep.join([str(first), str(second), str(typed)]))
    (here / "ol2r.yaml").write_text("choices: [../p, ../second]\n")
    found = choice_folders([typed])
    assert [(folder.path, folder.source) for folder in found] == [
        (typed, "--config-dir"),
        (first, "OL2R_CHOICES"),
        (second, "OL2R_CHOICES"),
        (project, "ol2r.yaml"),
        (package, "the package bundle-a"),
    ]
    composer = Composer(["--config-dir", str(typed)])
    assert composer.options == [
        word for folder in (typed, first, second, project) for word in ("--config-dir", str(folder))
    ], "an installed package is found anywhere"
    for name in ("typed_a", "first_a", "second_a", "p_a", "packaged_a"):
        assert composer([f"ranker={name}"]).choices["ranker"] == name


def test_classes_beside_the_yaml_file_are_found_after_those_of_python(tmp_path, monkeypatch):
    folder = own(tmp_path / "own", "found_b")
    monkeypatch.setenv("OL2R_CHOICES", str(folder))
    assert str(folder) not in sys.path
    ranker = build(compose(["ranker=found_b"]).config.ranker)
    assert (type(ranker).__name__, type(ranker).__module__) == ("Mine", "found_b")
    assert sys.path[-1] == str(folder)
    Composer()
    assert sys.path.count(str(folder)) == 1


def test_a_package_that_is_installed_is_found_without_being_imported(tmp_path, monkeypatch):
    site = tmp_path / "site"
    own(site / "bundle_c" / "choices", "packaged_c", "bundle_c.packaged_c")
    (site / "bundle_c" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    install(site, "bundle-c", "bundle_c.choices")
    monkeypatch.syspath_prepend(site)
    assert choice_folders()[0].path == site / "bundle_c" / "choices"
    assert "bundle_c" not in sys.modules
    assert not [folder for folder in sys.path if folder.endswith("choices")]


def test_an_entry_point_that_is_no_package_is_one_line(tmp_path, monkeypatch):
    for value in ("nowhere_d", "json", "sys"):
        site = tmp_path / value
        site.mkdir()
        install(site, "bundle-d", f"{value}.below")
        message = rf"^ol2r\.choices of bundle-d must be a package that can be found, got '{value}\.below': type pip "
        with monkeypatch.context() as patch:
            patch.syspath_prepend(site)
            with pytest.raises(ValueError, match=message):
                choice_folders()


def test_a_folder_that_does_not_exist_is_told_with_who_names_it(here, monkeypatch):
    with pytest.raises(ValueError, match=r"^--config-dir must be a folder, got nowhere, which does not exist$"):
        choice_folders([Path("nowhere")])
    (here / "ol2r.yaml").write_text("choices: nowhere\n")
    with pytest.raises(ValueError, match=r"^choices in ol2r\.yaml must be a folder, got nowhere, which does not exist"):
        compose()
    monkeypatch.setenv("OL2R_CHOICES", "/nowhere")
    with pytest.raises(ValueError, match=r"^OL2R_CHOICES must be a folder, got /nowhere, which does not exist$"):
        compose()


def test_a_name_that_is_taken_is_refused_in_one_line(tmp_path, capsys):
    first = own(tmp_path / "first", "twice_e")
    for name in ("pairrank", "twice_e"):
        second = own(tmp_path / f"second_{name}", name)
        assert main(["--config-dir", str(first), "--config-dir", str(second), "--cfg", "job"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"ol2r run: {second}/ranker/{name}.yaml must not have the name of ")
        assert captured.err.endswith(f"/ranker/{name}.yaml: rename it\n")


def test_a_module_that_python_or_another_folder_has_by_the_same_name_is_told(tmp_path, monkeypatch):
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


def test_an_unknown_choice_says_where_own_ones_can_be_and_offers_those(tmp_path, capsys):
    assert main(["ranker=qwxyz"]) == 2
    assert capsys.readouterr().err.endswith("got 'qwxyz': own choices: ol2r new ranker NAME, or --config-dir DIR\n")
    assert main(["launcher=qwxyz"]) == 2
    assert capsys.readouterr().err.endswith("got 'qwxyz': own choices: --config-dir DIR\n")
    assert main(["--config-dir", str(own(tmp_path / "own", "elsewhere")), "ranker=elsewher"]) == 2
    assert "did you mean ranker=elsewhere?" in capsys.readouterr().err


def test_the_help_of_run_lists_them(tmp_path, here, capsys):
    own(here / "choices", "listed_i")
    (here / "ol2r.yaml").write_text("choices: choices\n")
    with pytest.raises(SystemExit):
        main(["--help", "--config-dir", str(own(tmp_path / "typed", "typed_i"))])
    assert {"listed_i", "typed_i"} <= set(re.split(r"[\s,]+", capsys.readouterr().out))


def test_a_choice_that_is_no_yaml_is_one_line_with_its_file(tmp_path: Path):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "broken.yaml").write_text("# Broken.\nmemory: [20\n")
    with pytest.raises(ValueError, match=r"broken\.yaml must be YAML: .*line \d") as error:
        compose([f"--config-dir={tmp_path}", "ranker=broken"])
    assert "\n" not in str(error.value)
    assert "unicode" not in str(error.value)
