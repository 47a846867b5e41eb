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
from tests.manifests import accept_changes
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
        accept_changes(path)
        paths.append(path)
    return paths


def is_plain(text: str) -> bool:
    return text.replace("\n", "").isprintable()


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Two runs for each mark, and two with a plain word."""
    return {mark: foreign(tmp_path_factory.mktemp("runs"), mark) for mark in ("plain", *MARKS)}


def test_a_page_has_no_element_of_others(marked, tmp_path: Path):
    page = tmp_path / "page.html"
    for mark, paths in marked.items():
        assert main(["report", *map(str, paths), "--out", str(page)]) == 0
        text = page.read_text(encoding="utf-8")
        found = Page(text)
        assert is_plain(text), mark
        assert not [tag for tag, attributes in found.elements if tag == "i" or "foreign" in attributes], mark
        drawn = {str(attributes["id"]) for tag, attributes in found.elements if tag == "figure"}
        assert mark == "$x_{" or any(name.startswith("setting-ranker-") for name in drawn), drawn


def test_no_line_and_no_control_character_is_of_others(marked, capsys: pytest.CaptureFixture[str]):
    """The numbers of lines are those of the plain word, which comes first."""
    numbers: dict[str, int] = {}
    for mark, (first, second) in marked.items():
        for words in (
            "status",
            "verify",
            "diff",
            "report",
            *(f"report --format {form}" for form in ("latex", "md", "csv")),
        ):
            name, *options = words.split()
            main([name, *([str(first.parent)] if name == "status" else [str(first), str(second)]), *options])
            printed = "\n".join(capsys.readouterr())
            assert is_plain(printed), (mark, words)
            assert numbers.setdefault(words, printed.count("\n")) == printed.count("\n"), (mark, words)


def test_a_notebook_shows_no_element_of_others(marked):
    for mark, (path, _) in marked.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            texts = [ol2r.Run(path)._repr_markdown_(), ol2r.compare(path.parent)._repr_markdown_()]
        for text in texts:
            assert is_plain(text), mark
            outside = re.sub(r"^`[^`]*`$", "", text, flags=re.MULTILINE)
            assert not re.search(r"(?<!\\)(<i|\]\()", outside), mark


def test_a_spreadsheet_calculates_nothing_of_others(marked, capsys: pytest.CaptureFixture[str]):
    for mark in "=1+1", "@SUM(A1)":
        assert main(["report", str(marked[mark][0].parent), "--format", "csv"]) == 0
        rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
        assert {row[rows[0].index("dataset")] for row in rows[1:]} == {f"'{mark}"}
        assert not [cell for row in rows for cell in row if cell[:1] in tuple("=+-@")]


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
