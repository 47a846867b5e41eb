"""The Slurm launcher on a fake cluster; `test_slurm_cluster.py` uses a real one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.launcher.job import Outcome
from ol2r_cli.plugins.slurm.slurm import Slurm
from ol2r_cli.run.store import RunDirectory
from tests.launcher.jobs import does
from tests.manifests import manifest
from tests.plugins.slurm.fake_slurm import FakeSlurm, leave_result

KEPT = "interrupted: what was done is kept"


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> FakeSlurm:
    """A fake cluster."""
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", fake.path)
    return fake


class AtOnce(Slurm):
    """Takes the answers of the cluster as final at once, without the delays of a shared file system."""

    pause, settle, settle_else = 0.01, {}, 0.0


def launcher(folder: Path = Path("unused"), **settings) -> Slurm:
    choice = dict(Catalogue().choices["launcher"]["slurm"].content)
    place = str(settings.pop("folder", folder) / ".sweep" / "slurm")
    choice["_target_"] = f"{__name__}.AtOnce"
    return build({**choice, "cpus": 1, "poll": 0.01, "folder": place, **settings})


def submitted(tmp_path, cluster, count: int = 1, **settings):
    """A launcher with this number of jobs, all pending, and the jobs; ids are 1_0, 1_1, .. or 1."""
    slurm = launcher(tmp_path, **settings)
    jobs = [does("pass", tmp_path, number) for number in range(count)]
    cluster.states(dict.fromkeys(["1"] if count == 1 else [f"1_{n}" for n in range(count)], "PENDING"))
    slurm.submit(jobs)
    return slurm, jobs


def test_jobs_are_submitted_in_arrays(tmp_path, cluster):
    submitted(tmp_path, cluster, 7, array=3, at_once=6)
    arrays = [re.findall(r"--array=(\S+)", script) for script in cluster.scripts()]
    assert arrays == [["0-2%2"], ["0-2%2"], []]  # 6 at once over three arrays is 2 each


def test_a_job_has_the_options_of_sbatch(tmp_path, cluster):
    settings = {"partition": "long", "account": "me", "qos": "low", "constraint": "a100", "minutes": 30, "cpus": 3}
    more = {"memory_gb": 1.5, "gpus": 2, "notice": 99, "setup": ["module load cuda"], "sbatch": {"reservation": "new"}}
    submitted(tmp_path, cluster, **settings, **more)
    (script,) = cluster.scripts()
    expected = """--partition=long --account=me --qos=low --constraint=a100 --time=30 --mem=1536M --cpus-per-task=3
        --gpus-per-node=2 --signal=USR2@99 --reservation=new --requeue --job-name=ol2r"""
    assert set(expected.split()) <= set(re.findall(r"^#SBATCH (.*)$", script, re.MULTILINE))
    assert script.index("module load cuda") < script.index("srun")
    assert f"{sys.executable} -P -u -m submitit" in script  # else modules of the working directory come first


def test_options_that_are_off_are_not_those_of_the_cluster(tmp_path, cluster):
    submitted(tmp_path, cluster, requeue=0, memory_gb=None)
    (script,) = cluster.scripts()
    assert ("#SBATCH --no-requeue" in script, "--mem" in script) == (True, False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory_gb": 0.0}, "memory_gb must be null or above 0, got 0.0"),
        ({"minutes": 2}, "launcher.notice must be from 1 to 119 seconds with launcher.minutes=2, got 120"),
        # The script of a job is lines: what follows a break would be an option of sbatch or a command.
        ({"folder": Path("a\n#SBATCH --begin=now")}, "launcher.folder must be a path in one line, got '"),
    ],
)
def test_bad_settings_say_what_to_type(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        launcher(**settings)


def test_a_refused_job_is_answered_by_what_sbatch_says(tmp_path, cluster):
    cluster.refuses("sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed")
    with pytest.raises(ValueError, match=r"^launcher=slurm: sbatch must take the jobs, got invalid partition"):
        submitted(tmp_path, cluster, partition="nope")


def test_without_slurm_or_submitit_it_says_what_to_type(tmp_path, cluster, monkeypatch):
    assert launcher().refusal() == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    needs = "launcher=slurm needs a machine that has sbatch, a login node: else launcher=processes"
    assert launcher().refusal() == needs
    with pytest.raises(ValueError, match="a login node: else launcher=processes"):
        launcher(tmp_path).submit([does("pass", tmp_path)])
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ValueError, match=r"type pip install 'ol2r\[slurm\]'"):
        launcher()


def test_results_are_read_and_their_files_removed(tmp_path, cluster):
    slurm, (first, second) = submitted(tmp_path, cluster, 2, queued=3)
    folder = slurm.folder
    assert slurm.free_slots() == 1
    leave_result(folder, "1_1", 2, "bad thing")
    assert slurm.poll(5) == [(second, Outcome(2, "bad thing"))]
    assert (slurm.free_slots(), launcher().free_slots() > 100_000) == (2, True)
    assert slurm.location(first) == "slurm 1_0 pending"
    leave_result(folder, "1_0", 0)
    assert slurm.poll(5) == [(first, Outcome(0))]
    slurm.close()
    assert list((tmp_path / ".sweep").iterdir()) == []
    assert cluster.noted("cancelled") == []


KILLED = "srun: error: node1: task 0: Killed\nsrun: Terminated\n"


@pytest.mark.parametrize(
    ("state", "printed", "status", "code", "words"),
    [
        ("OUT_OF_MEMORY", "", None, -9, "memory ran out: raise launcher.memory_gb"),
        ("TIMEOUT", "", None, 1, "out of time: raise launcher.minutes or launcher.requeue"),
        ("NODE_FAIL", "", None, 1, "its node failed"),
        ("NODE_FAIL", "", "finished", 0, ""),  # after the last step of the run
        ("CANCELLED", "", None, -15, "cancelled by a user (scancel)"),
        ("FAILED", "", "interrupted", -15, "ended by the cluster or by a user (SIGTERM)"),
        ("FAILED", KILLED, "running", -9, "killed (signal 9)"),
        ("FAILED", "bash: module: not found\n", None, 1, "ended and left no result: bash: module: not found"),
        ("FAILED", "", None, 1, "ended and left no result: can the nodes see"),
        ("COMPLETED", "", None, 1, "ended and left no result"),
        (None, "", None, 1, "Slurm does not know it any more, and it left no result"),
    ],
)
def test_the_reason_of_an_end_without_a_result(tmp_path, cluster, state, printed, status, code, words):
    """Of what was printed around the run, the last line; the file remains, because there may be more to read."""
    slurm, (job,) = submitted(tmp_path, cluster, requeue=0)
    errors = slurm.folder / "1_0_log.err"
    errors.write_text(printed)
    if status:
        RunDirectory(job.directory).write_json("run.json", manifest(status))
    cluster.states({"1": state} if state else {})
    ((ended, outcome),) = slurm.poll(5)
    assert (ended, outcome.code, outcome.reason[: len(words)]) == (job, code, words)
    slurm.close()
    assert errors.exists() == bool(code)


def test_a_finished_run_of_before_is_no_result(tmp_path, cluster):
    """It is to be run again, with force=true."""
    RunDirectory(tmp_path / "runs" / "0").write_json("run.json", manifest("finished"))
    slurm, _ = submitted(tmp_path, cluster, requeue=0)
    cluster.states({"1": "NODE_FAIL"})
    assert slurm.poll(5)[0][1].code == 1


@pytest.mark.parametrize("state", ["PENDING BeginTime", "REQUEUED", "COMPLETING", "SUSPENDED", "RUNNING", "STAGE_OUT"])
def test_a_job_that_may_start_again_has_not_ended(tmp_path, cluster, state):
    """Nor has one of a silent controller."""
    slurm, (job,) = submitted(tmp_path, cluster)
    cluster.states({"1": state})
    assert slurm.poll(0.2) == []
    assert slurm.location(job).startswith(f"slurm 1 {state.split()[0].lower()}")
    cluster.forgets()
    assert slurm.poll(0.2) == []
    leave_result(slurm.folder, "1", 0)
    assert slurm.poll(5) == [(job, Outcome(0))]


@pytest.mark.parametrize("end", ["PREEMPTED", "NODE_FAIL", "TIMEOUT"])
def test_a_job_that_is_not_to_blame_is_started_again(tmp_path, cluster, end):
    slurm, (job,) = submitted(tmp_path, cluster, requeue=1)
    cluster.states({"1": end, "2": "PENDING"})
    assert slurm.poll(0.2) == []
    assert slurm.location(job) == "slurm 2 pending"
    cluster.states({"1": end, "2": end})
    ((ended, outcome),) = slurm.poll(5)
    assert (ended, outcome.code, len(cluster.scripts())) == (job, 1, 2)


@pytest.mark.parametrize(
    ("reason", "code", "words"),
    [
        ("PartitionTimeLimit", 2, "launcher.minutes must be within the limit of the partition"),
        ("BadConstraints", 2, "launcher.constraint must be one that a node has"),
        ("launch_failed_requeued_held", 1, "holds it"),
    ],
)
def test_a_job_that_can_never_start_is_cancelled(tmp_path, cluster, reason, code, words):
    slurm, _ = submitted(tmp_path, cluster)
    cluster.states({"1": f"PENDING {reason}"})
    ((_, outcome),) = slurm.poll(5)
    assert (outcome.code, words in outcome.reason) == (code, True)
    assert cluster.noted("cancelled") == ["--quiet 1"]


def test_stop_signals_running_jobs_and_close_cancels_all(tmp_path, cluster):
    """Stop cancels waiting jobs and signals running ones, and close cancels all."""
    slurm, (first, second) = submitted(tmp_path, cluster, 2)
    cluster.states({"1_0": "RUNNING", "1_1": "CANCELLED"})
    slurm.stop()
    waiting, running = "--quiet --state=PENDING 1", "--quiet --state=RUNNING --signal=SIGUSR1 1"
    assert cluster.noted("cancelled")[:2] == [waiting, running]
    assert slurm.poll(5) == [(second, Outcome(130, KEPT))]
    leave_result(slurm.folder, "1_0", 130, KEPT)
    assert slurm.poll(5) == [(first, Outcome(130, KEPT))]
    (cluster.folder / "cancelled").unlink()
    slurm, _ = submitted(tmp_path, cluster, 2)
    for _ in range(2):
        slurm.close()
        assert cluster.noted("cancelled") == ["--quiet 2"]
