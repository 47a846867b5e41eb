"""The fault campaigns of scripts/campaign, each with a few cases."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CAMPAIGNS = ["kills", "disk_faults", "writers", "damaged_files", "sweeps", "data_files", "settings"]


def test_a_tally_has_a_column_for_every_outcome(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "scripts" / "campaign")
    tally = importlib.import_module("tally").Tally("kills")
    for problem, refused in (("", False), ("", True), ("lost", False), ("lost", True)):
        tally.add("case", problem, refused)
    assert tally.row() == "| kills | 4 | 1 | 1 | 2 |"
    assert tally.wrong == ["case: lost"] * 2


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_no_case_of_a_short_campaign_is_wrong(name: str, tmp_path: Path):
    command = [sys.executable, "scripts/campaign", name, "--short", "--seed", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=540)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = re.findall(r"^\| .* \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| 0 \|$", ended.stdout, re.MULTILINE)
    tried, survived, refused = (int(number.replace(",", "")) for number in row)
    assert tried == survived + refused > 0
