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


def test_a_run_may_name_classes_of_choices_and_no_others():
    """A run may name the classes of choices and no others, wherever they stand."""
    contents = [choice.content for group in Catalogue().choices.values() for choice in group.values()]
    named = {target for content in contents for _, target in targets(content)}
    assert {TARGET, "ol2r_cli.ranker.model.mlp.MLP", "ol2r_cli.dataset.letor.Letor"} <= named
    for target in named:
        check_stored({"_target_": target, "part": {"_target_": target}, "several": [{"_target_": target}]}, "x", FILE)
    strangers = ["zipfile.ZipFile", "os.system", "hydra.utils.instantiate", "ol2r_cli.run.store.os.system"]
    strangers += ["ol2r_cli.run.store.RunDirectory", "ol2r_cli.ranker.pdgd:PDGD", f"{TARGET}.__init__", "stranger"]
    refused = [("", "must have settings only, got ranker._args_", {"_args_": True})]
    for target in (*strangers, f"{TARGET} ", "", None, 3, {"_target_": TARGET}, [TARGET]):
        node, good = {"_target_": target}, {"_target_": TARGET}
        what = f"in run/config.yaml must be a class of a choice of ol2r, got {target!r}: "
        refused += [
            (f"ranker{place}._target_ ", what, settings)
            for place, settings in (
                ("", node),
                (".model", {**good, "model": node}),
                (".plain.deeper", {**good, "plain": {"deeper": node}}),
                (".listed[1][0]", {**good, "listed": [1, [node]]}),
            )
        ]
    for key in ("_partial_", "_recursive_", "_convert_"):
        refused.append(("", f"must have settings only, got ranker.{key}", {key: True}))
    for bad in ("${oc.env:HOME}", "a/${x}/b", "\\${x}", "???"):
        refused.append(("", "must have values without interpolations, got ranker.files[0]=", {"files": [bad]}))
    refused.append(("", "must have plain values, got ranker.l2 of type complex", {"l2": 1j}))
    refused.append(("", "must be a class of a choice of ol2r, got", {"a\n\x1b[2J": {"_target_": "x\n\x1b[2J"}}))
    for start, message, settings in refused:
        with pytest.raises(ValueError, match=rf"^{re.escape(start)}.*{re.escape(message)}") as error:
            check_stored(settings, "ranker", FILE)
        assert str(error.value).isprintable()


def test_choices_of_a_named_folder_are_trusted_but_no_runs_below(tmp_path: Path):
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
