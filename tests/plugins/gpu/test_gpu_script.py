"""The script that measures on a GPU, rehearsed on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "gpu.py"
pytestmark = pytest.mark.slow


def test_a_rehearsal_measures_and_nothing_is_repeated(tmp_path: Path):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--device", "cpu", "--small", "--only", "grid"]
    first = subprocess.run([*command, "--limit", "500"], capture_output=True, text=True, check=True)
    results = json.loads((tmp_path / "results.json").read_text())
    expected = "0 of 32 runs, theta 0e+00; a launch of 32"
    assert results == {"grid/pdgd/": expected, "grid/pairrank/": expected}
    assert f"| `pdgd` | {expected} |" in first.stdout
    again = subprocess.run([*command, "--limit", "0"], capture_output=True, text=True, check=True)
    assert again.stdout == first.stdout
    assert "grid/" not in again.stderr


def test_after_its_limit_it_ends_and_says_so(tmp_path: Path):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--device", "cpu", "--small", "--limit", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.endswith("not all was measured: type the same command again\n")
