"""What the ranker of every seed reaches on every query: the values whose means the offline evaluation has.

NDCG as in `metrics.ndcg`. Reciprocal rank: one over the place of the first document of grade 1 or more. Expected
reciprocal rank: Chapelle, Metlzer, Zhang and Grinspan, "Expected reciprocal rank for graded relevance" (CIKM 2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ol2r_cli.evaluation import CUTOFFS, Lists
from ol2r_cli.export.ranked import Ranked
from ol2r_cli.metrics.ndcg import discounts, gains, ideal_dcg, ndcg
from ol2r_cli.shapes import Float, Int

if TYPE_CHECKING:
    import polars as pl

ERR_CUTOFF = 10
MEASURES = (*(f"ndcg_{cutoff}" for cutoff in CUTOFFS), "reciprocal_rank", f"err_{ERR_CUTOFF}")


def per_query(ranked: Ranked) -> pl.DataFrame:
    """One row for each seed and query of the split, in this order.

    Under no_relevant=skip the measures of a query with nothing relevant are null, so that means leave it out, too.
    """
    import polars as pl

    frames = []
    for lists in ranked.lists():
        query, relevant = lists.query, (lists.label[0] > 0).sum(1)
        left_out = ranked.skip & (relevant == 0)
        columns: dict[str, Any] = {
            "seed": torch.tensor(ranked.seeds).repeat_interleave(len(query)).numpy(),
            "query": query.repeat(len(ranked.seeds)).numpy(),
            "query_id": [ranked.query_ids[number] for number in query.tolist()] * len(ranked.seeds),
            "documents": lists.length.repeat(len(ranked.seeds)).int().numpy(),
            "relevant": relevant.repeat(len(ranked.seeds)).int().numpy(),
        }
        for name, values in _measures(lists, ranked.dataset.grades).items():
            columns[name] = values.masked_fill(left_out, torch.nan).flatten().numpy()
        frames.append(pl.DataFrame(columns, nan_to_null=True))
    table = pl.concat(frames).sort("seed", "query")
    return table.select(**_of_the_run(ranked), **{name: pl.col(name) for name in table.columns})


def _of_the_run(ranked: Ranked) -> dict[str, pl.Expr]:
    """Columns that tell rows of one run from those of others."""
    import polars as pl

    choices, fold = ranked.manifest["choices"], ranked.settings["dataset"].get("fold")
    of = {"run": ranked.manifest["id"], **{part: choices[part] for part in ("dataset", "click", "ranker")}}
    texts = {name: pl.lit(str(value)) for name, value in of.items()}
    return texts | {"fold": pl.lit(fold, dtype=pl.Int64), "split": pl.lit(ranked.split)}


def _measures(lists: Lists, grades: int) -> dict[str, Float[Tensor, "B Q"]]:
    reached = (gains(lists.label) * discounts(lists.label.shape[-1])).cumsum(-1)
    values = {}
    for cutoff in CUTOFFS:
        dcg = reached[..., min(cutoff, reached.shape[-1]) - 1]
        values[f"ndcg_{cutoff}"] = ndcg(dcg, ideal_dcg(lists.label, cutoff))
    values["reciprocal_rank"] = reciprocal_rank(lists.label)
    values[f"err_{ERR_CUTOFF}"] = expected_reciprocal_rank(lists.label[..., :ERR_CUTOFF], grades)
    return values


def reciprocal_rank(label: Int[Tensor, "*L D"]) -> Float[Tensor, "*L"]:
    """1 / rank of the first document of grade 1 or more, the label of the top place first; 0 without one."""
    found = label > 0
    return torch.where(found.any(-1), 1 / (1 + found.int().argmax(-1)).double(), 0.0)


def expected_reciprocal_rank(label: Int[Tensor, "*L K"], grades: int) -> Float[Tensor, "*L"]:
    """sum over ranks r of 1/r P(satisfied at r); a document of grade g satisfies with (2^g - 1) / 2^(grades - 1)."""
    satisfies = gains(label) / 2 ** (grades - 1)
    goes_on = torch.cat([torch.ones_like(satisfies[..., :1]), (1 - satisfies).cumprod(-1)[..., :-1]], -1)
    rank = torch.arange(1, label.shape[-1] + 1, dtype=torch.float64)
    return (satisfies * goes_on / rank).sum(-1)
