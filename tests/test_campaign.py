"""The fault campaigns of scripts/campaign.py, each with a few cases."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_no_case_of_a_short_campaign_is_wrong():
    command = [sys.executable, "scripts/campaign.py", "--count", "12", "--seed", "3"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=540)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = re.findall(r"^\| (\w+) \| (\d+) \| \d+ \| \d+ \| 0 \|$", ended.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == ["kills", "batches", "damage", "writers", "settings"]
    assert all(int(tried) > 5 for _, tried in rows)
