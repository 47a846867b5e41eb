"""Every law is broken by a choice that breaks it, and is explained by the cause for which it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch

from ol2r_cli import api as ol2r
from ol2r_cli.commands.check import main
from ol2r_cli.contracts import laws
from ol2r_cli.contracts.law import CheckReport
from ol2r_cli.contracts.laws import check
from ol2r_cli.contracts.setting_law import setting_faults
from tests.choices import composition

MODULE = "tests.contracts.broken"

# class: group, the law that is reported first, words of the first cause
BROKEN = {
    "FlatScores": ("ranker", "shapes", "another record, axis or dtype"),
    "BareScores": ("ranker", "shapes", "another record, axis or dtype"),
    "HalfOrder": ("exploration", "shapes", "another record, axis or dtype"),
    "NumberOfClicks": ("click", "shapes", "another record, axis or dtype"),
    "DividesByClicks": ("ranker", "scores", "a division by"),
    "PlacesTwice": ("exploration", "order", "placed twice"),
    "SortsPadding": ("exploration", "padding last", "padding is sorted"),
    "PaddingFirst": ("fairness", "padding last", "padding is sorted"),
    "ClicksEverywhere": ("click", "clicks", "clicks on padding"),
    "DrawsElsewhere": ("ranker", "repeatable", "torch.rand"),
    "SharesState": ("ranker", "repeatable", "state that two objects share"),
    "ReadsPadding": ("ranker", "replicas", "padding is read"),
    "ReadsOtherReplicas": ("ranker", "replicas", "replicas meet"),
    "TiesByRounding": ("ranker", "replicas", "ties from rounding"),
    "DrawsByLength": ("exploration", "replicas", "the length of the list"),
    "KeepsAttribute": ("ranker", "state in buffers", "not as they were saved: ranker.sign, ranker.offset"),
    "AlwaysDouble": ("ranker", "single precision", "dtypes are mixed"),
    "MixesPrecision": ("ranker", "raises", "dtypes are mixed"),
    "FewPlaces": ("ranker", "short queries", "a division by"),
    "DividesByLabels": ("ranker", "nothing relevant", "a division by"),
    "DividesByAllClicks": ("ranker", "no clicks", "a division by"),
    "Peeks": ("ranker", "labels", "labels reach the role"),
    "MixesSnapshots": ("ranker", "snapshots", "does not broadcast"),
    "ScoresByPlace": ("ranker", "order of documents", "the place in the list"),
    "CountsSnapshots": ("ranker", "run and resume", "neither in a buffer"),
    "Raises": ("ranker", "raises", ""),
    "RaisesValueError": ("ranker", "raises", ""),
}


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """A folder with a YAML file for every class of broken.py that is a role, and one for the dataset."""
    folder = tmp_path_factory.mktemp("own")
    files = {name: (group, f"# Broken.\n_target_: {MODULE}.{name}\n") for name, (group, *_) in BROKEN.items()}
    files |= {name: ("ranker", f"# Ours.\n_target_: {MODULE}.{name}\n") for name in ("Sound", "Unlisted", "Backwards")}
    files["Data"] = ("dataset", f"# Data.\n_target_: {MODULE}.Data\nfault: none\nseed: 0\nswitch: false\n")
    for name, (group, text) in files.items():
        (folder / group).mkdir(exist_ok=True)
        (folder / group / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def report_of(own) -> Callable[[str], CheckReport]:
    """The report on a broken choice, made once."""
    return cache(lambda name: check([f"{BROKEN[name][0]}={name}", f"--config-dir={own}"]))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_choice_breaks_its_law_for_its_cause(name, report_of):
    _, law, words = BROKEN[name]
    report = report_of(name)
    assert not report.ok
    first = report.violations[0]
    assert (first.law, words in " ".join(first.causes[:2])) == (law, True), report
    assert law not in report.passed
    assert first.input
    assert first.difference


def test_every_law_is_broken_by_a_choice(report_of):
    broken = {violation.law for name in BROKEN for violation in report_of(name).violations}
    assert {law.name for law in laws.LAWS["ranker"]} - broken == {"settings", "learns"}, "tests below break them"


def test_a_ranker_that_learns_backwards_is_a_warning_and_one_that_does_not_learn_is_none(own, capsys):
    assert main(["ranker=Backwards", f"--config-dir={own}"]) == 0
    shown = capsys.readouterr().out.splitlines()
    (warning,) = (line for line in shown if line.startswith("warning: "))
    assert re.match(r"warning: NDCG@10 is 0\.5\d untrained and 0\.[123]\d after 60 rounds with perfect clicks", warning)
    assert any(re.match(r"– learns +NDCG@10 is 0\.5", line) for line in shown)
    for name in "random", "oracle", "offline_ranknet", "toprank":
        report = check([f"ranker={name}"])
        assert (report.ok, report.warnings, "learns" in report.left_out) == (True, (), True)


def test_a_sound_choice_of_ones_own_keeps_them_all(own):
    report = check(["ranker=Sound", f"--config-dir={own}"])
    assert report.ok, report
    assert report.passed == tuple(law.name for law in laws.LAWS["ranker"])
    assert report.notes == ()


def test_a_setting_that_is_not_written_out_is_a_note_for_ones_own_and_a_violation_for_a_choice_of_ol2r(own):
    report = check(["ranker=Unlisted", f"--config-dir={own}"])
    assert report.ok, report
    assert report.notes == (
        "ranker.rate is a keyword of Unlisted and not in the YAML file: `ol2r list` and run ids leave it out",
        "ranker.rate is a setting that Unlisted does not use",
    )
    assert list(setting_faults(composition(("ranker=pairrank",)).config.exploration, "ranker")) == [
        "Confidence is in ol2r_cli.exploration.confidence, and must be in ol2r_cli.ranker"
    ]


DATA_FAULTS = {
    "frame": ("table", "it must be a Dataset, got Tensor"),
    "double": ("table", "torch.float32 with 2 axes, got torch.float64"),
    "offsets": ("queries", "must begin with 0 and end with 12"),
    "empty": ("queries", "its rows are 0 to 0: none"),
    "overlap": ("splits", "it has query 2, which split train has, too"),
    "beyond": ("splits", "it has query 5, and there are queries 0 to 4"),
    "untrained": ("splits", "it has no query"),
    "label": ("grades", "from 0 to grades - 1 = 4, got -1"),
    "unknown": ("features", "feature 2 must be a finite number, got nan"),
    "group": ("groups", "12 numbers from 0, got"),
    "random": ("fingerprint", "the fingerprints are equal, and features are not"),
    "constant": ("fingerprint", "the fingerprints are equal, and features are not"),
}


@pytest.fixture
def data(own) -> Callable[[str], CheckReport]:
    """The report on a dataset of one's own with a fault."""
    return lambda fault: check(["dataset=Data", f"dataset.fault={fault}", f"--config-dir={own}"])


@pytest.mark.parametrize("fault", DATA_FAULTS)
def test_a_broken_dataset_breaks_its_law(fault, data):
    law, words = DATA_FAULTS[fault]
    first = data(fault).violations[0]
    assert first.law == law
    assert words in first.difference


def test_a_sound_dataset_keeps_them_all(data):
    report = data("none")
    assert report.ok, report
    assert report.left_out == {"groups": "the dataset has no groups"}
    assert "up to 2: fairness=fairexp needs the groups 0 and 1" in data("groups").notes[0]


def test_what_is_raised_is_told_once_with_its_place(report_of):
    report = report_of("Raises")
    (violation,) = report.violations
    lines = Path(__file__).with_name("broken.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "1 // (random" in text)
    assert re.fullmatch(rf"ZeroDivisionError: .* \(.*broken\.py:{line}, in learn\)", violation.difference)
    assert violation.input == "the law `shapes`: the small world, seeds 3 4 11, round 5"
    assert violation.traceback.startswith("Traceback")
    assert "order" in report.left_out


def test_a_violation_names_seed_round_query_and_labels(report_of):
    (violation, *_) = report_of("ReadsPadding").violations
    form = r"seed \d+, round \d+, query \d+ with \d+ documents? of labels [\d ]+"
    assert re.fullmatch(form, violation.input)
    assert re.search(r"documents [\d ]+ are shown alone, and [\d ]+ in a batch; the score of", violation.difference)
    assert f"✗ {violation.law}" in str(violation)
    assert "cause: " in str(violation)


def test_the_command_prints_a_line_for_each_law_and_explains(own, capsys):
    broken = ["ranker=Raises", "--config-dir", str(own)]
    assert main(broken) == 1
    told = capsys.readouterr()
    assert told.out.count("✗ ") == 2, "the line of the law, and the explanation"
    assert "Traceback" not in told.out
    assert told.out.endswith("-v shows the traceback\n")
    assert main([*broken, "-v"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().out
    assert main(["click=perfect", "positions=3"]) == 0
    told = capsys.readouterr()
    assert "note: positions has no effect: the laws have their own\n" in told.out
    assert re.search(r"click=perfect positions=3: \d+ laws kept, none broken\n$", told.out)
    assert told.err == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "a choice must be named: type `ol2r check ranker=NAME`, or exploration=NAME"),
        (["rounds=3"], "a choice must be named: type `ol2r check ranker=NAME`"),
        (["ranker=pairrnk"], "did you mean ranker=pairrank?"),
        (["ranker=pairrank", "ranker.l2=-1"], "ranker.l2 must be above 0, got -1"),
        (["ranker=pdgd", "exploration=none"], "use exploration=plackett_luce"),
        (["dataset=letor", "dataset.path=/nowhere"], "dataset.path must be a folder"),
        (["ranker=random", "--config-dir", "nowhere"], "--config-dir must be a folder"),
        (["ranker=random", "--verbos"], "there is no option --verbos: did you mean --verbose?"),
        (["experiment=grid_pairrank", "ranker=pairrank"], "check its choices one by one"),
    ],
)
def test_bad_words_are_one_line_and_exit_code_2(words, told, capsys):
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("ol2r check: ")
    assert told in printed.err
    assert printed.err.count("\n") == 1


def test_from_python(tmp_path):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text(f"# Mine.\n_target_: {MODULE}.Peeks\n")
    threads = torch.get_num_threads()
    report = ol2r.check({"ranker": "mine"}, config_dir=tmp_path)
    assert torch.get_num_threads() == threads
    assert [violation.law for violation in report.violations] == ["labels"]
    assert repr(report) == str(report)
    assert str(report.violations[0]) in str(report)
    assert ol2r.check("click=perfect").ok
    with pytest.raises(ValueError, match="a choice must be named"):
        ol2r.check(config_dir=tmp_path)


def test_nothing_is_written_where_it_is_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check(["ranker=offline_ranknet"]).ok
    assert not any(tmp_path.iterdir())


def test_a_slip_in_the_syntax_of_a_file_is_told_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "slip.yaml").write_text("# A slip.\n_target_: slip_of_the_pen.Ranker\n")
    (tmp_path / "slip_of_the_pen.py").write_text("x = 1\ndef y(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"slip_of_the_pen\.py, line 2: SyntaxError: "):
        check(["ranker=slip", f"--config-dir={tmp_path}"])


def test_a_part_of_a_ranker_is_checked_with_it():
    report = check(["ranker=sgd_ranknet", "ranker/model=mlp"])
    assert report.ok, report
    assert "settings" in report.passed
