"""Text that the locale cannot decode: refused before anything is written, in a line that says what to type."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ol2r_cli import cli
from tests.finished import refused
from tests.worlds import TINY

ROOT = Path(__file__).parents[2]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


@pytest.mark.parametrize(
    "typed",
    [["note=a\udcc3\udcbc"], ["-m", "note=a\udcc3\udcbc", "seed=1,2"], ["output_dir=a\udcc3\udcbc"]],
    ids=range(3),
)
def test_text_that_is_none_in_the_locale_is_refused(tmp_path, capsys, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, "run", *TINY, "rounds=2", *typed)
    advice = "save it as UTF-8, or type PYTHONUTF8=1 before the command"
    assert "a\\udcc3\\udcbc" in line
    assert line.endswith(f" has bytes that are no text in this locale: {advice}")
    assert not list(tmp_path.iterdir())


def test_a_run_has_its_text_whatever_the_locale_is(tmp_path, monkeypatch):
    """A note of ol2r's own choice files and of ol2r.yaml is read and written as UTF-8."""
    (tmp_path / "choices" / "ranker").mkdir(parents=True)
    text = "# Für Tests.\n_target_: ol2r_cli.ranker.model_ranker.RandomRanker  # größer\n"
    (tmp_path / "choices" / "ranker" / "mine.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "ol2r.yaml").write_text("# ü\nchoices: [choices]\noutput_dir: outputs\n", encoding="utf-8")
    command = [sys.executable, "-m", "ol2r_cli", "run", *TINY, "ranker=mine", "rounds=2"]
    env = os.environ | {"PYTHONPATH": str(ROOT), **ASCII}
    for words, code in (["note=ü"], 2), ([], 0):
        done = subprocess.run([*map(os.fsencode, [*command, *words])], cwd=tmp_path, env=env, capture_output=True)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command[3:], "note=ü"]) == 0, "this process has UTF-8"
    notes = [
        yaml.safe_load(path.read_text(encoding="utf-8"))["note"] for path in tmp_path.glob("outputs/*/*/config.yaml")
    ]
    assert notes == [""], "a note does not make another run: the second command found the first run"
