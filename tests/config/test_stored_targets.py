"""Which classes a run may name: those of choices and of installed plug-ins, decided without importing anything else."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from ol2r_cli.click.models import DependentClick
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build, check_stored, import_target, targets, trusted_targets
from ol2r_cli.config.moved_classes import MOVED_TO

FILE = Path("run/config.yaml")
PDGD = "ol2r_cli.ranker.pdgd.PDGD"


def test_every_choice_of_ol2r_is_trusted_with_its_parts_and_under_its_earlier_path():
    contents = [choice.content for group in Catalogue().choices.values() for choice in group.values()]
    named = {target for content in contents for target in targets(content)}
    assert {PDGD, "ol2r_cli.ranker.model.mlp.MLP", "ol2r_cli.dataset.letor.Letor"} <= named
    for target in named | MOVED_TO.keys():
        check_stored({"_target_": target, "part": {"_target_": target}, "several": [{"_target_": target}]}, "x", FILE)


def test_a_class_is_built_by_its_earlier_path():
    earlier = "ol2r_cli.click.dependent.DependentClick"
    settings = {"click": [0, 1], "stop": [0, 0], "tables": {}, "stop_without_click": False}
    assert isinstance(build({"_target_": earlier, **settings}), DependentClick)
    for target in MOVED_TO.values():
        assert inspect.isclass(import_target(target)), target


@pytest.mark.parametrize(
    "target",
    [
        "zipfile.ZipFile",
        "os.system",
        "hydra.utils.instantiate",
        "ol2r_cli.run.directory.os.system",
        "ol2r_cli.run.directory.RunDirectory",
        "ol2r_cli.ranker.pdgd:PDGD",
        f"{PDGD}.__init__",
        f"{PDGD} ",
        "module_of_another",
        "",
        None,
        3,
        {"_target_": PDGD},
        [PDGD],
    ],
)
def test_everything_else_is_refused_wherever_it_stands(target):
    node = {"_target_": target}
    good = {"_target_": PDGD}
    for settings, name in [
        (node, "ranker"),
        ({**good, "model": node}, "ranker.model"),
        ({**good, "plain": {"deeper": node}}, "ranker.plain.deeper"),
        ({**good, "listed": [1, [node]]}, "ranker.listed[1][0]"),
    ]:
        with pytest.raises(ValueError) as error:
            check_stored(settings, "ranker", FILE)
        expected = f"{name}._target_ in run/config.yaml must be a class of a choice of ol2r, got {target!r}: "
        assert str(error.value).startswith(expected)


@pytest.mark.parametrize("key", ["_args_", "_partial_", "_recursive_", "_convert_"])
def test_settings_that_hydra_would_act_upon_are_refused(key: str):
    with pytest.raises(ValueError, match=rf"must have settings only, got ranker.model.{key}"):
        check_stored({"_target_": PDGD, "model": {key: True}}, "ranker", FILE)


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "a/${x}/b", "\\${x}", "???"])
def test_interpolations_are_refused(value: str):
    with pytest.raises(ValueError, match=r"must have values without interpolations, got dataset.files\[0\]="):
        check_stored({"files": [value]}, "dataset", FILE)


def test_values_that_yaml_cannot_express_are_refused_and_control_characters_are_not_printed():
    with pytest.raises(ValueError, match=r"must have plain values, got ranker.l2 of type complex"):
        check_stored({"l2": 1j}, "ranker", FILE)
    with pytest.raises(ValueError) as error:
        check_stored({"a\n\x1b[2J": {"_target_": "x\n\x1b[2J"}}, "ranker", FILE)
    assert str(error.value).isprintable()


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_the_choices_of_a_folder_that_is_named_are_trusted(tmp_path):
    own = "_target_: mine.Ranker\nparts: [{_target_: mine.Part}]\n"
    folder = write(tmp_path, {"ranker/mine.yaml": own, "ranker/model/mine.yaml": "_target_: mine.Model\n"})
    assert {"mine.Ranker", "mine.Part", "mine.Model"} == trusted_targets([folder]) - trusted_targets()
    check_stored({"_target_": "mine.Ranker"}, "ranker", FILE, trusted_targets([folder]))
    with pytest.raises(ValueError, match=r"got 'mine\.Other'"):
        check_stored({"_target_": "mine.Other"}, "ranker", FILE, trusted_targets([folder]))
    with pytest.raises(ValueError, match=r"--config-dir must be a folder, got .*none, which does not exist"):
        trusted_targets([tmp_path / "none"])


def test_runs_below_a_folder_that_is_named_are_no_choices(tmp_path):
    """`--config-dir .` in a folder with runs of others does not trust what these name."""
    bad = "_target_: zipfile.ZipFile\n"
    run = {"config.yaml": bad, "run.json": "{}"}
    files = {f"{folder}/{name}": text for folder in ("outputs/a", "ranker/a") for name, text in run.items()}
    folder = write(tmp_path, {**files, "config.yaml": bad, "outputs/ranker/b.yaml": bad})
    assert trusted_targets([folder]) == trusted_targets()


@pytest.fixture
def plugin(tmp_path, monkeypatch) -> str:
    """An installed plug-in, with a class of its own in a module below it, and a module that is no plug-in's."""
    name = f"plugin_{tmp_path.name}"
    metadata = {"METADATA": f"Name: {name}\nVersion: 1\n", "entry_points.txt": f"[ol2r.choices]\nmine = {name}\n"}
    write(tmp_path / f"{name}-1.dist-info", metadata)
    code = "import os, zipfile\nfrom pathlib import Path\nclass Ranker: pass\ndef function(): pass\n"
    write(tmp_path, {f"{name}/__init__.py": "", f"{name}/rankers.py": code, "stranger.py": "class Ranker: pass\n"})
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_classes_of_installed_plugins_are_trusted_and_what_they_import_is_not(plugin: str):
    check_stored({"_target_": f"{plugin}.rankers.Ranker"}, "ranker", FILE)
    for target in (
        f"{plugin}.rankers.os.system",
        f"{plugin}.rankers.zipfile.ZipFile",
        f"{plugin}.rankers.Path",
        f"{plugin}.rankers.function",
        f"{plugin}s.rankers.Ranker",
        "stranger.Ranker",
    ):
        with pytest.raises(ValueError, match=f"got '{target}'"):
            check_stored({"_target_": target}, "ranker", FILE)
    assert "stranger" not in sys.modules
