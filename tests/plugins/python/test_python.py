"""ol2r from Python: the same runs, the same errors, and a page whose lines give what it says."""

from __future__ import annotations

import ast
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

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


def test_importing_it_imports_nothing_heavy():
    heavy = ("torch", "polars", "hydra", "omegaconf", "numpy", "matplotlib", "rich")
    script = f"import sys, ol2r_cli.api; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
KEYS = st.from_regex("[a-z][a-z_0-9]*", fullmatch=True).filter(lambda key: key not in ("true", "null", "nan", "inf"))
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=6)


@given(VALUES)
@example(["a\\", "\\'", "it's", "\\\\", "", "null", "True", "1e3", "7", "${x}", "a,b", " a", "{", "x y\\\\"])
def test_a_value_arrives_as_it_is(value):
    """Hydra's own parser reads back what is written for it."""
    (word,) = words({"a.b": value})
    parsed = OverridesParser.create().parse_override(word)
    assert parsed.key_or_group == "a.b"
    found = parsed.value()
    assert found == value
    assert type(found) is type(value)


def test_settings_of_all_kinds_and_orders():
    listed = words("ranker=pdgd", {"ranker.l2": 0.1, "a": Path("/x y")}, ["seed=1", {"b": (1, 2)}], c=True, d=None)
    assert listed == ["ranker=pdgd", "ranker.l2=0.1", "a='/x y'", "seed=1", "b=[1,2]", "c=true", "d=null"]
    listed = words(a=np.int64(3), b=np.float32(0.5), c=np.arange(2), d=range(2), e=torch.tensor([1.5]))
    assert listed == ["a=3", "b=0.5", "c=[0,1]", "d=[0,1]", "e=[1.5]"]
    for bad in "pairrank", "--multirun", "-m", 3, {"a": object()}, {"a": b"x"}:
        with pytest.raises(ValueError, match=r"must be .*, got "):
            words(bad)


def test_it_does_the_run_of_the_command_line_and_finds_it(folder, capsys):
    assert cli.main(["run", *TYPED, "rounds=20", "click=nav", "output_dir=typed"]) == 0
    (typed,) = find_runs(folder / "typed")
    capsys.readouterr()
    run = ol2r.run(TINY, click="nav", rounds=20)
    assert capsys.readouterr() == ("", "")
    assert run.path == Path("outputs") / typed.relative_to(folder / "typed")
    for name in "trace.parquet", "evaluation.parquet", "ranker.pt", "summary.json":
        assert (run.path / name).read_bytes() == (typed / name).read_bytes()
    sizes = f"'{words(TINY)[0]}' {' '.join(words(TINY)[1:])}"
    assert run.manifest["command"] == f"ol2r run {sizes} click=navigational rounds=20", "the whole name of nav"
    assert run.manifest["typed"] == [word.partition("=")[0] for word in words(TINY)] + ["click", "rounds"]
    before = (run.path / "run.json").stat().st_mtime_ns
    assert ol2r.run(TYPED, "rounds=20", click="navigational").path == run.path
    assert ol2r.Run(run.id).path.resolve() == run.path.resolve()
    assert (run.path / "run.json").stat().st_mtime_ns == before
    assert ol2r.run(TYPED, rounds=20, click="nav", force=True).manifest["sittings"] == 1
    assert (run.path / "run.json").stat().st_mtime_ns > before


def test_what_a_run_has_found(folder, capsys):
    run = ol2r.run(TINY, rounds=20, replicas=2, block_rounds=[5], save_interactions=True, progress=True)
    assert "test NDCG@10" in capsys.readouterr().out, "with progress it ends with the summary"
    assert run.trace.equals(pl.read_parquet(run.path / "trace.parquet"))
    assert run.evaluation.equals(pl.read_parquet(run.path / "evaluation.parquet"))
    assert run.blocks["round"].unique().to_list() == [5]
    assert run.interactions["round"].max() == 20
    assert (run.seeds, run.rounds, run.choices["ranker"]) == ([0, 1], 20, "pairrank")
    assert run.settings["dataset"]["documents"] == 8
    file = json.loads((run.path / "summary.json").read_bytes())
    assert run.summary == file["metrics"]
    assert {name: run.summary[name] for name in file} == file, "its names are found here too"
    with pytest.raises(KeyError, match="test_ndcg_100"):
        run.summary["test_ndcg_100"]
    assert run.summary["clicks"]["mean"] == run.per_seed["clicks"].mean() == run.trace["clicks"].sum() / 2
    assert repr(run) == (
        f"<Run {run.id}: ranker=pairrank, click=informational, dataset=synthetic, 20 rounds, 2 seeds, in {run.path}>"
    )
    file = folder / "some.txt"
    file.write_text("".join(f"{n % 2} qid:1 1:{n} 2:1 3:0 4:.5 5:2\n" for n in range(3)))
    assert cli.main(["score", str(run.path), "some.txt", "--seed", "1", "--output", "scores.txt"]) == 0
    assert [f"{score:.6f}" for score in run.score("some.txt", seed=1)] == [
        f"{float(line):.6f}" for line in Path("scores.txt").read_text().splitlines()
    ]
    assert run.score("some.txt").to_list() != run.score("some.txt", seed=1).to_list()
    assert run.plot("online_ndcg")._repr_png_().startswith(b"\x89PNG")


def test_wrong_settings_are_a_line_and_nothing_is_written(folder):
    """Settings that are wrong are a line, and nothing is written."""
    for given_, told in [
        ("ranker=pairrnk", "did you mean ranker=pairrank"),
        ("ranker.l2=-1", "ranker.l2 must be above 0, got -1"),
        ("round=3", "did you mean rounds"),
        (["ranker=pdgd", "exploration=none"], "use exploration=plackett_luce"),
        ("experiment=grid_fairexp", "is a grid, several runs"),
    ]:
        with pytest.raises(ValueError, match=re.escape(told)) as error:
            ol2r.run(given_, TINY)
        assert "\n" not in str(error.value)
    assert not (folder / "outputs").exists()


def test_a_run_that_fails_and_one_that_is_interrupted(folder, monkeypatch):
    def fail():
        raise ZeroDivisionError("no such luck")

    with monkeypatch.context() as patch:
        at_round(patch, 15, fail)
        told = r"no such luck \(.*test_python.py:\d+, in .*\) \(the traceback is in "
        with pytest.raises(ol2r.RunFailed, match=told) as failed:
            ol2r.run(TINY, rounds=20, checkpoint_rounds=10, evaluate_every=5)
    (path,) = failed.value.paths
    assert "in fail" in (path / "log.txt").read_text()
    with pytest.raises(ValueError, match=r"RUN must be a finished run, got .*: type ol2r run"):
        ol2r.Run(path)
    with monkeypatch.context() as patch:
        at_round(patch, 15, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            ol2r.run(TINY, rounds=20, evaluate_every=5)
    assert (Run.read(path).state, Run.read(path).round) == ("interrupted", 15)
    assert ol2r.run(TINY, rounds=20, evaluate_every=5).manifest["sittings"] == 3


def test_it_leaves_the_threads_of_the_caller_alone():
    """It leaves the threads of the caller alone, and runs in any of them."""
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


def test_a_sweep_gives_its_runs_and_names_those_that_failed(monkeypatch):
    with pytest.raises(ValueError, match=r"ranker\.l2 must be above 0"):
        ol2r.sweep([{"ranker.l2": 0.1}, {"ranker.l2": -1}], **FEW)
    assert not Path("outputs").exists()
    with pytest.warns(UserWarning, match="ranker.l2 must be above 0"):
        runs = ol2r.sweep([{"ranker.l2": 0.1}, {"ranker.l2": -1}], **FEW, keep_going=True)
    assert [run.settings["ranker"]["l2"] for run in runs] == [0.1]
    again = ol2r.sweep(({"ranker.l2": l2} for l2 in (0.1, 0.2, 0.1)), **FEW, launcher={"launcher.jobs": 1})
    assert [run.settings["ranker"]["l2"] for run in again] == [0.1, 0.2, 0.1], "a run for each job"
    assert again[0].manifest == runs[0].manifest
    again[1].path.joinpath("run.json").unlink()
    again[1].path.joinpath("trace.parquet").unlink()
    again[1].path.joinpath("trace.parquet").mkdir()  # which cannot be replaced by a file
    with pytest.raises(ol2r.RunFailed, match=r"1 of 2 runs failed:\nranker.l2=0.2: ") as failed:
        ol2r.sweep([{"ranker.l2": 0.1}, {"ranker.l2": 0.2}], **FEW)
    assert [path.resolve() for path in failed.value.paths] == [again[1].path.resolve()]
    frame = ol2r.load()
    assert frame["run"].to_list() == [runs[0].id]
    assert ol2r.load(runs[0], table="trace").height == 20
    Path("nowhere").mkdir()
    with pytest.raises(ValueError, match="no finished runs below nowhere"):
        ol2r.draw("learning_curve", "nowhere")


FEW = {"rounds": 20, "dataset": "synthetic"}


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def statements(code: str):
    """Every statement, those of a `try` one by one, and what the page says that it gives."""
    lines = code.splitlines()
    for node in ast.parse(code).body:
        told = lines[node.end_lineno - 1].partition("  # = ")[2] if isinstance(node, ast.Expr) else ""
        if isinstance(node, ast.Try):  # an expression in it is asserted in its place
            source = re.sub(
                r"^( +)(.*)  # = (.*)$", r"\1assert repr(\2) == repr(\3)", ast_lines(lines, node), flags=re.M
            )
            yield source + "\nelse:\n    assert False, 'nothing was raised'", ""
        else:
            yield ast_lines(lines, node), told


def ast_lines(lines: list[str], node: ast.stmt) -> str:
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


def test_the_lines_of_the_page_give_what_it_says(folder, monkeypatch):
    page = types.ModuleType("page")  # a class of it is imported from here, and its text is found as that of a cell
    monkeypatch.setitem(sys.modules, "page", page)
    monkeypatch.setattr(linecache, "cache", dict(linecache.cache))
    namespace = vars(page)
    told_ = 0
    threads = torch.get_num_threads()
    for code in blocks():
        for source, told in statements(code):
            if told:
                assert repr(eval(source, namespace)) == told, source
                told_ += 1
            else:
                name = f"<page {len(linecache.cache)}>"
                linecache.cache[name] = (len(source), None, source.splitlines(True), name)
                exec(compile(source, name, "exec"), namespace)
    assert told_ == PAGE.count("  # = ") - 1, "the page has one in a try"
    assert (folder / "learning_curve.pdf").read_bytes().startswith(b"%PDF")
    torch.set_num_threads(threads)
