"""Changed code gives another run: of a ranker of one's own, and of ol2r. What has begun is not forgotten."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ol2r_cli import api, cli
from ol2r_cli.config.composer import Composer
from ol2r_cli.recipes.recipe import load_recipe
from ol2r_cli.recipes.run_plan import paper_plan
from ol2r_cli.run import source
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run_state import RunState
from ol2r_cli.sweep import sweeper
from ol2r_cli.sweep.plan import Plan
from tests.own_ranker import CHOICE, FIXED, RANKER, STEPS, WORDS, OwnRanker, present_code

ROOT = Path(__file__).parents[1]
PDGD = "ol2r_cli/ranker/pdgd.py"
SIMULATION = "ol2r_cli/simulation.py"


@pytest.fixture
def own_ranker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnRanker]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # an edit within a second would not be noticed
    recorded = present_code()
    monkeypatch.setattr(source, "recorded", lambda: recorded)
    ranker = OwnRanker(tmp_path)
    yield ranker
    ranker.forget()


def ndcg(run: RunState) -> float:
    return json.loads((run.path / "summary.json").read_text())["metrics"]["online_ndcg"]["mean"]


def test_a_fix_in_an_imported_file_is_another_run_with_another_result(own_ranker: OwnRanker):
    own_ranker.run()
    own_ranker.write("steps.py", FIXED)
    own_ranker.run()
    wrong, right = own_ranker.runs()
    assert wrong.path != right.path
    assert ndcg(right) != ndcg(wrong)
    for run in wrong, right:
        code = run.manifest["code"]
        assert list(code["files"]) == ["mine.py", "steps.py"]
        assert code["groups"] == {"mine.py": ["ranker"], "steps.py": ["ranker"]}
    assert wrong.manifest["code"]["base"] == right.manifest["code"]["base"] != right.manifest["id"]
    assert not list(right.path.parent.glob(".*")), "a mark is for runs that have not finished"


def test_comments_docstrings_and_formatting_are_the_same_run(own_ranker: OwnRanker):
    own_ranker.run()
    edited = RANKER.replace('"""Moves by every misplaced pair."""', "").replace("  # of each pair", "")
    edited = edited.replace("decay=1.0)", "decay=(1.0),\n        )").replace('"', "'")
    assert edited != RANKER
    own_ranker.write("mine.py", edited)
    own_ranker.run()
    assert len(own_ranker.runs()) == 1


def test_a_run_of_shipped_code_records_none(own_ranker: OwnRanker):
    own_ranker.run("ranker=random", "exploration=none")
    (run,) = own_ranker.runs()
    assert run.manifest["code"] is None


def test_an_interrupted_run_does_not_go_on_with_other_code(own_ranker: OwnRanker, monkeypatch, capsys):
    stopped = own_ranker.interrupt(monkeypatch)
    then = stopped.manifest["code"]["files"]["steps.py"]
    own_ranker.write("steps.py", FIXED)
    before = sorted(own_ranker.folder.rglob("*"))
    capsys.readouterr()
    own_ranker.run(expected=2)
    message = capsys.readouterr().err
    assert message.startswith(f"ol2r run: {stopped.path} stands at round 25 of 40 with another steps.py ({then} -> ")
    assert message.endswith("put the file back to resume that run, or remove its directory\n")
    assert "type force=true" in message
    assert sorted(own_ranker.folder.rglob("*")) == before, "nothing is written"

    with pytest.raises(ValueError, match=r"stands at round 25 of 40 with another steps\.py"):
        api.run(*WORDS)
    own_ranker.run("-m", "seed=0,1", expected=2)
    message = capsys.readouterr().err
    assert "with another steps.py" in message
    assert "(#0 seed=0); nothing has been run: --keep-going runs the other 1" in message

    own_ranker.write("steps.py", STEPS)
    own_ranker.run()
    assert own_ranker.state(stopped.path).manifest["sittings"] == 2


def test_forced_code_goes_on_without_force(own_ranker: OwnRanker, monkeypatch):
    first = own_ranker.interrupt(monkeypatch)
    own_ranker.write("steps.py", FIXED)
    second = own_ranker.interrupt(monkeypatch, "force=true", round=30)
    own_ranker.run()
    assert own_ranker.state(first.path).state == "interrupted"
    assert own_ranker.state(second.path).manifest["sittings"] == 2
    assert second.path != first.path


def test_a_removed_or_finished_run_of_other_code_is_in_nobodys_way(own_ranker: OwnRanker, monkeypatch):
    stopped = own_ranker.interrupt(monkeypatch)
    shutil.rmtree(stopped.path)
    own_ranker.write("steps.py", FIXED)
    own_ranker.run()
    own_ranker.write("steps.py", FIXED.replace("<= 0", "<= 1"))
    own_ranker.run()
    assert len(own_ranker.runs()) == 2


def test_a_run_that_failed_at_once_is_in_nobodys_way(own_ranker: OwnRanker):
    own_ranker.write("steps.py", STEPS.replace("    return", "    raise LookupError\n    return"))
    own_ranker.run(expected=1)
    own_ranker.write("steps.py", STEPS)
    own_ranker.run()
    assert [run.state for run in own_ranker.runs()] == ["failed", "finished"]


def test_code_that_was_edited_after_its_import_is_refused(own_ranker: OwnRanker, capsys):
    own_ranker.run()
    (own_ranker.folder / "steps.py").write_text(FIXED)
    own_ranker.run(expected=2)
    message = capsys.readouterr().err
    assert "steps.py must be as it was when it was imported, got changed code: restart Python" in message


def test_a_search_does_not_use_trials_of_other_code(own_ranker: OwnRanker, capsys):
    words = ["search", *WORDS, "ranker.learning_rate=log(1e-3,1)", "--trials", "2"]
    assert cli.main(words) == 0
    own_ranker.write("steps.py", FIXED)
    capsys.readouterr()
    assert cli.main([*words]) == 2
    message = capsys.readouterr().err
    assert message.startswith("ol2r search: --name must be new for changed code: the trials in outputs/.search/")
    assert "are of another steps.py (" in message
    assert cli.main([*words, "--name", "fixed"]) == 0
    assert len(own_ranker.runs()) == 4


def test_a_class_of_a_notebook_is_another_run_when_its_cell_has_changed(own_ranker: OwnRanker):
    cell = RANKER.replace("from steps import size", "").replace('    """`pairs`', '    """Of a notebook, `pairs`')
    script = f"""
import linecache, sys
from ol2r_cli import api

def run(cell, name):
    linecache.cache[name] = len(cell), None, cell.splitlines(True), name
    exec(compile(cell, name, "exec"), globals())
    if "Mine" in globals():
        print(api.run(*{[*WORDS, "ranker._target_=__main__.Mine"]}).id)

run({STEPS!r}, "<ipython-input-1>")
run({cell!r}, "<ipython-input-2>")
run("# a comment\\n" + {cell!r}, "<ipython-input-3>")
run({FIXED!r}, "<ipython-input-4>")
"""
    (own_ranker.folder / "script.py").write_text(script)
    env = {**os.environ, "PYTHONPATH": f"{own_ranker.folder}:{ROOT}"}
    cells = "import sys; sys.path[:0] = ['.']; exec(open('script.py').read())"
    done = subprocess.run([sys.executable, "-c", cells], env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.split()
    assert first == second != third
    wrong, _ = own_ranker.runs()
    names = ("Mine", "Pairs", "Positive", "size")
    assert wrong.manifest["code"]["files"].keys() >= {f"__main__.{name}" for name in names}


def test_reports_leave_out_the_earlier_version(own_ranker: OwnRanker, capsys):
    own_ranker.run()
    own_ranker.run("seed=1")
    own_ranker.run("ranker=random", "exploration=none")
    own_ranker.write("steps.py", FIXED)
    own_ranker.run()
    *_, right = own_ranker.runs()
    capsys.readouterr()

    line = "mine: 2 runs of an earlier version of steps.py"
    assert cli.main(["report", "outputs", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    assert f"ol2r report: {line}, left out: --all-versions shows them\n" in printed.err
    assert len(printed.out.splitlines()) == 1 + 2
    assert cli.main(["report", "outputs", "--format", "csv", "--all-versions"]) == 0
    printed = capsys.readouterr()
    assert "earlier version" not in printed.err
    assert len(printed.out.splitlines()) == 1 + 3, "versions are not seeds of one group"
    with pytest.warns(UserWarning, match=line):
        loaded = api.load("outputs")
    assert right.manifest["id"] in loaded["run"]
    assert len(loaded) == 2
    assert len(api.load("outputs", all_versions=True)) == 4

    assert cli.main(["status", "outputs"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("earlier version of steps.py\n") == 2
    assert f"\n{line}: `ol2r report` leaves them out\n" in printed
    wrong = own_ranker.runs()[0]
    assert cli.main(["diff", str(wrong.path), str(right.path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("steps.py")]
    hashes = [run.manifest["code"]["files"]["steps.py"] for run in (wrong, right)]
    assert line.split() == ["steps.py", *hashes, "can", "change", "results"]


def test_a_sweep_notices_code_that_changes_while_it_runs(own_ranker: OwnRanker, monkeypatch, capsys):
    announce = sweeper._announce

    def edit(*arguments):
        (own_ranker.folder / "steps.py").write_text(FIXED)
        announce(*arguments)

    monkeypatch.setattr(sweeper, "_announce", edit)
    own_ranker.run("-m", "seed=0,1", expected=3)
    assert "code or data were changed after the sweep was checked: type its command again" in capsys.readouterr().err
    assert own_ranker.runs() == []


def test_the_recorded_code_is_the_present_one():
    recorded = json.loads(source.REFERENCE.read_text())
    present = {file.name for file in source.recorded_files()}
    stale = [*source.changed_files(), *(recorded["files"].keys() - present)]
    assert (recorded["results_version"], stale) == (RESULTS_VERSION, []), (
        "check that the golden traces are unchanged (make golden), or raise RESULTS_VERSION; then type `make sources`"
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of ol2r, which may be edited."""
    for name in "ol2r_cli", "configs":
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / source.REFERENCE.relative_to(ROOT)).write_text(source.reference(RESULTS_VERSION))
    return tmp_path


def ids(folder: Path, *jobs: str) -> list[tuple[str, list[str]]]:
    """The id and the files of the code of experiments, by the ol2r in a folder."""
    script = f"""
from ol2r_cli import api
for job in {jobs}:
    experiment = api.experiment(*job.split(), "dataset.documents=12", "dataset.features=6")
    print(experiment.id, *experiment.code.files)
"""
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return [(id, files) for id, *files in map(str.split, done.stdout.splitlines())]


def test_a_compiled_module_that_own_code_imports_is_part_of_the_id(own_ranker: OwnRanker, monkeypatch):
    origin = importlib.util.find_spec("markupsafe._speedups").origin
    compiled, ids = own_ranker.folder / Path(origin).name, set()
    for more in b"", b"another build":
        compiled.unlink(missing_ok=True)
        compiled.write_bytes(Path(origin).read_bytes() + more)
        sys.modules.pop("_speedups", None)
        own_ranker.write("mine.py", f"import _speedups\n{RANKER}")
        ids.add(api.experiment(*WORDS).id)
    assert len(ids) == 2


MODEL = """\
import torch
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.ranker.model.linear import Linear, LinearForward


class Mine(Linear):
    def forward(self, parameters, features):
        from steps import seen

        return LinearForward(torch.bmm(seen(features), parameters.mT).mT, seen(features))
"""


def test_an_offline_fit_is_that_of_the_present_model(own_ranker: OwnRanker, monkeypatch):
    monkeypatch.setattr("ol2r_cli.ranker.offline_network.LEAST_WORK", 0)
    own_ranker.write("choices/ranker/model/mine.yaml", "# A model.\n_target_: mine.Mine\n")
    own_ranker.write("mine.py", MODEL)
    words = ["ranker=offline_network", "ranker/model=mine", "rounds=1"]
    own_ranker.write("steps.py", "def seen(features):\n    return features\n")

    def fit(cache: str) -> torch.Tensor:
        own_ranker.run(*words, f"cache_dir={cache}", "force=true")
        return torch.load(own_ranker.runs()[-1].path / "ranker.pt")["deployed"]

    before = fit("cache")
    own_ranker.write("steps.py", "def seen(features):\n    return features * (features > 0.5)\n")
    after = fit("cache")
    assert not torch.equal(after, before)
    assert torch.equal(after, fit("empty"))


def test_what_is_cached_is_of_the_present_code(copied: Path):
    script = """
import sys
from ol2r_cli import api
from ol2r_cli.ranker import offline_ranknet
offline_ranknet.LEAST_WORK = 0
made = api.experiment(
    "dataset=letor", f"dataset.path={sys.argv[1]}", "dataset.normalise=query_minmax", "ranker=offline_ranknet",
    "dataset.group={feature: 1, threshold: 0.5, on: raw}", f"cache_dir={sys.argv[2]}", "replicas=1",
)
print(made.dataset.features.tolist(), made.dataset.group.tolist(), made.simulation().ranker.deploy().tolist())
"""

    def numbers(cache: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", script, str(ROOT / "tests/data/tiny"), cache]
        done = subprocess.run(command, cwd=copied, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = [numbers("cache")]
    for file, before, after in (
        ("dataset/parse.py", "dense.astype(", "(dense**2).astype("),
        ("dataset/normalise.py", "return (x - np.repeat(low", "return 2 * (x - np.repeat(low"),
        ("dataset/document_groups.py", "values <= threshold", "values > threshold"),
        ("learning/ranknet_fit.py", "unwhitened(optimum.x)", "2 * unwhitened(optimum.x)"),
    ):
        path = copied / "ol2r_cli" / file
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))
        found.append(numbers("cache"))
        assert found[-1] not in found[:-1], file
    assert found[-1] == numbers("empty")


def add(text: str, *files: Path) -> None:
    for file in files:
        file.write_text((file.read_text() if file.exists() else "") + text)


def test_an_edit_of_ol2r_is_another_run_where_it_takes_part(copied: Path, monkeypatch):
    monkeypatch.setattr(source, "recorded", present_code)
    jobs, package = ("ranker=pdgd", "ranker=pairrank"), copied / "ol2r_cli"
    released = [(api.experiment(job, "dataset.documents=12", "dataset.features=6").id, list[str]()) for job in jobs]
    add("\n# a comment\n", package / "ranker" / "pdgd.py", package / "simulation.py")
    assert ids(copied, *jobs) == released

    add("\nNEW = 1\n", package / "ranker" / "pdgd.py", package / "ranker" / "unused.py")
    pdgd, pairrank = ids(copied, *jobs)
    assert pdgd[0] != released[0][0]
    assert pdgd[1] == ["ol2r_cli/ranker/pdgd.py"]
    assert pairrank == released[1]

    add("\nNEW = 1\n", package / "simulation.py", package / "learning" / "unheard.py")
    add("\nfrom ol2r_cli.learning import unheard\n", package / "learning" / "model.py")
    toprank, dbgd = ids(copied, "ranker=toprank", "ranker=dbgd")
    assert toprank[1] == ["ol2r_cli/simulation.py"]
    assert dbgd[1] == ["ol2r_cli/learning/model.py", "ol2r_cli/learning/unheard.py", "ol2r_cli/simulation.py"]


def test_a_run_of_released_code_does_not_go_on_with_edited_code_nor_back(own_ranker, monkeypatch, capsys):
    """In both directions, and without looking at the manifests of other runs."""
    words = ["ranker=pdgd", "exploration=plackett_luce", "checkpoint_rounds=5"]  # else all rounds are played together
    released = own_ranker.interrupt(monkeypatch, *words)
    with monkeypatch.context() as patch:
        patch.setattr(source, "recorded", lambda: {**present_code(), PDGD: ("another", "version")})
        capsys.readouterr()
        own_ranker.run(*words, expected=2)
        message = capsys.readouterr().err
        assert f"{released.path} stands at round 25 of 40 with another {PDGD} (as released -> " in message
        edited = own_ranker.interrupt(monkeypatch, *words, "force=true", round=30)
        assert edited.manifest["code"]["groups"] == {PDGD: ["ranker"]}
    shutil.rmtree(released.path)
    capsys.readouterr()
    own_ranker.run(*words, expected=2)
    message = capsys.readouterr().err
    assert f"{edited.path} stands at round 30 of 40 with another {PDGD} (" in message
    assert " -> as released)" in message


def test_the_code_of_an_installed_package_is_part_of_the_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The package brings its choices by an entry point; no option names it."""
    package = tmp_path / "site-packages" / "rankers_of_ours"
    (package / "choices" / "ranker").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "choices" / "__init__.py").write_text("")
    (package / "choices" / "ranker" / "ours.yaml").write_text(
        CHOICE.replace("mine.Mine", "rankers_of_ours.rankers.Mine")
    )
    (package / "rankers.py").write_text(RANKER.replace("from steps", "from rankers_of_ours.steps"))
    metadata = package.parent / "rankers_of_ours-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: rankers_of_ours\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[ol2r.choices]\nours = rankers_of_ours.choices\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package.parent), str(ROOT)]))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def play() -> tuple[str, float]:
        """The directory and the online NDCG of the newest run."""
        command = [sys.executable, "-m", "ol2r_cli", "run", "ranker=ours", *WORDS[2:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        run = max((tmp_path / "outputs").glob("*/*/run.json"), key=lambda path: path.stat().st_mtime_ns)
        files = json.loads(run.read_text())["code"]["files"]
        assert {"rankers_of_ours/rankers.py", "rankers_of_ours/steps.py"} <= files.keys()
        summary = json.loads(run.with_name("summary.json").read_text())
        return run.parent.name, summary["metrics"]["online_ndcg"]["mean"]

    (package / "steps.py").write_text(STEPS)
    wrong = play()
    (package / "steps.py").write_text(FIXED)
    right = play()
    assert wrong[0] != right[0]
    assert wrong[1] != right[1]


def test_reproduce_does_not_take_runs_of_other_code(own_ranker: OwnRanker, monkeypatch: pytest.MonkeyPatch):
    """The runs of a recipe are jobs of a sweep; with edited code they have other directories."""
    recipe = load_recipe("reproduce", "pairrank_fig3")

    def directories() -> set[Path | None]:
        plan = paper_plan(recipe, "quick", WORDS[2:-2])
        jobs = [list(run) for trial in list(plan.candidates()) or list(plan.final()) for run in trial.runs]
        return {job.directory for job in Plan(jobs[:3], Composer(plan.folders)).good}

    released = directories()
    monkeypatch.setattr(source, "recorded", lambda: {**present_code(), SIMULATION: ("another", "version")})
    assert len(released) == 3
    assert not released & directories()


@pytest.mark.filterwarnings("ignore:.*of an earlier version of steps.py")
def test_a_version_that_is_found_again_is_the_present_one(own_ranker: OwnRanker):
    """A mistake is made, and undone: the first run is found finished, and reports show it."""
    own_ranker.write("steps.py", FIXED)
    own_ranker.run()
    own_ranker.write("steps.py", STEPS)
    own_ranker.run()
    right, wrong = own_ranker.runs()
    assert api.load()["run"].to_list() == [wrong.manifest["id"]]
    own_ranker.write("steps.py", FIXED)
    own_ranker.run()
    assert api.load()["run"].to_list() == [right.manifest["id"]]
    own_ranker.write("steps.py", STEPS)
    own_ranker.run("-m", "seed=0")
    assert api.load()["run"].to_list() == [wrong.manifest["id"]], "in a sweep"
    both = {right.manifest["id"], wrong.manifest["id"]}
    assert set(api.load(right.path, wrong.path)["run"]) == both, "both are named"


def test_a_trained_ranker_of_other_code_is_not_used(own_ranker: OwnRanker, capsys: pytest.CaptureFixture[str]):
    """Neither to score documents nor to export values by query, which would not be those of the run."""
    own_ranker.run()
    (run,) = own_ranker.runs()
    words = ["export", str(run.path), "--to", "per-query", "--config-dir", "choices", "--out", "queries.csv"]
    assert cli.main(words) == 0
    own_ranker.write("mine.py", RANKER.replace("# of each pair", "+ 0"))
    capsys.readouterr()
    assert cli.main(words) == 2
    assert "is of another version of mine.py: put the file back, or run it again" in capsys.readouterr().err
