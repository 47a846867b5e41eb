"""What is known before the first job: which are bad and why, the same or done before, and how long the rest takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ol2r_cli.dataset.synthetic import Synthetic
from ol2r_cli.experiment import run_experiment
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.run import main
from ol2r_cli.sweep.compositions import Composer
from ol2r_cli.sweep.entry import sweep
from ol2r_cli.sweep.plan import Plan
from ol2r_cli.sweep.reasons import BadJobs

pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

TINY = Path(__file__).parents[1] / "data" / "tiny"
SMOKE = ["experiment=smoke", "rounds=3", "evaluate_every=3"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer.alone()


def plan(composer: Composer, *lines: str) -> Plan:
    return Plan([[*SMOKE, *line.split()] for line in lines], composer)


def finish(composer: Composer, line: str) -> None:
    """Run it, in this process."""
    words = [*SMOKE, *line.split()]
    composed = composer(words)
    assert run_experiment(composed.config, composed.choices, words) == 0


def test_jobs_are_named_by_what_tells_them_apart(composer: Composer):
    planned = plan(composer, "ranker=pdgd seed=0", "ranker=pdgd seed=1", "click=perfect ranker=pdgd seed=0")
    assert [cell.name for cell in planned.cells] == ["seed=0", "seed=1", "click=perfect seed=0"]
    assert planned.cells[1].command == "ol2r run experiment=smoke rounds=3 evaluate_every=3 ranker=pdgd seed=1"


def test_the_directory_is_that_of_the_run(composer: Composer):
    planned = plan(composer, "seed=0", "seed=1")
    finish(composer, "seed=1")
    (there,) = Path("outputs").glob("synthetic/*/summary.json")
    assert planned.cells[1].directory == there.parent
    assert [cell.state() for cell in planned.cells] == [("new", 0), ("finished", 3)]
    assert [cell.state() for cell in plan(composer, "seed=1 force=true").cells] == [("new", 0)]


def test_an_interrupted_run_is_resumed_and_a_running_one_is_seen(composer: Composer):
    (cell,) = plan(composer, "seed=5").cells
    directory = RunDirectory(cell.directory)
    directory.write_json("run.json", {"status": "interrupted", "progress": {"round": 2, "rounds": 3}})
    assert cell.state() == ("new", 0), "without a checkpoint it begins afresh"
    directory.write_bytes("checkpoint.pt", b"")
    assert cell.state() == ("resumes", 2)
    directory.write_json("run.json", {"status": "running", "progress": {"round": 1, "rounds": 3}})
    with directory:
        assert cell.state() == ("running", 1)


def test_jobs_that_are_one_run_are_merged(composer: Composer):
    planned = plan(
        composer,
        "click=perfect ranker.l2=0.7",
        "seed=0 click=perfect ranker.l2=7e-1",
        "click=perfect",
        "device.threads=2 click=perfect",
    )
    assert [cell.number for cell in planned.cells] == [0, 2]
    assert planned.merged == {1: 0, 3: 2}


BAD = {
    "ranker=pairnk": "did you mean ranker=pairrank?",
    "ranker.l2=-1": "ranker.l2 must be above 0, got -1",
    "rounds=x": "rounds must be a whole number",
    "click.click=[.5]": "click.click must be 5 probabilities",
    "exploration=team_draft": "the exploration TeamDraft needs",
    "dataset.documents=0": "dataset.documents",
    "dataset=mq2008 dataset.path=/nowhere ~dataset.documents dataset.queries=null": "dataset.path must be a folder",
    "experiment=grid_pairrank ranker.l2=1": "differ in exploration.alpha: sweep one grid at a time",
    "trace_cosine=true ranker=toprank": "trace_cosine=true needs a ranker with linear weights",
    "+launcher_=1": "did you mean launcher?",
}


def test_bad_jobs_are_told_all_at_once_and_good_ones_with_them(composer: Composer):
    planned = plan(composer, *BAD, "seed=3")
    assert [cell.number for cell in planned.good] == [len(BAD)]
    for cell, told in zip(planned.bad, BAD.values(), strict=True):
        assert told in cell.reason
        assert "\n" not in cell.reason
    assert list(Path().iterdir()) == []


def test_roles_that_do_not_fit_the_data_are_found_without_playing(composer: Composer):
    words = ["dataset=letor", f"dataset.path={TINY}", "dataset.fold=1", "ranker=ips_regression", "cache_dir=cache"]
    planned = Plan([[*words, f"fairness={name}"] for name in ("none", "fairco")], composer)
    assert [cell.reason for cell in planned.bad] == [
        "fairness needs a dataset with two groups: type dataset.group={..} or fairness=none"
    ]
    assert [cell.number for cell in planned.good] == [0]


def test_a_role_that_breaks_is_a_bad_job_and_not_the_end(composer: Composer, monkeypatch: pytest.MonkeyPatch):
    def setup(self: object, *_: object) -> None:
        raise RuntimeError("a slip of my own")

    monkeypatch.setattr("ol2r_cli.ranker.pdgd.PDGD.setup", setup)
    planned = plan(composer, "ranker=pdgd", "ranker=sgd_ranknet")
    assert [cell.reason for cell in planned.bad] == ["RuntimeError: a slip of my own"]
    assert [cell.number for cell in planned.good] == [1]


def test_nothing_is_run_when_some_are_bad(capsys: pytest.CaptureFixture[str]):
    jobs = [[*SMOKE, f"ranker.l2={value}", f"seed={seed}"] for value in (1, -1, -2) for seed in range(2)]
    with pytest.raises(BadJobs) as error:
        sweep(jobs)
    told = str(error.value).splitlines()
    assert told[0] == "4 of 6 jobs cannot be run, and nothing has been run:"
    assert told[1] == "  ranker.l2 must be above 0, got -1 (#2 ranker.l2=-1 seed=0 and 1 more)"
    assert told[3] == "  --keep-going runs the other 2"
    assert list(Path().iterdir()) == []
    assert main(["-m", *SMOKE, "ranker.l2=1,-1"]) == 2
    assert capsys.readouterr().err.startswith("ol2r run: ranker.l2 must be above 0, got -1 (#1 ranker.l2=-1); nothing")


def test_many_reasons_are_counted(composer: Composer):
    with pytest.raises(BadJobs) as error:
        sweep([[*SMOKE, f"ranker.l2=-{value}"] for value in range(1, 15)])
    told = str(error.value).splitlines()
    assert len(told) == 12
    assert told[-1] == "  and 4 more such reasons"


def test_a_dataset_is_loaded_once_for_all_its_jobs(composer: Composer, monkeypatch: pytest.MonkeyPatch):
    loads: list[int] = []
    load = Synthetic.load
    monkeypatch.setattr(Synthetic, "load", lambda self: (loads.append(1), load(self))[1])
    plan(composer, *(f"seed={seed} click={click}" for seed in range(3) for click in ("perfect", "navigational")))
    assert len(loads) == 1
    plan(composer, "dataset.documents=5", "dataset.documents=6")
    assert len(loads) == 3


def test_a_dry_run_lists_the_jobs_and_their_time(composer: Composer, capsys: pytest.CaptureFixture[str]):
    finish(composer, "seed=0")
    (manifest,) = Path("outputs").glob("synthetic/*/run.json")
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"rounds_per_second": 0.5}))
    before = sorted(Path().rglob("*"))
    capsys.readouterr()
    assert main(["-m", "--dry-run", *SMOKE, "seed=0,1", "ranker=pairrank,oracle", "launcher.jobs=1"]) == 0
    out = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert out == [
        "#0 seed=0 ranker=pairrank finished",
        "#1 seed=0 ranker=oracle new time unknown",
        "#2 seed=1 ranker=pairrank new about 6.0s",
        "#3 seed=1 ranker=oracle new time unknown",
        "",
        "4 jobs: 1 finished, 3 new",
        "time: about 6.0s, 1 at a time, by finished runs below output_dir, and 2 of which nothing is known",
    ]
    assert sorted(Path().rglob("*")) == before, "nothing is written"


def test_a_dry_run_of_one_run(capsys: pytest.CaptureFixture[str]):
    assert main(["--dry-run", *SMOKE, "click=nav"]) == 0
    assert "click=navigational" in capsys.readouterr().out
    assert main(["--dry-run", *SMOKE, "ranker.l2=-1"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "ol2r run: ranker.l2 must be above 0, got -1\n"
    assert main(["--dry-run", *SMOKE, "seed=1,2"]) == 2
    assert "seed=1,2 is several runs: add -m" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["launcher.jobs=0"], "launcher.jobs must be auto or 1 and more, got 0"),
        (["launcher.jbs=1"], "did you mean launcher.jobs?"),
        (["launcher=proceses"], "did you mean launcher=processes?"),
    ],
)
def test_a_bad_launcher_is_told_before_anything_runs(words: list[str], told: str):
    with pytest.raises(ValueError) as error:
        sweep([[*SMOKE, "seed=0"], [*SMOKE, "seed=1"]], words)
    assert told in str(error.value)
    assert list(Path().iterdir()) == []


def test_there_is_one_launcher(capsys: pytest.CaptureFixture[str]):
    assert main(["-m", *SMOKE, "seed=0,1", "launcher.jobs=1,2"]) == 2
    assert "launcher must be the same for all jobs of a sweep" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(capsys: pytest.CaptureFixture[str]):
    Path("file").write_text("")
    assert main(["-m", *SMOKE, "seed=0,1", "output_dir=file/below"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "ol2r run: output_dir must be a folder that can be used, got file/below (Not a directory)"
    ]


def test_finished_runs_start_nothing(composer: Composer, capsys: pytest.CaptureFixture[str]):
    finish(composer, "seed=0")
    finish(composer, "seed=1")
    (there, _) = files = sorted(Path("outputs").rglob("run.json"))
    times = [path.stat().st_mtime_ns for path in files]
    capsys.readouterr()
    assert main(["-m", *SMOKE, "seed=0,1"]) == 0
    told = capsys.readouterr().out
    assert "2 finished before" in told
    assert "next: ol2r report outputs" in told
    result = sweep([[*SMOKE, "seed=0"], [*SMOKE, "seed=0", "device.threads=2"]])
    assert (result.code, result.directories) == (0, [result.cells[0].directory] * 2)
    assert main(["-m", *SMOKE, "seed=0"]) == 0
    assert "(done before: force=true runs it again)" in capsys.readouterr().out, "one job ends as one run does"
    assert [path.stat().st_mtime_ns for path in files] == times
    assert there.is_file()
