"""Drawing and writing figures: the same bytes everywhere, options, errors in one line, matplotlib as an option."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ol2r_cli.report.figures.drawing as figures
from ol2r_cli.report.figures.drawing import KINDS, SUFFIXES, painter, save
from tests.report.figures.runs import drawn, play

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from pathlib import Path
from ol2r_cli.report.run_groups import collect, group_runs
from ol2r_cli.report.figures.drawing import draw, save
from ol2r_cli.report.names import Labels
own = group_runs(collect([Path(sys.argv[1])]).runs)
for suffix in (".png", ".svg", ".pdf"):
    save(draw("online_ndcg", own, Labels(own)), Path(sys.argv[2]) / f"online{suffix}")
"""


def test_files_are_the_same_in_every_process(tmp_path):
    """This process and one with another hash seed write the same bytes, also for a ranker without its own style."""
    play(tmp_path / "runs", trace={"online_ndcg": {0: [0.25, 0.5], 1: [0.5, 0.75]}})
    play(tmp_path / "runs", "ranker=my_own", trace={"online_ndcg": {0: [0.5, 0.5], 1: [0.5, 0.25]}})
    for suffix in SUFFIXES:
        save(drawn(tmp_path / "runs", "online_ndcg"), tmp_path / "here" / f"online{suffix}")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "runs"), str(tmp_path / "there")]
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, env=environment, timeout=120)
    here, there = (
        {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (tmp_path / place).iterdir()}
        for place in ("here", "there")
    )
    assert here == there
    assert sorted(here) == ["online.pdf", "online.png", "online.svg"]


def test_the_settings_of_matplotlib_do_not_matter(tmp_path):
    import matplotlib

    play(tmp_path)
    save(drawn(tmp_path, "online_ndcg"), tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path", "savefig.dpi": 10}):
        save(drawn(tmp_path, "online_ndcg"), tmp_path / "other.svg")
        assert matplotlib.rcParams["font.size"] == 20, "those of the caller come back"
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_text_stays_text(tmp_path):
    play(tmp_path, "ranker=p2neurrank")
    save(drawn(tmp_path, "online_ndcg"), tmp_path / "some" / "folder" / "figure.svg")
    text = (tmp_path / "some" / "folder" / "figure.svg").read_text()
    assert ">P²NeurRank</text>" in text
    assert ">round</text>" in text
    assert "<dc:date>" not in text


def test_other_endings_are_refused(tmp_path):
    play(tmp_path)
    assert SUFFIXES == (".png", ".svg", ".pdf")
    with pytest.raises(ValueError, match=r"^a figure's file must end in .png, .svg, .pdf, got .*figure.gif$"):
        save(drawn(tmp_path, "online_ndcg"), tmp_path / "figure.gif")


def test_a_place_that_cannot_be_written(tmp_path):
    play(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"must be one that can be written, got .*figure.png \("):
        save(drawn(tmp_path, "online_ndcg"), tmp_path / "file" / "figure.png")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("pie", {}, r"^a figure must be one of learning_curve, .*, lda, got pie$"),
        (
            "blocks",
            {"split": "test"},
            r"^an option of figure blocks must be one of window, width, bands, units, got split$",
        ),
        ("learning_curve", {"cutoff": "7"}, r"^cutoff must be one of 1, 3, 5, 10, got 7$"),
        ("learning_curve", {"split": "train"}, r"^split must be one of test, validation, got train$"),
        ("online_ndcg", {"window": 0}, r"^window must be a whole number from 1 to 1, got 0$"),
        ("online_ndcg", {"window": "1.5"}, r"^window must be a whole number from 1 to 1, got 1.5$"),
        ("online_ndcg", {"width": "wide"}, r"^width must be column, page or inches from 2 to 30, got wide$"),
        ("online_ndcg", {"width": 1}, r"^width must be column, page or inches from 2 to 30, got 1$"),
        ("unfairness", {"signed": "yes"}, r"^signed must be one of true, false, got yes$"),
        ("unfairness", {"signed": True, "scale": "log"}, r"^scale must be linear where signed=true, got log$"),
        ("bar", {"metric": "mrr"}, r"^metric must be one of online_ndcg, .*, got 'mrr'$"),
        ("running_time", {"unit": "hours"}, r"^unit must be one of seconds, rounds, got hours$"),
    ],
)
def test_wrong_options_are_errors_in_one_line(tmp_path, kind, options, message):
    play(tmp_path)
    with pytest.raises(ValueError, match=message):
        drawn(tmp_path, kind, **options)


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    play(tmp_path)
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^figures need matplotlib: type pip install 'ol2r\[plots\]'$"):
        drawn(tmp_path, "online_ndcg")


def test_kinds_and_the_page_need_no_matplotlib(tmp_path):
    """A process that cannot import matplotlib lists the kinds, and writes report.html without figures."""
    play(tmp_path)
    script = f"""
import sys
sys.modules["matplotlib"] = None
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "matplotlib" else find_spec(name, *rest)
from ol2r_cli.report.figures.drawing import KINDS
from ol2r_cli.commands.report import main
print(len(KINDS), main([{str(tmp_path)!r}, "--out", {str(tmp_path / "report.html")!r}]))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == f"{len(KINDS)} 0"
    assert "type pip install" in (tmp_path / "report.html").read_text()


def test_every_listed_option_is_a_parameter():
    from inspect import signature

    for name, kind in KINDS.items():
        assert list(signature(painter(name)).parameters)[2:] == [*kind.options, "look"], name
