"""`kill -9` at any moment leaves a sound run that is not called finished and that resumes to the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = pytest.mark.slow
WRITER = Path(__file__).with_name("writer.py")


@pytest.mark.parametrize(
    ("step", "part_bytes", "least"),
    [(7, 2**22, 8), (7, 1, 8), pytest.param(1, 2**22, 60, marks=SLOW), pytest.param(1, 1, 60, marks=SLOW)],
)
def test_no_kill_leaves_a_damaged_or_falsely_finished_run(tmp_path, step, part_bytes, least):
    environment = os.environ | {"PYTHONPATH": str(WRITER.parents[2])}
    command = [sys.executable, str(WRITER), str(tmp_path / "run"), str(step), str(part_bytes)]
    writer = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert writer.returncode == 0, writer.stdout + writer.stderr
    kills = int(writer.stdout.split()[0])
    assert kills >= least, writer.stdout
