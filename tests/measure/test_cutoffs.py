"""Runs that measure NDCG at another cutoff than 10: every table, command and figure follows."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.columns import main_cutoff
from ol2r_cli.run.run import Run, find_runs
from tests.finished import printed, refused
from tests.manifests import accept_changes
from tests.worlds import TINY

WORDS = [*TINY, "rounds=60", "evaluate_every=20", "replicas=2", "save_interactions=true", "positions=8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two runs with NDCG@20, which is more than the shown places and the documents of a query."""
    folder = tmp_path_factory.mktemp("cutoffs")
    for l2 in (0.1, 10):
        assert cli.main(["run", *WORDS, "measures=[ndcg@20]", f"ranker.l2={l2}", f"output_dir={folder}"]) == 0
    return folder


def test_the_cutoff_that_stands_for_a_run_is_10_or_the_largest():
    assert main_cutoff(["ndcg@5", "ndcg"]) == main_cutoff(["online_ndcg", "ndcg_20"]) == 10
    assert main_cutoff(["online_ndcg_20_last_tenth", "test_ndcg_20", "validation_ndcg_5"]) == 20
    assert main_cutoff(["err_5", "my_ndcg_30"]) == 10


def test_the_tables_and_the_summary_of_a_run(folder):
    for run in find_runs(folder):
        trace, evaluation = (pl.read_parquet(run / f"{name}.parquet") for name in ("trace", "evaluation"))
        assert not {"online_ndcg_20", "cumulative_ndcg_20"} - {*trace.columns}
        assert trace["online_ndcg"].null_count() == len(trace), "NDCG@10 is not measured"
        summary, last = Run.read_finished(run).summary, evaluation.filter(round=60, split="test")["ndcg_20"].mean()
        assert summary["test_ndcg_20"]["mean"] == pytest.approx(last)
        assert summary["test_ndcg_20_best"]["n"] == 2
        assert "test NDCG@20" in (run / "log.txt").read_text()


def test_what_is_printed_reported_and_verified(folder, tmp_path, capsys):
    first = next(find_runs(folder))
    lines = printed(capsys, "run", *WORDS, "measures=[ndcg@20]", "ranker.l2=0.1", f"output_dir={folder}").splitlines()
    names = [line[2:20].rstrip() for line in lines[2:5]]
    assert names == ["test NDCG@20", "online NDCG@20", "cumulative NDCG@20"]
    assert "at the best round by validation" in lines[2]
    headings = printed(capsys, "report", folder).splitlines()[0]
    shown = [" test NDCG@20 ", " validation NDCG@20 ", " cumulative NDCG@20 ", " online NDCG@20 "]
    places = [headings.index(name) for name in shown]
    assert places == sorted(places)
    assert headings.count("NDCG") == len(shown)
    assert "chosen from" in printed(capsys, "report", folder, "--select", "validation")
    assert printed(capsys, "verify", folder) == "2 finished runs: 2 intact, 0 not\n"
    copy = Path(shutil.copytree(first, tmp_path / first.name))
    halved = pl.read_parquet(copy / "trace.parquet").with_columns(pl.col("online_ndcg_20") / 2)
    halved.write_parquet(copy / "trace.parquet")
    accept_changes(copy)
    told = printed(capsys, "verify", copy, code=1)
    assert "cumulative_ndcg_20 is not the discounted sum of online_ndcg_20" in told


@pytest.mark.parametrize(
    ("measure", "metric", "needed"), [("ndcg@20", "validation_ndcg_7", 7), ("ndcg", "online_ndcg_5", 5)]
)
def test_a_search_needs_the_measure_of_its_metric(tmp_path, capsys, measure, metric, needed):
    pytest.importorskip("optuna")
    words = [*TINY, "ranker.l2=1,10", f"measures=[{measure}]", "--metric", metric, f"output_dir={tmp_path}"]
    assert refused(capsys, "search", *words).startswith(f"measures must have ndcg@{needed} for --metric {metric}")


def test_figures_and_the_page_show_this_cutoff(folder, capsys):
    drawn, kinds = folder / "figures", ["learning_curve", "online_ndcg", "cumulative_ndcg", "bar"]
    assert cli.main(["report", str(folder), "--figure", *kinds, "--out", str(drawn), "--format", "svg"]) == 0
    for kind in kinds:
        assert "NDCG@20" in (drawn / f"{kind}.svg").read_text(), kind
    assert cli.main(["report", str(folder), "--out", str(drawn / "report.html")]) == 0
    text = (drawn / "report.html").read_text()
    assert text.count('id="learning_curve-title"') == 1
    assert "measure-ndcg_20" not in text
    words = ["--figure", "learning_curve", "--option", "cutoff=10", "--out", folder / "no.svg"]
    assert "cutoff must be one of 20, got 10" in refused(capsys, "report", folder, *words)
