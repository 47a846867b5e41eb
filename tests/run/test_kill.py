"""`kill -9` at any moment leaves a sound run that is not called finished and that resumes to the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WRITER = Path(__file__).with_name("writer.py")


@pytest.mark.parametrize(("step", "least"), [(7, 8), pytest.param(1, 60, marks=pytest.mark.slow)])
def test_no_kill_leaves_a_damaged_or_falsely_finished_run(tmp_path, step, least):
    environment = os.environ | {"PYTHONPATH": str(WRITER.parents[2])}
    command = [sys.executable, str(WRITER), str(tmp_path / "run"), str(step)]
    writer = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert writer.returncode == 0, writer.stdout + writer.stderr
    kills = int(writer.stdout.split()[0])
    assert kills >= least, writer.stdout
