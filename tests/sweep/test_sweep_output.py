"""What a sweep prints at its end, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli.sweep.sweep_job import Ending, SweepJob
from ol2r_cli.sweep.sweeper import SweepResult, print_summary


def ended(number: int, ending: Ending, reason: str = "", force: bool = False) -> SweepJob:
    settings = {"output_dir": "results", "force": force}
    words, run = (f"seed={number}", "output_dir=my results"), Path(f"results/letor/run-{number}")
    return SweepJob(number, words, words[0], settings=settings, reason=reason, ending=ending, directory=run)


def summary(capsys: pytest.CaptureFixture[str], *sweep_jobs: SweepJob) -> tuple[list[str], list[str]]:
    """The lines on standard output and on standard error."""
    print_summary(SweepResult(list(sweep_jobs), [], 0, 65.0))
    captured = capsys.readouterr()
    return captured.out.splitlines(), captured.err.splitlines()


def test_the_summary_counts_endings_and_says_what_to_type_next(capsys: pytest.CaptureFixture[str]):
    jobs = [ended(0, Ending.SKIPPED), ended(1, Ending.DONE), ended(2, Ending.SKIPPED), ended(3, Ending.ELSEWHERE)]
    assert summary(capsys, *jobs) == (
        ["4 jobs in 1m 05s: 1 done, 2 finished before, 1 running elsewhere", "next: ol2r report results"],
        ["another process is running some of them: see `ol2r status`"],
    )


def test_the_summary_says_why_a_job_failed_what_it_printed_and_how_to_repeat_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    failed = [ended(0, Ending.FAILED, "RuntimeError: a slip"), ended(1, Ending.FAILED, "killed")]
    failed[0].log.parent.mkdir(parents=True)
    failed[0].log.write_text("words")
    assert summary(capsys, *failed) == (
        ["2 jobs in 1m 05s: 2 failed"],
        [
            *["", "failed: seed=0", "  RuntimeError: a slip", "  printed: results/.sweep/letor/run-0.log"],
            "  again:   ol2r run seed=0 'output_dir=my results'",
            *["", "failed: seed=1", "  killed", "  again:   ol2r run seed=1 'output_dir=my results'"],
        ],
    )


def test_the_summary_of_a_stopped_sweep_says_how_to_go_on(capsys: pytest.CaptureFixture[str]):
    for ending in Ending.STOPPED, Ending.LEFT:
        out, err = summary(capsys, ended(0, Ending.DONE), ended(1, ending))
        assert (out[0], err) == (f"2 jobs in 1m 05s: 1 done, 1 {ending}", ["the same command goes on from here"])
        _, err = summary(capsys, ended(0, Ending.DONE, force=True), ended(1, ending, force=True))
        assert err == ["the same command without force=true goes on from here"], ending
    assert summary(capsys, ended(0, Ending.DONE), ended(1, Ending.DONE))[1] == []
