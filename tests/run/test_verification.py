"""`ol2r verify` on runs that are intact, damaged and edited."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli.commands.report import main as report
from ol2r_cli.commands.run import main as run
from ol2r_cli.plugins.look_after.verify import main
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.run.summary import summarise
from tests.manifests import accept_changes, change, edited_summary

TINY = Path(__file__).parents[1] / "data" / "tiny"


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run with everything that can be saved."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["experiment=smoke", "replicas=2", "save_interactions=true", "block_rounds=[10]", "validation_sessions=40"]
    assert run([*words, f"output_dir={folder}"]) == 0
    (path,) = find_runs(folder)
    return path


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / finished.name))


def verified(path: Path, capsys) -> tuple[int, list[str]]:
    """The exit code, and what is printed of the run."""
    capsys.readouterr()
    code = main([str(path)])
    lines = capsys.readouterr().out.splitlines()
    return code, [line.removeprefix(f"{path}: ") for line in lines]


def edit(path: Path, table: str, *columns: pl.Expr, rows: pl.Expr | None = None):
    frame = pl.read_parquet(path / table)
    frame = frame.with_columns(*columns) if rows is None else frame.filter(rows)
    frame.write_parquet(path / table)


ONE_ROUND = (pl.col("seed") == 1) & (pl.col("round") == 7)
EDITS = {
    "online NDCG": (
        "trace.parquet",
        pl.when(ONE_ROUND).then(0.123).otherwise("online_ndcg").cast(pl.Float32).alias("online_ndcg"),
        ["trace.parquet: cumulative_ndcg is not the discounted sum of online_ndcg", "summary.json: "],
    ),
    "rounds": (
        "trace.parquet",
        pl.when(ONE_ROUND).then(8).otherwise("round").alias("round"),
        ["trace.parquet has 120 rows, which are not rounds 1 to 60 of seeds [0, 1]"],
    ),
    "clicks": (
        "trace.parquet",
        pl.when(ONE_ROUND).then(pl.col("clicks") + 1).otherwise("clicks").cast(pl.Int16).alias("clicks"),
        ["interactions.parquet has other queries or clicks than trace.parquet", "summary.json: metrics is"],
    ),
    "test NDCG": (
        "evaluation.parquet",
        (pl.col("ndcg_10") + 0.01).cast(pl.Float32).alias("ndcg_10"),
        ["summary.json: metrics is"],
    ),
    "sessions": (
        "validation_clicks.parquet",
        (pl.col("shown") + ((pl.col("seed") == 1) & (pl.col("rank") == 1)).cast(pl.Int64)).alias("shown"),
        ["validation_clicks.parquet has not 40 sessions of each seed", "validation_clicks.parquet: counts of a rank"],
    ),
    "clicks of sessions": (
        "validation_clicks.parquet",
        (pl.col("clicked") + (pl.col("rank") == 2).cast(pl.Int64)).alias("clicked"),
        ["validation_clicks.parquet: counts of a rank are not those that the rank above leaves"],
    ),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_table_does_not_fit_the_others(copy, capsys, what):
    table, column, expected = EDITS[what]
    edit(copy, table, column)
    accept_changes(copy)
    code, lines = verified(copy, capsys)
    assert code == 1
    assert [start for start in expected if not any(line.startswith(start) for line in lines)] == []


def test_online_ndcg_is_that_of_the_saved_lists(copy, capsys):
    """An edit that also corrects the sums is noticed by the documents that were shown."""
    better = pl.when(ONE_ROUND).then(0.999).otherwise("online_ndcg").cast(pl.Float32)
    edit(copy, "trace.parquet", better.alias("online_ndcg"))
    steps = pl.col("online_ndcg").cast(pl.Float64) * 0.9995 ** (pl.col("round") - 1)
    edit(copy, "trace.parquet", steps.cum_sum().over("seed").alias("cumulative_ndcg"))
    accept_changes(copy)
    RunDirectory(copy).write_json("summary.json", summarise(Run.read_finished(copy)))
    accept_changes(copy)
    expected = "trace.parquet: online_ndcg is not that of interactions.parquet in 1 of 120 rows"
    assert verified(copy, capsys) == (1, [expected, "1 finished run: 0 intact, 1 not"])


def test_skipped_queries_have_no_online_ndcg(tmp_path, capsys):
    """Queries that are skipped have no online NDCG, and without data there is none."""
    data = Path(shutil.copytree(TINY, tmp_path / "data"))
    words = ["dataset=letor", f"dataset.path={data}", "rounds=60", "save_interactions=true", "no_relevant=skip"]
    assert run([*words, f"output_dir={tmp_path}", f"cache_dir={tmp_path / 'cache'}"]) == 0
    (path,) = find_runs(tmp_path)
    assert pl.read_parquet(path / "trace.parquet")["online_ndcg"].null_count(), "or this tests nothing"
    assert verified(path, capsys) == (0, ["1 finished run: 1 intact, 0 not"])
    shutil.rmtree(data)
    assert main([str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "1 finished run: 1 intact, 0 not\n"
    assert captured.err.startswith(f"{path}: online NDCG is not recomputed, because its data cannot be read (")
    assert captured.err.count("\n") == 1


def test_tables_that_lack_rows_and_a_summary_of_others(copy, capsys):
    with edited_summary(copy) as content:
        content["metrics"]["online_ndcg"]["mean"] += 1e-6
        content["rounds"] = 61
    not_of_the_tables = ["summary.json: rounds", "summary.json: metrics"]
    lines = [f"{what} is not that of the tables" for what in not_of_the_tables]
    assert verified(copy, capsys) == (1, [*lines, "1 finished run: 0 intact, 1 not"])
    edit(copy, "evaluation.parquet", rows=~((pl.col("seed") == 1) & (pl.col("round") == 60)))
    edit(copy, "trace.parquet", rows=pl.col("round") <= 50)
    accept_changes(copy)
    code, lines = verified(copy, capsys)
    assert code == 1
    assert lines[0] == "trace.parquet has 100 rows, which are not rounds 1 to 60 of seeds [0, 1]"
    assert "evaluation.parquet: split test lacks rounds of a seed, or has them twice" in lines


def test_a_report_can_leave_out_what_is_not_intact(finished, tmp_path, capsys):
    for name in ("intact", "edited"):
        shutil.copytree(finished, tmp_path / name / finished.name)
    edit(tmp_path / "edited" / finished.name, "trace.parquet", pl.lit(None).cast(pl.Int16).alias("clicks"))
    accept_changes(tmp_path / "edited" / finished.name)
    assert report([str(tmp_path)]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert report([str(tmp_path), "--verify"]) == 0
    captured = capsys.readouterr()
    assert "1 run." in captured.out
    assert "interactions.parquet has other queries or clicks than trace.parquet" in captured.out


def test_runs_below_a_folder_by_id_and_not_finished(finished, tmp_path, capsys):
    other = Path(shutil.copytree(finished, tmp_path / "other"))
    damaged = Path(shutil.copytree(finished, tmp_path / "damaged")) / "ranker.pt"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    change(other, status="interrupted")
    shutil.copytree(finished, tmp_path / "unreadable")
    (tmp_path / "unreadable" / "run.json").write_text("{")
    assert main([str(tmp_path), str(finished)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{damaged.parent}: ranker.pt has another content than when it was written"
    assert out[1].startswith(f"{tmp_path / 'unreadable'}: ")
    assert "run.json must be JSON" in out[1]
    assert out[2:] == ["3 finished runs: 1 intact, 2 not, 1 not finished"]
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "RUN must be the directory of a run or an id" in capsys.readouterr().err
