"""Text of others, such as names of settings, is shown as text: it is no HTML, no formula and nothing that a terminal
obeys."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from pathlib import Path

import polars as pl
import pytest
import yaml

from ol2r_cli import api as ol2r
from ol2r_cli.cli import main
from ol2r_cli.columns import Column
from ol2r_cli.report.frames import as_csv
from ol2r_cli.report.text_table import in_markdown
from tests.report.runs import play
from tests.report.test_html_page import Page

MARKS = [
    '"><i foreign>',
    '" foreign="',
    r"\1",
    "$x_{",
    "=1+1",
    "@SUM(A1)",
    "|`*](x)",
    "\x1b[31m",
    "\n# x",
    "\u202e",
    "]]>",
]


def foreign(root: Path, mark: str) -> list[Path]:
    """Two runs in which others have written `mark` wherever there is text, and a setting of this name."""
    paths = []
    for number, level in enumerate((0.25, 0.5), 1):
        trace = {"online_ndcg": {seed: [level + seed / 10] * 4 for seed in (0, 1)}}
        ends = {seed: [level + seed / 10] * 5 for seed in (0, 1)}
        path = play(root, trace=trace, test=ends, validation=ends)
        config = yaml.safe_load((path / "config.yaml").read_text())
        config["ranker"][mark] = number
        config["dataset"]["path"] = mark
        config["click"]["of"] = mark
        (path / "config.yaml").write_text(yaml.safe_dump(config))
        manifest = json.loads((path / "run.json").read_text())
        manifest |= {"note": mark, "command": f"ol2r run {mark}", "versions": {mark: mark}, "error": mark}
        manifest["choices"]["dataset"] = mark
        (path / "run.json").write_text(json.dumps(manifest))
        paths.append(path)
    return paths


def is_plain(text: str) -> bool:
    return text.replace("\n", "").isprintable()


@pytest.mark.parametrize("mark", MARKS)
def test_a_page_has_no_element_of_others(mark: str, tmp_path: Path):
    page = tmp_path / "page.html"
    for name in ("plain", mark):
        foreign(tmp_path / f"runs{name == mark}", name)
        assert main(["report", str(tmp_path / f"runs{name == mark}"), "--out", str(page)]) == 0
        text = page.read_text(encoding="utf-8")
        found = Page(text)
        assert is_plain(text)
        assert not [tag for tag, attributes in found.elements if tag == "i" or "foreign" in attributes]
    drawn = {str(attributes["id"]) for tag, attributes in found.elements if tag == "figure"}
    assert mark == "$x_{" or any(name.startswith("setting-ranker-") for name in drawn), drawn


@pytest.mark.parametrize("mark", MARKS)
def test_no_line_and_no_control_character_is_of_others(mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lines = {}
    for name in ("plain", mark):
        paths = list(map(str, foreign(tmp_path / str(name == mark), name)))
        for words in (
            ["status", str(tmp_path / str(name == mark))],
            ["verify", *paths],
            ["diff", *paths],
            ["report", *paths],
            *(["report", *paths, "--format", form] for form in ("latex", "md", "csv")),
        ):
            main(words)
            printed = "\n".join(capsys.readouterr())
            assert is_plain(printed), words
            lines.setdefault(" ".join([words[0], words[-1]] if "--format" in words else words[:1]), []).append(
                printed.count("\n")
            )
    assert {words: counts for words, counts in lines.items() if len(set(counts)) > 1} == {}


@pytest.mark.parametrize("mark", MARKS)
def test_a_notebook_shows_no_element_of_others(mark: str, tmp_path: Path):
    path, _ = foreign(tmp_path, mark)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = [ol2r.Run(path)._repr_markdown_(), ol2r.compare(tmp_path)._repr_markdown_()]
    for text in texts:
        assert is_plain(text)
        outside = re.sub(r"^`[^`]*`$", "", text, flags=re.MULTILINE)
        assert not re.search(r"(?<!\\)(<i|\]\()", outside)


@pytest.mark.parametrize("mark", ["=1+1", "@SUM(A1)", "+x", "-x", "-0.5"])
def test_a_spreadsheet_calculates_nothing_of_others(mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    foreign(tmp_path, mark)
    assert main(["report", str(tmp_path), "--format", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert {row[rows[0].index("dataset")] for row in rows[1:]} == {mark if mark == "-0.5" else f"'{mark}"}
    assert not [cell for row in rows for cell in row if cell[:1] in tuple("=+-@") and cell != "-0.5"]


def test_numbers_stay_numbers():
    numbers = ["-0.5", "+3", "-1e-5", "-2.5E+10", "0.5", "word", ""]
    formulas = ["=1", "+1+1", "-x", "@A1", "\tx", "\rx", "-1e", "-0.5\n=1", "="]
    table = pl.DataFrame({"=text": [*numbers, *formulas], "number": -0.5})
    rows = list(csv.reader(io.StringIO(as_csv(table), newline="")))
    assert rows == [["'=text", "number"], *([text, "-0.5"] for text in (*numbers, *(f"'{text}" for text in formulas)))]


def test_markdown_keeps_its_cells():
    assert in_markdown(r"a|b \ <b> <1e-6 [x](y) [1]") == r"a\|b \\ \<b> <1e-6 [x]\(y) [1]"


def test_a_label_of_a_column_is_text():
    with pytest.raises(ValueError, match="the label of column mine must be of printable characters, got"):
        Column("mine", "\x1b[31m")
