"""What README.md shows of a first run is what `ol2r run` gives; its commands are understood, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ol2r_cli.cli import COMMANDS, main
from ol2r_cli.config.composer import compose
from ol2r_cli.run.experiment import Experiment

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RUNS = re.findall(
    r"^    (?:\$ )?ol2r run (?!.*(?:--cfg|\$HOME|ronds))(.*)$", README, re.MULTILINE
)  # data of one's own, a slip


def test_the_first_run_has_this_id():
    pytest.importorskip("numba", reason="the README installs numba, and the engine is part of the id")
    composed = compose(["device=cpu"])
    experiment = Experiment(composed.settings, composed.choices)
    (told,) = re.findall(r"^    finished: run (\w+)$", README, re.MULTILINE)
    assert told == experiment.id
    assert f"  files            {experiment.directory.path}\n" in README


def test_its_runs_and_sweeps_are_understood(tmp_path, monkeypatch, capsys):
    assert {"-m" in line for line in RUNS} == {True, False}
    monkeypatch.chdir(tmp_path)
    for line in RUNS:
        assert main(["run", *shlex.split(line, comments=True), "--dry-run"]) == 0, capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_the_slip_it_shows_is_answered_like_this(capsys):
    (typed, answer) = re.findall(r"^    \$ (ol2r run ronds.*)\n    (.*)$", README, re.MULTILINE)[0]
    assert main(typed.split()[1:]) == 2
    assert capsys.readouterr().err == f"{answer}\n"


def test_every_command_has_its_line():
    assert set(re.findall(r"^\| `ol2r (\w+)", README, re.MULTILINE)) == set(COMMANDS)


def test_links_lead_somewhere():
    for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")):
        text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            path, _, place = link.partition("#")
            target = (file.parent / path).resolve() if path else file
            assert target.exists(), (file, link)
            assert not place or place in _headings(target.read_text()), (file, link)


def _headings(text: str) -> set[str]:
    """The names that a heading is linked by: small letters, blanks as hyphens, without other signs."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
