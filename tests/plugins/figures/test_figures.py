"""`ol2r report --figure`: which figures, and where they go. What they show is tested with their drawing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli.commands.report import main
from ol2r_cli.plugins.figures import drawing
from ol2r_cli.plugins.figures.kinds import KINDS
from ol2r_cli.plugins.figures.look import NothingToDraw
from tests import cases
from tests.finished import refused
from tests.report.runs import make


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """What was asked of `draw`, which draws nothing; `blocks` says that it cannot."""
    asked = []

    def draw(kind, groups, labels, **options):
        asked.append((kind, [group.choices["ranker"] for group in groups], options))
        if kind == "blocks":
            raise NothingToDraw("blocks needs runs with blocks")
        return f"picture of {kind}"

    monkeypatch.setattr(drawing, "draw", draw)
    monkeypatch.setattr(drawing, "save", lambda figure, path: Path(path).write_text(figure))
    monkeypatch.chdir(tmp_path)
    make(Path("runs"))
    return asked


def test_the_kinds_are_listed(drawn, capsys):
    assert main(["--figure"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(KINDS)
    assert KINDS["learning_curve"].shows in lines[list(KINDS).index("learning_curve")]


PLACES = """
runs --figure bar | figures/bar.png
--figure bar cosine runs --out new/pictures | new/pictures/bar.png new/pictures/cosine.png
runs --figure bar --format pdf | figures/bar.pdf
runs --figure bar --out new/curve.svg | new/curve.svg
runs --figure bar --out new/OTHER.SVG | new/OTHER.SVG
"""


@pytest.mark.parametrize(("typed", "files"), cases.lines(PLACES))
def test_figures_go_where_out_and_format_say(drawn, capsys, typed, files):
    assert main(typed.split()) == 0
    assert capsys.readouterr().out.splitlines() == [f"written: {file}" for file in files.split()]
    assert [Path(file).read_text() for file in files.split()] == [f"picture of {kind}" for kind, _, _ in drawn]
    assert all(rankers == ["pairrank"] for _, rankers, _ in drawn)


def test_each_kind_gets_its_options(drawn):
    words = ["--option", "split=validation", "width=page", "window=10"]
    assert main(["runs", "--figure", "learning_curve", "online_ndcg", *words]) == 0
    told = [{"split": "validation", "width": "page"}, {"width": "page", "window": "10"}]
    assert [options for _, _, options in drawn] == told


def test_a_kind_that_cannot_be_drawn_stops_no_other(drawn, capsys):
    assert main(["runs", "--figure", "blocks", "bar"]) == 0
    out, errors = capsys.readouterr()
    assert out == "written: figures/bar.png\n"
    left, few = errors.splitlines()
    assert left == "ol2r report: left out, blocks: blocks needs runs with blocks"
    few_seeds = "No intervals for 1 of 1 groups: they have fewer than 3 seeds or folds. --option"
    assert few.startswith(f"ol2r report: {few_seeds}")
    assert main(["runs", "--figure", "running_time"]) == 0
    assert "No intervals for 1 of 1 groups: they have fewer than 3 runs." in capsys.readouterr().err
    assert main(["runs", "--figure", "blocks"]) == 2
    assert capsys.readouterr().err == "ol2r report: blocks needs runs with blocks\n"


# What is typed, and the beginning of the line that answers.
MISTAKES = """
pie | --figure must be one of learning_curve,
curve | --figure curve: did you mean learning_curve?
lerning | --figure lerning: did you mean learning_curve?
learning_curve --metric regret | --metric does not go with --figure learning_curve: it is of bar, differences, trial,
bar --option split=test | --option must be one of width, bands, units, xlim, ylim, xlabel, ylabel, metric, got 'split'
bar --option band | --option band: did you mean bands?
bar --option unit=fold | --option unit: did you mean units?
bar --option metric | --option must be NAME=VALUE, got metric
bar --format csv | --format must be one of png, svg, pdf with --figure, got csv
bar --out x.doc | --out must be a folder, or end in .png, .svg, .pdf, got x.doc
bar --out x.png --format svg | --out must not end in .png with --format svg
bar cosine --out x.png | --out must be a folder for 2 figures, got x.png
bar --out file/x.png | --out must be a file that can be written, got file/x.png
"""


@pytest.mark.parametrize(("typed", "complaint"), cases.lines(MISTAKES))
def test_errors_are_one_line_and_2(drawn, capsys, typed, complaint):
    Path("file").touch()
    assert refused(capsys, "report", "runs", "--figure", *typed.split()).startswith(complaint)
