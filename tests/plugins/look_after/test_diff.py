"""`ol2r diff`: settings, results and rounds of two runs, from files whose differences a test chooses."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.run.run import find_runs
from ol2r_cli.run.store import RunDirectory
from tests.finished import refused
from tests.manifests import accept_changes, change, on_disk

SMALL = ["dataset.queries={train:10,validation:4,test:4}", "dataset.documents=8", "dataset.features=6", "rounds=20"]
SMALL += ["validation_sessions=5"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("compared")
    runs = {
        "first": ["seed=3"],
        "l2": ["seed=4", "ranker.l2=1.0", "keep_checkpoint=true"],
        "other": ["seed=3", "ranker=sgd_ranknet", "click=perfect"],
        "data": ["seed=3", "dataset.seed=1", "measures=[ndcg,ctr]"],
        "at_five": ["seed=3", "measures=[ndcg@5]"],
    }
    found = {}
    for name, words in runs.items():
        own = [f"output_dir={root / name}", "replicas=3", "evaluate_every=10", *SMALL, *words]
        assert cli.main(["run", *own]) == 0
        (found[name],) = find_runs(root / name)
    return found


def diff(capsys, *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    assert cli.main(["diff", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def rows(text: str) -> dict[str, list[str]]:
    """The cells of the tables, by the first of a row."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip() and line[0] != " "}


def changed(source: Path, target: Path, file: str, *values: tuple[int, int, str, float], split: str = "") -> Path:
    """A copy of a run in whose table some cells, (seed, round, column, value), are others."""
    shutil.copytree(source, target)
    table = pl.read_parquet(target / file)
    for seed, round, column, value in values:
        here = (pl.col("seed") == seed) & (pl.col("round") == round)
        here = here & (pl.col("split") == split) if split else here
        kind = table.schema[column]
        table = table.with_columns(pl.when(here).then(pl.lit(value).cast(kind)).otherwise(pl.col(column)).alias(column))
    RunDirectory(target).write_parquet(file, table)
    accept_changes(target)
    return target


def test_settings_that_differ_are_listed(made, capsys):
    """With the defaults marked."""
    found = rows(diff(capsys, made["first"], made["l2"]))
    assert found["ranker.l2"] == ["0.01*", "1.0"]
    assert found["exploration.l2"] == ["0.01*", "1.0*"], "by default it follows the ranker's"
    assert found["keep_checkpoint"] == ["false*", "true", "no", "effect", "on", "results"]
    assert not {"ranker", "rounds"} & found.keys(), "these are the same"


def test_choices_that_differ_and_what_only_one_has_are_listed(made, capsys):
    found = rows(diff(capsys, made["first"], made["other"]))
    expected = {
        "ranker": ["pairrank", "sgd_ranknet"],
        "exploration": ["confidence", "none"],
        "click": ["informational", "perfect"],
        "ranker.solver": ["newton*", "-"],
    }
    assert {name: found[name] for name in expected} == expected
    assert found["ranker.learning_rate"][0] == "-"
    assert not [name for name in found if name.endswith("_target_")]


def test_another_version_of_results_is_listed(made, tmp_path, capsys):
    moved = shutil.copytree(made["first"], tmp_path / "run")
    change(moved, results_version=1, git={"commit": "a" * 40, "dirty": True})
    found = rows(diff(capsys, made["first"], moved))
    assert found["results_version"][1] == "1"
    assert not {"dataset.fingerprint", "commit", "torch"} & found.keys(), "these are equal, or in run.json"


def test_data_that_differ_are_told(made, capsys):
    text = diff(capsys, made["first"], made["data"])
    assert len(rows(text)["dataset.fingerprint"][0]) == 12
    assert "the data differ" in text
    assert re.fullmatch(r"\d\.\d{4}", rows(text)["ctr"][1]), "as many digits as its measure declares"


def test_metrics_are_paired_over_the_common_seeds(made, capsys):
    text = diff(capsys, made["first"], made["l2"], "--metric", "online_ndcg", "test_ndcg_1")
    values = [
        pl.read_parquet(made[name] / "trace.parquet").group_by("seed").agg(pl.col("online_ndcg").cast(float).mean())
        for name in ("first", "l2")
    ]
    first, second = (dict(part.iter_rows()) for part in values)
    a, b = ([of[seed] for seed in (4, 5)] for of in (first, second))  # seeds 3, 4, 5 and 4, 5, 6
    differences = [y - x for x, y in zip(a, b, strict=True)]
    mean = sum(differences) / 2
    half = 12.7062 * abs(differences[0] - differences[1]) / 2  # t of one degree of freedom, times sd / sqrt(2)
    told_first, told_second, told, low, dots, high, n = rows(text)["online_ndcg"]
    assert [float(told_first), float(told_second)] == pytest.approx([sum(a) / 2, sum(b) / 2], abs=6e-5)
    assert [float(told), float(low), float(high)] == pytest.approx([mean, mean - half, mean + half], abs=2e-4)
    assert (dots, n) == ("..", "2")
    assert "means over 2 common seeds" in text
    assert "cumulative_ndcg" not in rows(text)


SAME = "3 of 3 common seeds: the same queries, clicks and NDCG in rounds 1 to 20"


def test_the_first_round_that_differs_is_named(made, tmp_path, capsys):
    """Rounds part where something else happened."""
    first = made["first"]
    before = {(row["seed"], row["round"]): row for row in pl.read_parquet(first / "trace.parquet").to_dicts()}
    cells = [(4, 7, "clicks", 11), (4, 9, "query", 99), (3, 12, "online_ndcg", 0.125), (3, 12, "clicks", 9)]
    other = changed(first, tmp_path / "other", "trace.parquet", *cells)
    lines = diff(capsys, first, other, "--exit-code", code=1).splitlines()
    at = lines.index("1 of 3 common seeds: the same queries, clicks and NDCG in rounds 1 to 20")
    assert lines[at + 1 : at + 3] == [
        f"  seed 4 diverges in round 7 (query {before[4, 7]['query']}): clicks {before[4, 7]['clicks']} | 11",
        f"  seed 3 diverges in round 12 (query {before[3, 12]['query']}): clicks {before[3, 12]['clicks']} | 9, "
        f"online_ndcg {before[3, 12]['online_ndcg']:.6g} | 0.125",
    ]


def test_the_ndcg_of_a_run_is_compared_whatever_its_cutoff(made, tmp_path, capsys):
    """What only one of two runs has is not said to be the same."""
    run = made["at_five"]
    other = changed(run, tmp_path / "other", "trace.parquet", (4, 7, "online_ndcg_5", 0.125))
    text = diff(capsys, run, other)
    assert re.search(r"seed 4 diverges in round 7 \(query \d+\): online_ndcg_5 \S+ \| 0.125", text)
    assert {"online_ndcg_5", "cumulative_ndcg_5", "test_ndcg_5"} < rows(text).keys()
    assert "3 of 3 common seeds: the same queries and clicks in rounds 1 to 20" in diff(capsys, made["first"], run)


@pytest.mark.parametrize(
    ("file", "cell", "split", "metric"),
    [
        ("evaluation.parquet", (4, 20, "ndcg_3", 0.75), "test", "test_ndcg_3"),  # a table has it only by name
        ("trace.parquet", (5, 20, "unfairness", 9.0), "", "unfairness"),
    ],
)
def test_metrics_that_differ_in_the_same_rounds_are_named(made, tmp_path, capsys, file, cell, split, metric):
    other = changed(made["first"], tmp_path / "other", file, cell, split=split)
    text = diff(capsys, made["first"], other, "--exit-code", code=1)
    assert text.endswith(f"{SAME}\nbut other metrics: {metric}\n")


def test_the_same_results(made, tmp_path, capsys):
    """Up to rounding; what was not traced is no difference."""
    first, without = made["first"], tmp_path / "without"
    assert diff(capsys, first, first, "--exit-code").endswith(f"{SAME}\nthe results are the same\n")
    trace = pl.read_parquet(first / "trace.parquet")
    before = trace.filter(seed=4, round=2)["unfairness"].item()
    rounded = changed(first, tmp_path / "rounded", "trace.parquet", (4, 2, "unfairness", before + 1e-9))
    assert "the results are the same" in diff(capsys, first, rounded, "--exit-code")
    shutil.copytree(first, without)
    RunDirectory(without).write_parquet("trace.parquet", trace.with_columns(blocks=pl.lit(None, dtype=pl.Int32)))
    accept_changes(without)
    assert "the results are the same" in diff(capsys, first, without, "--exit-code")
    RunDirectory(without).write_parquet("trace.parquet", trace.filter(pl.col("round") <= 15))
    accept_changes(without)
    text = diff(capsys, first, without, "--exit-code", code=1)
    assert "in rounds 1 to 15\nthey have other seeds, or another number of rounds" in text


def test_a_run_that_is_not_finished_is_compared_by_its_tables(made, tmp_path, capsys):
    unfinished = shutil.copytree(made["first"], tmp_path / "unfinished")
    (unfinished / "summary.json").unlink()
    change(unfinished, status="interrupted")
    checkpoint = {"results_version": 1, "fingerprint": "", "files": on_disk(unfinished)["files"], "state": {}}
    torch.save(checkpoint, unfinished / "checkpoint.pt")
    text = diff(capsys, made["first"], unfinished, "--exit-code")
    assert re.search("^second  interrupted, 20 of 20 rounds", text, re.MULTILINE)
    assert rows(text)["online_ndcg"][2] == "+0.0000"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("0123456789", "RUN must be the directory of a run or an id below outputs, got 0123456789"),
        ("{here}/trace", "the tables of {here}/trace cannot be read ("),
        (
            "{here}/manifest",
            "RUN must be a run that can be read, got {here}/manifest ({here}/manifest/run.json must be",
        ),
        ("{l2} --metric xyz", "--metric must be one of all, online_ndcg, "),
        ("{l2} --metric online", "--metric online: did you mean online_ndcg"),
    ],
)
def test_what_cannot_be_compared_is_one_line(made, tmp_path, capsys, words, told):
    for name, file in ("trace", "trace.parquet"), ("manifest", "run.json"):
        (shutil.copytree(made["first"], tmp_path / name) / file).write_bytes(b"{ half of it")
    places = {"here": tmp_path, "l2": made["l2"]}
    assert told.format(**places) in refused(capsys, "diff", made["first"], *words.format(**places).split())
