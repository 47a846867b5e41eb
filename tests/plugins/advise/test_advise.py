"""`ol2r advise`: a forecast from a log to its lines, and logs of which nothing can be forecast."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.run.run import find_runs
from tests.finished import printed, refused
from tests.plugins.advise.logs import pages, shop, write

FEW = ["--pages", "1000", "--worlds", "16", "launcher.jobs=1"]


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    """The folder of a forecast, and its JSON."""
    folder = tmp_path_factory.mktemp("advise")
    write(folder / "log.csv", *pages(shop(), 6000))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.main(["advise", "log.csv", *FEW, "--out", "page.html", "output_dir=forecasts"]) == 0
    return folder


@pytest.fixture
def in_folder(advised, monkeypatch):
    monkeypatch.chdir(advised)
    return advised


AGAIN = "advise", "log.csv", *FEW, "output_dir=forecasts"


def test_the_forecast_is_about_the_shop(in_folder, capsys):
    """Of expected clicks the truth is known: of production, and of the order by attraction."""
    found = json.loads(printed(capsys, *AGAIN, "--json"))
    of = shop()
    best = of.clicks(np.argsort(-of.attraction, axis=1)) - of.clicks(of.production)
    assert found["clicks_a_page"]["mean"] == pytest.approx(of.clicks(of.production), rel=0.05)
    assert found["ceiling"]["low"] < best < found["ceiling"]["high"]
    assert found["gain"]["1000"]["low"] < found["gain"]["1000"]["mean"] < found["gain"]["1000"]["high"]
    assert found["verdict"] in ("gain", "loss", "undecided")
    assert found["share_of_pages"] == 1
    assert found["learner"] == "pbm_thompson"
    assert len(found["assumptions"]) >= 3


def test_the_same_command_finds_its_runs(in_folder, capsys):
    """Every world is a run, and none is played twice."""
    times = {run: (run / "trace.parquet").stat().st_mtime_ns for run in find_runs("forecasts")}
    assert len(times) == 16
    out = printed(capsys, *AGAIN)
    assert {run: (run / "trace.parquet").stat().st_mtime_ns for run in find_runs("forecasts")} == times
    told, forecast, assumed = (part.splitlines() for part in out.split("\n\n"))
    assert told[0] == "users fitted to the first 80% of the pages click as the log on the last ones"
    assert told[1].startswith("verdict for 1,000 pages: ")
    assert [re.split(r"  +", line)[0] for line in forecast] == [
        *("learner", "clicks a page now", "gain, first 1,000 pages", "gain of the order by attraction", "worst moment"),
        *("break-even", "pages of an A/B test, both halves", "pages of interleaving", "pages of the log that count"),
    ]
    assert forecast[0].split(maxsplit=1)[1].startswith("pbm_thompson: Thompson sampling in the position-based model")
    assert {line.partition(":")[0] for line in assumed} <= {"assumed", "next"}


def test_reports_of_all_runs_leave_worlds_out(in_folder, capsys):
    assert cli.main(["report", "forecasts"]) != 0
    assert "16 runs" in capsys.readouterr().err
    (folder,) = in_folder.glob("forecasts/advise/*")
    assert "16 runs" in printed(capsys, "report", folder)


@pytest.mark.parametrize(
    "ranker", [["ranker=pairrank"], ["ranker=pdgd", "ranker/model=mlp"]], ids=["linear", "network"]
)
def test_other_rankers_are_played(in_folder, capsys, ranker):
    found = json.loads(printed(capsys, *AGAIN[:-1], "output_dir=others", "--json", *ranker))
    assert found["learner"] == ranker[0].partition("=")[2]
    assert -1 < found["last"]["mean"] < 1


def test_a_page_has_both_figures(advised):
    text = (advised / "page.html").read_text()
    assert text.count("<svg") == 2
    assert "gain, first 1,000 pages" in text
    assert "http" not in re.sub(r"http://www.w3.org/\S+", "", text)


def log_without(kind):
    """Pages of which nothing can be forecast."""
    of = shop()
    query, order, clicks = pages(of, 3000, swap=0.0 if kind == "changes" else 1.0)
    if kind == "clicks":
        clicks = clicks & (np.arange(len(clicks)) < 60)[:, None]
    if kind == "queries":
        order, clicks, query = order[query == 0], clicks[query == 0], query[query == 0]
    if kind == "users":  # who change: the last pages have other clicks than the first
        clicks[2400:] = clicks[2400:, ::-1]
    if kind == "one rank":
        order, clicks = order[:, :1], clicks[:, :1]
    if kind == "order":
        order = np.random.default_rng(1).permuted(order, axis=1)
    if kind == "rows":
        query, order, clicks = query[:2], order[:2], clicks[:2] | True
    return query, order, clicks


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("changes", "no clicked document was shown both at rank 1 and"),
        ("clicks", "of which a forecast needs 100"),
        ("queries", "all pages are of one query"),
        ("order", "documents have no order: "),
        ("one rank", "all documents are at one rank, and a forecast needs pages of two documents or more"),
        ("rows", "of which a forecast needs 100"),
        ("users", "users fitted to the first 80% of the pages do other than the log on the last ones: "),
    ],
)
def test_there_is_no_forecast(kind, reason, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log.csv", *log_without(kind))
    out = printed(capsys, "advise", "log.csv", code=3)
    assert out.startswith("no forecast:\n")
    assert reason in out
    assert json.loads(printed(capsys, "advise", "log.csv", "--json", code=3))["verdict"] == "none"
    assert not (tmp_path / "outputs").exists()


def test_counts_have_a_forecast_without_a_check(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pl.read_csv(write(tmp_path / "pages.csv", *pages(shop(), 6000)))
    counts = table.group_by("query", "document", "place").agg(impressions=pl.len(), clicks=pl.col("click").sum())
    counts.write_csv("log.csv")
    told = "assumed: the log has counts, so that users were not checked on pages"
    assert told in printed(capsys, "advise", "log.csv", *FEW)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset=letor"], "one LOG is needed: type ol2r advise log.csv"),
        (["a.csv", "b.csv"], "one LOG is needed: type ol2r advise log.csv, got a.csv b.csv"),
        (["none.csv", "pages=20000"], "pages is an option: type --pages 20000"),
        (
            ["none.csv", "rounds=500"],
            "rounds is set by the forecast itself, got rounds=500: leave it out: type --pages",
        ),
        (["none.csv", "positions=3"], "positions is set by the forecast itself, got positions=3: leave it out"),
        (["none.csv", "ronds=3"], "there is no setting or group 'ronds': did you mean rounds?"),
        (["none.csv", "ranker=toprank"], "order them after its run, not ranker=toprank: leave it out, or type ranker="),
        (["none.csv", "ranker=random"], "not ranker=random"),
        (["none.csv", "ranker=oracle"], "not ranker=oracle"),
        (["none.csv", "ranker=pdgd", "ranker.decat=3"], "ranker=pdgd has no setting 'decat': did you mean"),
        (["log.csv", "--pages", "10"], "--pages must be 1000 or more, got 10"),
        (["log.csv", "--worlds", "3"], "--worlds must be 16 or more, got 3"),
        (["log.csv", "--ads", "x*"], "--ads must be a pattern of names in the log, such as q"),
        (["log.csv", "--out", "page.pdf"], "--out must be a file that ends in .html, got page.pdf"),
    ],
)
def test_a_bad_command_is_refused(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log.csv", *pages(shop(), 50))
    assert message in refused(capsys, "advise", *words)
