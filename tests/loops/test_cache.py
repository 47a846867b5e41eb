"""Machine code on disk is that of the present loops: numba itself looks at a function's own file only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ol2r_cli import loops

pytestmark = pytest.mark.skipif(not loops.available(), reason="needs numba")
ROOT = Path(__file__).parents[2]
CALLER = """
import numba
from ol2r_cli.loops.callee import value
from ol2r_cli.loops.compile import compiled

@compiled
def call():
    return value()

@numba.njit(cache=True)
def own():
    return 7

print(call(), own())
"""
CALLEE = "from ol2r_cli.loops.compile import compiled\n\n@compiled\ndef value():\n    return {value}\n"
CLICKS = (
    "import sys, polars; from ol2r_cli import api as ol2r; "
    "run = ol2r.run(rounds=300, device='cpu', evaluate_on=[], output_dir=sys.argv[1]); "
    "print(run.id, run.trace['clicks'].sum())"
)


def output(root: Path, cache: Path, *words: str) -> list[str]:
    """What a program prints that finds ol2r in a folder and keeps machine code in another."""
    paths = {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=root, env=os.environ | paths, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_changed_callee_in_another_file_is_compiled_into_its_callers(tmp_path: Path):
    shutil.copytree(ROOT / "ol2r_cli" / "loops", tmp_path / "ol2r_cli" / "loops", ignore=lambda *_: ["__pycache__"])
    (tmp_path / "ol2r_cli" / "__init__.py").touch()
    (tmp_path / "ol2r_cli" / "loops" / "caller.py").write_text(CALLER)
    for value, cache in ((1, "kept"), (2, "kept"), (2, "empty"), (1, "kept")):
        (tmp_path / "ol2r_cli" / "loops" / "callee.py").write_text(CALLEE.format(value=value))
        found = output(tmp_path, tmp_path / cache, "-m", "ol2r_cli.loops.caller")
        assert found == [str(value), "7"], f"{found[0]} in place of {value} with the cache {cache}"
    assert list((tmp_path / "kept").glob("*/caller.own-*.nbi")), "own functions are where numba keeps them"
    assert len(list((tmp_path / "kept").glob("*/ol2r-*"))) == 2, "a folder for each version"


@pytest.mark.slow
def test_a_run_after_a_change_of_the_clicks_has_their_numbers(tmp_path: Path):
    """Clicks of 300 rounds by default, in the first three places only: 425, where the code before has 1,005."""
    for folder in "ol2r_cli", "configs":
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=lambda *_: ["__pycache__"])
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # or it would be an installation
    clicks, found = tmp_path / "ol2r_cli" / "loops" / "lists.py", {}
    for name, cache in ("original", "kept"), ("edited", "kept"), ("edited, empty cache", "empty"):
        if name == "edited":
            before = clicks.read_text()
            clicks.write_text(before.replace("clicked = chance", "clicked = place < 3 and chance"))
            assert clicks.read_text() != before
        found[name] = output(tmp_path, tmp_path / cache, "-c", CLICKS, str(tmp_path / name))
    assert found["edited"] == found["edited, empty cache"], found
    assert found["edited"][1] != found["original"][1], found
