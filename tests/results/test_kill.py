"""kill -9 at any moment leaves a run that is sound, is not called finished, and goes on to the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WRITER = Path(__file__).with_name("writer.py")


def test_no_kill_leaves_a_corrupt_or_falsely_finished_run(tmp_path):
    env = os.environ | {"PYTHONPATH": str(WRITER.parents[2])}
    command = [sys.executable, str(WRITER), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    kills = int(done.stdout.split()[0])
    assert kills >= 60
