"""Click logs as text, to be compared with what is expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ol2r_cli.plugins.click_logs.click_log import ClickLog


def counts(impressions: ArrayLike, clicks: ArrayLike) -> ClickLog:
    """A log of documents of a query each."""
    shown = np.asarray(impressions, dtype=float)
    return ClickLog(np.arange(len(shown)), shown, np.asarray(clicks, dtype=float))


def counts_of(log: ClickLog) -> list[str]:
    """A line for each document, after its query: clicks/impressions by place."""
    lines = []
    for row, document in enumerate(log.document_ids):
        numbers = zip(log.clicks[row], log.impressions[row], strict=True)
        places = [f"{clicks:.0f}/{shown:.0f}" for clicks, shown in numbers]
        lines.append(" ".join([log.query_ids[log.query[row]], document, *places]))
    return lines


def pages_of(log: ClickLog) -> list[str]:
    """A line for each page: the query, and documents from the top, with * where they are clicked, - where is none."""
    assert log.pages is not None
    names, lines = [*log.document_ids, "-"], []
    for query, documents, clicks in zip(log.query_of_pages(), *(part.tolist() for part in log.pages), strict=True):
        shown = [names[document] + "*" * clicked for document, clicked in zip(documents, clicks, strict=True)]
        lines.append(f"{log.query_ids[query]}: {' '.join(shown)}".rstrip(" -"))
    return lines


def of_pages(query: Sequence[int], document: ArrayLike, click: ArrayLike) -> ClickLog:
    """A log of pages, with documents of these queries."""
    pages = np.asarray(document), np.asarray(click, dtype=bool)
    empty = np.zeros((2, len(query), pages[0].shape[1]))
    return ClickLog(np.array(query), *empty, pages).split(1.0)[0]
