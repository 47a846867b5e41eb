"""A finished run may name classes of choices and of installed packages with choices, and no others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ol2r_cli.config.catalogue import Catalogue, targets
from ol2r_cli.run.own_code import check_stored, trusted_targets

FILE = Path("run/config.yaml")
TARGET = "ol2r_cli.ranker.pdgd.PDGD"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_run_may_name_the_classes_of_choices():
    contents = [choice.content for group in Catalogue().choices.values() for choice in group.values()]
    named = {target for content in contents for _, target in targets(content)}
    assert {TARGET, "ol2r_cli.ranker.model.mlp.MLP", "ol2r_cli.dataset.letor.Letor"} <= named
    for target in named:
        check_stored({"_target_": target, "part": {"_target_": target}, "several": [{"_target_": target}]}, "x", FILE)


PLACES = {
    "": lambda node: node,
    ".model": lambda node: {"_target_": TARGET, "model": node},
    ".plain.deeper": lambda node: {"_target_": TARGET, "plain": {"deeper": node}},
    ".listed[1][0]": lambda node: {"_target_": TARGET, "listed": [1, [node]]},
}
STRANGERS = ["zipfile.ZipFile", "os.system", "hydra.utils.instantiate", "ol2r_cli.run.store.os.system"]
STRANGERS += ["ol2r_cli.run.store.RunDirectory", "ol2r_cli.ranker.pdgd:PDGD", f"{TARGET}.__init__", "stranger"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target", [*STRANGERS, f"{TARGET} ", "", None, 3, {"_target_": TARGET}, [TARGET]], ids=str)
def test_a_run_may_name_no_others_wherever_they_stand(target, place):
    start = f"ranker{place}._target_ in {FILE} must be a class of a choice of ol2r, got {target!r}: "
    with pytest.raises(ValueError, match=f"^{re.escape(start)}"):
        check_stored(PLACES[place]({"_target_": target}), "ranker", FILE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            ({key: True}, f"must have settings only, got ranker.{key}")
            for key in ("_args_", "_partial_", "_recursive_", "_convert_")
        ),
        *(
            ({"files": [bad]}, "must have values without interpolations, got ranker.files[0]=")
            for bad in ("${oc.env:HOME}", "a/${x}/b", "\\${x}", "???")
        ),
        ({"l2": 1j}, "must have plain values, got ranker.l2 of type complex"),
        ({"a\n\x1b[2J": {"_target_": "x\n\x1b[2J"}}, "must be a class of a choice of ol2r, got"),
    ],
    ids=str,
)
def test_a_run_has_plain_settings_only(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        check_stored(settings, "ranker", FILE)
    assert str(error.value).isprintable()


def test_choices_of_a_named_folder_are_trusted_but_no_runs_below(tmp_path):
    """The choices of a folder that is named are trusted, and those of runs below it are not.

    `--config-dir .` in a folder with runs of others does not trust what these name.
    """
    own = "_target_: mine.Ranker\nparts: [{_target_: mine.Part}]\n"
    folder = write(tmp_path, {"ranker/mine.yaml": own, "ranker/model/mine.yaml": "_target_: mine.Model\n"})
    assert {"mine.Ranker", "mine.Part", "mine.Model"} == trusted_targets([folder]) - trusted_targets()
    check_stored({"_target_": "mine.Ranker"}, "ranker", FILE, trusted_targets([folder]))
    with pytest.raises(ValueError, match=r"got 'mine\.Other'"):
        check_stored({"_target_": "mine.Other"}, "ranker", FILE, trusted_targets([folder]))
    before, bad = trusted_targets([folder]), "_target_: zipfile.ZipFile\n"
    files = {f"{run}/{name}": bad for run in ("outputs/a", "ranker/a") for name in ("config.yaml", "run.json")}
    write(tmp_path, {**files, "config.yaml": bad, "outputs/ranker/b.yaml": bad})
    assert trusted_targets([folder]) == before


def test_choices_of_packages_are_trusted_but_not_their_imports(tmp_path, monkeypatch):
    """Classes of installed packages with choices are trusted, and what they import is not."""
    name = f"plugin_{tmp_path.name}"
    metadata = {"METADATA": f"Name: {name}\nVersion: 1\n", "entry_points.txt": f"[ol2r.choices]\nmine = {name}\n"}
    write(tmp_path / f"{name}-1.dist-info", metadata)
    code = "import os, zipfile\nfrom pathlib import Path\nclass Ranker: pass\ndef function(): pass\n"
    write(tmp_path, {f"{name}/__init__.py": "", f"{name}/rankers.py": code, "stranger.py": "class Ranker: pass\n"})
    monkeypatch.syspath_prepend(tmp_path)
    check_stored({"_target_": f"{name}.rankers.Ranker"}, "ranker", FILE)
    strangers = [f"{name}.rankers.{each}" for each in ("os.system", "zipfile.ZipFile", "Path", "function")]
    for target in (*strangers, f"{name}s.rankers.Ranker", "stranger.Ranker"):
        with pytest.raises(ValueError, match=f"got '{target}'"):
            check_stored({"_target_": target}, "ranker", FILE)
    assert "stranger" not in sys.modules
