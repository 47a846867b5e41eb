"""The fault campaigns of scripts/campaign.py, each with a few cases."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.program import python


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_no_case_of_a_short_campaign_is_wrong():
    ended = python("scripts/campaign.py", "--count", "12", "--seed", "3")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = re.findall(r"^\| (\w+) \| (\d+) \| \d+ \| \d+ \| 0 \|$", ended.stdout, re.MULTILINE)
    assert [name for name, _ in rows] == ["kills", "batches", "damage", "writers", "settings"]
    assert all(int(tried) > 5 for _, tried in rows)
