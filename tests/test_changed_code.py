"""Changed code of a user gives another run, on the command line and in Python, and no mixture with the code before."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ol2r_cli import api, cli, source
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.sweep import sweeper
from tests.moments import at_round
from tests.own_ranker import FIXED, RANKER, STEPS, WORDS, OwnRanker
from tests.program import ROOT, python
from tests.worlds import TINY


@pytest.fixture
def own_ranker(tmp_path, monkeypatch) -> Iterator[OwnRanker]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ranker = OwnRanker(tmp_path)
    yield ranker
    ranker.forget()


def test_a_fix_in_an_imported_file_is_another_run(own_ranker, capsys):
    """And another row of reports."""
    own_ranker.run("replicas=2")
    own_ranker.write("steps.py", FIXED)
    fixed = api.run(*WORDS, "replicas=2")
    own_ranker.run("ranker=random", "exploration=none")
    first, second, random = own_ranker.runs()
    assert [second.path, random.manifest["code"]] == [fixed.path, None]
    codes = [run.manifest["code"]["ranker"] for run in (first, second)]
    assert len({*codes}) == 2

    loaded = api.load("outputs").filter(ranker="mine")
    assert loaded["group"].n_unique() == 2, "versions are not seeds of one group"
    assert set(loaded["ranker.own_code"]) == {*codes}
    assert loaded["online_ndcg"].n_unique() == 4
    assert len(api.load("outputs", f"ranker.own_code={codes[0]}")) == 2
    capsys.readouterr()
    assert cli.main(["report", "outputs", "ranker=mine"]) == 0
    printed = capsys.readouterr().out
    assert "own_code=" in printed
    assert all(code in printed for code in codes)
    assert cli.main(["diff", str(first.path), str(second.path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ranker.own_code")]
    assert line.split() == ["ranker.own_code", *codes]


def test_an_interrupted_run_goes_on_with_its_own_code_only(own_ranker, package, monkeypatch, capsys):
    stopped = own_ranker.interrupt(monkeypatch)
    own_ranker.write("steps.py", FIXED)
    own_ranker.run()
    own_ranker.write("steps.py", STEPS)
    (package / "kind.py").write_text("A = 2\n")
    in_a_new_process()
    capsys.readouterr()
    own_ranker.run()
    runs = {run.path: run for run in own_ranker.runs()}
    assert sorted(run.manifest["sittings"] for run in runs.values()) == [1, 2]
    before, after = (each["ol2r_code"] for each in runs[stopped.path].manifest["ran"])
    assert f"goes on after round 25 with ol2r_code {before} -> {after}: the last" in capsys.readouterr().err


def test_code_that_was_edited_after_its_import_is_refused(own_ranker, capsys):
    own_ranker.run()
    (own_ranker.folder / "steps.py").write_text(FIXED)
    own_ranker.run(expected=2)
    message = capsys.readouterr().err
    assert "steps.py must be as it was when it was imported, got changed code: restart Python" in message
    importlib.reload(sys.modules["steps"])
    own_ranker.run()


def test_a_search_does_not_use_trials_of_other_code(own_ranker, capsys):
    words = ["search", *WORDS, "ranker.learning_rate=log(1e-3,1)", "--trials", "2"]
    assert cli.main(words) == 0
    own_ranker.write("steps.py", FIXED)
    capsys.readouterr()
    assert cli.main([*words]) == 2
    assert capsys.readouterr().err.endswith(" has other code\n")
    assert cli.main([*words, "--name", "fixed"]) == 0
    assert len(own_ranker.runs()) == 4


def test_a_sweep_notices_code_that_changes_while_it_runs(own_ranker, monkeypatch, capsys):
    create_root = sweeper.create_root

    def edit(folder: Path):
        (own_ranker.folder / "steps.py").write_text(FIXED)
        create_root(folder)

    monkeypatch.setattr(sweeper, "create_root", edit)
    own_ranker.run("-m", "seed=0,1", expected=3)
    assert "code or data were changed after the sweep was checked: type its command again" in capsys.readouterr().err
    assert own_ranker.runs() == []


def test_a_trained_ranker_of_other_code_is_not_used(own_ranker, capsys):
    """Neither to score documents nor to export values by query, which would not be those of the run."""
    own_ranker.run()
    (run,) = own_ranker.runs()
    words = ["export", str(run.path), "--to", "per-query", "--config-dir", "choices", "--out", "queries.csv"]
    assert cli.main(words) == 0
    own_ranker.write("mine.py", RANKER.replace("# of each pair", "+ 0"))
    capsys.readouterr()
    assert cli.main(words) == 2
    assert "is of another version of the code of ranker: put it back, or run it again" in capsys.readouterr().err


MODEL = """\
from ol2r_cli.ranker.model.linear import Linear

class Mine(Linear):
    def forward(self, parameters, features):
        from steps import seen
        return super().forward(parameters, seen(features))
"""


def test_an_offline_fit_is_that_of_the_present_model(own_ranker, monkeypatch):
    monkeypatch.setattr("ol2r_cli.ranker.offline.LEAST_WORK", 0)
    own_ranker.write("choices/ranker/model/mine.yaml", "# A model.\n_target_: mine.Mine\n")
    own_ranker.write("mine.py", MODEL)

    def fit(features: str, cache: str) -> torch.Tensor:
        own_ranker.write("steps.py", f"def seen(features):\n    return {features}\n")
        own_ranker.run("ranker=offline_network", "ranker/model=mine", "rounds=1", f"cache_dir={cache}", "force=true")
        return torch.load(own_ranker.runs()[-1].path / "ranker.pt")["deployed"]

    before, after = fit("features", "cache"), fit("features * (features > 0.5)", "cache")
    assert not torch.equal(after, before)
    assert torch.equal(after, fit("features * (features > 0.5)", "empty"))


@pytest.fixture
def copied(tmp_path) -> Path:
    """A copy of the repository."""
    for name in "ol2r_cli", "configs":
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def python_with(copied: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python with ol2r as it is in the copy."""
    return python(*words, folder=copied, PYTHONPATH=str(copied), PYTHONDONTWRITEBYTECODE="1")


@pytest.mark.slow
def test_what_is_cached_is_of_the_present_ol2r(copied):
    words = ["dataset=letor", f"dataset.path={ROOT / 'tests/data/tiny'}", "dataset.normalise=query_minmax"]
    script = f"from ol2r_cli import api\nprint(api.experiment(*{words}, 'cache_dir=c').dataset.features.tolist())"
    edited = copied / "ol2r_cli/dataset/prepare.py"
    before = python_with(copied, "-c", script).stdout
    edited.write_text(edited.read_text().replace("return (x - np.repeat(low", "return 2 * (x - np.repeat(low"))
    assert python_with(copied, "-c", script).stdout not in ("", before)


def in_a_new_process():
    """What is in memory is of the files as they are now."""
    source.IN_MEMORY.update(source.hashes())


@pytest.fixture
def package(ol2r_source: Path) -> Path:
    """Two files that stand for those of ol2r."""
    (ol2r_source / "kind.py").write_text("A = 1\n")
    (ol2r_source / "other.py").write_text("B = 1\n")
    in_a_new_process()
    return ol2r_source


def test_a_run_during_which_ol2r_is_changed_fails(package, tmp_path, monkeypatch, capsys):
    """It goes on from its last checkpoint, which is of one version. A process with old modules starts no run."""
    words = ["run", *TINY, "rounds=40", "checkpoint_rounds=10", "evaluate_every=5", f"output_dir={tmp_path}/runs"]
    with monkeypatch.context() as patch:
        at_round(patch, 15, lambda: (package / "kind.py").write_text("A = 2\n"))
        assert cli.main(words) == 1
    (path,) = find_runs(tmp_path / "runs")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "failed" in line]
    assert line.startswith("ol2r run: failed: ol2r was changed while this process ran (kind.py): type the same command")
    assert Run.read(path).manifest["error"] in line
    assert cli.main([*words, "seed=1"]) == 2
    assert "ol2r run: ol2r was changed while this process ran (kind.py): type" in capsys.readouterr().err
    assert [*find_runs(tmp_path / "runs")] == [path]
    in_a_new_process()
    before = Run.read(path).manifest["ran"][0]["ol2r_code"]
    assert cli.main(words) == 0
    assert f"goes on after round 10 with ol2r_code {before} -> {source.code_hash()[:12]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "edit",
    [
        lambda package: (package / "new.py").write_text(""),
        lambda package: (package / "kind.py").unlink(),
        lambda package: (package / "kind.py").unlink() or (package / "kind.py").symlink_to("nowhere.py"),
        shutil.rmtree,
    ],
)
def test_a_file_of_ol2r_that_comes_or_goes_is_a_change(package, edit):
    source.check_unchanged()
    edit(package)
    with pytest.raises(source.ChangedSource, match="ol2r was changed while this process ran"):
        source.check_unchanged()


def test_a_file_of_ol2r_that_cannot_be_read_is_no_change(package):
    """A network may be down, or a ticket may have ended. What cannot be read cannot be imported, either."""
    (package / "kinds").mkdir()
    (package / "kinds" / "one.py").write_text("C = 1\n")
    in_a_new_process()
    (package / "kind.py").unlink()
    (package / "kind.py").symlink_to("kind.py")  # an OSError for every user: too many levels of links
    shutil.rmtree(package / "kinds")
    (package / "kinds").symlink_to("kinds")
    source.check_unchanged()
    (package / "other.py").write_text("B = 2\n")
    with pytest.raises(source.ChangedSource, match=r"\(other.py\)"):
        source.check_unchanged()


def test_what_has_no_effect_is_no_change(package):
    (package / ".hidden").mkdir()
    for name in "note.txt", ".#kind.py", ".hidden/kind.py":
        (package / name).write_text("")
    os.utime(package / "kind.py", (0, 0))
    source.check_unchanged()


def test_what_is_kept_of_a_process_is_of_its_own_source(package):
    """Arrays of the cache and machine code are under the hash of what is in memory, whatever the files are by then."""
    (package / "loops").mkdir()
    whole = source.code_hash(), source.code_hash("loops")
    (package / "kind.py").write_text("A = 2\n")
    assert (source.code_hash(), source.code_hash("loops")) == whole
    in_a_new_process()
    assert source.code_hash() != whole[0]
    assert source.code_hash("loops") == whole[1]
    (package / "kind_loops.py").write_text("")
    in_a_new_process()
    assert source.code_hash("loops", "_loops.py") != whole[1] == source.code_hash("loops")


@pytest.mark.slow
def test_jobs_of_a_sweep_during_which_ol2r_is_changed_fail(copied):
    """The first job edits a kind that the second one imports. Every job that is left says what to do."""
    (copied / "editing.py").write_text(
        "from ol2r_cli.ranker.model_ranker import RandomRanker\n\n\nclass Editing(RandomRanker):\n"
        "    def learn(self, interaction, random):\n"
        "        with open('ol2r_cli/ranker/batchrank.py', 'a') as file:\n            file.write('# changed')\n"
    )
    (copied / "choices" / "ranker").mkdir(parents=True)
    (copied / "choices" / "ranker" / "editing.yaml").write_text("# Edits.\n_target_: editing.Editing\n")
    words = ["--config-dir=choices", *TINY, "rounds=5", "ranker=editing,batchrank", "exploration=none"]
    done = python_with(copied, "-m", "ol2r_cli", "run", "-m", *words, "launcher.jobs=1")
    assert done.returncode == 3, done.stderr
    failed = "\n  ol2r was changed while this process ran (ranker/batchrank.py): type the same command"
    assert (done.stderr.count(failed), "Traceback" in done.stderr) == (2, False)
