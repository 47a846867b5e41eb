"""Continuous integration tests what is promised: each Python, and the lower bound of what users install."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_python_that_is_promised_is_tested():
    tested = yaml.safe_load(WORKFLOW)["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if text.startswith("Programming Language ::")]
    assert tested == [version for version in named if "." in version]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    assert f"Python {tested[0]} to {tested[-1]}" in (ROOT / "docs/how-to/install.md").read_text()


def bounds(*extras: str) -> dict[str, str]:
    """The lower bound of each package of some extras."""
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    required = [Requirement(line) for line in lines]
    return {each.name: str(spec) for each in required for spec in each.specifier if spec.operator == ">="}


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_the_lower_bounds_of_every_extra_are_tested(extra: str):
    """As those of the two extras of which the lowest versions are installed."""
    assert bounds(extra).items() <= bounds("dev", "xgboost").items()
    assert "--resolution lowest-direct --torch-backend cpu --editable '.[dev,xgboost]'" in WORKFLOW
