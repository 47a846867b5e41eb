"""NDCG, reciprocal rank, ERR and the measures of the run by seed and query; their means are the offline evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ol2r_cli.export.ranked_split import RankedSplit
from ol2r_cli.interfaces import RankedLists
from ol2r_cli.metrics.evaluation import Lists
from ol2r_cli.metrics.ranking import reciprocal_rank
from ol2r_cli.tensor.shapes import Float

if TYPE_CHECKING:
    import polars as pl


def per_query(ranked: RankedSplit) -> pl.DataFrame:
    """Return one row for each seed and query of the split, in this order; docs/export.md describes the columns.

    In a run with no_relevant=skip the measures of a query without a relevant document are null, so that means leave it
    out as the offline evaluation does.
    """
    import polars as pl

    frames = []
    for lists in ranked.lists():
        query, relevant = lists.query, (lists.label[0] > 0).sum(1)
        left_out = ranked.skips & (relevant == 0)
        columns: dict[str, Any] = {
            "seed": torch.tensor(ranked.seeds).repeat_interleave(len(query)).numpy(),
            "query": query.repeat(len(ranked.seeds)).numpy(),
            "query_id": [ranked.query_ids[number] for number in query.tolist()] * len(ranked.seeds),
            "documents": lists.length.repeat(len(ranked.seeds)).int().numpy(),
            "relevant": relevant.repeat(len(ranked.seeds)).int().numpy(),
        }
        for name, values in _measures(ranked, lists).items():
            columns[name] = values.masked_fill(left_out, torch.nan).flatten().numpy()
        frames.append(pl.DataFrame(columns, nan_to_null=True))
    table = pl.concat(frames).sort("seed", "query")
    return table.select(**_run_columns(ranked), **{name: pl.col(name) for name in table.columns})


def _run_columns(ranked: RankedSplit) -> dict[str, pl.Expr]:
    import polars as pl

    choices, fold = ranked.manifest["choices"], ranked.settings["dataset"].get("fold")
    texts = {"run": ranked.manifest["id"], **{group: choices[group] for group in ("dataset", "click", "ranker")}}
    columns = {name: pl.lit(str(value)) for name, value in texts.items()}
    return columns | {"fold": pl.lit(fold, dtype=pl.Int64), "split": pl.lit(ranked.split)}


def _measures(ranked: RankedSplit, lists: Lists) -> dict[str, Float[Tensor, "B Q"]]:
    """Return the columns of the offline evaluation, with the reciprocal rank behind NDCG."""
    best = lists.label.sort(-1, descending=True).values
    values: dict[str, Tensor] = {}
    for name, measure in ranked.measures.items():
        first = RankedLists(lists.label[..., : measure.places], best[..., : measure.places], ranked.dataset.grades)
        values |= measure.of_lists(first)
        if name == "ndcg":
            values["reciprocal_rank"] = reciprocal_rank(lists.label)
    return values
