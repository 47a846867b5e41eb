"""Attraction of each document of a log with its interval, as a table.

The clicks of a document at rank k are those of n_k impressions, each with probability a theta_k, where examination
theta is given. Its interval has the attractions a whose log-likelihood is within 1.92 of the largest one, half of the
95 % point of chi-squared with one degree of freedom (Wilks, "The large-sample distribution of the likelihood ratio for
testing composite hypotheses", The Annals of Mathematical Statistics 1938). Unlike that of a Beta distribution of clicks
and examined impressions it knows that an impression without a click may not have been examined.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.plugins.click_logs.position_bias import BELOW_ONE, LEAST, different, pbm
from ol2r_cli.report.frames import as_csv
from ol2r_cli.tensor.shapes import Float, Int

BELOW_LARGEST = 1.9207  # of the log-likelihood at the ends of a 95 % interval
_HALVINGS = 50


def intervals(
    log: ClickLog, examination: Float[np.ndarray, "K"]
) -> tuple[Float[np.ndarray, "D"], Float[np.ndarray, "D"], Float[np.ndarray, "D"]]:
    """Return attraction of largest likelihood, and the lower and upper ends of its 95 % interval."""
    first, row, _ = different(log.impressions, log.clicks)
    shown, clicks = log.impressions[first], log.clicks[first]
    best = pbm(ClickLog(np.arange(len(first)), shown, clicks), examination)[1]

    def likelihood(attraction: Float[np.ndarray, "D"]) -> Float[np.ndarray, "D"]:
        chance = np.clip(attraction[:, None] * examination, LEAST, BELOW_ONE)
        return (clicks * np.log(chance) + (shown - clicks) * np.log1p(-chance)).sum(1)

    least = likelihood(best) - BELOW_LARGEST
    ends = []
    for outermost in 0.0, 1.0:
        inside, outside = best.copy(), np.full(len(best), outermost)
        reaches = likelihood(outside) >= least
        inside[reaches] = outermost
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            is_inside = likelihood(middle) >= least
            inside, outside = np.where(is_inside, middle, inside), np.where(is_inside, outside, middle)
        ends.append(inside)
    return best[row], ends[0][row], ends[1][row]


def documents_table(
    log: ClickLog, examination: Float[np.ndarray, "K"], grade: Int[np.ndarray, "D"] | None = None
) -> pl.DataFrame:
    """Return a row for each document of each query: attraction, the ends of its interval, clicks, impressions, and how
    many of these were examined in expectation; with `grade`, of which -1 is none, also its label."""
    attraction, low, high = intervals(log, examination)
    table = pl.DataFrame({
        "query": pl.Series(log.query_ids, dtype=pl.String).gather(log.query),
        "document": pl.Series(log.document_ids, dtype=pl.String),
        "attraction": attraction,
        "low": low,
        "high": high,
        "clicks": log.clicks.sum(1).astype(np.int64),
        "impressions": log.impressions.sum(1).astype(np.int64),
        "examined": log.impressions @ examination,
    })  # fmt: skip
    if grade is None:
        return table
    return table.with_columns(grade=grade).with_columns(pl.when(pl.col("grade") >= 0).then("grade").alias("grade"))


def write_documents(table: pl.DataFrame, out: Path) -> None:
    """Write a table to a .csv or .parquet file."""
    write_parquet(out, table) if out.suffix == ".parquet" else write_text(out, as_csv(table))
