"""The live display of a sweep, drawn to text, and the progress that it reads from run directories."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from ol2r_cli.launcher.job import Job
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.sweep.plan import Ending, SweepJob
from ol2r_cli.sweep.scheduler import StatusDisplay, being_played, table
from tests.manifests import manifest


class Launcher:
    """A launcher that says where each job is."""

    def location(self, job: Job) -> str:
        return f"pid {job.number}"


def run(folder: Path, number: int, **content: object) -> SweepJob:
    """A job whose run is at round 25 of 100."""
    directory = folder / str(number)
    RunDirectory(directory).write_json("run.json", manifest("running", 25, host="another machine") | content)
    settings = {"rounds": 100, "output_dir": str(folder), "force": False, "dataset": {}, "replicas": 1, "device": {}}
    return SweepJob(number, (f"seed={number}",), f"seed={number}", settings=settings, directory=directory)


def drawn(sweep_jobs: list[SweepJob], height: int, width: int = 100, *split: str) -> list[str]:
    """The lines of the table of running jobs, without repeated blanks."""
    running = {job.number: job for job in sweep_jobs}
    screen = io.StringIO()
    Console(file=screen, width=width).print(table(running, Launcher(), "the totals", height, width, *split))
    return [" ".join(line.split()) for line in screen.getvalue().splitlines()]


def test_the_table_has_a_line_for_each_running_job(tmp_path):
    """The table has a line for each running job, as far as there is room."""
    jobs = [run(tmp_path, number, rounds_per_second=2.5 * 4**number) for number in range(5)]
    (jobs[0].directory / "log.txt").write_text("x" * 5000 + "test NDCG@10 0.1\nround 20: test NDCG@20 0.4321\n")
    RunDirectory(jobs[2].directory).write_json("run.json", manifest("interrupted", 25))
    RunDirectory(jobs[3].directory).write_text("run.json", "{")
    RunDirectory(jobs[4].directory).write_json("run.json", manifest("running", 25, host="another machine"))
    assert drawn(jobs, 5) == [
        "job where round rounds/s left test NDCG",
        "seed=0 pid 0 25/100 2 30.0s 0.4321",
        "seed=1 pid 1 25/100 10 7.5s",
        "seed=2 pid 2 0/100",  # it is as it was before it was resumed
        "seed=3 pid 3 0/100",  # it cannot be read
        "seed=4 pid 4 25/100",  # it has no speed yet
        "the totals",
    ]
    assert [line for line in drawn(jobs, 1) if "seed" not in line][1:] == ["and 4 more", "the totals"]
    assert len(drawn(jobs, 1)) == 4
    (jobs[0].directory / "log.txt").write_text("round 20: validation NDCG@10 0.5000, test NDCG@10 0.4\n")
    assert [line.split(" left ")[-1] for line in drawn(jobs, 1, 100, "validation")[:2]] == [
        "validation NDCG",
        "seed=0 pid 0 25/100 2 30.0s 0.5000",
    ]


def test_on_a_narrow_terminal_only_the_name_is_shortened(tmp_path):
    (job,) = jobs = [run(tmp_path, 1, rounds_per_second=1.0)]
    job.name = "ranker=pairrank click=informational ranker.l2=0.001"
    assert drawn(jobs, 3, width=60)[1] == "…rmational 0.001 pid 1 25/100 1 1m 15s"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (180, "ranker=intervention_aware click=informational ranker.learning_rate=0.002 exploration.temperature=2"),
        (110, "ranker.learning_rate=0.002 exploration.temperature=2"),
        (85, "learning_rate=0.002 temperature=2"),
        (60, "0.002 2"),
    ],
)
def test_on_a_narrow_terminal_names_differ(tmp_path, width, shown):
    """A grid of 80 columns: what all rows have goes first, then names of settings; the values stay."""
    jobs = [run(tmp_path, number, rounds_per_second=1.0) for number in range(3)]
    for number, job in enumerate(jobs):
        settings = "ranker=intervention_aware click=informational ranker.learning_rate"
        job.name = f"{settings}=0.00{number} exploration.temperature={number}"
    assert drawn(jobs, 3, width=width)[3].removesuffix(" pid 2 25/100 1 1m 15s") == shown


def test_the_time_left_follows_from_the_jobs_that_are_done(tmp_path):
    jobs = [run(tmp_path, number) for number in range(6)]
    display = StatusDisplay(jobs, screen := io.StringIO())
    running = {job.number: job for job in jobs[2:4]}
    for job in running.values():
        job.submitted = time.monotonic() - 40
    assert display.left(running) is None, "nothing is known yet"
    for job in jobs[:2]:
        job.ending, job.seconds = Ending.DONE, 100.0
    assert display.left(running) == pytest.approx((2 * 100 + 2 * 60) / 2, abs=5), "two at a time"
    display.start = time.monotonic() - 65
    display.shown -= 60
    display.show(running, 2, Launcher())
    assert screen.getvalue() == "2 done, 2 running, 2 waiting of 6; 1m 05s so far, about 2m 40s left\n"
    jobs[5].workload = "another ranker"
    assert display.left(running) is None, "the job that waits may take longer"
    RunDirectory(jobs[2].directory).write_json("run.json", manifest("running", 25, host="x", rounds_per_second=0.25))
    jobs[5].workload = jobs[0].workload
    assert display.left(running) == pytest.approx((2 * (180 - 40) + 2 * 180) / 2, abs=5), "one takes 340 s"


def test_without_a_terminal_the_totals_are_a_line_now_and_then(tmp_path):
    jobs, screen = [run(tmp_path, 0)], io.StringIO()
    display = StatusDisplay(jobs, screen)
    display.start = display.shown = -1e9
    with display:
        display.show({}, 1, Launcher())
        assert screen.getvalue() == "", "the sweep has just begun"
        display.shown -= 60
        display.show({}, 1, Launcher())
        display.show({}, 1, Launcher())
    assert screen.getvalue().startswith("0 running, 1 waiting of 1; ")
    assert screen.getvalue().count("\n") == 1


class Queue(Launcher):
    """A launcher that has all jobs at once, of which two are played."""

    def waits(self, job: Job) -> bool:
        return job.number >= 2


def test_jobs_in_the_queue_of_a_launcher_do_not_run(tmp_path):
    jobs, screen = [run(tmp_path, number, rounds_per_second=1.0) for number in range(58)], io.StringIO()
    display = StatusDisplay(jobs, screen)
    display.start = display.shown = now = time.monotonic() - 60
    for job in jobs:
        job.submitted = now
    display.show({job.number: job for job in jobs}, 3, Queue())
    assert screen.getvalue().startswith("2 running, 59 waiting of 58; ")
    assert (jobs[0].submitted, jobs[57].submitted) == (now, display.shown), "its time begins when it is played"
    assert [job.number for job in being_played({job.number: job for job in jobs}, Queue()).values()] == [0, 1]
    assert len(being_played({job.number: job for job in jobs}, Launcher())) == 58
