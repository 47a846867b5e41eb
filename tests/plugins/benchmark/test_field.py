"""The picture of the field shows the published tables."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from ol2r_cli.plugins.figures.drawing import file_content

ROOT = Path(__file__).parents[3]
FIELD = runpy.run_path(str(ROOT / "scripts" / "field.py"), run_name="field")
PAGE = ROOT / "docs" / "benchmark"
METRICS = ("test_ndcg_10", "cumulative_ndcg")


@pytest.fixture(scope="module")
def figure():
    return FIELD["drawn"]()


def test_the_picture_is_that_of_the_tables(figure):
    """`python scripts/field.py` draws it again."""
    new, published = file_content(figure, "svg").decode(), FIELD["FILE"].read_text()
    assert texts(published) == texts(new)
    assert markers(published) == pytest.approx(markers(new), abs=1)  # point: another matplotlib may round otherwise


def texts(svg: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", svg)


def markers(svg: str) -> np.ndarray:
    return np.array(re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', svg), dtype=float)


def test_markers_are_the_arrows_of_the_pages(figure):
    """A marker to the right is ↑ in the page, one to the left is ↓, and the middle is the difference of the means."""
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    for axes, (metric, user) in zip(figure.axes, [(m, user) for m in METRICS for user in FIELD["USERS"]], strict=True):
        rows = page_rows(FIELD["USERS"][user][0], user, METRICS.index(metric))
        if axes.get_yticklabels()[0].get_text():
            names = [label.get_text() for label in axes.get_yticklabels()]
        drawn = {int(line.get_ydata()[0]): line for line in axes.lines if line.get_marker() in "<>o"}
        for place, name in enumerate(names):
            if name == "PDGD":
                continue
            value, arrow = rows[name.replace("on labels", "on the true labels")]
            marker = {"↑": ">", "↓": "<", "": "o"}[arrow]
            assert drawn[place].get_marker() == marker, (metric, user, name)
            assert drawn[place].get_xdata()[0] == pytest.approx(
                value - rows["PDGD"][0], abs=1e-2 if "cum" in metric else 1e-4
            )


def page_rows(page: str, user: str, column: int) -> dict[str, tuple[float, str]]:
    """Return the value and the arrow of each row of a page's table."""
    text = (PAGE / f"{page}.md").read_text()
    section = text.partition(f"### MQ2008, {user}\n")[2].partition("| selection")[0]
    rows = {}
    for line in re.findall(r"^\| (.*) \|$", section, re.MULTILINE):
        cells = [cell.strip() for cell in line.split("|")]
        if value := re.match(r"[\d.]+", cells[1 + column]):
            name = re.sub(r"( \(baseline\))?( †)?$", "", cells[0])
            rows[name] = float(value[0]), "".join(re.findall("[↑↓]", cells[1 + column]))
    return rows
