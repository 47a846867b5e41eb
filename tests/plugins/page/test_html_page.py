"""The page: whole in itself, well-formed, the same for the same runs, and with everything that it should have."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ol2r_cli.plugins.page.page_figures as page_figures
from ol2r_cli.plugins.page.html_page import ranges
from ol2r_cli.report.best_settings import select
from ol2r_cli.report.collection import collect
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.document import Document
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import group_runs
from tests.report.runs import make, play

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Elements that are opened and closed, with their attributes and text."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def written(
    root: Path, *, baseline: str | None = None, choose: bool = False, options: Sequence[str] = ()
) -> tuple[str, Page]:
    found = collect([root])
    own = group_runs(found.runs)
    labels = Labels(own)
    selection = select(own, labels) if choose else None
    own = [*selection.cells] if selection else own
    comparison = compare(own, labels, ["online_ndcg"], baseline) if baseline else None
    document = Document(found, own, labels, ["online_ndcg"], selection, comparison)
    document.write(root / "report.html", "html", argparse.Namespace(option=[*options]))
    text = (root / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture
def shown(monkeypatch):
    """What lets a page have figures of this kind only."""
    return lambda kind: monkeypatch.setattr(page_figures, "_SHOWN", (kind,))


@pytest.fixture
def one_figure(shown):
    """A page with learning curves only, for tests of other things."""
    shown("learning_curve")


@pytest.fixture(scope="module")
def two_rankers(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for ranker, level in (("pairrank", 0.5), ("pdgd", 0.25)):
        trace = {
            "online_ndcg": {0: [level] * 4, 1: [level + 0.125] * 4, 2: [level] * 4},
            "cumulative_ndcg": {seed: [1 + seed] * 4 for seed in range(3)},
        }
        test = {0: [0.1, level], 1: [0.1, level + 0.25], 2: [0.1, level + 0.125]}
        play(root, f"ranker={ranker}", trace=trace, test=test, every=4)
    make(root / "more", status="failed")
    return root


@pytest.fixture(scope="module")
def page(two_rankers) -> tuple[str, Page]:
    return written(two_rankers, baseline="pairrank")


def test_the_highest_mean_by_itself_is_no_finding(tmp_path, one_figure):
    levels = {"pairrank": (0.5, 0.4, 0.6), "pdgd": (0.6, 0.4, 0.45), "dbgd": (0.1, 0.01, 0.2)}
    for ranker, test in levels.items():
        make(tmp_path, f"ranker={ranker}", test=dict(enumerate(test)))
    said = r"is that of PairRank .*, then PDGD .*; 1 of 2 others are significantly lower, that of PDGD is not .* \(p = "
    assert re.search(said, written(tmp_path)[1].text)


def test_units_of_intervals_are_named(tmp_path, one_figure):
    for fold, level in ((1, 0.5), (2, 0.25)):
        for ranker in ("pairrank", "pdgd"):
            make(tmp_path, f"ranker={ranker}", f"dataset.fold={fold}", test={0: level})
    text = written(tmp_path)[1].text
    assert "differences could not be tested, which takes 3 seeds or folds." in text
    assert "Means ± half the 95% interval over folds" in text
    make(tmp_path, "ranker=dbgd")
    assert "half the 95% interval over folds, or over seeds in rows of one fold;" in written(tmp_path)[1].text


def test_a_page_is_well_formed_and_whole_in_itself(page):
    text, parsed = page
    assert parsed.open == []
    assert text.startswith("<!doctype html>\n<html lang=")
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids)), "names of elements are unique, also those of several pictures"
    pointed = [a["href"] for _, a in parsed.elements if "href" in a] + re.findall(r"url\((#[^)]+)\)", text)
    assert set(pointed) <= {f"#{name}" for name in ids}
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", text)
    assert not [tag for tag, attributes in parsed.elements if tag == "link" or "src" in attributes]


def test_a_page_is_the_same_every_time(page, two_rankers):
    assert written(two_rankers, baseline="pairrank")[0] == page[0]


@pytest.mark.parametrize(
    "said",
    [
        r"2 groups of 2 runs: 2 rankers, 1 click model, 1 dataset, 4 rounds; 3 values of each metric\.",
        r"the highest mean test NDCG@10 is that of PairRank \(0\.6250 ± [\d.]+\), then PDGD \(0\.3750 .*; that is s",
        r"Means ± half the 95% interval over seeds; ",
        r"bands are 95% intervals of the mean over seeds, cut",
        r"Lines at the ends of bars are 95% intervals of the mean over runs\.",
        r"Significant differences from pairrank: \d of 1 that were tested",
        "1 run not finished: ol2r status",
        r"pairrank \(baseline\)",
        "ol2r run ranker=pdgd",
        "exploration.alpha 0.1",
        r"2026-01-01 00:00:00\S* and 2026-01-01 00:01:00",
        "mq2008, fold 1, sha256 mq2008, fold 1",
        "cpu, 1 thread",
        "Learning curve: NDCG on held-out queries over rounds. Panels: MQ2008, perfect. Shown: PairRank; PDGD.",
    ],
)
def test_a_page_says_all_that_there_are_data_for(page, said):
    assert re.search(said, page[1].text)


def test_a_page_has_tables_and_figures(page):
    text, parsed = page
    assert text.count("<table") == text.count("<caption>") == 3, "the groups, the differences, and the runs"
    assert all(attributes.get("scope") == "col" for attributes in parsed.all("th"))
    own = [attributes["id"] for attributes in parsed.all("figure")]
    assert own == ["differences", "learning_curve", "cumulative_ndcg", "online_ndcg", "running_time"]
    assert [(a["role"], a["aria-labelledby"]) for a in parsed.all("svg")] == [("img", f"{each}-title") for each in own]
    assert not re.search(r'<path[^>]* d="[^"]*\d\.\d{3}', text)


def test_a_caption_names_the_measure(runs, tmp_path, shown):
    """As tables do; several measures have figures of their own."""
    shown("measure")
    shutil.copytree(runs["measures"], tmp_path / "run")
    assert "DCG@5: the column dcg_5 over rounds." in written(tmp_path)[1].text


def test_captions_say_what_bands_are_and_which_groups_have_none(tmp_path, one_figure):
    trace = {"online_ndcg": {0: [0.5] * 4, 1: [0.5] * 4}}
    for ranker in "pairrank", "pdgd":
        play(tmp_path, f"ranker={ranker}", trace=trace, test={0: [0.1, 0.5], 1: [0.1, 0.5]}, every=4)
    text = written(tmp_path, baseline="pairrank")[1].text
    assert "could not be tested: that takes 3 seeds or folds" in text
    assert "bands are 95% intervals of the mean over seeds, cut where" in text
    assert "No intervals for 2 of 2 groups: they have fewer than 3 seeds or folds." in text
    text = written(tmp_path, options=["bands=sd", "units=seeds"])[1].text
    assert "bands are standard deviations over seeds, cut where" in text
    assert "No intervals" not in text
    assert "Means without intervals." in written(tmp_path, options=["bands=none"])[1].text


def test_without_matplotlib_the_rest_is_there(two_rankers, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text, parsed = written(two_rankers)
    assert "<figure" not in text
    assert parsed.text.count("figures need matplotlib: type pip install 'ol2r[plots]'") == 1
    assert "pdgd" in parsed.text


def test_names_are_no_html_and_keep_their_digits(tmp_path, one_figure):
    for pairs in "'<script>'", "all":
        play(tmp_path, "ranker=<b>&mine", f"ranker.pairs={pairs}")
    for number in (0.001, 0.0034):
        play(tmp_path, f"fairness.epsilon={number}", "fairness=fairexp", test={0: [0.5, 0.5]}, every=1)
    text, parsed = written(tmp_path)
    assert "<b>" not in text
    assert len(parsed.all("script")) == 1
    assert "<b>&mine" in parsed.text
    assert parsed.text.count("dataset.normalise") == 1, "what all groups share is told once"
    assert ">FairExp-PairRank ε=0.0034</text>" in text, "coordinates are rounded, and text is not"


def test_too_many_curves_are_those_that_validation_chooses(tmp_path, one_figure):
    for number in range(17):
        validation = {0: [0.0, number / 20], 1: [0.0, number / 20]}
        trace = {"online_ndcg": {0: [0.5] * 2, 1: [0.5] * 2}}
        play(tmp_path, f"ranker.l2={number}", trace=trace, test=validation, validation=validation, every=2)
    _, parsed = written(tmp_path)
    assert "Of every ranker the settings with the best validation NDCG." in parsed.text
    assert [attributes["id"] for attributes in parsed.all("figure")] == ["learning_curve"]
    _, parsed = written(tmp_path, choose=True)
    assert "by the best mean validation NDCG after the last evaluated round. A grid has up to 17 cells." in parsed.text


@pytest.mark.parametrize(
    ("seeds", "said"), [([0], "0"), ([0, 1, 2], "0–2"), ([5, 0, 1, 9, 10], "0–1, 5, 9–10"), ([3, 3], "3")]
)
def test_seeds_are_shown_as_ranges(seeds, said):
    assert ranges(seeds) == said
