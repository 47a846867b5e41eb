"""ol2r from Python: the same runs, the same errors, and a page whose lines give what it says."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import threading
from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli import api as ol2r
from ol2r_cli import cli
from ol2r_cli.plugins.python.passed_classes import as_overrides as words
from ol2r_cli.run.run import Run, find_runs
from tests.moments import at_round

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to/python.md").read_text()
TINY = {
    "dataset.queries": {"train": 12, "validation": 4, "test": 4},
    "dataset.documents": 8,
    "dataset.features": 5,
    "evaluate_every": 10,
}
SIZES = "dataset.documents=8 dataset.features=5 evaluate_every=10"
TYPED = ["dataset.queries={train: 12, validation: 4, test: 4}", *SIZES.split()]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_does_the_run_of_the_command_line_and_finds_it(folder, capsys):
    assert cli.main(["run", *TYPED, "rounds=20", "click=nav", "output_dir=typed"]) == 0
    (typed,) = find_runs(folder / "typed")
    capsys.readouterr()
    run = ol2r.run(TINY, click="nav", rounds=20)
    assert capsys.readouterr() == ("", "")
    assert run.path == Path("outputs") / typed.relative_to(folder / "typed")
    for name in "trace.parquet", "evaluation.parquet", "ranker.pt", "summary.json":
        assert (run.path / name).read_bytes() == (typed / name).read_bytes()
    before = (run.path / "run.json").stat().st_mtime_ns
    assert ol2r.run(TYPED, "rounds=20", click="navigational").path == run.path
    assert ol2r.Run(run.id).path.resolve() == run.path.resolve()
    assert (run.path / "run.json").stat().st_mtime_ns == before


def test_the_run_says_what_was_typed_and_force_repeats_it(capsys):
    run = ol2r.run(TINY, click="nav", rounds=20)
    sizes = f"'{words(TINY)[0]}' {' '.join(words(TINY)[1:])}"
    assert run.manifest["command"] == f"ol2r run {sizes} click=navigational rounds=20", "the whole name of nav"
    assert run.manifest["typed"] == [word.partition("=")[0] for word in words(TINY)] + ["click", "rounds"]
    before = (run.path / "run.json").stat().st_mtime_ns
    again = ol2r.run(TYPED, rounds=20, click="nav", force=True, progress=True)
    assert again.manifest["sittings"] == 1
    assert (again.path / "run.json").stat().st_mtime_ns > before
    assert "test NDCG@10" in capsys.readouterr().out, "with progress it ends with the summary"


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> ol2r.Run:
    """A run with everything that can be recorded."""
    more = {"block_rounds": [5], "save_interactions": True, "output_dir": tmp_path_factory.mktemp("found")}
    return ol2r.run(TINY, more, rounds=20, replicas=2)


def test_a_run_has_its_tables(found):
    assert found.trace.equals(pl.read_parquet(found.path / "trace.parquet"))
    assert found.evaluation.equals(pl.read_parquet(found.path / "evaluation.parquet"))
    assert found.blocks["round"].unique().to_list() == [5]
    assert found.interactions["round"].max() == 20


def test_a_run_says_what_it_is(found):
    assert (found.seeds, found.rounds, found.choices["ranker"]) == ([0, 1], 20, "pairrank")
    assert found.settings["dataset"]["documents"] == 8
    facts = "ranker=pairrank, click=informational, dataset=synthetic, 20 rounds, 2 seeds"
    assert repr(found) == f"<Run {found.id}: {facts}, in {found.path}>"


def test_a_run_has_its_summary(found):
    file = json.loads((found.path / "summary.json").read_bytes())
    assert found.summary == file["metrics"]
    assert {name: found.summary[name] for name in file} == file, "its names are found here too"
    assert found.summary["clicks"]["mean"] == found.per_seed["clicks"].mean() == found.trace["clicks"].sum() / 2
    with pytest.raises(KeyError, match="test_ndcg_100"):
        found.summary["test_ndcg_100"]


def test_a_run_scores_as_the_command_and_is_drawn(found, folder):
    (folder / "some.txt").write_text("".join(f"{n % 2} qid:1 1:{n} 2:1 3:0 4:.5 5:2\n" for n in range(3)))
    assert cli.main(["score", str(found.path), "some.txt", "--seed", "1", "--output", "scores.txt"]) == 0
    scores = found.score("some.txt", seed=1).to_list()
    assert scores == pytest.approx([float(line) for line in Path("scores.txt").read_text().splitlines()], abs=5e-7)
    assert found.score("some.txt").to_list() != scores
    assert found.plot("online_ndcg")._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("ranker=pairrnk", "did you mean ranker=pairrank"),
        ("ranker.l2=-1", "ranker.l2 must be above 0, got -1"),
        (["ranker=pdgd", "exploration=none"], "use exploration=plackett_luce"),
        ("experiment=grid_fairexp", "is a grid, several runs"),
    ],
)
def test_wrong_settings_are_a_line_and_nothing_is_written(folder, settings, told):
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        ol2r.run(settings, TINY)
    assert "\n" not in str(error.value)
    assert not (folder / "outputs").exists()


def test_a_run_that_fails_names_its_log(monkeypatch):
    def fail():
        raise ZeroDivisionError("no such luck")

    at_round(monkeypatch, 15, fail)
    told = r"no such luck \(.*test_python.py:\d+, in .*\) \(the traceback is in "
    with pytest.raises(ol2r.RunFailed, match=told) as failed:
        ol2r.run(TINY, rounds=20, evaluate_every=5)
    (path,) = failed.value.paths
    assert "in fail" in (path / "log.txt").read_text()
    with pytest.raises(ValueError, match=r"RUN must be a finished run, got .*: type ol2r run"):
        ol2r.Run(path)


def test_a_run_that_is_interrupted_goes_on(monkeypatch):
    with monkeypatch.context() as patch:
        at_round(patch, 15, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            ol2r.run(TINY, rounds=20, evaluate_every=5)
    (run,) = map(Run.read, find_runs("outputs"))
    assert (run.state, run.round) == ("interrupted", 15)
    assert ol2r.run(TINY, rounds=20, evaluate_every=5).manifest["sittings"] == 2


def test_it_leaves_the_threads_of_the_caller_alone():
    """And runs in any of them."""
    found = []
    torch.set_num_threads(2)
    try:
        runner = threading.Thread(target=lambda: found.append(ol2r.run(TINY, rounds=20)))
        runner.start()
        runner.join()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert found[0].rounds == 20


def test_a_grid_is_every_combination():
    assert ol2r.grid({"a": [1, 2], "b": ("xy",)}) == [{"a": 1, "b": "xy"}, {"a": 2, "b": "xy"}]
    assert ol2r.grid({}) == [{}]
    for values in "pairrank", 3:
        with pytest.raises(ValueError, match="ranker must be a list of values"):
            ol2r.grid({"ranker": values})


def test_a_sweep_takes_settings_as_a_run_does():
    runs = ol2r.sweep([{}, {"ranker.l2": 0.2}, "ranker.l2=0.3"], TINY, "seed=7", {"ranker.l2": 0.1}, rounds=10)
    assert [run.settings["ranker"]["l2"] for run in runs] == [0.1, 0.2, 0.3], "what a job says decides"
    assert runs[1].id == ol2r.run(TINY, {"ranker.l2": 0.2}, seed=7, rounds=10).id
    for one in {"seed": [1, 2]}, "seed=1":
        with pytest.raises(ValueError, match="jobs must be a list of jobs"):
            ol2r.sweep(one, TINY)


GRID = [{"ranker.l2": 0.1}, {"ranker.l2": -1}]
FEW = {"rounds": 20, "dataset": "synthetic"}


def penalties(runs: list[ol2r.Run]) -> list[float]:
    return [run.settings["ranker"]["l2"] for run in runs]


def test_a_sweep_with_a_wrong_job_runs_nothing_or_the_others():
    with pytest.raises(ValueError, match=r"ranker\.l2 must be above 0"):
        ol2r.sweep(GRID, **FEW)
    assert not Path("outputs").exists()
    with pytest.warns(UserWarning, match="ranker.l2 must be above 0"):
        runs = ol2r.sweep(GRID, **FEW, keep_going=True)
    assert penalties(runs) == [0.1]


def test_a_sweep_gives_its_runs_and_names_those_that_failed():
    values = 0.1, 0.2, 0.1
    runs = ol2r.sweep(({"ranker.l2": l2} for l2 in values), **FEW, launcher={"launcher.jobs": 1})
    assert penalties(runs) == [*values], "a run for each job"
    runs[1].path.joinpath("run.json").unlink()
    runs[1].path.joinpath("trace.parquet").unlink()
    runs[1].path.joinpath("trace.parquet").mkdir()  # which cannot be replaced by a file
    with pytest.raises(ol2r.RunFailed, match=r"1 of 2 runs failed:\nranker.l2=0.2: ") as failed:
        ol2r.sweep([{"ranker.l2": 0.1}, {"ranker.l2": 0.2}], **FEW)
    assert [path.resolve() for path in failed.value.paths] == [runs[1].path.resolve()]
    assert ol2r.load()["run"].to_list() == [runs[0].id]
    assert ol2r.load(runs[0], table="trace").height == 20


def test_a_figure_of_no_runs_is_refused(folder):
    with pytest.raises(ValueError, match=f"no finished runs below {folder}"):
        ol2r.draw("learning_curve", folder)


def test_the_lines_of_the_page_give_what_it_says(folder, monkeypatch):
    """What stands behind `# =` is what the expression before it gives."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    told = re.compile(r"^( *)(.+)  # = (.+)$", re.MULTILINE)
    lines = told.sub(r"\1given.append(repr((\2)))", code)
    (folder / "page_of_python.py").write_text(f"given = []\n{lines}")
    monkeypatch.syspath_prepend(folder)
    threads = torch.get_num_threads()
    given = importlib.import_module("page_of_python").given
    torch.set_num_threads(threads)
    assert given == [match[3] for match in told.finditer(code)]
    assert len(given) == PAGE.count("  # = ") > 20
    assert (folder / "learning_curve.pdf").read_bytes().startswith(b"%PDF")
