"""Values by query: their means are the offline evaluation, and each follows its definition."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli.plugins.export.ranked_split import RankedSplit, per_query
from ol2r_cli.run.recomputed import TrainedRanker
from ol2r_cli.run.run import Run
from tests.finished import ROUNDS, SEEDS, read
from tests.reference.metrics import ndcg

NDCG = ("ndcg_1", "ndcg_3", "ndcg_5", "ndcg_10")


def table(run: Path, split: str = "test") -> pl.DataFrame:
    with torch.inference_mode():
        return per_query(RankedSplit(run, split))


@pytest.mark.parametrize("split", ["test", "validation"])
@pytest.mark.parametrize("name", ["linear", "skip", "ties", "network"])
def test_the_means_are_those_of_the_last_evaluation(runs, name, split):
    means = table(runs[name], split).group_by("seed").agg(pl.col(NDCG).mean()).sort("seed")
    evaluated = pl.read_parquet(runs[name] / "evaluation.parquet").filter(split=split, round=ROUNDS).sort("seed")
    assert means["seed"].to_list() == list(SEEDS)
    for column in NDCG:
        assert means[column].to_list() == pytest.approx(evaluated[column].to_list(), abs=1e-6)
    assert means["ndcg_10"].n_unique() == len(SEEDS), "seeds with equal values would prove nothing"


def test_each_value_follows_from_the_order_by_score(runs):
    seed = SEEDS[1]
    file = runs["data"] / "test.txt"
    with torch.inference_mode():
        ranker = TrainedRanker(Run.read_finished(runs["linear"]))
        scores = iter(ranker.scores(ranker.feature_source().of_file(file), ranker.replica(seed, "seed")).tolist())
    rows = {row["query_id"]: row for row in table(runs["linear"]).filter(seed=seed).to_dicts()}
    for place, (query, documents) in enumerate(read(file).items()):
        grades = [grade for grade, _ in documents]
        values = [next(scores) for _ in documents]
        order = sorted(range(len(values)), key=lambda i: -values[i])
        row = rows[query]
        assert (row["query"], row["documents"], row["relevant"]) == (place, len(values), sum(map(bool, grades)))
        for cutoff in (1, 3, 5, 10):
            assert row[f"ndcg_{cutoff}"] == pytest.approx(ndcg(order, grades, cutoff))
        first = next((rank for rank, i in enumerate(order, 1) if grades[i]), None)
        assert row["reciprocal_rank"] == pytest.approx(1 / first if first else 0)
        left, err = 1.0, 0.0
        for rank, i in enumerate(order[:10], 1):
            satisfied = (2 ** grades[i] - 1) / 4  # grades 0, 1, 2
            err, left = err + left * satisfied / rank, left * (1 - satisfied)
        assert row["err_10"] == pytest.approx(err)


def test_queries_that_the_run_skips_are_null(runs):
    """Those without a relevant document."""
    irrelevant = pl.col("relevant") == 0
    zero, skip = table(runs["linear"]).filter(irrelevant), table(runs["skip"]).filter(irrelevant)
    assert len(zero) == len(skip) > 0
    for column in (*NDCG, "reciprocal_rank", "err_10"):
        assert zero[column].to_list() == [0] * len(zero)
        assert skip[column].null_count() == len(skip)
