"""Results of some data, put among the published ones of their benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from ol2r_cli.files import write_parquet
from ol2r_cli.plugins.benchmark.recipe import load_recipe
from ol2r_cli.plugins.benchmark.results import published_dir


def merge(file: Path) -> None:
    """Put the results in NAME.parquet, and in NAME_choice.parquet and NAME_check.parquet beside it, into the published
    files. They replace all rows of their data; data are in the order of the recipe."""
    order = list(load_recipe("benchmark", file.stem).data)
    for ending in ("", "_choice", "_check"):
        new = file.with_name(f"{file.stem}{ending}.parquet")
        published = published_dir() / new.name
        frames = [with_title(pl.read_parquet(new))]
        if published.is_file():
            titles = frames[0]["title"].unique()
            frames.insert(0, with_title(pl.read_parquet(published)).filter(~pl.col("title").is_in(titles.implode())))
        place = pl.col("title").replace_strict(order, range(len(order)))
        merged = pl.concat(frames, how="diagonal_relaxed").sort(place, maintain_order=True)
        write_parquet(published, merged.drop("title"))


def with_title(results: pl.DataFrame) -> pl.DataFrame:
    """Return results with the title of the data of each row."""
    if "table" in results.columns:
        return results.with_columns(title="table")
    titles = {about: json.loads(about)["rows"][0]["table"] for about in results["about"].unique()}
    return results.with_columns(title=pl.col("about").replace_strict(titles))
