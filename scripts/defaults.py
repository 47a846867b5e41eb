"""The rule of docs/explanation/round.md, of these runs of every ranker and dataset:

    ol2r run -m click=per,nav,inf seed=1000 replicas=5 rounds=2000 evaluate_every=2000 'evaluate_on=[validation]' \\
        'measures=[ndcg,unfairness]' output_dir=choices dataset=mq2008 ranker=pdgd ranker.learning_rate=0.01,0.1,1,10
    ol2r export choices --to per-query --split validation --out queries.parquet
    python scripts/defaults.py choices queries.parquet ranker.learning_rate=0.1

NAME=VALUE ..: today's default, which is compared with the chosen setting. --locks: settings with which a run can lock
(scripts/locked_rankings.py); they are not chosen.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

from ol2r_cli.report import load

CELL = ["dataset", "click"]
SCORE, ONLINE = "validation_ndcg_10", "cumulative_ndcg"


def grid(folder: str) -> pl.DataFrame:
    """One row for each (cell, setting, seed), with the settings that were varied as one text."""
    runs = load(folder, settings=True)
    names = [name for name in runs.columns if name.startswith(("ranker.", "exploration.")) and name != "exploration.l2"]
    varied = [name for name in names if runs[name].n_unique() > 1]
    setting = pl.concat_str([pl.format(f"{name}={{}}", pl.col(name)) for name in varied], separator=" ")
    rows = runs.select("run", *CELL, "seed", SCORE, ONLINE, setting=setting)
    counts = rows.group_by("setting").len()
    everywhere = counts.filter(pl.col("len") == counts["len"].max())
    return rows.join(everywhere.select("setting"), on="setting")


def error(values: pl.Expr) -> pl.Expr:
    """The standard error of a mean."""
    return values.std() / values.len().sqrt()


def error_over_queries(queries: pl.DataFrame) -> float:
    """The standard error of one setting's score over validation queries: the datasets are strata of equal weight."""
    by_query = queries.group_by("dataset", "query").agg(pl.col("ndcg_10").mean())
    by_dataset = by_query.group_by("dataset").agg(error(pl.col("ndcg_10")))["ndcg_10"]
    return float((by_dataset**2).sum() ** 0.5 / len(by_dataset))


def places(runs: pl.DataFrame) -> pl.DataFrame:
    """The mean rank of each setting by cumulative NDCG in a cell, and `tied`: it cannot be told from the lowest one."""
    in_cell = runs.group_by(*CELL, "setting").agg(pl.col(ONLINE).mean())
    in_cell = in_cell.with_columns(rank=pl.col(ONLINE).rank(descending=True).over(CELL))
    lowest = in_cell.group_by("setting").agg(pl.col("rank").mean()).sort("rank")["setting"][0]
    pairs = in_cell.join(in_cell.filter(setting=lowest).select(*CELL, lowest="rank"), on=CELL)
    gap = pl.col("rank") - pl.col("lowest")
    return pairs.group_by("setting").agg(pl.col("rank").mean(), tied=(gap.mean() < error(gap)) | (gap == 0).all())


def main(folder: str, queries: str, locks: list[str], default: list[str]) -> None:
    runs = grid(folder)
    by_seed = runs.group_by("setting", "seed").agg(pl.col(SCORE, ONLINE).mean())
    scores = by_seed.group_by("setting").agg(pl.col(SCORE, ONLINE).mean(), seeds=error(pl.col(SCORE)))
    scores = scores.sort(SCORE, descending=True)
    best = runs.filter(setting=scores["setting"][0])["run"].to_list()
    over_queries = error_over_queries(pl.read_parquet(queries).filter(pl.col("run").is_in(best)))
    is_good = (pl.col(SCORE) >= scores[SCORE][0] - over_queries) & ~pl.col("setting").is_in(locks)
    good = runs.filter(pl.col("setting").is_in(scores.filter(is_good)["setting"].to_list()))
    table = scores.join(places(good), on="setting", how="left").sort("rank", nulls_last=True)
    chosen = table.filter(pl.col("tied")).sort(SCORE, descending=True)["setting"][0]
    print(f"{len(runs)} values; standard error over queries {over_queries:.4f}, over seeds {scores['seeds'][0]:.4f}")
    print(f"chosen: {chosen}")
    for row in table.iter_rows(named=True):
        rank = "" if row["rank"] is None else f"{row['rank']:.1f}{' tied' if row['tied'] else ''}"
        print(f"| {row['setting']} | {row[SCORE]:.4f} | {row[ONLINE]:.1f} | {rank} |")
    same = [name for name in scores["setting"] if sorted(name.split(" ")) == sorted(default)]
    now = by_seed.filter(pl.col("setting").is_in(same))
    pair = by_seed.filter(setting=chosen).join(now, on="seed", suffix="_now")
    if len(pair):
        score, online = pl.col(SCORE) - pl.col(f"{SCORE}_now"), pl.col(ONLINE) - pl.col(f"{ONLINE}_now")
        gain, its_error, cost = pair.select(score.mean(), e=error(score), o=online.mean()).row(0)
        print(f"chosen less default: {gain:+.4f} ± {its_error:.4f}, cumulative {cost:+.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("queries", metavar="QUERIES")
    parser.add_argument("default", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--locks", action="append", default=[], metavar="'NAME=VALUE ..'")
    main(**vars(parser.parse_args()))
