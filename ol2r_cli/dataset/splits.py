"""Seeded choices among queries that depend on the query ids alone, not on file order or a random number library.

Queries are ordered by sha256("<seed>/<purpose>/<query id>"); a choice of n takes the first n. So a smaller choice is
part of a larger one, and the same queries are chosen on every machine.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ol2r_cli.shapes import Int


def choose(
    query_ids: list[str], queries: Int[np.ndarray, "q"], number: int, seed: int, purpose: str
) -> Int[np.ndarray, "n"]:
    """`number` of the given query numbers, ascending."""
    order = sorted(
        queries.tolist(), key=lambda query: hashlib.sha256(f"{seed}/{purpose}/{query_ids[query]}".encode()).digest()
    )
    return np.array(sorted(order[:number]), dtype=np.int64)


def divide(
    query_ids: list[str],
    counts: Int[np.ndarray, "3"],
    validation: float | None,
    queries: int | None,
    seed: int,
) -> dict[str, Int[np.ndarray, "_"]]:
    """Query numbers of train, validation and test.

    counts: queries in each of the three files, which are numbered through in this order. validation: the share of the
    training queries that becomes the validation split when there is no validation file. queries: how many of the
    remaining training queries are kept, null for all. Raises ValueError when a split would be left without queries.
    """
    bounds = np.concatenate([[0], np.cumsum(counts)])
    train, held_out, test = (np.arange(bounds[i], bounds[i + 1]) for i in range(3))
    if validation is not None and not len(held_out):
        number = max(1, round(validation * len(train)))
        if number >= len(train):
            raise ValueError(
                f"dataset.validation must leave training queries: {validation} of {len(train)} is {number}; "
                "type dataset.validation=null"
            )
        held_out = choose(query_ids, train, number, seed, "validation")
        train = np.setdiff1d(train, held_out)
    if queries is not None:
        if queries > len(train):
            raise ValueError(f"dataset.queries must be at most {len(train)} (the training queries), got {queries}")
        train = choose(query_ids, train, queries, seed, "queries")
    return {"train": train, "validation": held_out, "test": test}
