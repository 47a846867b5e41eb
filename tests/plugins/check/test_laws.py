"""Every law is broken by a choice that breaks it, and by none that keeps it; the command and Python report it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from ol2r_cli import api as ol2r
from ol2r_cli.config.composer import Composer
from ol2r_cli.plugins.check import role_laws
from ol2r_cli.plugins.check.check import main
from ol2r_cli.plugins.check.constructors import setting_faults
from ol2r_cli.plugins.check.laws import LAWS, check, check_composition, law_name
from tests.choices import composition
from tests.finished import refused

MODULE = "tests.plugins.check.broken"

# class: group, the law that is reported first, words of the difference
BROKEN = {
    "FlatScores": ("ranker", "shapes", "scores must be torch.float64 [B, N, D]"),
    "BareScores": ("ranker", "shapes", "must be a Prediction, got Tensor"),
    "NumberOfClicks": ("click", "shapes", "clicks must be torch.bool [B, K]"),
    "DividesByClicks": ("ranker", "scores", "scores of documents must be finite"),
    "PlacesTwice": ("exploration", "order", "proposed must have every document once, got [0, 0, "),
    "SortsPadding": ("exploration", "padding last", "documents before padding"),
    "PaddingFirst": ("fairness", "padding last", "served must have documents before padding"),
    "ClicksEverywhere": ("click", "clicks", "must be on the documents that are shown"),
    "DrawsElsewhere": ("ranker", "repeatable", "in a second run documents"),
    "ReadsPadding": ("ranker", "replicas", "alone documents"),
    "KeepsAttribute": ("ranker", "state in buffers", "after loading documents"),
    "AlwaysDouble": ("ranker", "single precision", "scores must be torch.float32 [B, N, D]"),
    "MixesPrecision": ("ranker", "raises", "same dtype"),
    "FewPlaces": ("ranker", "short queries", "must be finite"),
    "DividesByLabels": ("ranker", "nothing relevant", "must be finite"),
    "DividesByAllClicks": ("ranker", "no clicks", "must be finite"),
    "Peeks": ("ranker", "labels", "with reversed labels documents"),
    "MixesSnapshots": ("ranker", "snapshots", "among others"),
    "ScoresByPlace": ("ranker", "order of documents", "in the reverse list"),
    "CountsSnapshots": ("ranker", "run and resume", "is not the file of an undisturbed run"),
    "DeploysItself": ("ranker", "run and resume", "`deploy` must return a copy"),
    "Raises": ("ranker", "raises", "ZeroDivisionError"),
    "RaisesValueError": ("ranker", "raises", "ValueError: invalid literal"),
    "NoColumn": ("measure", "columns", "declares no column"),
    "Undeclared": ("measure", "columns", "must return columns of mine, got other"),
    "OneForAll": ("measure", "columns", "as a tensor"),
    "WithoutLists": ("measure", "columns", "must define of_lists"),
    "Divides": ("measure", "values", "mine is infinite"),
    "Accumulates": ("measure", "rounds together", "['mine']"),
    "MeanOfReplicas": ("measure", "replicas apart", "['mine']"),
    "CountsPlaces": ("measure", "padding of lists", "['mine']"),
    "AttributeTotal": ("measure", "state in buffers", "['mine']"),
    "WithoutLargest": ("intent", "shares", "shares must have the shape [20000, 1], got [20000, 2]"),
    "ColumnsOfRounds": ("intent", "shares", "shares must have the shape [20000, 2], got [2, 20000]"),
    "MoreThanAll": ("intent", "shares", "shares must be 1 in sum, got 0.75 0.75"),
    "BelowNothing": ("intent", "shares", "shares must be from 0 to 1, got 1.5 -0.5"),
    "CountsCalls": ("intent", "by the round", "the shares are"),
    "SharesByPlace": ("intent", "by the round", "the shares are 1 0, and 0 1 with 21 rounds"),
}
SOUND = {"Sound": "ranker", "SoundMeasure": "measure", "SoundSchedule": "intent", "Data": "dataset"}
DATA_FAULTS = {
    "frame": ("table", "it must be a Dataset, got Tensor"),
    "double": ("table", "torch.float32 with 2 axes, got torch.float64"),
    "offsets": ("queries", "must be [0, 12], got"),
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


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """A folder with a YAML file for every class of broken.py."""
    folder = tmp_path_factory.mktemp("own")
    groups = {name: group for name, (group, *_) in BROKEN.items()} | SOUND
    for name, group in (groups | {"Unlisted": "ranker", "Backwards": "ranker"}).items():
        (folder / group).mkdir(exist_ok=True)
        settings = "fault: none\nseed: 0\nswitch: false\n" if name == "Data" else ""
        (folder / group / f"{name}.yaml").write_text(f"# Ours.\n_target_: {MODULE}.{name}\n{settings}")
    return folder


@pytest.fixture(scope="module")
def composer(own) -> Composer:
    return Composer([f"--config-dir={own}"])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_choice_breaks_its_law(name, composer):
    """It keeps the laws that are checked before; what comes after is left out, which saves time."""
    group, law, words = BROKEN[name]
    choice = composer([f"measures=[ndcg,{name}]" if group == "measure" else f"{group}={name}"])
    names = [law_name(each) for each in LAWS[group]]
    until = names.index(law) + 1 if law in names else len(names)
    asked = f"measure/{name}" if group == "measure" else group
    report = check_composition(choice, (asked,), name, laws=LAWS[group][:until])
    first = report.violations[0]
    assert (first.law, first.input != "", words in first.difference) == (law, True, True), report
    assert law not in report.passed, report
    if name in ("MoreThanAll", "BelowNothing"):
        assert first.input == "round 31", report


def held_data(composer, fault, until=None):
    """What comes of holding data with a fault to the laws, without a run on them."""
    laws = LAWS["dataset"][:-1]
    kept = laws[: [law_name(law) for law in laws].index(until) + 1] if until else laws
    return check_composition(composer(["dataset=Data", f"dataset.fault={fault}"]), ("dataset",), fault, laws=kept)


@pytest.mark.parametrize("fault", DATA_FAULTS)
def test_a_broken_dataset_breaks_its_law(fault, composer):
    law, words = DATA_FAULTS[fault]
    first = held_data(composer, fault, law).violations[0]
    assert (first.law, words in first.difference) == (law, True), first


def test_other_groups_than_two_are_a_note(composer):
    assert "up to 2: fairness=fairexp needs the groups 0 and 1" in held_data(composer, "groups").notes[0]


def test_every_law_is_broken_by_a_choice():
    broken = {law for _, law, _ in BROKEN.values()} | {law for law, _ in DATA_FAULTS.values()}
    rest = {law_name(law) for laws in LAWS.values() for law in laws} - broken
    assert rest == {"settings", "learns", "plays", "stages"}, (
        "a choice that diverges breaks `plays`, tests/test_stages.py `stages`, tests below the others"
    )


@pytest.mark.parametrize(("name", "group"), SOUND.items())
def test_a_sound_choice_of_ones_own_keeps_them_all(own, name, group):
    report = check([f"{group}={name}", f"--config-dir={own}"])
    assert report.ok, report
    assert (report.notes, report.warnings) == ((), ()), report
    left_out = {"dataset": {"groups"}, "measure": {"padding of lists"}}.get(group, set())
    assert {*report.passed, *left_out} == {law_name(law) for law in LAWS[group]} - {"stages"}, report
    assert report.left_out.keys() == left_out, report


def test_a_ranker_that_learns_backwards_is_a_warning(own, capsys):
    assert main(["ranker=Backwards", f"--config-dir={own}"]) == 0
    shown = capsys.readouterr().out.splitlines()
    (warning,) = (line for line in shown if line.startswith("warning: "))
    assert re.match(r"warning: NDCG@10 is 0\.5\d untrained and 0\.[123]\d after 60 rounds with perfect clicks", warning)
    assert any(re.match(r"– learns +NDCG@10 is 0\.5", line) for line in shown)


@pytest.mark.parametrize("name", ["random", "oracle", "offline_ranknet", "toprank"])
def test_a_ranker_that_does_not_learn_is_no_warning(name):
    report = check_composition(composition((f"ranker={name}",)), ("ranker",), name, laws=LAWS["ranker"][-1:])
    assert (report.ok, report.warnings, "learns" in report.left_out) == (True, (), True), report


def test_a_setting_not_written_out_is_a_note_or_a_violation(own):
    """A setting that is not written out is a note for one's own and a violation for a choice of ol2r."""
    report = check(["ranker=Unlisted", f"--config-dir={own}"])
    assert report.ok, report
    assert report.notes == (
        "ranker.rate is a keyword of Unlisted and not in the YAML file: `ol2r list` and run ids leave it out",
        "ranker.rate is a setting that Unlisted does not use",
    )
    assert list(setting_faults(composition(("ranker=pairrank",)).config.exploration, "ranker")) == [
        "Confidence is in ol2r_cli.exploration.confidence, and must be in ol2r_cli.ranker"
    ]


def test_a_violation_names_its_place(own):
    """Seed, round, query and labels."""
    (violation, *_) = check(["ranker=ReadsPadding", f"--config-dir={own}"]).violations
    assert re.fullmatch(r"seed \d+, round \d+, query \d+ with \d+ documents? of labels [\d ]+", violation.input)
    one = r"documents [\d ]+, clicks [\w ]+"
    assert re.fullmatch(rf"alone {one}; in a batch {one}", violation.difference)
    assert re.fullmatch("✗ replicas\n     on: .*\n   what: .*", str(violation), re.DOTALL)


def test_what_is_raised_names_its_place(own):
    report = check(["ranker=Raises", f"--config-dir={own}"])
    (violation,) = report.violations
    lines = Path(__file__).with_name("broken.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "1 // (random" in text)
    assert re.fullmatch(rf"ZeroDivisionError: .* \(.*broken\.py:{line}, in Raises\.learn\)", violation.difference)
    assert violation.input == "the check `shapes`: the small world, seeds 3 4 11, round 5"
    assert violation.traceback.startswith("Traceback")
    assert "order" in report.left_out


def test_the_traceback_is_shown_where_it_is_asked_for(own, capsys):
    assert main(["ranker=Raises", "--config-dir", str(own)]) == 1
    out = capsys.readouterr().out
    assert out.count("✗ ") == 2, "the line of the law, and the explanation"
    assert "Traceback" not in out
    assert out.endswith("-v shows the traceback\n")
    assert main(["ranker=Raises", "-v", "--config-dir", str(own)]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().out


def test_the_command_tells_which_laws_are_kept(capsys):
    assert main(["intent=none", "positions=3"]) == 0
    out, err = capsys.readouterr()
    assert "note: positions has no effect: the checks have their own\n" in out
    assert re.search(r"✓ shares +`shares` returns a number from 0 to 1 for each round and intent", out)
    assert re.search(r"intent=none positions=3: \d+ checks passed, none failed\n$", out)
    assert err == ""


@pytest.mark.parametrize(("words", "message"), [
    ([], "a choice must be named: type `ol2r check ranker=NAME`, or exploration=NAME"),
    (["rounds=3"], "a choice must be named: type `ol2r check ranker=NAME`"),
    (["ranker=pairrank", "ranker.l2=-1"], "ranker.l2 must be above 0, got -1"),
    (["ranker=pdgd", "exploration=none"], "use exploration=plackett_luce"),
    (["dataset=letor", "dataset.path=/nowhere"], "dataset.path must be a folder"),
    (["experiment=grid_pairrank", "ranker=pairrank"], "check its choices one by one"),
])  # fmt: skip
def test_bad_words_are_one_line_and_exit_code_2(capsys, words, message):
    assert message in refused(capsys, "check", *words)


def test_from_python(tmp_path):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text(f"# Mine.\n_target_: {MODULE}.Peeks\n")
    threads = torch.get_num_threads()
    report = ol2r.check({"ranker": "mine"}, config_dir=tmp_path)
    assert torch.get_num_threads() == threads
    assert [violation.law for violation in report.violations] == ["labels"]
    assert repr(report) == str(report)
    assert str(report.violations[0]) in str(report)
    assert ol2r.check("intent=none").ok
    with pytest.raises(ValueError, match="a choice must be named"):
        ol2r.check(config_dir=tmp_path)


def test_a_part_of_a_ranker_is_checked_with_it(tmp_path, monkeypatch):
    """A part of a ranker is checked with it, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    report = check(["ranker=sgd_ranknet", "ranker/model=mlp"])
    assert report.ok, report
    assert "settings" in report.passed
    assert not any(tmp_path.iterdir())


def test_a_user_of_three_grades_is_checked_with_three():
    words = "click=perfect", "click.click=[0,0.5,1]", "click.stop=[0,0,0]"
    report = check_composition(Composer()(words), ("click",), "", laws=[*role_laws.ROLE_LAWS[:6], role_laws.no_clicks])
    assert report.ok, report
    assert "no clicks" in report.passed
