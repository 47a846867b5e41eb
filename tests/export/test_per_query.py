"""Values by query: their means are those of the offline evaluation, each is what its definition says."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli.export.per_query import MEASURES, expected_reciprocal_rank, per_query, reciprocal_rank
from ol2r_cli.export.ranked import Ranked
from ol2r_cli.learned import Learned
from tests.export.finished import ROUNDS, SEEDS, read
from tests.reference.metrics import ndcg

NDCG = ("ndcg_1", "ndcg_3", "ndcg_5", "ndcg_10")


def table(run: Path, split: str = "test") -> pl.DataFrame:
    with torch.inference_mode():
        return per_query(Ranked(run, split))


@pytest.mark.parametrize("split", ["test", "validation"])
@pytest.mark.parametrize("name", ["linear", "skip", "ties", "network"])
def test_the_means_are_those_of_the_last_evaluation(runs, name: str, split: str):
    found = table(runs[name], split).group_by("seed").agg(pl.col(NDCG).mean()).sort("seed")
    evaluated = pl.read_parquet(runs[name] / "evaluation.parquet").filter(split=split, round=ROUNDS).sort("seed")
    assert found["seed"].to_list() == list(SEEDS)
    for column in NDCG:
        assert found[column].to_list() == pytest.approx(evaluated[column].to_list(), abs=1e-6)
    assert found["ndcg_10"].n_unique() == len(SEEDS), "seeds that cannot be told apart prove nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_each_value_is_that_of_the_order_by_score(runs, seed: int):
    file = runs["data"] / "test.txt"
    with torch.inference_mode():
        scores = iter(Learned(runs["linear"]).scores(file, seed).tolist())
    rows = {row["query_id"]: row for row in table(runs["linear"]).filter(seed=seed).to_dicts()}
    for place, (query, documents) in enumerate(read(file).items()):
        grades = [grade for grade, _ in documents]
        own = [next(scores) for _ in documents]
        order = sorted(range(len(own)), key=lambda i: -own[i])
        row = rows[query]
        assert (row["query"], row["documents"], row["relevant"]) == (place, len(own), sum(map(bool, grades)))
        for cutoff in (1, 3, 5, 10):
            assert row[f"ndcg_{cutoff}"] == pytest.approx(ndcg(order, grades, cutoff))
        first = next((rank for rank, i in enumerate(order, 1) if grades[i]), None)
        assert row["reciprocal_rank"] == pytest.approx(1 / first if first else 0)
        left, err = 1.0, 0.0
        for rank, i in enumerate(order[:10], 1):
            satisfied = (2 ** grades[i] - 1) / 4  # grades 0, 1, 2
            err, left = err + left * satisfied / rank, left * (1 - satisfied)
        assert row["err_10"] == pytest.approx(err)


def test_by_hand():
    label = torch.tensor([[0, 2, 1], [0, 0, 0]])
    assert reciprocal_rank(label).tolist() == [1 / 2, 0]
    # satisfied by grade 1 with 1/4, by grade 2 with 3/4: 1/2 * 3/4 + 1/3 * (1 - 3/4) * 1/4
    assert expected_reciprocal_rank(label, 3).tolist() == pytest.approx([3 / 8 + 1 / 48, 0])


def test_queries_with_nothing_relevant_are_left_out_where_the_run_leaves_them_out(runs):
    nothing = pl.col("relevant") == 0
    zero, skip = table(runs["linear"]).filter(nothing), table(runs["skip"]).filter(nothing)
    assert len(zero) == len(skip) > 0
    for column in MEASURES:
        assert zero[column].to_list() == [0] * len(zero)
        assert skip[column].null_count() == len(skip)


def test_rows_say_whose_they_are(runs):
    found = table(runs["network"], "validation")
    one = found.row(0, named=True)
    assert one["run"] == runs["network"].name[-10:]
    assert (one["dataset"], one["click"], one["ranker"], one["fold"]) == ("letor", "perfect", "sgd_ranknet", 1)
    assert one["split"] == "validation"
    assert found.rows_by_key(["seed", "query"]).keys() == {(seed, query) for seed in SEEDS for query in range(6)}
