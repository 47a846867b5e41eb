"""Queries that are in two splits: results on them are not results on unseen queries."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from ol2r_cli.dataset.prepare import ParsedTable
from ol2r_cli.tensor.shapes import Int

_COMPARED = 100  # queries whose documents are compared, so that large datasets cost nothing noticeable


def shared_queries(table: ParsedTable, splits: Mapping[str, Int[np.ndarray, "_"]]) -> tuple[str, ...]:
    """A line for every two splits that have query ids in common; `splits` are query numbers of `table`, as read.

    It says how many there are and, for the first 100 of them, whether the documents are the same in any order: a file
    may number its queries for itself.
    """
    return tuple(line for first, second in combinations(splits, 2) if (line := _describe(table, splits, first, second)))


def _describe(table: ParsedTable, splits: Mapping[str, Int[np.ndarray, "_"]], first: str, second: str) -> str:
    """The line for two splits; empty if they have no query id in common."""
    numbers = {table.query_ids[query]: query for query in splits[first].tolist()}
    pairs = [(numbers[id], query) for query in splits[second].tolist() if (id := table.query_ids[query]) in numbers]
    if not pairs:
        return ""
    compared = pairs[:_COMPARED]
    equal = [pair for pair in compared if _documents(table, pair[0]) == _documents(table, pair[1])]
    example = table.query_ids[(equal or pairs)[0][1]]
    found = f"{len(pairs)} of the {len(splits[second])} queries of {second} are in {first} too, such as qid:{example}"
    unseen = f"results on {second} are not results on unseen queries"
    if len(equal) == len(compared):
        return f"{found}, with the same documents: {unseen}"
    if equal:
        return f"{found}; {len(equal)} of the {len(compared)} that were compared have the same documents: {unseen}"
    return f"{found}, with other documents: this is harmless only if each file numbers its queries for itself"


def _documents(table: ParsedTable, query: int) -> list[bytes]:
    """The feature vectors of a query's documents, in an order that does not depend on that of the file."""
    rows = table.features[table.offsets[query] : table.offsets[query + 1]]
    return sorted(row.tobytes() for row in rows)
