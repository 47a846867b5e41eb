"""The recipes of CONTRIBUTING.md, word for word: added to a copy of the repository, and to a folder outside it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OUTSIDE = "A choice outside the repository"
RECIPES = (
    "A new click model",
    "A new ranker",
    "A new exploration",
    "A ranker with several members",
    "A new dataset",
    "A new measure",
)
FINDING = "tests/test_contracts.py tests/contracts/test_measure_laws.py tests/commands/test_list.py"  # a new choice


def section(title: str) -> str:
    """The text below a heading of CONTRIBUTING.md."""
    (text,) = re.findall(rf"^### {title}\n(.*?)(?=^##|\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    return text


def files(title: str) -> dict[str, str]:
    """Path and content of the numbered files of a recipe."""
    return dict(re.findall(r"^\d+\. `([\w/.]+)`[^`]*(?:`\w+`[^`]*)*```\w+\n(.*?)^```$", section(title), re.M | re.S))


def commands(title: str) -> list[str]:
    """The lines to type."""
    return re.findall(r"^ {7}(\S.*)$", section(title), re.M)


def write(folder: Path, contents: dict[str, str]) -> None:
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def shell(line: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Type a line in a folder, where `ol2r` is this one."""
    (folder / "bin").mkdir(exist_ok=True)
    ol2r = folder / "bin" / "ol2r"
    ol2r.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}:$PYTHONPATH" exec {shlex.quote(sys.executable)} -m ol2r_cli "$@"\n')
    ol2r.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PATH": f"{folder / 'bin'}:{env.get('PATH', '')}", **more}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=500)


@pytest.fixture
def experiments(tmp_path: Path) -> Path:
    """A user's folder after steps 1 to 3: the new ranker, with another name of the class, and ol2r.yaml."""
    code, settings, _ = files("A new ranker").values()
    python, yaml, project = re.findall(r"^\d+\. `([\w/.]+)`", section(OUTSIDE), re.M)
    target, choices = re.findall(r"^```yaml\n(.*)\n```$", section(OUTSIDE), re.M)
    write(tmp_path, {python: code, yaml: re.sub(r"^_target_: .*$", target, settings, flags=re.M), project: choices})
    return tmp_path


def test_a_ranker_from_outside_runs_as_the_recipe_says(experiments: Path):
    lines = [line for line in commands(OUTSIDE) if line.startswith("ol2r ") and "ol2r check" not in line]
    assert len(lines) == 3
    runs = [shell(f"{line} experiment=smoke" if " run " in line else line, experiments) for line in lines]
    for run in runs:
        assert run.returncode == 0, run.stderr
    assert "ranker perceptron (linear), click model informational" in runs[0].stdout
    assert len(list(experiments.glob("outputs/synthetic/perceptron-*/summary.json"))) == 3, "seed 0 was done before"
    assert len(list(experiments.glob("outputs/synthetic/pairrank-*/summary.json"))) == 3
    assert "ranker.learning_rate" in runs[2].stdout


def test_its_runs_are_scored_and_exported_where_its_folder_is_found(experiments: Path):
    """In a command and from Python; elsewhere the folder has to be named, and nothing of the class is imported."""
    line = next(line for line in commands(OUTSIDE) if line.endswith("ranker=perceptron"))
    assert shell(f"{line} experiment=smoke", experiments).returncode == 0
    (run,) = experiments.glob("outputs/synthetic/perceptron-*")
    run.rename(experiments / "run")
    features = " ".join(f"{number}:{number % 3}" for number in range(1, 137))
    (experiments / "new.txt").write_text(f"0 qid:1 {features}\n0 qid:1 {features[:-1]}3\n")
    (experiments / "elsewhere").mkdir()
    score, export = "ol2r score ../run ../new.txt", "ol2r export ../run --to trec --out trec"
    for words in score, export:
        for found in f"cd choices/.. && {words.replace('../', '')}", f"cd elsewhere && {words} --config-dir ../choices":
            done = shell(found, experiments)
            assert (done.returncode, done.stderr) == (0, "")
        refused = shell(f"cd elsewhere && {words}", experiments)
        assert (refused.returncode, refused.stdout) == (2, "")
        message = "ranker._target_ in ../run/ranker.pt must be a class of a choice of ol2r, got 'perceptron.Perceptron'"
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1
    script = """
import sys
from ol2r_cli import api as ol2r
try:
    ol2r.Run("../run").score("../new.txt")
except ValueError:
    print("perceptron" in sys.modules, *ol2r.Run("../run", config_dir="../choices").score("../new.txt"))
run = ol2r.run("--config-dir=../choices", "ranker=perceptron", "experiment=smoke", seed=1)
(again,) = ol2r.sweep([["--config-dir=../choices", "ranker=perceptron", "experiment=smoke"]], seed=1)
print(run.score("../new.txt").equals(again.score("../new.txt")))
"""
    (experiments / "elsewhere" / "script.py").write_text(script)
    python = f"cd elsewhere && PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} script.py"
    done = shell(python, experiments)
    scores = shell(score.replace("../", ""), experiments).stdout.split()
    assert done.stdout == f"False {' '.join(scores)}\nTrue\n", done.stderr


def test_a_slip_in_its_settings_is_told_like_any_other(experiments: Path):
    line = next(line for line in commands(OUTSIDE) if line.endswith("ranker=perceptron"))
    run = shell(f"{line} ranker.learning_rate=0", experiments)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "ol2r run: ranker.learning_rate must be above 0, got 0\n"
    run = shell(f"{line} ranker.learning_rat=1", experiments)
    assert run.returncode == 2
    assert "did you mean ranker.learning_rate?" in run.stderr


def test_a_ranker_from_outside_keeps_the_laws(experiments: Path):
    (line,) = [line for line in commands(OUTSIDE) if "ol2r check" in line]
    check = shell(line, experiments)
    assert (check.returncode, check.stderr) == (0, ""), check.stdout
    assert check.stdout.endswith("ranker=perceptron: 18 laws kept, none broken\n")
    assert not (experiments / "outputs").exists()


def in_a_copy(folder: Path) -> list[dict[str, str]]:
    """Copy the repository to a folder, add all files of all recipes, and return the files of each recipe."""
    for name in "ol2r_cli", "configs", "tests":
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    recipes = [files(title) for title in RECIPES]
    for contents in recipes:
        assert [Path(name).parts[0] for name in contents] == ["ol2r_cli", "configs", "tests"]
        write(folder, contents)
    return recipes


def test_the_tests_of_the_recipes_pass(tmp_path: Path):
    tests = " ".join(list(contents)[2] for contents in in_a_copy(tmp_path))
    done = shell(f"PYTHONPATH=. {shlex.quote(sys.executable)} -m pytest -q -p no:cacheprovider {tests}", tmp_path)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_the_recipes_keep_style_types_and_laws(tmp_path: Path):
    recipes = in_a_copy(tmp_path)
    code, settings, tests = (" ".join(names) for names in zip(*recipes, strict=True))
    choices = " or ".join(Path(name).stem for name in settings.split())
    python = f"PYTHONPATH=. {shlex.quote(sys.executable)} -m"
    for line in (
        f"ruff check {code} {tests}",
        f"ruff format --check {code} {tests}",
        f"mypy {code}",
        f"pytest -q -p no:cacheprovider {FINDING} -k '{choices} or file'",
    ):
        done = shell(f"{python} {line}", tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
