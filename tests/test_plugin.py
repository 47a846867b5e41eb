"""A choice that `ol2r new` writes: moved into a copy of the repository, and used from where its folder is not found."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ol2r_cli.cli import main
from ol2r_cli.config.catalogue import ROLES
from tests import program
from tests.program import ROOT


def python(folder: Path, *words: str, package: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Python in a folder, with the package of the repository or of a copy, of which no loop is compiled: the machine
    code is not shared."""
    return program.python(*words, folder=folder, PYTHONPATH=str(package), NUMBA_DISABLE_JIT="1")


@pytest.mark.parametrize("groups", [("click",), pytest.param(ROLES, marks=pytest.mark.slow)], ids=["one", "all"])
def test_choices_keep_style_types_and_laws_in_the_repository(tmp_path, monkeypatch, groups):
    """The steps of CONTRIBUTING.md ("Add a component")."""
    monkeypatch.chdir(tmp_path)
    for name in "ol2r_cli", "configs", "tests":
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    code = [f"ol2r_cli/{group}/mine_{group}.py" for group in groups]
    for group, file in zip(groups, code, strict=True):
        assert main(["new", group, f"mine_{group}"]) == 0
        for written in (tmp_path / "choices").glob(f"mine_{group}.*"):  # of a dataset also its data
            shutil.move(written, tmp_path / file.replace(".py", written.suffix))
        settings = (tmp_path / "choices" / group / f"mine_{group}.yaml").read_text()
        target = settings.replace("_target_: ", f"_target_: ol2r_cli.{group}.")
        (tmp_path / "configs" / group / f"mine_{group}.yaml").write_text(target)
    (tmp_path / "ol2r.yaml").unlink()
    lines = [["ol2r_cli", "check", f"{group}=mine_{group}"] for group in groups]
    if groups == ROLES:
        lines += [["pytest", "-q", "-p", "no:cacheprovider", "tests/config/test_instantiate.py", "-k", "every_choice"]]
        lines += [["ruff", "check", *code], ["ruff", "format", "--check", *code], ["mypy", *code]]
    for line in lines:
        done = python(tmp_path, "-m", *line, package=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


SCRIPT = """
import os, sys
from ol2r_cli import api as ol2r
from ol2r_cli.cli import main

os.chdir("elsewhere")
command = ["score", "../run", "../new.txt"], ["export", "../run", "--to", "trec", "--out", "trec"]
assert [main(words) for words in command] == [2, 2]
try:
    ol2r.Run("../run").score("../new.txt")
except ValueError:
    print("perceptron" in sys.modules)
assert [main([*words, "--config-dir", "../choices"]) for words in command] == [0, 0]
print(*ol2r.Run("../run", config_dir="../choices").score("../new.txt"))
run = ol2r.run("--config-dir=../choices", "ranker=perceptron", "experiment=smoke", seed=1)
(again,) = ol2r.sweep([["--config-dir=../choices", "ranker=perceptron", "experiment=smoke"]], seed=1)
print(run.score("../new.txt").equals(again.score("../new.txt")))
"""


def test_its_runs_are_scored_where_its_folder_is_found(tmp_path):
    """Its runs are scored and exported where its folder is found.

    In a command and from Python; elsewhere the folder has to be named, and nothing of the class is imported.
    """
    here = "import sys; from ol2r_cli.cli import main; main(['new', 'ranker', 'perceptron'])"
    done = python(tmp_path, "-c", f"{here}; sys.exit(main(['run', 'ranker=perceptron', 'experiment=smoke']))")
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.glob("outputs/synthetic/perceptron-*")
    run.rename(tmp_path / "run")
    features = " ".join(f"{number}:{number % 3}" for number in range(1, 137))
    (tmp_path / "new.txt").write_text(f"0 qid:1 {features}\n0 qid:1 {features[:-1]}3\n")
    (tmp_path / "elsewhere").mkdir()
    told = python(tmp_path, "-c", SCRIPT)
    message = "ranker._target_ in ../run/ranker.pt must be a class of a choice of ol2r, got 'perceptron.Perceptron'"
    assert [message in line for line in told.stderr.splitlines()] == [True, True], told.stderr
    unknown, first, second, _, scores, same = told.stdout.splitlines()
    assert [unknown, scores, same] == ["False", f"{first} {second}", "True"], told.stdout
