"""Runs of others: nothing that their files name is imported, called or written before it is trusted."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from ol2r_cli import api as ol2r
from ol2r_cli import cli
from ol2r_cli.run.run import Run, find_runs
from tests.export.finished import FinishedRuns, finished_runs
from tests.manifests import accept_changes

NODES: dict[str, dict[str, Any]] = {
    "archive": {"_target_": "zipfile.ZipFile", "file": "{hit}", "mode": "w"},
    "log": {"_target_": "logging.FileHandler", "filename": "{hit}"},
    "shell": {"_target_": "os.system", "command": "touch {hit}"},
    "partial": {"_target_": "zipfile.ZipFile", "file": "{hit}", "mode": "w", "_partial_": True},
    "positional": {"_target_": "logging.FileHandler", "_args_": ["{hit}"]},
    "through ol2r": {"_target_": "ol2r_cli.run.store.os.system", "command": "touch {hit}"},
    "not a choice": {"_target_": "ol2r_cli.run.store.RunDirectory", "path": "{hit}"},
    "hydra": {"_target_": "hydra.utils.get_object", "path": "foreign_module.Ranker"},
    "module": {"_target_": "foreign_module.Ranker"},
}
COMMANDS = {
    "score": lambda run, out: ["score", run, out.parent / "file.txt"],
    "per-query": lambda run, out: ["export", run, "--to", "per-query", "--out", out.with_suffix(".csv")],
    "trec": lambda run, out: ["export", run, "--to", "trec", "--out", out],
    "lda": lambda run, out: ["report", run, "--figure", "lda", "--out", out.with_suffix(".png")],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> FinishedRuns:
    return finished_runs(tmp_path_factory)


@pytest.fixture
def hit(tmp_path, monkeypatch) -> Path:
    """The file that exists once something of another has run; importing `foreign_module` also makes it."""
    path = tmp_path / "hit"
    (tmp_path / "modules").mkdir()
    code = f"open({str(path)!r}, 'w').close()\nclass Ranker: pass\n"
    (tmp_path / "modules" / "foreign_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    return path


def filled(node: Any, hit: Path) -> Any:
    """The node with the path of the file in it."""
    return json.loads(json.dumps(node).replace("{hit}", str(hit)))


class ForeignRun:
    """A copy of a run that others have changed."""

    def __init__(self, run: Path, path: Path):
        self.path = path
        shutil.copytree(run, path)

    def edit_manifest(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        manifest = json.loads((self.path / "run.json").read_text())
        edit(manifest)
        (self.path / "run.json").write_text(json.dumps(manifest))
        accept_changes(self.path)

    def edit_config(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        content: Any = OmegaConf.to_container(OmegaConf.load(self.path / "config.yaml"))
        edit(content)
        (self.path / "config.yaml").write_text(yaml.safe_dump(content))
        accept_changes(self.path)

    def edit_ranker(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        content = torch.load(self.path / "ranker.pt", weights_only=True)
        edit(content)
        torch.save(content, self.path / "ranker.pt")
        accept_changes(self.path)


@pytest.fixture
def foreign(runs, tmp_path) -> ForeignRun:
    shutil.copy(runs["data"] / "test.txt", tmp_path / "file.txt")
    return ForeignRun(runs["network"], tmp_path / "foreign")


def refused(arguments: list[Any], capsys: pytest.CaptureFixture[str]) -> str:
    """The line on stderr of a command that ends with exit code 2."""
    capsys.readouterr()
    assert cli.main([*map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err.rstrip("\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_run_names_is_refused_before_it_is_imported(command: str, foreign, hit, tmp_path, capsys):
    if command == "lda":
        pytest.importorskip("matplotlib")
    out, before = tmp_path / "out", {*tmp_path.iterdir()}
    good_config, good_ranker = ((foreign.path / file).read_bytes() for file in ("config.yaml", "ranker.pt"))
    for name, (edit, setting) in itertools.product(NODES, edits(foreign)):
        node = filled(NODES[name], hit)
        (foreign.path / "config.yaml").write_bytes(good_config)
        (foreign.path / "ranker.pt").write_bytes(good_ranker)
        edit(node)
        line = refused(COMMANDS[command](foreign.path, out), capsys)
        file = "ranker.pt" if setting.startswith("ranker") else "config.yaml"
        target = f"{setting}._target_ in {foreign.path}/{file} must be a class of a choice of ol2r, got "
        option = f"{foreign.path}/{file} must have settings only, got {setting}._"
        assert target in line or option in line, name
        assert not hit.exists(), name
        assert "foreign_module" not in sys.modules, name
        assert {*tmp_path.iterdir()} == before, name


def edits(foreign: ForeignRun) -> list[tuple[Callable[[Any], None], str]]:
    """What others put a node into, and the name of its setting."""
    config, ranker = foreign.edit_config, foreign.edit_ranker
    return [
        (lambda node: config(lambda c: c.update(dataset=node)), "dataset"),
        (lambda node: config(lambda c: c["dataset"]["expected"].update(part=node)), "dataset.expected.part"),
        (lambda node: config(lambda c: c["dataset"].update(folders=[node])), "dataset.folders[0]"),
        (lambda node: ranker(lambda c: c.update(ranker=node)), "ranker"),
        (lambda node: ranker(lambda c: c["ranker"].update(model=node)), "ranker.model"),
        (lambda node: ranker(lambda c: c["ranker"]["model"].update(width=node)), "ranker.model.width"),
    ]


def test_python_refuses_them_too(foreign, hit, tmp_path):
    foreign.edit_ranker(lambda content: content.update(ranker=filled(NODES["archive"], hit)))
    run = ol2r.Run(foreign.path)
    for use in (lambda: run.trained_ranker, lambda: run.score(tmp_path / "file.txt")):
        with pytest.raises(ValueError, match=r"must be a class of a choice of ol2r, got 'zipfile.ZipFile'"):
            use()
    assert not hit.exists()


def test_interpolations_of_a_run_are_not_resolved(foreign, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SECRET", "its value")
    foreign.edit_config(lambda content: content["dataset"].update(path="${oc.env:SECRET}"))
    line = refused(COMMANDS["trec"](foreign.path, tmp_path / "out"), capsys)
    assert "must have values without interpolations, got dataset.path='${oc.env:SECRET}'" in line


def test_a_choice_of_another_role_is_refused(foreign, tmp_path, capsys):
    good = (foreign.path / "ranker.pt").read_bytes()
    linear = {"_target_": "ol2r_cli.ranker.model.linear.Linear"}
    foreign.edit_ranker(lambda content: content.update(ranker=linear))
    assert "ranker.pt must be a ranker, got " in refused(COMMANDS["score"](foreign.path, tmp_path / "out"), capsys)
    (foreign.path / "ranker.pt").write_bytes(good)
    foreign.edit_config(lambda content: content.update(dataset=linear))
    assert "dataset._target_ must be a dataset" in refused(COMMANDS["trec"](foreign.path, tmp_path / "out"), capsys)


def test_a_ranker_file_of_another_form_is_damaged(foreign, tmp_path, capsys):
    for change in ({"ranker": 3}, {"seeds": ["../../x"]}):
        foreign.edit_ranker(lambda content, change=change: content.update(change))
        line = refused(COMMANDS["score"](foreign.path, tmp_path / "out"), capsys)
        assert f"{foreign.path}/ranker.pt is damaged " in line


def test_nothing_is_written_to_the_cache_that_a_run_names(runs, tmp_path, monkeypatch):
    run = ForeignRun(runs["global zscore"], tmp_path / "foreign")
    run.edit_config(lambda content: content["dataset"].update(cache_dir=str(tmp_path / "named")))
    monkeypatch.setenv("OL2R_CACHE", str(tmp_path / "here"))
    for command in ("score", "per-query"):
        shutil.copy(runs["data"] / "test.txt", tmp_path / "file.txt")
        assert cli.main([*map(str, COMMANDS[command](run.path, tmp_path / "out"))]) == 0
        assert not (tmp_path / "named").exists()
        assert (tmp_path / "here").is_dir()


def test_exports_stay_in_their_folder(foreign, tmp_path, capsys):
    pytest.importorskip("tensorboard")
    for change in ({"dataset": {"name": "../above", "fingerprint": "f"}}, {"id": "*"}):
        foreign.edit_manifest(lambda manifest, change=change: manifest.update(change))
        line = refused(["export", foreign.path, "--to", "tensorboard", "--out", tmp_path / "tb"], capsys)
        assert f"{foreign.path} is damaged (ValueError: run.json must have " in line
        assert not (tmp_path / "above").exists()


class Shell:
    """Runs a line when it is unpickled."""

    def __init__(self, line: str):
        self.line = line

    def __reduce__(self) -> Any:
        return os.system, (self.line,)


def test_resuming_takes_nothing_from_the_files_but_state(tmp_path, hit):
    """The configuration is that of the command line; the checkpoint is read as tensors and plain values."""

    def run() -> int:
        sizes = ["dataset.queries={train: 6, validation: 2, test: 2}", "dataset.documents=6", "dataset.features=5"]
        return cli.main(["run", *sizes, "rounds=4", f"output_dir={tmp_path}/outputs", "keep_checkpoint=true"])

    assert run() == 0
    (path,) = find_runs(tmp_path / "outputs")
    undisturbed = (path / "config.yaml").read_text()
    node = filled(NODES["archive"], hit)

    def spoil() -> None:
        named = dict.fromkeys(("dataset", "click", "ranker", "exploration", "fairness", "device"), node)
        (path / "config.yaml").write_text(yaml.safe_dump({**yaml.safe_load(undisturbed), **named}))
        torch.save({**torch.load(path / "ranker.pt", weights_only=True), "ranker": node}, path / "ranker.pt")
        manifest = json.loads((path / "run.json").read_text())
        spoilt = {"files": None, "command": f"touch {hit}", "status": "interrupted"}
        choices = {**manifest["choices"], "ranker": "x"}
        (path / "run.json").write_text(json.dumps({**manifest, **spoilt, "choices": choices}))

    spoil()
    assert run() == 0, "it is resumed"
    assert (path / "config.yaml").read_text() == undisturbed
    spoil()
    torch.save(
        {"results_version": 2, "fingerprint": path.name[-10:], "state": Shell(f"touch {hit}")}, path / "checkpoint.pt"
    )
    assert run() == 0, "it starts afresh"
    assert Run.read(path).state == "finished"
    assert not hit.exists()


def test_reading_commands_build_nothing(foreign, hit, tmp_path, capsys):
    node = filled(NODES["archive"], hit)
    foreign.edit_config(lambda content: content.update(dataset=node, ranker=deepcopy(node)))  # without an alias
    foreign.edit_ranker(lambda content: content.update(ranker=node))
    for words in (
        ["report", foreign.path],
        ["report", foreign.path, "--out", tmp_path / "page.html"],
        ["status", foreign.path],
        ["verify", foreign.path],
        ["diff", foreign.path, foreign.path],
    ):
        assert cli.main([*map(str, words)]) in (0, 1)
        assert not hit.exists(), words
