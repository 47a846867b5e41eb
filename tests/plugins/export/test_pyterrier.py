"""The recipe of docs/how-to/export.md: a finished run as a transformer of PyTerrier."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli import api

PAGE = (Path(__file__).parents[3] / "docs" / "how-to/export.md").read_text()
RECIPE = re.search(r"```python\n(import tempfile\n.*?)```", PAGE, re.DOTALL)


def test_a_run_ranks_documents_as_a_transformer(runs, tmp_path):
    pytest.importorskip("pyterrier")
    import pandas as pd

    assert RECIPE is not None
    names: dict[str, object] = {}
    exec(RECIPE[1], names)
    run = api.Run(runs["linear"])
    width = run.trained_ranker.features
    features = np.random.default_rng(0).random((6, width))
    table = pd.DataFrame({"qid": ["a"] * 4 + ["b"] * 2, "docno": list("stuvwx"), "features": list(features)})
    ranked = names["Ranker"](run).transform(table)
    lines = "".join(
        f"0 qid:{'1' if query == 'a' else '2'} {' '.join(f'{f}:{value}' for f, value in enumerate(row, 1))}\n"
        for query, row in zip(table.qid, features, strict=True)
    )
    (tmp_path / "documents.txt").write_text(lines)
    expected = dict(zip(table.docno, run.score(tmp_path / "documents.txt"), strict=True))
    assert dict(zip(ranked.docno, ranked.score, strict=True)) == expected
    for query in "ab":
        of_query = ranked[ranked.qid == query].sort_values("rank")
        assert list(of_query["rank"]) == list(range(len(of_query)))
        assert list(of_query.score) == sorted(of_query.score, reverse=True)
