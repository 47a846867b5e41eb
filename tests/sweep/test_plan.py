"""The plan of a sweep: bad jobs and their reasons, duplicates, finished runs; its summary."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ol2r_cli.commands.run import main
from ol2r_cli.config.composer import Composer
from ol2r_cli.dataset.synthetic import Synthetic
from ol2r_cli.run.kind import KIND
from ol2r_cli.run.runner import run_experiment
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.sweep.plan import Ending, Plan, SweepJob
from ol2r_cli.sweep.sweeper import SweepResult, print_plan, print_summary, sweep
from tests.manifests import manifest

pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

TINY = Path(__file__).parents[1] / "data" / "tiny"
SMOKE = ["experiment=smoke", "rounds=3", "evaluate_every=3"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def plan(composer: Composer, *lines: str) -> Plan:
    return Plan([[*SMOKE, *line.split()] for line in lines], composer)


def finish(composer: Composer, line: str) -> None:
    """Run it in this process."""
    words = [*SMOKE, *line.split()]
    composition = composer(words)
    assert run_experiment(composition.settings, composition.choices, words, kind=KIND, render=None) == 0


def test_jobs_have_distinct_names_and_the_state_of_their_runs(composer: Composer):
    """Jobs have the names that distinguish them, and the state of their runs."""
    planned = plan(composer, "seed=0 click=perfect", "seed=1", "seed=1 ranker.l2=7e-1", "ranker.l2=0.7 seed=1")
    names = ["seed=0 click=perfect", "seed=1", "seed=1 ranker.l2=7e-1"]
    assert [sweep_job.name for sweep_job in planned.sweep_jobs] == names
    assert planned.duplicates == {3: 2}, "a run is run once"
    assert planned.sweep_jobs[1].command == "ol2r run experiment=smoke rounds=3 evaluate_every=3 seed=1"
    finish(composer, "seed=1 device.threads=2")
    (summary,) = Path("outputs").glob("synthetic/*/summary.json")
    assert planned.sweep_jobs[1].directory == summary.parent
    assert [sweep_job.state() for sweep_job in planned.sweep_jobs[:2]] == [("new", 0), ("finished", 3)]
    forced, sweep_job = plan(composer, "seed=1 force=true", "seed=5").sweep_jobs
    assert forced.state() == ("new", 0)
    directory = RunDirectory(sweep_job.directory)
    directory.write_json("run.json", manifest("interrupted", 2, 3))
    assert sweep_job.state() == ("new", 0), "without a checkpoint it starts from nothing"
    directory.write_bytes("checkpoint.pt", b"")
    assert sweep_job.state() == ("resumes", 2)
    with directory:
        assert sweep_job.state() == ("running", 2), "a process goes on with it, and has not said so yet"
    directory.write_json("run.json", manifest("running", 1, 3))
    with directory:
        assert sweep_job.state() == ("running", 1)
    directory.write_json("run.json", manifest("running", progress={"round": 2, "rounds": 3, "checkpoint": 1}))
    assert sweep_job.state() == ("resumes", 1), "of a killed run what came after its checkpoint is lost"


def test_a_launcher_that_can_never_begin_is_refused(composer: Composer, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ol2r_cli.launcher.processes.Processes.refusal", lambda _: "no worker", raising=False)
    jobs = [[*SMOKE, f"seed={seed}"] for seed in range(2)]
    assert print_plan(jobs, composer) == 2
    captured = capsys.readouterr()
    assert "2 jobs: 2 new" in captured.out
    assert captured.err.endswith("ol2r run: no worker\n")
    with pytest.raises(ValueError, match=r"^no worker$"):
        sweep(jobs, composer=composer)
    assert not Path("outputs").exists()


def test_a_single_job_is_named_without_what_is_shared(composer: Composer):
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
    "evaluate_on=[train]": "evaluate_on must be a list [..,..] of which each is one of validation, test",
    "block_rounds=[2,4]": "block_rounds must be rounds from 1 to 3, got 4",
    "delay=3": "learn within 3 rounds, got 1 and 3: type rounds=4 or more",
    "update_every=4": "learn within 3 rounds, got 4 and 0: type rounds=4 or more",
    "exploration=team_draft": "the exploration TeamDraft needs",
    "dataset=mq2008 dataset.path=/nowhere ~dataset.documents dataset.queries=null": "dataset.path must be a folder",
    "experiment=grid_pairrank ranker.l2=1": "differ in exploration.alpha: sweep one grid at a time",
    "+launcher_=1": "did you mean launcher?",
    "ranker=pdgd": "RuntimeError: an error of the user",
}


def test_all_bad_jobs_have_a_reason_and_good_jobs_do_not(composer: Composer, monkeypatch: pytest.MonkeyPatch):
    def setup(self: object, *_: object) -> None:
        raise RuntimeError("an error of the user")

    monkeypatch.setattr("ol2r_cli.ranker.pdgd.PDGD.setup", setup)
    planned = plan(composer, *BAD, "seed=3")
    assert [sweep_job.number for sweep_job in planned.good] == [len(BAD)]
    for sweep_job, reason in zip(planned.bad, BAD.values(), strict=True):
        assert reason in sweep_job.reason
        assert "\n" not in sweep_job.reason
    assert list(Path().iterdir()) == []
    words = ["dataset=letor", f"dataset.path={TINY}", "dataset.fold=1", "ranker=ips_regression", "cache_dir=cache"]
    planned = Plan([[*words, f"fairness={name}"] for name in ("none", "fairco")], composer)
    groups = "fairness needs a dataset with two groups: type 'dataset.group={..}' or fairness=none"
    assert [sweep_job.reason for sweep_job in planned.bad] == [groups]
    assert [sweep_job.number for sweep_job in planned.good] == [0]


def test_a_long_check_says_how_many_jobs_are_checked(composer: Composer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ol2r_cli.sweep.plan._SILENT", -1.0)
    terminal = io.StringIO()
    Plan([[*SMOKE, f"seed={seed}"] for seed in range(3)] + [[*SMOKE, "+rouns=3"]], composer, terminal)
    assert terminal.getvalue() == "checking: 2 of 4 jobs\nchecking: 3 of 4 jobs\n", "not after the last"


def test_nothing_is_run_if_some_jobs_are_bad(composer: Composer, capsys: pytest.CaptureFixture[str]):
    jobs = [[*SMOKE, f"ranker.l2={value}", f"seed={seed}"] for value in (1, *range(-1, -13, -1)) for seed in range(2)]
    with pytest.raises(ValueError) as error:
        sweep(jobs, composer=composer)
    lines = str(error.value).splitlines()
    assert lines[0] == "24 of 26 jobs cannot be run, and nothing has been run:"
    assert lines[1] == "  ranker.l2 must be above 0, got -1 (#2 ranker.l2=-1 seed=0 and 1 more)"
    assert lines[11:] == ["  and 2 more such reasons", "  --keep-going runs the other 2"]
    assert list(Path().iterdir()) == []
    assert main(["-m", *SMOKE, "ranker.l2=1,-1"]) == 2
    assert capsys.readouterr().err.startswith("ol2r run: ranker.l2 must be above 0, got -1 (#1 ranker.l2=-1); nothing")
    assert sweep([[*SMOKE, "ranker.l2=-1"]], keep_going=True).code == 2, "that of the run"
    Path("file").write_text("")
    for word, message in [
        ("launcher.jobs=0", "launcher.jobs must be auto or 1 or more, got 0"),
        ("launcher.timeout=0", "launcher.timeout must be null or above 0, got 0"),
        ("launcher.jbs=1", "did you mean launcher.jobs?"),
        ("launcher=proceses", "did you mean launcher=processes?"),
        ("launcher.jobs=1,2", "launcher must be the same for all jobs of a sweep"),
        ("output_dir=file/below", "output_dir must be a folder that can be used, got file/below (Not a directory)\n"),
    ]:
        assert main(["-m", *SMOKE, "seed=0,1", word]) == 2
        assert message in capsys.readouterr().err
    assert list(Path().iterdir()) == [Path("file")]


def test_a_refused_combination_names_what_may_go_together(composer: Composer, capsys: pytest.CaptureFixture[str]):
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


def test_a_dataset_is_loaded_once_for_all_its_jobs(composer: Composer, monkeypatch: pytest.MonkeyPatch):
    loads: list[int] = []
    load = Synthetic.load
    monkeypatch.setattr(Synthetic, "load", lambda self: (loads.append(1), load(self))[1])
    plan(composer, *(f"seed={seed} click={click}" for seed in range(3) for click in ("perfect", "navigational")))
    assert len(loads) == 1
    plan(composer, "dataset.documents=5", "dataset.documents=6")
    assert len(loads) == 3


def test_finished_runs_start_nothing_and_dry_runs_write_nothing(composer: Composer, capsys: pytest.CaptureFixture[str]):
    """Finished runs start nothing, and a dry run lists and writes nothing."""
    finish(composer, "seed=0")
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
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
    for words, message in (
        ("ranker.l2=-1", "ranker.l2 must be above 0, got -1\n"),
        ("seed=1,2", "seed=1,2 is several runs: add -m"),
    ):
        assert main(["--dry-run", *SMOKE, words]) == 2
        assert capsys.readouterr().err.startswith(f"ol2r run: {message}"), words
    assert main(["-m", *SMOKE, "seed=0", "device.threads=1,2"]) == 0
    output, errors = capsys.readouterr()
    assert errors == "1 job left out, the same run as another: #1 is #0\n", "no job is waited for"
    assert "(done before: force=true runs it again)" in output, "a sweep of one job ends as a run does"
    result = sweep([[*SMOKE, "seed=0"], [*SMOKE, "seed=0", "device.threads=2"]])
    assert (result.code, result.directories) == (0, [result.sweep_jobs[0].directory] * 2)
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before


def test_jobs_may_name_folders_with_choices_of_their_own(tmp_path: Path):
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


def test_the_summary_says_how_jobs_ended_and_what_to_type_next(capsys: pytest.CaptureFixture[str]):
    def ended(number: int, ending: Ending, reason: str = "", force: bool = False) -> SweepJob:
        settings = {"output_dir": "results", "force": force}
        words, run = (f"seed={number}", "output_dir=my results"), Path(f"results/letor/run-{number}")
        return SweepJob(number, words, words[0], settings=settings, reason=reason, ending=ending, directory=run)

    def summary(*sweep_jobs: SweepJob) -> tuple[list[str], list[str]]:
        """The lines on standard output and on standard error."""
        print_summary(SweepResult(list(sweep_jobs), [], 0, 65.0))
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err.splitlines()

    endings = Ending.SKIPPED, Ending.DONE, Ending.SKIPPED, Ending.ELSEWHERE
    assert summary(*(ended(number, ending) for number, ending in enumerate(endings))) == (
        ["4 jobs in 1m 05s: 1 done, 2 finished before, 1 running elsewhere", "next: ol2r report results"],
        ["another process is running some of them: see `ol2r status results`"],
    )
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
    for ending in Ending.STOPPED, Ending.LEFT:
        out, err = summary(ended(0, Ending.DONE), ended(1, ending))
        assert (out[0], err) == (f"2 jobs in 1m 05s: 1 done, 1 {ending}", ["the same command goes on from here"])
        _, err = summary(ended(0, Ending.DONE, force=True), ended(1, ending, force=True))
        assert err == ["the same command without force=true goes on from here"], ending
    assert summary(ended(0, Ending.DONE), ended(1, Ending.DONE))[1] == []
