"""The plan of a sweep: bad jobs and their reasons, duplicates, finished runs; its summary."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest

from ol2r_cli.commands.run import main
from ol2r_cli.config.composer import Composer
from ol2r_cli.dataset.synthetic import Synthetic
from ol2r_cli.launcher.processes import Processes
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.sweep.plan import Ending, Plan, SweepJob
from ol2r_cli.sweep.sweeper import SweepResult, print_plan, print_summary, sweep
from tests.dataset.letor_files import TEST_TEXT, TRAIN_TEXT, write_fold
from tests.manifests import manifest

pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

TINY = Path(__file__).parents[1] / "data" / "tiny"
SMOKE = ["experiment=smoke", "rounds=3", "evaluate_every=3"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def plan(composer: Composer, *lines: str) -> Plan:
    return Plan([[*SMOKE, *line.split()] for line in lines], composer)


def finish(line: str):
    """Run it in this process."""
    assert main([*SMOKE, *line.split()]) == 0


def test_jobs_are_named_by_what_distinguishes_them(composer):
    planned = plan(composer, "seed=0 click=perfect", "seed=1", "seed=1 ranker.l2=7e-1", "ranker.l2=0.7 seed=1")
    names = ["seed=0 click=perfect", "seed=1", "seed=1 ranker.l2=7e-1"]
    assert [sweep_job.name for sweep_job in planned.sweep_jobs] == names
    assert planned.duplicates == {3: 2}, "a run is run once"
    assert planned.sweep_jobs[1].command == "ol2r run experiment=smoke rounds=3 evaluate_every=3 seed=1"


def test_a_job_has_the_directory_and_state_of_its_run(composer):
    finish("seed=1 device.threads=2")
    (summary,) = Path("outputs").glob("synthetic/*/summary.json")
    new, finished = plan(composer, "seed=0", "seed=1").sweep_jobs
    (forced,) = plan(composer, "seed=1 force=true").sweep_jobs
    assert [job.state() for job in (new, finished, forced)] == [("new", 0), ("finished", 3), ("new", 0)]
    assert finished.directory == summary.parent


KILLED = {"progress": {"round": 2, "rounds": 3, "checkpoint": 1}}  # what came after its checkpoint is lost


@pytest.mark.parametrize(
    ("content", "has_checkpoint", "is_held", "state"),
    [
        (manifest("interrupted", 2, 3), False, False, ("new", 0)),
        (manifest("interrupted", 2, 3), True, False, ("resumes", 2)),
        (manifest("interrupted", 2, 3), True, True, ("running", 2)),  # whose process has not said so yet
        (manifest("running", 1, 3), True, True, ("running", 1)),
        (manifest("running", **KILLED), True, False, ("resumes", 1)),
    ],
    ids=["no checkpoint", "interrupted", "taken up again", "running", "killed"],
)
def test_an_unfinished_run_resumes_or_runs(composer, content, has_checkpoint, is_held, state):
    (sweep_job,) = plan(composer, "seed=5").sweep_jobs
    directory = RunDirectory(sweep_job.directory)
    directory.write_json("run.json", content)
    if has_checkpoint:
        directory.write_bytes("checkpoint.pt", b"")
    with directory if is_held else nullcontext():
        assert sweep_job.state() == state


class Refusing(Processes):
    """A launcher that can never begin a job."""

    def refusal(self) -> str:
        return "no worker"


def test_a_launcher_that_can_never_begin_is_refused(composer, capsys):
    jobs = [[*SMOKE, f"seed={seed}", f"launcher._target_={__name__}.Refusing"] for seed in range(2)]
    assert print_plan(jobs, composer) == 2
    captured = capsys.readouterr()
    assert "2 jobs: 2 new" in captured.out
    assert captured.err.endswith("ol2r run: no worker\n")
    with pytest.raises(ValueError, match=r"^no worker$"):
        sweep(jobs, composer=composer)
    assert not Path("outputs").exists()


def test_a_single_job_is_named_without_what_is_shared(composer):
    words = [*SMOKE, "seed=1"]
    names = [Plan([words], composer, shared=shared).sweep_jobs[0].name for shared in ([], SMOKE, words)]
    assert names == [" ".join(words), "seed=1", " ".join(words)]


BAD = {
    "ranker=pairnk": "did you mean ranker=pairrank?",
    "ranker.l2=-1": "ranker.l2 must be above 0, got -1",
    "checkpoint_every=-1": "checkpoint_every must be 0 or more, got -1",
    "no_relevant=purge": "no_relevant must be one of zero, skip, got 'purge'",
    "checkpoint_rounds=0": "checkpoint_rounds must be null or 1 or more, got 0",
    "force=3": "force must be true or false, got 3",
    "block_rounds=[0]": "block_rounds must be a list [..,..] of which each is 1 or more",
    "evaluate_on=[test,validation,test]": "evaluate_on must have each split once, got [test,validation,test]",
    "evaluate_on=[train]": "evaluate_on must be a list [..,..] of which each is one of validation, test",
    "block_rounds=[2,4]": "block_rounds must be rounds from 1 to 3, got 4",
    "delay=3": "learn within 3 rounds, got 1 and 3: type rounds=4 or more",
    "update_every=4": "learn within 3 rounds, got 4 and 0: type rounds=4 or more",
    "exploration=team_draft": "the exploration TeamDraft needs",
    "dataset=mq2008 dataset.path=/nowhere ~dataset.documents dataset.queries=null": "dataset.path must be a folder",
    "experiment=grid_pairrank ranker.l2=1": "differ in exploration.alpha: sweep one grid at a time",
    "+launcher_=1": "did you mean launcher?",
}


def test_all_bad_jobs_have_a_reason_and_good_jobs_do_not(composer):
    planned = plan(composer, *BAD, "seed=3")
    assert [sweep_job.number for sweep_job in planned.good] == [len(BAD)]
    for sweep_job, reason in zip(planned.bad, BAD.values(), strict=True):
        assert reason in sweep_job.reason
        assert "\n" not in sweep_job.reason
    assert list(Path().iterdir()) == []


def test_jobs_whose_roles_do_not_fit_the_data_are_bad(composer):
    words = ["dataset=letor", f"dataset.path={TINY}", "dataset.fold=1", "ranker=ips_regression", "cache_dir=cache"]
    planned = Plan([[*words, f"fairness={name}"] for name in ("none", "fairco")], composer)
    groups = "fairness needs a dataset with two groups: type 'dataset.group={..}' or fairness=none"
    assert [sweep_job.reason for sweep_job in planned.sweep_jobs] == ["", groups]


@pytest.mark.parametrize("jobs", [("update_every=10", "update_every=1"), ("update_every=1", "update_every=10")])
def test_each_job_is_set_up_with_what_decides_whether_it_can_be(composer, jobs):
    """A full covariance of a network is kept for every round that learns, so that rounds have to learn at once."""
    words = [*SMOKE, "rounds=20", "ranker=olranknet", "exploration.covariance=full"]
    planned = Plan([[*words, job] for job in jobs], composer)
    assert [bool(sweep_job.reason) for sweep_job in planned.sweep_jobs] == [job == "update_every=10" for job in jobs]


def test_a_split_of_which_nothing_would_be_left_is_bad(composer, tmp_path):
    folder = write_fold(tmp_path / "data", train=TRAIN_TEXT, vali="0 qid:v 1:1\n", test=TEST_TEXT)
    words = ["dataset=letor", f"dataset.path={folder}", "cache_dir=cache", "no_relevant=skip", "ranker=pdgd"]
    (sweep_job,) = Plan([words], composer).sweep_jobs
    assert "no query of the validation split has a relevant document" in sweep_job.reason


class Talking(Plan):
    """A plan whose checks are slow."""

    silent = -1.0


def test_a_long_check_says_how_many_jobs_are_checked(composer):
    terminal = io.StringIO()
    Talking([[*SMOKE, f"seed={seed}"] for seed in range(3)] + [[*SMOKE, "+rouns=3"]], composer, terminal)
    assert terminal.getvalue() == "checking: 2 of 4 jobs\nchecking: 3 of 4 jobs\n", "not after the last"


def test_nothing_is_run_if_some_jobs_are_bad(composer):
    jobs = [[*SMOKE, f"ranker.l2={value}", f"seed={seed}"] for value in (1, *range(-1, -13, -1)) for seed in range(2)]
    with pytest.raises(ValueError) as error:
        sweep(jobs, composer=composer)
    lines = str(error.value).splitlines()
    assert lines[0] == "24 of 26 jobs cannot be run, and nothing has been run:"
    assert lines[1] == "  ranker.l2 must be above 0, got -1 (#2 ranker.l2=-1 seed=0 and 1 more)"
    assert lines[11:] == ["  and 2 more such reasons", "  --keep-going runs the other 2"]
    assert list(Path().iterdir()) == []
    assert sweep([[*SMOKE, "ranker.l2=-1"]], keep_going=True).code == 2, "that of the run"


def test_a_refused_combination_names_what_may_go_together(composer, capsys):
    words = [*SMOKE, "ranker=pdgd,dbgd", "exploration=plackett_luce,team_draft"]
    assert main(["-m", *words, "seed=0,1,2"]) == 2
    first, *reasons, advice = capsys.readouterr().err.splitlines()
    assert first == "ol2r run: 6 of 12 jobs cannot be run, and nothing has been run:"
    assert len(reasons) == 2, "a line for each ranker, which refuses the exploration of the other one"
    together = "if ranker and exploration go together, type --paired ranker,exploration"
    assert advice == f"  {together}; --keep-going runs the other 6"
    assert len(Plan(composer.jobs(words, [["ranker", "exploration"]]), composer).good) == 2, "as told"
    assert main(["-m", *SMOKE, "ranker=pdgd,dbgd", "seed=0,1", "ranker.window=5"]) == 2
    assert "--paired" not in capsys.readouterr().err, "pdgd has no window, whatever goes together"


class Counted(Synthetic):
    """Counts how often datasets are loaded."""

    loads = count()

    def load(self):
        next(self.loads)
        return super().load()


def test_a_dataset_is_loaded_once_for_all_its_jobs(composer):
    own, users = f"dataset._target_={__name__}.Counted", ("perfect", "navigational")
    plan(composer, *(f"{own} seed={seed} click={click}" for seed in range(3) for click in users))
    assert next(Counted.loads) == 1
    plan(composer, f"{own} dataset.documents=5", f"{own} dataset.documents=6")
    assert next(Counted.loads) == 4, "with the look at the number"


def times() -> dict[Path, int]:
    """When each file was written."""
    return {path: path.stat().st_mtime_ns for path in Path().rglob("*")}


def test_a_dry_run_lists_and_writes_nothing(capsys):
    finish("seed=0")
    before = times()
    capsys.readouterr()
    assert main(["-m", "--dry-run", *SMOKE, "seed=0,1", "ranker=pairrank,oracle", "launcher.jobs=1"]) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "#0 seed=0 ranker=pairrank finished",
        "#1 seed=0 ranker=oracle new",
        "#2 seed=1 ranker=pairrank new",
        "#3 seed=1 ranker=oracle new",
        "",
        "4 jobs: 1 finished, 3 new",
        "1 at a time",
    ]
    assert main(["--dry-run", *SMOKE, "click=nav"]) == 0
    assert "click=navigational" in capsys.readouterr().out
    assert times() == before


@pytest.mark.parametrize(
    ("word", "message"),
    [("ranker.l2=-1", "ranker.l2 must be above 0, got -1\n"), ("seed=1,2", "seed=1,2 is several runs: add -m")],
)
def test_a_dry_run_of_a_bad_run_says_what_to_type(capsys, word, message):
    assert main(["--dry-run", *SMOKE, word]) == 2
    assert capsys.readouterr().err.startswith(f"ol2r run: {message}")


def test_finished_runs_start_nothing(capsys):
    finish("seed=0")
    before = times()
    capsys.readouterr()
    assert main(["-m", *SMOKE, "seed=0", "device.threads=1,2"]) == 0
    output, errors = capsys.readouterr()
    assert errors == "1 job left out, the same run as another: #1 is #0\n", "no job is waited for"
    assert "(done before: force=true runs it again)" in output, "a sweep of one job ends as a run does"
    result = sweep([[*SMOKE, "seed=0"], [*SMOKE, "seed=0", "device.threads=2"]])
    assert (result.code, result.directories) == (0, [result.sweep_jobs[0].directory] * 2)
    assert times() == before


def test_jobs_may_name_folders_with_choices_of_their_own(tmp_path):
    for name in ("first", "second"):
        folder = tmp_path / name / "click"
        folder.mkdir(parents=True)
        (folder / f"{name}.yaml").write_text("defaults: [perfect]\n")
    jobs = [["click=first", "--config-dir", "first"], ["click=second", "hydra.searchpath=[file://second]"]]
    result = sweep([[*SMOKE, *job, "ranker.l2=-1"] for job in jobs], keep_going=True)
    assert [job.reason for job in result.sweep_jobs] == ["ranker.l2 must be above 0, got -1"] * 2
    assert result.code == 3
    assert result.sweep_jobs[1].command == (
        f"ol2r run {' '.join(SMOKE)} click=second ranker.l2=-1 "
        f"--config-dir {tmp_path / 'first'} --config-dir {tmp_path / 'second'}"
    )


def ended(number: int, ending: Ending, reason: str = "", force: bool = False) -> SweepJob:
    """A job that has ended so."""
    settings = {"output_dir": "results", "force": force}
    words, run = (f"seed={number}", "output_dir=my results"), Path(f"results/letor/run-{number}")
    return SweepJob(number, words, words[0], settings=settings, reason=reason, ending=ending, directory=run)


@pytest.fixture
def summary(capsys) -> Callable[..., tuple[list[str], list[str]]]:
    """The lines of the summary of jobs on standard output and on standard error."""

    def of(*sweep_jobs: SweepJob) -> tuple[list[str], list[str]]:
        print_summary(SweepResult(list(sweep_jobs), [], 0, 65.0))
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err.splitlines()

    return of


def test_the_summary_says_how_jobs_ended(summary):
    endings = Ending.SKIPPED, Ending.DONE, Ending.SKIPPED, Ending.ELSEWHERE
    assert summary(*(ended(number, ending) for number, ending in enumerate(endings))) == (
        ["4 jobs in 1m 05s: 1 done, 2 finished before, 1 running elsewhere", "next: ol2r report results"],
        ["another process is running some of them: see `ol2r status results`"],
    )
    assert summary(ended(0, Ending.DONE), ended(1, Ending.DONE))[1] == []


def test_the_summary_says_how_to_run_failed_jobs_again(summary):
    failed = [ended(0, Ending.FAILED, "RuntimeError: a slip"), ended(1, Ending.FAILED, "killed")]
    failed[0].log.parent.mkdir(parents=True)
    failed[0].log.write_text("words")
    assert summary(*failed) == (
        ["2 jobs in 1m 05s: 2 failed"],
        [
            *["", "failed: seed=0", "  RuntimeError: a slip", "  printed: results/.sweep/letor/run-0.log"],
            "  again:   ol2r run seed=0 'output_dir=my results'",
            *["", "failed: seed=1", "  killed", "  again:   ol2r run seed=1 'output_dir=my results'"],
        ],
    )


@pytest.mark.parametrize("ending", [Ending.STOPPED, Ending.LEFT])
@pytest.mark.parametrize(("force", "advice"), [(False, ""), (True, " without force=true")])
def test_the_summary_of_a_stopped_sweep_says_what_goes_on(summary, ending, force, advice):
    out, err = summary(ended(0, Ending.DONE, force=force), ended(1, ending, force=force))
    line = f"the same command{advice} goes on from here"
    assert (out[0], err) == (f"2 jobs in 1m 05s: 1 done, 1 {ending}", [line])
