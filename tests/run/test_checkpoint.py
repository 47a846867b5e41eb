"""Checkpoints: what is written comes back, and what is damaged or belongs elsewhere is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ol2r_cli.run import CHECKPOINT, store
from ol2r_cli.run.store import RunDirectory, restore_checkpoint, save_checkpoint

PLAIN = {"round": 7, "best": None, "speed": 0.1, "name": "pdgd", "done": False}
STATE = PLAIN | {
    "roles": {"ranker": {"theta": torch.arange(6.0).reshape(2, 3).double()}, "fairness": {}},
    "queue": [(100, torch.ones(2)), (200, torch.zeros(2))],
}


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


def test_a_nested_state_comes_back(directory: RunDirectory, capsys: pytest.CaptureFixture[str]):
    assert restore_checkpoint(directory, "run") is None
    save_checkpoint(directory, STATE, "run")
    state = restore_checkpoint(directory, "run")
    assert state is not None
    assert not capsys.readouterr().err
    assert {name: (state[name], type(state[name])) for name in PLAIN} == {n: (v, type(v)) for n, v in PLAIN.items()}
    theta = state["roles"]["ranker"]["theta"]
    assert theta.dtype == torch.float64
    assert torch.equal(theta, torch.arange(6.0).reshape(2, 3).double())
    assert [place for place, _ in state["queue"]] == [100, 200]


def test_another_run_or_another_version_is_refused_with_what_to_type(directory: RunDirectory, monkeypatch):
    save_checkpoint(directory, STATE, "this")
    with pytest.raises(ValueError, match=r"checkpoint\.pt must be of fingerprint that, got this: type force=true"):
        restore_checkpoint(directory, "that")
    now = store.RESULTS_VERSION
    monkeypatch.setattr(store, "RESULTS_VERSION", now + 1)
    with pytest.raises(ValueError, match=f"of results_version {now + 1}, got {now}: type force=true to start afresh"):
        restore_checkpoint(directory, "this")
    assert (directory / CHECKPOINT).exists()


def test_a_damaged_checkpoint_is_reported_and_not_used(directory: RunDirectory, capsys: pytest.CaptureFixture[str]):
    theta = torch.full((1000,), 1.5, dtype=torch.float64)
    save_checkpoint(directory, {"theta": theta}, "run")
    whole = (directory / CHECKPOINT).read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(theta[:9].numpy().tobytes()) + 800] ^= 1
    damaged = {
        "text": b"not a checkpoint",
        "all but the end": whole[:-1],
        "beginning overwritten": b"\x00" * 64 + whole[64:],
        "a flipped bit of a tensor": bytes(flipped),
    }
    for content in [1, 2], {"state": {}}, torch.load(directory / CHECKPOINT) | {"files": {"trace.parquet": 3}}:
        torch.save(content, directory / CHECKPOINT)
        damaged[f"{content}"] = (directory / CHECKPOINT).read_bytes()
    for how, content in damaged.items():
        (directory / CHECKPOINT).write_bytes(content)
        assert restore_checkpoint(directory, "run") is None, how
        errors = capsys.readouterr().err
        assert errors.startswith(f"starts afresh: {directory / CHECKPOINT} cannot be read ("), how
        assert errors.count("\n") == 1
        assert not (directory / CHECKPOINT).exists()
