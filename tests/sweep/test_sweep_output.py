"""What a sweep prints at its end, and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli.commands.run import main
from ol2r_cli.sweep.sweep_job import Ending, SweepJob
from ol2r_cli.sweep.sweep_output import print_summary
from ol2r_cli.sweep.sweeper import SweepResult, sweep

SMOKE = ["experiment=smoke", "rounds=3", "evaluate_every=3"]


def ended(number: int, ending: Ending, reason: str = "", log: Path | None = None, force: bool = False) -> SweepJob:
    settings = {"output_dir": "results", "force": force}
    words = (f"seed={number}", "output_dir=my results")
    return SweepJob(number, words, words[0], settings=settings, reason=reason, ending=ending, log=log)


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
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log = tmp_path / "0.log"
    log.write_text("words")
    missing = tmp_path / "1.log"
    failed = [ended(0, Ending.FAILED, "RuntimeError: a slip", log), ended(1, Ending.FAILED, "killed", missing)]
    assert summary(capsys, *failed) == (
        ["2 jobs in 1m 05s: 2 failed"],
        [
            *["", "failed: seed=0", "  RuntimeError: a slip", f"  printed: {log}"],
            "  again:   ol2r run seed=0 'output_dir=my results'",
            *["", "failed: seed=1", "  killed", "  again:   ol2r run seed=1 'output_dir=my results'"],
        ],
    )


@pytest.mark.parametrize("ending", [Ending.STOPPED, Ending.LEFT])
def test_the_summary_of_a_stopped_sweep_says_how_to_go_on(ending: Ending, capsys: pytest.CaptureFixture[str]):
    out, err = summary(capsys, ended(0, Ending.DONE), ended(1, ending))
    assert (out[0], err) == (f"2 jobs in 1m 05s: 1 done, 1 {ending}", ["the same command goes on from here"])
    _, err = summary(capsys, ended(0, Ending.DONE, force=True), ended(1, ending, force=True))
    assert err == ["the same command without force=true goes on from here"]
    assert summary(capsys, ended(0, Ending.DONE), ended(1, Ending.DONE))[1] == []


def test_the_exit_code_of_a_sweep_with_bad_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert sweep([[*SMOKE, "ranker.l2=-1"]], keep_going=True).code == 2, "that of the run"
    assert sweep([[*SMOKE, "ranker.l2=-1"], [*SMOKE, "ranker.l2=-2"]], keep_going=True).code == 3
    assert main(["-m", "--keep-going", *SMOKE, "ranker.l2=-1"]) == 2


def test_jobs_may_name_folders_with_choices_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        folder = tmp_path / name / "click"
        folder.mkdir(parents=True)
        (folder / f"{name}.yaml").write_text("defaults: [perfect]\n")
    jobs = [["click=first", "--config-dir", "first"], ["click=second", "hydra.searchpath=[file://second]"]]
    result = sweep([[*SMOKE, *job, "ranker.l2=-1"] for job in jobs], keep_going=True)
    assert [job.reason for job in result.sweep_jobs] == ["ranker.l2 must be above 0, got -1"] * 2
    assert result.sweep_jobs[1].command == (
        f"ol2r run {' '.join(SMOKE)} click=second ranker.l2=-1 "
        f"--config-dir {tmp_path / 'first'} --config-dir {tmp_path / 'second'}"
    )
