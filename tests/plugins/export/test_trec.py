"""TREC files, read by the tools that they are for."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ol2r_cli import cli
from ol2r_cli.plugins.export.ranked_split import (
    EXPONENTIAL_QRELS,
    QRELS,
    RankedSplit,
    per_query,
    strictly_descending,
    write_trec,
)
from tests.finished import SEEDS, read


@pytest.fixture(scope="module")
def written(runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, pl.DataFrame]]:
    """The TREC files of some runs, and the expected values by query."""
    files_and_values = {}
    with torch.inference_mode():
        for name in ("linear", "ties", "network"):
            ranked, folder = RankedSplit(runs[name], "test"), tmp_path_factory.mktemp(name) / "trec"
            files = write_trec(ranked, folder)
            assert {path.name for path in files} == {*(f"seed-{seed}.run" for seed in SEEDS), QRELS, EXPONENTIAL_QRELS}
            files_and_values[name] = folder, per_query(ranked)
    return files_and_values


def expected(table: pl.DataFrame, seed: int, measure: str) -> dict[str, float]:
    rows = table.filter(seed=seed)
    return dict(zip(rows["query_id"], rows[measure], strict=True))


def judgements(file: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for line in file.read_text().splitlines():
        query, zero, document, grade = line.split()
        assert zero == "0"
        grades.setdefault(query, {})[document] = int(grade)
    return grades


def scored(file: Path) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for line in file.read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        scores.setdefault(query, {})[document] = float(score)
    return scores


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["linear", "ties", "network"])
def test_pytrec_eval_computes_our_values(written, name, seed):
    """From exponential judgements."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    folder, table = written[name]
    tool = pytrec_eval.RelevanceEvaluator(judgements(folder / EXPONENTIAL_QRELS), {"ndcg_cut.1,10", "recip_rank"})
    measured = tool.evaluate(scored(folder / f"seed-{seed}.run"))
    names = {"ndcg_cut_1": "ndcg_1", "ndcg_cut_10": "ndcg_10", "recip_rank": "reciprocal_rank"}
    for theirs, ours in names.items():
        values = {query: measures[theirs] for query, measures in measured.items()}
        assert values == pytest.approx(expected(table, seed, ours), abs=1e-6)


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval, which ir_measures calls, is a script in perl")
@pytest.mark.parametrize("name", ["linear", "ties"])
def test_ir_measures_computes_our_ndcg_from_grades(written, name):
    """With its exponential gain."""
    ir_measures = pytest.importorskip("ir_measures")
    folder, table = written[name]
    qrels = list(ir_measures.read_trec_qrels(str(folder / QRELS)))
    run = list(ir_measures.read_trec_run(str(folder / "seed-4.run")))
    measured = ir_measures.iter_calc([ir_measures.nDCG(dcg="exp-log2") @ 10], qrels, run)
    values = {result.query_id: result.value for result in measured}
    assert values == pytest.approx(expected(table, 4, "ndcg_10"), abs=6e-6)  # the script prints five digits


def test_lines_have_the_ids_of_the_files_and_rows_of_the_table(runs, written):
    folder, _ = written["linear"]
    before = sum(len(lists) for name in ("train", "vali") for lists in read(runs["data"] / f"{name}.txt").values())
    lists, row = read(runs["data"] / "test.txt"), itertools.count(before)
    grades = {query: {str(next(row)): grade for grade, _ in documents} for query, documents in lists.items()}
    assert judgements(folder / QRELS) == grades
    name = f"pairrank-{runs['linear'].name[-10:]}"
    lines = [line.split() for line in (folder / "seed-4.run").read_text().splitlines()]
    assert [(query, q0, rank, tag) for query, q0, _, rank, _, tag in lines] == [
        (query, "Q0", f"{rank}", name) for query in lists for rank in range(1, len(lists[query]) + 1)
    ]


@pytest.mark.parametrize(
    ("comments", "named"),
    [
        (("#docid = GX{}-1 inc = .1 prob = .2", "# docid = GX{}-2 "), ["GX2-1", "GX2-2"]),
        (("# docid = A", "# docid = B"), ["A", "B"]),
        (("#docid = GX{}-1", "# a document"), ["4", "5"]),
        (("#docid = GX{}-1", "#docid = GX{}-1"), ["4", "5"]),
    ],
    ids=["different", "short", "missing", "equal"],
)
def test_documents_have_the_ids_of_comments(tmp_path, comments, named):
    """Where all have one of their own in the query."""
    folder = tmp_path / f"{comments[1]}"
    folder.mkdir()
    for number, name in enumerate(["train", "vali", "test"]):
        lines = [f"{k} qid:{number} 1:{k} 2:{1 - k} {text.format(number)}\n" for k, text in enumerate(comments)]
        (folder / f"{name}.txt").write_text("".join(lines))
    words = ["dataset=letor", f"dataset.path='{folder}'", "rounds=3", f"cache_dir={tmp_path / 'cache'}"]
    assert cli.main(["run", *words, f"output_dir='{folder}'"]) == 0
    assert cli.main(["export", str(folder), "--to", "trec", "--out", str(folder / "trec")]) == 0
    assert judgements(folder / "trec" / QRELS) == {"2": {named[0]: 0, named[1]: 1}}
    assert scored(folder / "trec" / "seed-0.run")["2"].keys() == {*named}


floats = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)


@given(arrays(np.float32, st.integers(1, 30), elements=floats | st.sampled_from([np.float32(0), np.float32(0.5)])))
def test_scores_fall_strictly_in_single_precision(values):
    scores = np.sort(values)[::-1]
    lowered = strictly_descending(scores)
    written = np.array([f"{score:.9g}" for score in lowered]).astype(np.float32)
    assert (np.diff(written.astype(np.float64)) < 0).all()
    assert np.abs(lowered - scores).max() <= 1e-4 * max(1, np.abs(scores).max())
    if len(set(scores.tolist())) == len(scores):
        assert lowered.tolist() == scores.tolist()


def test_metadata_are_comments_before_the_lines(runs, tmp_path):
    """They are YAML, of the six parts of PRIMAD, and the lines below them are the same."""
    ranked = RankedSplit(runs["linear"], "test")
    with torch.inference_mode():
        write_trec(ranked, tmp_path / "plain")
        write_trec(ranked, tmp_path / "of_team", "The: team")
    for seed in SEEDS:
        plain = (tmp_path / "plain" / f"seed-{seed}.run").read_text()
        head, end, lines = (tmp_path / "of_team" / f"seed-{seed}.run").read_text().partition("# ir_metadata.end\n")
        assert lines == plain
        first, *comments = head.splitlines()
        assert (first, end) == ("# ir_metadata.start", "# ir_metadata.end\n")
        metadata = yaml.safe_load("\n".join(line.removeprefix("# ") for line in comments))
        parts = ["platform", "research goal", "implementation", "method", "actor", "data"]
        assert list(metadata) == ["tag", *parts]
        assert metadata["tag"] == plain.splitlines()[0].split()[-1]
        assert metadata["actor"] == {"team": "The: team"}
        assert f"seed {seed}" in metadata["method"]["retrieval"][0]["learned from"]
