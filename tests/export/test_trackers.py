"""What trackers find in what was exported to them, read with their own packages; exporting twice is exporting once."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ol2r_cli.export.tracked import Tracked, tracked

pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that are not ours


@pytest.fixture
def told(runs: dict[str, Path]) -> list[Tracked]:
    return [tracked(runs[name], points=7) for name in ("linear", "network")]


def later(run: Tracked) -> Tracked:
    """The same run, run again with another result."""
    summary = {**run.summary, "test_ndcg_10": 0.125}
    return replace(run, ended=run.ended + timedelta(hours=1), summary=summary)


def test_tensorboard(told: list[Tracked], tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from ol2r_cli.export import tensorboard

    (tmp_path / told[0].name).mkdir(parents=True)
    mine = tmp_path / told[0].name / "events.out.tfevents.of.another"
    mine.write_bytes(b"")
    assert [line.partition(":")[0] for line in tensorboard.write(told, tmp_path)] == ["written"] * 2
    assert [line.partition(":")[0] for line in tensorboard.write([told[1], later(told[0])], tmp_path)] == [
        "replaced"
    ] * 2
    for run in told:
        (file,) = (tmp_path / run.name).glob("*.ol2r")
        found = EventAccumulator(str(file), size_guidance={"scalars": 0}).Reload()
        tags = found.Tags()
        assert {*run.curves, *(f"summary/{name}" for name in run.summary)} == set(tags["scalars"])
        for name, curve in run.curves.items():
            assert [(one.step, pytest.approx(one.value)) for one in found.Scalars(name)] == curve
        assert "settings/text_summary" in tags["tensors"]
    file = next((tmp_path / told[0].name).glob("*.ol2r"))
    assert EventAccumulator(str(file)).Reload().Scalars("summary/test_ndcg_10")[0].value == 0.125
    assert mine.exists()


def test_mlflow(told: list[Tracked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    from mlflow.tracking import MlflowClient

    from ol2r_cli.export import mlflow

    out = tmp_path / "store" / "runs.db"
    with pytest.raises(ValueError, match=r"--out must be a file that ends in \.db, got .*/store"):
        mlflow.write(told, out.parent)
    assert mlflow.write(told, out) == [f"written: {run.name}" for run in told]
    again = [later(told[0]), told[1]]
    assert mlflow.write(again, out) == [f"replaced: {told[0].name}", f"there already: {told[1].name}"]
    client = MlflowClient(f"sqlite:///{out}")
    number = client.get_experiment_by_name("ol2r").experiment_id
    found = {run.data.tags["ol2r.run"]: run for run in client.search_runs([number])}
    assert found.keys() == {run.id for run in told}
    for run in again:
        one = found[run.id]
        assert one.data.params == {name: str(value) for name, value in run.settings.items()}
        assert one.data.metrics["test_ndcg_10"] == run.summary["test_ndcg_10"]
        assert one.info.end_time == 1000 * run.ended.timestamp()
        for name in ("trace/online_ndcg", "evaluation/test_ndcg_10"):
            history = client.get_metric_history(one.info.run_id, name)
            assert sorted((point.step, point.value) for point in history) == run.curves[name]
    assert {path.name for path in tmp_path.iterdir()} == {"store"}, "nothing is written elsewhere"


def test_wandb(told: list[Tracked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("wandb")
    for name in ("HOME", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    from ol2r_cli.export import wandb

    out = tmp_path / "out"
    assert wandb.write(told, out) == [f"written: {run.name}" for run in told]
    assert wandb.write(told[:1], out) == [f"replaced: {told[0].name}"]
    folders = {folder.name.rpartition("-")[2]: folder for folder in (out / "wandb").glob("offline-run-*")}
    assert folders.keys() == {run.id for run in told}
    assert len(list((out / "wandb").glob("offline-run-*"))) == len(told)
    for run in told:
        rows, summary, config = logged(folders[run.id] / f"run-{run.id}.wandb")
        for name, curve in run.curves.items():
            assert [(round, row[name]) for round, row in rows.items() if name in row] == curve
        assert summary["test_ndcg_10"] == run.summary["test_ndcg_10"]
        assert config["seed"] == 4


def logged(file: Path) -> tuple[dict[int, dict[str, float]], dict[str, float], dict[str, object]]:
    """The rows by step, the last summary and the configuration in a file of an offline run."""
    import json

    from wandb.proto import wandb_internal_pb2

    rows, summary, config = {}, {}, {}
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        for item in record.run.config.update:
            config[item.key] = json.loads(item.value_json)
        for item in record.summary.update:
            summary[item.key or item.nested_key[0]] = json.loads(item.value_json)
        values = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        if values:
            rows[int(values.pop("_step"))] = values
    return rows, summary, config


def records(content: bytes) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format: blocks of 32 kB, of pieces with check sum, length and kind.

    The first block begins with seven bytes of W&B's own.
    """
    whole = b""  # a record may go on in the next block
    for start in range(0, len(content), 32_768):
        block, place = content[start : start + 32_768], 0 if start else 7
        while place + 7 <= len(block):
            length, kind = struct.unpack_from("<HB", block, place + 4)
            piece = block[place + 7 : place + 7 + length]
            place += 7 + length
            whole = piece if kind in (1, 2) else whole + piece  # whole, first, middle, last
            if kind in (1, 4):
                yield whole
