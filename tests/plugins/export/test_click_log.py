"""The clicks of a run: they are those of its rounds, with exact probabilities, and other tools read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.datasets import load_svmlight_file

from ol2r_cli import cli
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Split
from ol2r_cli.metrics.ranking import dcg, ndcg
from ol2r_cli.plugins.export.click_log import click_log
from ol2r_cli.run.run import Run
from tests.finished import refused, run_in
from tests.manifests import accept_changes
from tests.reference import clicks as reference
from tests.worlds import TINY


def exported(run: Path, out: Path) -> pl.DataFrame:
    assert cli.main(["export", str(run), "--to", "clicks", "--out", str(out)]) == 0
    return pl.read_csv(out) if out.suffix == ".csv" else pl.read_parquet(out)


def test_rows_are_the_rounds_of_the_run_with_exact_examination(tmp_path: Path):
    words = [*TINY, "rounds=70", "replicas=2", "seed=4", "save_interactions=true"]
    run = run_in(tmp_path, "ranker=pdgd", "click=yandex_dcm", *words).path
    log = exported(run, tmp_path / "log.parquet")
    there = Run.read_finished(run).interactions
    columns = ["seed", "round", "position", "document", "click"]
    assert log.select(columns).rows() == there.select(*columns[:2], "rank", *columns[3:]).rows()
    assert log["session"].unique().to_list() == list(range(1, 141))
    labels = build(compose(TINY).config["dataset"], "dataset").load().labels
    assert log["grade"].to_list() == labels.numpy()[log["document"]].tolist(), "in all rounds, also every 64th"
    user = Catalogue().choices["click"]["yandex_dcm"].content
    for (_,), page in log.group_by("session"):
        table = user["tables"][5]["click"]
        goes_on = lambda rank, _, clicked: user["continuation"][rank - 1] if clicked else 1  # noqa: E731
        expected = reference.cascade_examination(page["grade"].to_list(), table, goes_on)
        assert page["examination"].to_list() == pytest.approx(expected)
        assert page["list_probability"].n_unique() == 1
    assert log["list_probability"].is_between(0, 1, closed="right").all()
    assert exported(run, tmp_path / "log.csv").select(columns).rows() == log.select(columns).rows()
    assert cli.main(["data", "fit-clicks", str(tmp_path / "log.parquet"), "--fit", "dcm"]) == 0


def test_text_is_letor_with_clicks_as_grades(tmp_path: Path):
    """Sessions are queries."""
    run = run_in(tmp_path, "ranker=epsilon_greedy", "exploration.epsilon=1", *TINY, "rounds=20").path
    log = exported(run, tmp_path / "log.parquet")
    assert cli.main(["export", str(run), "--to", "clicks", "--out", str(tmp_path / "log.txt")]) == 0
    features, clicks, sessions = load_svmlight_file(str(tmp_path / "log.txt"), query_id=True)
    assert clicks.tolist() == log["click"].to_list()
    assert sessions.tolist() == log["session"].to_list()
    columns = [name for name in log.columns if name.startswith("feature_")]
    assert features.toarray() == pytest.approx(log.select(columns).to_numpy(), abs=1e-7)
    assert (log.select(columns).to_numpy() == 0).any()
    for line in (tmp_path / "log.txt").read_text().splitlines():  # a zero that is left out is missing for XGBoost
        pairs = line.partition(" #")[0].split()[2:]
        assert [pair.partition(":")[0] for pair in pairs] == [name.removeprefix("feature_") for name in columns]
    lengths = log.group_by("session").agg(pl.len(), pl.col("list_probability").first()).filter(pl.col("len") < 10)
    for _, length, chance in lengths.rows():  # all documents are shown, in uniformly random order
        assert chance == pytest.approx(1 / np.prod(np.arange(1, length + 1)))


def test_a_run_that_cannot_be_played_again_is_refused(tmp_path, capsys):
    """By its id, which is not that of its settings."""
    run, log = run_in(tmp_path, "ranker=random", *TINY, "rounds=5").path, tmp_path / "log.csv"
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("\nrounds: 5\n", "\nrounds: 4\n"))
    accept_changes(run)
    assert "cannot be played again" in refused(capsys, "export", run, "--to", "clicks", "--out", log)
    assert not log.exists()


def test_runs_from_before_a_setting_are_played_again(tmp_path: Path):
    """Those that came after 27 November 2026 have the values by which runs without them were played."""
    run = run_in(tmp_path, "ranker=pdgd", *TINY, "rounds=10").path
    before = exported(run, tmp_path / "before.csv")
    config = run / "config.yaml"
    lines = [line for line in config.read_text().splitlines() if "validation_sessions" not in line]
    config.write_text("\n".join(line for line in lines if not line.startswith("  popularity")) + "\n")
    assert "popularity" not in config.read_text()
    accept_changes(run)
    assert exported(run, tmp_path / "after.csv").equals(before)


@pytest.mark.parametrize(("seed", "number"), [(4, 1), (5, 3), (5, 7)])
def test_rounds_with_other_clicks_than_the_trace_are_refused(tmp_path: Path, seed: int, number: int):
    """Of two seeds with seven rounds one round had one click more; the rows of a trace may have any order."""
    run = run_in(tmp_path, "ranker=random", *TINY, "rounds=7", "replicas=2", "seed=4").path
    trace = pl.read_parquet(run / "trace.parquet").reverse()
    trace.write_parquet(run / "trace.parquet")
    accept_changes(run)
    assert len(click_log(run)[0].unique(["seed", "round"])) == 14
    other = (pl.col("seed") == seed) & (pl.col("round") == number)
    trace.with_columns(clicks=pl.col("clicks") + other.cast(pl.Int64)).write_parquet(run / "trace.parquet")
    accept_changes(run)
    message = rf"^round {number} has other clicks than {run} when it is played again, .* force=true$"
    with pytest.raises(ValueError, match=message):
        click_log(run)


@pytest.mark.slow
def test_lightgbm_ranks_better_with_its_correction_for_position(tmp_path: Path, data_dir: Path):
    """A production ranker that stopped learning early, 10,000 sessions of Yandex's users, five seeds: test NDCG@10 of
    LambdaMART on clicks, without and with the positions. Measured: .456 and .481, better for four of them."""
    lightgbm = pytest.importorskip("lightgbm")
    words = ["ranker=pdgd", "ranker.learning_rate=1", "ranker.decay=0.9", "click=yandex_position", "dataset=mq2008"]
    words += [f"dataset.path={data_dir / 'MQ2008'}", "rounds=10000", "replicas=5", "evaluate_every=10000"]
    log = exported(run_in(tmp_path, *words).path, tmp_path / "log.parquet")
    test = build(compose(words).config.dataset).load().split("test")
    settings = {"objective": "lambdarank", "num_leaves": 7, "learning_rate": 0.05, "min_data_in_leaf": 100}
    settings |= {"seed": 1, "deterministic": True, "num_threads": 1, "verbose": -1}
    gain = []
    for (_,), rows in log.group_by("seed", maintain_order=True):
        lengths = rows.group_by("session", maintain_order=True).len()["len"].to_numpy()
        features, reached = rows.select(pl.col("^feature_.*$")).to_numpy(), []
        for position in None, rows["position"].to_numpy() - 1:
            data = lightgbm.Dataset(features, rows["click"].to_numpy(), group=lengths, position=position)
            scores = lightgbm.train(settings, data, 100).predict(test.features.numpy())
            reached.append(mean_ndcg(torch.from_numpy(scores), test))
        gain.append(reached[1] - reached[0])
    assert sum(difference > 0 for difference in gain) >= 4
    assert np.mean(gain) > 0.015


def mean_ndcg(scores: torch.Tensor, split: Split) -> float:
    total = 0.0
    for start, length in zip(split.start.tolist(), split.length.tolist(), strict=True):
        labels = split.labels[start : start + length]
        order = scores[start : start + length].argsort(descending=True, stable=True)
        best = labels.sort(descending=True).values
        total += float(ndcg(dcg(labels[order][None, :10]), dcg(best[None, :10])))
    return total / len(split)
