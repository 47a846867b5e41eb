"""docs/errands.md: what the owner types and writes into forms agrees with the files that it is about."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "errands.md").read_text()
COMMANDS = re.findall(r"^    (\S.*)$", PAGE, re.MULTILINE)
FORM = dict(re.findall(r"^\| ([\w ]+) \| `(.*)` \|$", PAGE, re.MULTILINE))


def test_there_are_ten_in_order():
    headings = re.findall(r"^## (\d+)\. ", PAGE, re.MULTILINE)
    assert headings == re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == [str(number) for number in range(1, 11)]


def test_the_address_is_written_by_the_line_that_is_shown(tmp_path):
    """The workflows and the build of the package read it."""
    (line,) = (line for line in COMMANDS if line.startswith("sed "))
    copy = tmp_path / "pyproject.toml"
    copy.write_text((ROOT / "pyproject.toml").read_text())
    *words, name = shlex.split(line.replace("-i", "-i.before"))
    subprocess.run([*words, tmp_path / name], check=True, timeout=60)
    before, after = (tomllib.loads(path.read_text()) for path in (ROOT / "pyproject.toml", copy))
    before["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"] = "https://github.com/OWNER/ol2r"
    assert after == before


def test_the_form_of_the_index_names_the_workflow():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / FORM["Workflow name"]).read_text())
    uploading = [job for job in workflow["jobs"].values() if job.get("permissions", {}).get("id-token") == "write"]
    assert [job["environment"] for job in uploading] == [FORM["Environment name"]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert FORM["PyPI Project Name"] == project["name"]
    (tag,) = re.findall(r"git push origin (\S+)", PAGE)
    (rule,) = re.findall(r"tag rule `(.*)\*`", PAGE)
    assert tag.startswith(rule)


def test_files_and_tests_that_are_named_are_there():
    named = {word for line in COMMANDS for word in re.findall(r"\b(?:docs|tests|scripts)/[\w/.]+", line)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
    assert len(named) >= 3


def test_the_announcement_has_the_verdicts():
    claims = ROOT / "docs" / "benchmark" / "claims.md"
    if not claims.exists():
        pytest.skip("the plug-in benchmark was removed")
    table = claims.read_text().partition("## Verdicts")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [\w\- ]+ +\|([\d ]*)\|([\d ]*)\|([\d ]*)\|$", table, re.MULTILINE)
    holds, fails, undecided = (sum(int(count.strip() or 0) for count in column) for column in zip(*rows, strict=True))
    announced = " ".join(PAGE.split())
    assert (
        f"{holds + fails + undecided} claims of {len(rows)} papers were tested on public data by written rules: "
        f"{holds} hold, {fails} fail, {undecided} are undecided."
    ) in announced
    assert f"{len(rows)} mails are sent" in announced
