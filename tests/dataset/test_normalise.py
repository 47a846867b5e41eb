"""Normalisation, by its formulas."""

from __future__ import annotations

import numpy as np
import pytest

from ol2r_cli.dataset import parse
from ol2r_cli.dataset.parse import blocks
from ol2r_cli.dataset.prepare import normaliser

# Two queries: the second feature is constant in the first query, the third everywhere.
TABLE = np.array([[1, 5, 7], [3, 5, 7], [2, 5, 7], [-4, 0, 7], [4, 2, 7]], dtype=np.float64)
START = np.array([0, 3])
OFFSETS = np.array([0, 3, 5])


def within(method: str, table: np.ndarray, start: np.ndarray) -> np.ndarray:
    """`table` by the statistics of its queries, which begin at `start`."""
    return normaliser(method, table, start, np.ones(len(table), bool))(table, start)


def test_within_queries():
    expected = [[0, 0, 0], [(3 - 1) / (3 - 1), 0, 0], [(2 - 1) / (3 - 1), 0, 0], [0, 0, 0], [1, 1, 0]]
    np.testing.assert_allclose(within("query_minmax", TABLE, START), expected)
    sd = np.sqrt((1 + 1 + 0) / 3)  # of 1, 3, 2 around 2
    expected = [[-1 / sd, 0, 0], [1 / sd, 0, 0], [0, 0, 0], [-4 / 4, -1, 0], [4 / 4, 1, 0]]
    np.testing.assert_allclose(within("query_zscore", TABLE, START), expected)
    column = np.full((7, 1), 0.1)  # the mean of seven 0.1 is not 0.1
    for method in "query_minmax", "query_zscore":
        assert not within(method, column, np.array([0])).any(), method


def test_global_zscore_uses_the_training_rows_only(monkeypatch: pytest.MonkeyPatch):
    train = np.array([True, True, True, False, False])
    table = TABLE.astype(np.float32)
    for size in (1, 100):
        monkeypatch.setattr(parse, "BLOCK", size)
        change = normaliser("global_zscore", table, OFFSETS, train)
        sd = np.sqrt(2 / 3)
        expected = np.stack([(TABLE[:, 0] - 2) / sd, np.zeros(5), np.zeros(5)], 1)
        np.testing.assert_allclose(change(TABLE, START), expected)


def test_blocks_cover_whole_queries(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parse, "BLOCK", 10)
    offsets = np.cumsum([0, 4, 4, 4, 25, 1, 9, 1])
    got = [(rows.start, rows.stop, start.tolist()) for rows, start in blocks(offsets)]
    assert got == [(0, 8, [0, 4]), (8, 12, [0]), (12, 37, [0]), (37, 47, [0, 1]), (47, 48, [0])]
