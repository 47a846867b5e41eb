"""Two rankers that the tests of tables and of frames compare."""

from __future__ import annotations

import pytest

from ol2r_cli.report.names import Labels
from tests.report.runs import groups_below, make

LOWER = {seed: 0.25 + 0.01 * seed for seed in range(6)}
HIGHER = {seed: value + 0.1 + 0.001 * (seed % 2) for seed, value in LOWER.items()}


@pytest.fixture
def two(tmp_path):
    """Groups and labels: pairrank, which is better for every seed, and pdgd. The labels know another pairrank."""
    make(tmp_path, "ranker=pdgd", "ranker.l2=1", test=LOWER)
    make(tmp_path, "ranker.pairs=all", "ranker.l2=2", test=HIGHER)
    make(tmp_path, "ranker.pairs=all", "ranker.l2=3", test={0: 0.1, 1: 0.1})
    groups = groups_below(tmp_path)
    return [groups[1], groups[0]], Labels(groups)
