"""`make test-core` and `make test-plugin PLUGIN=NAME` run the tests that they name, and together all of `make test`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ol2r_cli.plugins import plugins

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make")

pytestmark = pytest.mark.skipif(MAKE is None, reason="there is no make")


def made(*words: str, dry: bool = True) -> subprocess.CompletedProcess[str]:
    """What `make` does with these words, which have no effect if `dry`."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "ARGS")}
    command = [MAKE or "make", *(["--dry-run"] if dry else []), *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def selected(*words: str) -> tuple[set[Path], str]:
    """The files whose tests `make` runs with these words, and the expression that selects among their tests."""
    done = made(*words)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if " -m pytest " in line)
    typed = shlex.split(line.partition(" -m pytest ")[2])
    folders = [ROOT / word for word in typed if (ROOT / word).is_dir()] or [ROOT / "tests"]
    left_out = [ROOT / word.partition("=")[2] for word in typed if word.startswith("--ignore=")]
    files = {file for folder in folders for file in folder.rglob("test_*.py")}
    kept = {file for file in files if not any(file.is_relative_to(folder) for folder in left_out)}
    return kept, typed[typed.index("-m") + 1]


def test_the_core_and_each_plugin_have_all_tests_between_them():
    every, fast = selected("test")
    core, expression = selected("test-core")
    assert expression == fast
    assert {file for file in core if file.parent.parent == ROOT / "tests" / "plugins"} == set()
    left = every - core
    for plugin in plugins():
        own, expression = selected("test-plugin", f"PLUGIN={plugin.name}")
        assert (expression, own) == (
            fast,
            {file for file in every if file.is_relative_to(ROOT / "tests/plugins" / plugin.name)},
        )
        left -= own
    assert left == set()


@pytest.mark.parametrize("given", ["", "serach"])
def test_a_plugin_that_is_not_there_is_refused_with_all_names(given):
    """Nothing is set up before that."""
    done = made("test-plugin", f"PLUGIN={given}", dry=False)
    assert done.returncode != 0
    assert f"PLUGIN must be one of {' '.join(sorted(plugin.name for plugin in plugins()))}, got {given}" in done.stderr
    assert done.stdout == ""
