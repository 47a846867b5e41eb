"""How the trained rankers of a finished run order the queries of its own data: measures by query, and TREC files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.letor import document_names
from ol2r_cli.dataset.table import Dataset, loaded
from ol2r_cli.files import write_bytes
from ol2r_cli.interfaces import RankedLists
from ol2r_cli.metrics.evaluation import Evaluator, Lists
from ol2r_cli.metrics.ranking import reciprocal_rank
from ol2r_cli.plugins.export.ir_metadata import metadata_lines
from ol2r_cli.run.own_code import check_unchanged
from ol2r_cli.run.recomputed import TrainedRanker, dataset_settings, dataset_source, local_settings
from ol2r_cli.run.run import Run

QRELS, EXPONENTIAL_QRELS = "qrels.txt", "qrels-exponential.txt"
_STEP = 1e-30  # between equal scores at zero, where a tool might read the next float32 as zero


class RankedSplit:
    """A split of a run's data, ordered by the rankers of all its seeds after the last round, without exploration.

    `split` is test or validation. `data` is the folder where the data of the run are now, None where they were.
    `own_targets` are those of `TrainedRanker`. Raises ValueError, which says what to type, as `TrainedRanker` does, and
    when the data are not found, have changed, or have no such split.
    """

    def __init__(self, path: Path, split: str, data: Path | None = None, own_targets: Collection[str] = ()):
        self.run, self.split = Run.read_finished(path), split
        self.trained = TrainedRanker(self.run, own_targets)
        self.settings, self.seeds = self.run.settings, self.trained.seeds
        if "intent" in self.run.choices:
            raise ValueError(
                f"{path} has users whose intent changes, so that its documents have no lasting labels: export a run "
                "with intent=none, or read its evaluation.parquet"
            )
        settings = dataset_settings(self.run, own_targets, data)
        try:
            self.dataset = _load(json.dumps(settings))
        except ValueError as error:
            if "path" not in settings or data is not None:
                raise
            raise ValueError(f"the data of {path} cannot be read: type --data FOLDER ({error})") from error
        if self.dataset.fingerprint != self.run.fingerprint:
            raise ValueError(f"the data of {path} are others than when it ran: type --data FOLDER, or run it again")
        self.query_ids = [self.dataset.query_ids[number] for number in self.dataset.splits[split].tolist()]
        stored = local_settings(self.settings.get("measure") or {}, "measure", path / "config.yaml", own_targets)
        usual = {name: Catalogue().choices["measure"][name].content for name in ("ndcg", "err")}
        measures = {name: build(node, f"measure.{name}") for name, node in (usual | stored).items()}
        self.measures = {name: measure for name, measure in measures.items() if measure.evaluation}
        check_unchanged(path, self.run.manifest, {"measure": self.settings.get("measure")})
        seeds, dtype = torch.tensor(self.seeds), self.trained.deployed.dtype
        self.evaluator = Evaluator(self.dataset, split, seeds, self.settings["no_relevant"], dtype, {})

    def lists(self) -> Iterator[Lists]:
        """Yield the lists of queries of similar length; equal scores are broken as in the offline evaluation."""
        return self.evaluator.lists(self.trained.ranker, self.trained.deployed)


@lru_cache(maxsize=1)
def _load(settings: str) -> Dataset:
    """Return the dataset, shared by consecutive runs on the same data."""
    dataset: Dataset = loaded(dataset_source(json.loads(settings)))
    return dataset


def per_query(ranked: RankedSplit) -> pl.DataFrame:
    """Return one row for each seed and query of the split, in this order; docs/how-to/export.md describes the columns.

    In a run with no_relevant=skip the measures of a query without a relevant document are null, so that means leave it
    out as the offline evaluation does.
    """
    frames = [_values_of(ranked, lists) for lists in ranked.lists()]
    return pl.concat(frames).sort("seed", "query")


def _values_of(ranked: RankedSplit, lists: Lists) -> pl.DataFrame:
    """Return one row for each seed and query of a group of lists."""
    choices, seeds = ranked.run.choices, len(ranked.seeds)
    relevant = (lists.label[0] > 0).sum(1)
    columns: dict[str, Any] = {
        "run": ranked.run.id,
        "dataset": choices["dataset"],
        "click": choices["click"],
        "ranker": choices["ranker"],
        "fold": ranked.settings["dataset"].get("fold"),
        "split": ranked.split,
        "seed": torch.tensor(ranked.seeds).repeat_interleave(len(relevant)).numpy(),
        "query": lists.query.repeat(seeds).numpy(),
        "query_id": [ranked.query_ids[number] for number in lists.query.tolist()] * seeds,
        "documents": lists.length.repeat(seeds).int().numpy(),
        "relevant": relevant.repeat(seeds).int().numpy(),
    }
    best = lists.label.sort(-1, descending=True).values
    left_out = (ranked.settings["no_relevant"] == "skip") & (relevant == 0)
    for name, measure in ranked.measures.items():
        first = RankedLists(lists.label[..., : measure.places], best[..., : measure.places], ranked.dataset.grades)
        values = dict(measure.of_lists(first))
        if name == "ndcg":
            values["reciprocal_rank"] = reciprocal_rank(lists.label)
        for column, value in values.items():  # [B, Q]
            columns[column] = value.masked_fill(left_out, torch.nan).flatten().numpy()
    return pl.DataFrame(columns, schema_overrides={"fold": pl.Int64}, nan_to_null=True)


def write_trec(ranked: RankedSplit, folder: Path, team: str = "") -> list[Path]:
    """Write `seed-<seed>.run` for each seed and two files of judgements to a folder; return their paths.

    qrels.txt has the grades g. qrels-exponential.txt has 2^g - 1 in their place, so that a tool whose NDCG takes the
    grade as gain (trec_eval) computes the NDCG of this project. With the name of a team, files of runs begin with their
    metadata (plugins/export/ir_metadata.py). Raises OSError when the folder cannot be written.
    """
    names = document_names(ranked.dataset)
    tag = f"{ranked.run.choices['ranker']}-{ranked.run.id}"
    runs = [[metadata_lines(ranked.run, seed, tag, team)] if team else [] for seed in ranked.seeds]
    qrels, exponential = [], []
    for number, (document, score, label) in sorted(_by_query(ranked).items()):
        query = ranked.query_ids[number]
        for run, rows, scores in zip(runs, document.tolist(), score, strict=True):
            for rank, (row, value) in enumerate(zip(rows, strictly_descending(scores).tolist(), strict=True), 1):
                run.append(f"{query} Q0 {names[row]} {rank} {value:.9g} {tag}\n")
        for row, grade in sorted(zip(document[0].tolist(), label[0].tolist(), strict=True)):
            qrels.append(f"{query} 0 {names[row]} {grade}\n")
            exponential.append(f"{query} 0 {names[row]} {2**grade - 1}\n")
    names_of_runs = [f"seed-{seed}.run" for seed in ranked.seeds]
    files = {**dict(zip(names_of_runs, runs, strict=True)), QRELS: qrels, EXPONENTIAL_QRELS: exponential}
    for file, lines in files.items():
        write_bytes(folder / file, "".join(lines).encode())
    return [folder / file for file in files]


def _by_query(ranked: RankedSplit) -> dict[int, tuple[NDArray, ...]]:
    """Return documents, scores and labels [B, D] of each query of the split, best first, without padding."""
    queries = {}
    for lists in ranked.lists():
        arrays = lists.document.int().numpy(), lists.score.float().numpy(), lists.label.char().numpy()
        for i, (number, length) in enumerate(zip(lists.query.tolist(), lists.length.tolist(), strict=True)):
            queries[number] = tuple(array[:, i, :length].copy() for array in arrays)
    return queries


def strictly_descending(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return scores [D] that never rise, each lowered by as little as makes it less than the one before, in float32.

    Tools ignore the rank, sort by score in single precision and break ties in ways of their own.
    """
    lowered = scores.copy()
    for place in range(1, len(lowered)):
        before = lowered[place - 1]
        if lowered[place] >= before:
            lowered[place] = min(np.nextafter(before, np.float32(-np.inf)), np.float32(before - np.float32(_STEP)))
    return lowered
