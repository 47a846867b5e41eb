"""Run files and relevance judgements in the formats of trec_eval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.atomic_file import write_text
from ol2r_cli.dataset.intent_judgements import document_ids
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.export.ranked_split import RankedSplit

QRELS, EXPONENTIAL_QRELS = "qrels.txt", "qrels-exponential.txt"
_STEP = 1e-30  # between equal scores at zero, where a tool might read the next float32 as zero


def write_trec(ranked: RankedSplit, folder: Path) -> list[Path]:
    """Write `seed-<seed>.run` for each seed and two files of judgements to a folder; return their paths.

    qrels.txt has the grades g. qrels-exponential.txt has 2^g - 1 in their place, so that a tool whose NDCG takes the
    grade as gain (trec_eval) computes the NDCG of this project. Raises OSError when the folder cannot be written.
    """
    queries = dict(sorted(_by_query(ranked)))
    names, ids = [ranked.query_ids[number] for number in queries], _document_ids(ranked.dataset)
    runs: list[list[str]] = [[] for _ in ranked.seeds]
    judgements: dict[str, list[str]] = {QRELS: [], EXPONENTIAL_QRELS: []}
    tag = f"{ranked.manifest['choices']['ranker']}-{ranked.manifest['id']}"
    for name, (document, score, label) in zip(names, queries.values(), strict=True):
        for lines, rows, scores in zip(runs, document, score, strict=True):
            ordered = zip((ids[row] for row in rows), strictly_descending(scores).tolist(), strict=True)
            lines += [f"{name} Q0 {id} {rank} {value:.9g} {tag}\n" for rank, (id, value) in enumerate(ordered, 1)]
        for row, grade in sorted(zip(document[0].tolist(), label[0].tolist(), strict=True)):
            judgements[QRELS].append(f"{name} 0 {ids[row]} {grade}\n")
            judgements[EXPONENTIAL_QRELS].append(f"{name} 0 {ids[row]} {2**grade - 1}\n")
    files = {f"seed-{seed}.run": lines for seed, lines in zip(ranked.seeds, runs, strict=True)} | judgements
    for file, lines in files.items():
        write_text(folder / file, "".join(lines))
    return [folder / file for file in files]


def _document_ids(dataset: Dataset) -> Sequence[object]:
    """The ids of all documents in the comments of LETOR files; the rows where not all have one that is their own in
    the query."""
    ids, rows = document_ids(dataset.files), range(len(dataset.labels))
    query = np.repeat(np.arange(len(dataset.query_ids)), np.diff(dataset.offsets)).tolist()
    return ids if len(set(zip(query, ids, strict=False))) == len(rows) else rows


def _by_query(ranked: RankedSplit) -> Iterator[tuple[int, tuple[NDArray, NDArray, NDArray]]]:
    """The number of each query with its documents, scores and labels, [B, D] each, best first, without padding."""
    for lists in ranked.lists():
        document, score, label = lists.document.int().numpy(), lists.score.float().numpy(), lists.label.char().numpy()
        for i, (query, length) in enumerate(zip(lists.query.tolist(), lists.length.tolist(), strict=True)):
            cells = (slice(None), i, slice(length))
            yield query, (document[cells].copy(), score[cells].copy(), label[cells].copy())


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
