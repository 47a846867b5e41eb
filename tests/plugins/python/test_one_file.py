"""`docs/one_file.py`, which is plain numpy, and `ol2r run` play the same rounds."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli import api
from ol2r_cli.tensor.streams import Streams

ROOT = Path(__file__).parents[3]
FOLD, ROUNDS, SEED = ROOT / "tests/data/tiny/Fold1", 300, 3
one_file = SimpleNamespace(**runpy.run_path(str(ROOT / "docs/one_file.py")))


@pytest.mark.parametrize("name", ["pdgd", "pairrank"])
def test_lists_clicks_and_measures_are_those_of_a_run(name, tmp_path):
    train, test = one_file.read(FOLD)
    ranker = {"pdgd": one_file.PDGD, "pairrank": one_file.PairRank}[name](train[0].features.shape[1])
    streams = Streams(torch.tensor([SEED]))
    rounds = list(one_file.play(train, ranker, ROUNDS, lambda *draw: streams.uniform(*draw)[0].numpy()))

    settings = [f"ranker={name}", f"dataset.path={FOLD}", f"rounds={ROUNDS}", f"seed={SEED}", f"output_dir={tmp_path}"]
    solver = ["ranker.solver=exact"] if name == "pairrank" else []
    run = api.run("dataset=letor", "save_interactions=true", *settings, *solver)
    first = np.cumsum([0, *(len(query.grades) for query in train)])
    table = pl.read_parquet(run.path / "interactions.parquet").sort("round", "rank")
    shown = (table["document"].to_numpy() - first[table["query"].to_numpy()]).tolist()
    assert shown == [document for round in rounds for document in round.shown]
    assert table["click"].to_list() == [click for round in rounds for click in round.clicks]
    trace = run.trace.sort("round")
    np.testing.assert_allclose(trace["online_ndcg"], [round.ndcg for round in rounds], rtol=0, atol=1e-7)  # float32
    cumulative = np.cumsum([0.9995**t * round.ndcg for t, round in enumerate(rounds)])
    np.testing.assert_allclose(trace["cumulative_ndcg"], cumulative, rtol=0, atol=1e-10)
    offline = np.mean([one_file.ndcg(q.grades[np.argsort(-(q.features @ ranker.theta))]) for q in test])
    last = run.evaluation.filter(pl.col("split") == "test").sort("round")["ndcg_10"][-1]
    np.testing.assert_allclose(last, offline, rtol=0, atol=1e-7)  # float32


def test_it_runs_as_a_script(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["one_file.py", str(FOLD), "pdgd", "20"])
    runpy.run_path(str(ROOT / "docs/one_file.py"), run_name="__main__")
    assert capsys.readouterr().out.startswith("cumulative NDCG ")
