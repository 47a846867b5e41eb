"""A sweep in processes of a launcher: the joblib launcher stands for all that send jobs elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def sweep(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    words = [
        "run",
        "-m",
        "experiment=smoke",
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=2",
        f"output_dir={folder}",
    ]
    command = [sys.executable, "-m", "ol2r_cli", *words, *overrides]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_jobs_run_in_other_processes_and_failures_are_told(tmp_path):
    good = sweep(tmp_path, "seed=0,1")
    assert good.returncode == 0, good.stderr
    assert len(list(tmp_path.glob("synthetic/*/summary.json"))) == 2
    partial = sweep(tmp_path, "ranker.l2=0.1,-1")
    assert partial.returncode == 3, partial.stderr
    assert "ranker.l2 must be above 0, got -1" in partial.stderr + partial.stdout
    assert "jobs of the sweep failed" in partial.stderr
