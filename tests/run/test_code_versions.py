"""Which finished runs are of an earlier version of their code."""

from __future__ import annotations

from ol2r_cli.run.code_versions import changed_files, code_files, earlier_lines, earlier_versions
from ol2r_cli.run.source import recorded

PDGD = "ol2r_cli/ranker/pdgd.py"


def run(time: int, files: dict[str, str], groups: list[str] | None = None, **choices: str) -> tuple[dict, float]:
    """A run whose run.json was written at this time; its files are part of the ranker unless said otherwise."""
    of_files = {name: ["ranker"] if groups is None else groups for name in files}
    code = {"files": files, "groups": of_files, "base": "0"} if files else None
    choices = {"ranker": "nsgd", "click": "perfect", **choices}
    return {"code": code, "choices": choices}, float(time)


def places(*runs: tuple[dict, float]) -> list[int]:
    return sorted(earlier_versions(runs))


def test_the_version_that_was_made_or_found_last_is_the_present_one():
    old, new, other = {"nsgd.py": "1"}, {"nsgd.py": "2"}, {"other.py": "1"}
    assert places(run(2, new), run(1, old), run(0, old), run(3, new)) == [1, 2]
    assert places(run(2, old), run(1, new)) == [1]
    assert places(run(1, old), run(2, old)) == []
    assert places(run(1, old), run(2, other)) == [], "another file"
    assert places(run(1, old), run(2, {})) == [], "a run that does not record its code"
    assert places(run(1, old), run(2, new, ranker="mine")) == [], "another ranker"
    assert places(run(1, old), run(2, new, click="navigational")) == [0]
    assert places(run(1, old, ["click"]), run(2, new, ["click"], click="navigational")) == []
    assert places(run(1, old, ["click"]), run(2, new, ["click"], ranker="mine")) == [0]


def test_a_run_without_an_entry_for_a_file_of_ol2r_has_the_recorded_version():
    edited = {PDGD: "1"}
    assert places(run(1, edited, ranker="pdgd"), run(2, {}, ranker="pdgd")) == [0]
    assert places(run(2, edited, ranker="pdgd"), run(1, {}, ranker="pdgd")) == [1]
    assert places(run(1, edited, ranker="pdgd"), run(2, {})) == []
    assert places(run(1, {PDGD: recorded()[PDGD][1]}, ranker="pdgd"), run(2, {}, ranker="pdgd")) == []
    everywhere = run(2, {"ol2r_cli/simulation.py": "1"}, [], ranker="pdgd")
    assert places(run(1, {}), everywhere, run(0, {}, click="navigational")) == [0, 2]


def test_a_line_for_each_choice():
    old, new = {"nsgd.py": "1"}, {"nsgd.py": "2", "steps.py": "2"}
    found = earlier_versions([run(1, old), run(0, {"nsgd.py": "2", "steps.py": "1"}), run(2, new), run(1, old)])
    assert earlier_lines(found) == ["nsgd: 3 runs of an earlier version of nsgd.py and 1 more"]
    assert earlier_lines(earlier_versions([run(1, old), run(2, new)])) == [
        "nsgd: 1 run of an earlier version of nsgd.py"
    ]


def test_changed_files_are_in_words():
    changed = changed_files({"a.py": "1", "b.py": "1", PDGD: "1"}, {"a.py": "1", "b.py": "2", "c.py": "1"})
    assert list(map(str, changed)) == [
        "b.py (1 -> 2)",
        "c.py (not recorded -> 1)",
        f"{PDGD} (1 -> as released)",
    ]


def test_a_manifest_of_another_program_has_no_code():
    assert [code_files({"code": code}) for code in (None, 5, {"files": []}, {})] == [{}, {}, {}, {}]
