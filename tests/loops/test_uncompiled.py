"""With NUMBA_DISABLE_JIT=1 loops are plain Python, as for a debugger, and play the same rounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ol2r_cli.cli import main
from tests.choices import with_setting
from tests.loops import staged
from tests.worlds import TINY

NETWORK = "olranknet"  # single rounds of networks use loops, too


def check(folder: Path, *words: str) -> None:
    """A run in which loops are compiled, and the same in Python: with the same id, trace and evaluation."""
    assert main(["run", *words, f"output_dir={folder / 'compiled'}"]) == 0
    command = [sys.executable, "-m", "ol2r_cli", "run", *words, f"output_dir={folder / 'python'}"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning" not in done.stderr
    found = sorted(path.relative_to(folder / "python") for path in (folder / "python").rglob("*.parquet"))
    assert found == sorted(path.relative_to(folder / "compiled") for path in (folder / "compiled").rglob("*.parquet"))
    assert "trace.parquet" in {path.name for path in found}  # click bandits have no evaluation
    for path in found:
        uncompiled, compiled = (pl.read_parquet(folder / form / path) for form in ("python", "compiled"))
        assert_frame_equal(uncompiled, compiled, rel_tol=1e-9, abs_tol=1e-12)


def test_a_run_without_compiled_loops(tmp_path):
    check(tmp_path, *TINY, "rounds=20", "ranker=pdgd")


@pytest.mark.slow
def test_the_default_run_without_compiled_loops(tmp_path):
    check(tmp_path, "rounds=50")


@pytest.mark.slow
@pytest.mark.parametrize("ranker", [*staged.staged("ranker"), NETWORK])
def test_a_ranker_without_compiled_loops(tmp_path, ranker: str):
    check(tmp_path, *TINY, "rounds=50", *with_setting("ranker", ranker))
