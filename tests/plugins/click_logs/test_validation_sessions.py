"""Sessions after the last round: who is asked, what is counted, and where there can be none."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import polars as pl
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.config.instantiate import build
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.plugins.click_logs import validation_sessions
from ol2r_cli.plugins.click_logs.validation_sessions import played_sessions
from ol2r_cli.run.recomputed import dataset_settings, dataset_source
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.simulation import Simulation
from tests.worlds import TINY, simulate, tiny

SESSIONS = 60
WORDS = [*TINY, "device=cpu", "rounds=30", "positions=4", f"validation_sessions={SESSIONS}", "checkpoint_every=0"]


def played(folder, *words, code=0):
    """The only run below a folder, after a command."""
    assert cli.main(["run", *WORDS, *words, f"output_dir={folder}"]) == code
    (path,) = find_runs(folder)
    run = Run.read(path)
    assert run is not None
    return run


def test_every_document_that_is_shown_is_counted(tmp_path):
    """A document is shown once in each session of its query, below the clicks above it, at most at `positions`."""
    counts = played(tmp_path, "replicas=2").validation_clicks
    queries = counts.filter(rank=1).group_by("seed", "query").agg(pl.col("shown").sum(), pl.col("document").n_unique())
    assert queries.group_by("seed").agg(pl.col("shown").sum()).sort("seed").rows() == [(0, SESSIONS), (1, SESSIONS)]
    assert set(queries["document"]) == {1}, "the trained ranker has one list for a query"
    by_rank = counts.group_by("seed", "query", "rank").agg(pl.col("shown").sum(), pl.col("document").n_unique())
    assert (by_rank["rank"].max(), set(by_rank["document"])) == (4, {1})
    assert len(by_rank.select("seed", "query", "shown").unique()) == len(queries), "all ranks are shown alike"
    assert (counts["last_click"] < counts["rank"]).all()
    assert counts["clicked"].sum() > 0


def test_perfect_users_click_what_is_relevant(tmp_path):
    """Users of the run judge the documents of their own query."""
    words = "click=perfect", "click.click=[0,1,1,1,1]", "click.stop=[0,0,0,0,0]"
    run = played(tmp_path, *words)
    dataset, counts = dataset_source(dataset_settings(run)).load(), run.validation_clicks
    document, offsets = counts["document"].to_numpy(), dataset.offsets.numpy()
    query = dataset.splits["validation"].numpy()[counts["query"].to_numpy()]
    assert ((offsets[query] <= document) & (document < offsets[query + 1])).all()
    is_relevant = dataset.labels.numpy()[document] > 0
    assert (counts["clicked"].to_numpy() == counts["shown"].to_numpy() * is_relevant).all()
    assert 0 < is_relevant.sum() < len(counts)


def test_users_judge_by_the_attractions_of_a_dataset():
    """Each click is on a document that attracts, whatever its grade: users look at all, and attraction is 0 or 1."""
    config = tiny("click=position_based", "click.eta=0", "positions=4")
    dataset = build(config.dataset).load()
    attraction = (torch.arange(len(dataset.labels)) % 2).double()
    dataset = replace(dataset, attraction=attraction)
    simulation = simulate(config, [0, 1], 1, dataset)
    ranking = Evaluator(dataset, "validation", torch.tensor([0, 1]), "zero", torch.float64, {})
    with torch.inference_mode():
        counts = played_sessions(simulation, ranking, simulation.ranker.deploy(), SESSIONS)
    attracts = attraction.numpy()[counts["document"].to_numpy()] == 1
    assert 0 < attracts.sum() < len(counts)
    assert (counts["clicked"].to_numpy() == counts["shown"].to_numpy() * attracts).all()


def test_sessions_do_not_depend_on_other_replicas(tmp_path):
    """A seed has the same sessions alone and as a replica, in loops and in single rounds, and nothing learns."""
    together = played(tmp_path / "together", "replicas=3")
    alone = played(tmp_path / "alone", "seed=1")
    single = played(tmp_path / "single", "replicas=3", "save_interactions=true")
    assert together.validation_clicks.filter(seed=1).equals(alone.validation_clicks)
    assert together.validation_clicks.equals(single.validation_clicks)
    without = played(tmp_path / "without", "replicas=3", "validation_sessions=0")
    assert without.summary_file == together.summary_file
    assert (without.path / "ranker.pt").read_bytes() == (together.path / "ranker.pt").read_bytes()
    assert without.id != together.id
    assert not len(without.validation_clicks)
    assert not (without.path / "validation_clicks.parquet").exists()


def test_a_seed_meets_the_same_queries_under_every_ranker(tmp_path):
    asked = []
    for ranker in ("pairrank", "pdgd"):
        counts = played(tmp_path / ranker, f"ranker={ranker}").validation_clicks
        asked.append(counts.filter(rank=1).select("query", "shown"))
    assert asked[0].equals(asked[1])


def test_counts_do_not_depend_on_how_many_are_at_once(tmp_path, monkeypatch):
    whole = played(tmp_path / "whole").validation_clicks
    monkeypatch.setattr(validation_sessions, "_AT_ONCE", 28)
    assert played(tmp_path / "parts").validation_clicks.equals(whole)


def test_a_run_is_stopped_between_sessions_and_goes_on(tmp_path, monkeypatch, capsys):
    """A signal in a session stops the run after its rounds, of which the same command plays none again, and it ends
    with the same counts."""
    whole = played(tmp_path / "whole").validation_clicks
    session = validation_sessions._session

    def stopped(simulation, lists, number):
        if number == 7:
            os.kill(os.getpid(), signal.SIGINT)
        assert number < 9, "it stops at once"
        return session(simulation, lists, number)

    with monkeypatch.context() as patch:
        patch.setattr(validation_sessions, "_session", stopped)
        run = played(tmp_path / "run", code=130)
    assert (run.state, run.round) == ("interrupted", 30)
    assert not (run.path / "validation_clicks.parquet").exists()
    monkeypatch.setattr(Simulation, "advance", None)
    run = played(tmp_path / "run")
    assert (run.state, run.validation_clicks.equals(whole)) == ("finished", True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dataset.queries.validation=0"], "validation_sessions=60 needs validation queries, and synthetic has none"),
        (["ranker=toprank"], "validation_sessions=60 needs a ranker for new queries, not ranker=toprank"),
        (
            ["dataset.intents={number: 2, overlap: 0}", "intent=smooth"],
            "validation_sessions=60 needs users whose intent stays: type intent=none or validation_sessions=0",
        ),
    ],
)
def test_where_there_can_be_no_sessions_one_line_says_so(tmp_path, capsys, words, expected):
    assert cli.main(["run", *WORDS, *words, f"output_dir={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ol2r run: {expected}")
    assert list(find_runs(tmp_path)) == []
