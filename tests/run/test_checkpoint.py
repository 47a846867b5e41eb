"""Checkpoints: what is written comes back, and what is damaged or belongs elsewhere is noticed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ol2r_cli.run import checkpoint
from ol2r_cli.run.checkpoint import CHECKPOINT
from ol2r_cli.run.store import RunDirectory

STATE = {
    "round": 7,
    "roles": {"ranker": {"theta": torch.arange(6.0).reshape(2, 3).double()}, "fairness": {}},
    "queue": [(100, torch.ones(2)), (200, torch.zeros(2))],
    "best": None,
    "speed": 0.1,
    "name": "pdgd",
    "done": False,
}


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path)


def test_a_nested_state_comes_back_as_it_was(directory):
    checkpoint.save(directory, STATE, "run")
    state = checkpoint.load(directory, "run")
    assert state.keys() == STATE.keys()
    for name in ("round", "best", "speed", "name", "done"):
        assert state[name] == STATE[name]
        assert type(state[name]) is type(STATE[name])
    theta = state["roles"]["ranker"]["theta"]
    assert theta.dtype == torch.float64
    assert torch.equal(theta, STATE["roles"]["ranker"]["theta"])
    assert [place for place, _ in state["queue"]] == [100, 200]


def test_a_state_dict_comes_back(directory):
    model = nn.Linear(3, 1)
    checkpoint.save(directory, {"ranker": model.state_dict()}, "run")
    other = nn.Linear(3, 1)
    other.load_state_dict(checkpoint.load(directory, "run")["ranker"])
    assert torch.equal(other.weight, model.weight)


def test_without_a_checkpoint_the_state_is_none_without_a_warning(directory, capsys):
    assert checkpoint.load(directory, "run") is None
    assert not capsys.readouterr().err


def test_another_run_or_another_version_is_refused_with_what_to_type(directory, monkeypatch):
    checkpoint.save(directory, STATE, "this")
    with pytest.raises(ValueError, match=r"checkpoint\.pt must be of run that, got this: type force=true"):
        checkpoint.load(directory, "that")
    now = checkpoint.RESULTS_VERSION
    monkeypatch.setattr(checkpoint, "RESULTS_VERSION", now + 1)
    with pytest.raises(ValueError, match=f"of results_version {now + 1}, got {now}: type force=true to start afresh"):
        checkpoint.load(directory, "this")


def test_a_damaged_checkpoint_is_reported_and_ignored(directory, capsys):
    checkpoint.save(directory, STATE, "run")
    whole = (directory / CHECKPOINT).read_bytes()
    damaged = {
        "empty": b"",
        "text": b"not a checkpoint",
        "half": whole[: len(whole) // 2],
        "all but the end": whole[:-1],
        "beginning overwritten": b"\x00" * 64 + whole[64:],
    }
    for how, content in damaged.items():
        (directory / CHECKPOINT).write_bytes(content)
        assert checkpoint.load(directory, "run") is None, how
        errors = capsys.readouterr().err
        assert errors.startswith(f"starts afresh: {directory / CHECKPOINT} cannot be read ("), how
        assert errors.count("\n") == 1


def test_a_flipped_bit_in_a_tensor_is_noticed(directory, capsys):
    checkpoint.save(directory, {"theta": torch.full((1000,), 1.5, dtype=torch.float64)}, "run")
    content = bytearray((directory / CHECKPOINT).read_bytes())
    content[content.index(torch.full((9,), 1.5, dtype=torch.float64).numpy().tobytes()) + 800] ^= 1
    (directory / CHECKPOINT).write_bytes(content)
    assert checkpoint.load(directory, "run") is None
    assert "cannot be read" in capsys.readouterr().err


def test_a_file_with_other_content_is_damaged(directory):
    torch.save([1, 2], directory / CHECKPOINT)
    assert checkpoint.load(directory, "run") is None
    torch.save({"state": {}}, directory / CHECKPOINT)
    assert checkpoint.load(directory, "run") is None


def test_values_that_could_not_be_read_are_not_written(directory):
    checkpoint.save(directory, STATE, "run")
    for value, where in (
        ({"queue": [1, np.float64(0.5)]}, r"state\.queue\[1\] must be a tensor or a plain value, got float64"),
        ({"roles": {"click": {3: object()}}}, r"state\.roles\.click\.3 must be .*, got object"),
        ({"seeds": {1, 2}}, r"state\.seeds must be .*, got set"),
    ):
        with pytest.raises(TypeError, match=where):
            checkpoint.save(directory, value, "run")
    assert checkpoint.load(directory, "run")["round"] == 7, "the old one is still there"


def test_a_checkpoint_can_be_removed_twice(directory):
    checkpoint.save(directory, STATE, "run")
    checkpoint.remove(directory)
    checkpoint.remove(directory)
    assert list(directory.path.iterdir()) == []
