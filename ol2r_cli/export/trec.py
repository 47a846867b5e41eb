"""TREC files of a finished run: for each seed a run file, and the relevance judgements (qrels) that belong to it.

A line of a run file is `query Q0 document rank score tag`, of the judgements `query 0 document grade`. Queries have the
ids of the dataset's files, documents the number of their row in the dataset's table, as in interactions.parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.export.ranked import Ranked
from ol2r_cli.results.directory import RunDirectory

QRELS, EXPONENTIAL = "qrels.txt", "qrels-exponential.txt"
_STEP = 1e-30  # between equal scores at zero, where the next float32 might be read as zero again


def write_trec(ranked: Ranked, folder: Path) -> list[Path]:
    """Write `seed-<seed>.run` for each seed and two files of judgements to a folder; returns what was written.

    qrels.txt has the grades g; qrels-exponential.txt has 2^g - 1 in their place, so that tools whose NDCG takes the
    grade itself as gain (trec_eval) reach the NDCG of this project. OSError where the folder cannot be written.
    """
    queries = dict(sorted(_by_query(ranked)))
    names = [ranked.query_ids[number] for number in queries]
    runs: list[list[str]] = [[] for _ in ranked.seeds]
    judged: dict[str, list[str]] = {QRELS: [], EXPONENTIAL: []}
    tag = f"{ranked.manifest['choices']['ranker']}-{ranked.manifest['id']}"
    for name, (document, score, label) in zip(names, queries.values(), strict=True):
        for lines, ids, values in zip(runs, document, score, strict=True):
            told = zip(ids.tolist(), descending(values).tolist(), strict=True)
            lines += [f"{name} Q0 {row} {rank} {value:.9g} {tag}\n" for rank, (row, value) in enumerate(told, 1)]
        for row, grade in sorted(zip(document[0].tolist(), label[0].tolist(), strict=True)):
            judged[QRELS].append(f"{name} 0 {row} {grade}\n")
            judged[EXPONENTIAL].append(f"{name} 0 {row} {2**grade - 1}\n")
    files = {f"seed-{seed}.run": lines for seed, lines in zip(ranked.seeds, runs, strict=True)} | judged
    for file, lines in files.items():
        RunDirectory(folder).write_text(file, "".join(lines))
    return [folder / file for file in files]


def _by_query(ranked: Ranked) -> Iterator[tuple[int, tuple[NDArray, NDArray, NDArray]]]:
    """Number of a query, and its documents, scores and labels, [B, D] each, best first, without padding."""
    for lists in ranked.lists():
        document, score, label = lists.document.int().numpy(), lists.score.float().numpy(), lists.label.char().numpy()
        for place, (query, length) in enumerate(zip(lists.query.tolist(), lists.length.tolist(), strict=True)):
            kept = (slice(None), place, slice(length))
            yield query, (document[kept].copy(), score[kept].copy(), label[kept].copy())


def descending(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores [D] that do not rise, lowered as little as makes each less than the one before, as float32.

    Tools sort by score in single precision, whatever the rank says, and break ties in ways of their own.
    """
    lowered = scores.copy()
    for place in range(1, len(lowered)):
        before = lowered[place - 1]
        if lowered[place] >= before:
            lowered[place] = min(np.nextafter(before, np.float32(-np.inf)), np.float32(before - np.float32(_STEP)))
    return lowered
