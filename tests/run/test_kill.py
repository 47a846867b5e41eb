"""`kill -9` before any file operation leaves a sound run that is not called finished and resumes to the same result."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest

from ol2r_cli.run.run import Run, find_runs, read_checkpoint
from tests.launch import Launched, die_before

WORDS = ["run", "ranker=sgd_ranknet", "dataset.queries={train: 15, validation: 4, test: 4}", "dataset.documents=8"]
WORDS += ["dataset.features=5", "rounds=60", "checkpoint_rounds=20", "replicas=2", "evaluate_every=10"]
WORDS += ["save_interactions=true", "validation_sessions=30"]
NAMES = ("trace.parquet", "evaluation.parquet", "interactions.parquet", "validation_clicks.parquet")
NAMES += ("ranker.pt", "summary.json")


def results(path: Path) -> dict[str, bytes]:
    assert {file.name for file in path.iterdir()} == {*NAMES, "config.yaml", "run.json", "log.txt"}
    return {name: (path / name).read_bytes() for name in NAMES}


def check(path: Path, whole: dict[str, bytes]) -> None:
    """Whether a run that may have been killed is finished as it should be, or has the rounds of its checkpoint."""
    run, saved = Run.read(path, thorough=True), read_checkpoint(path)
    if run.state == "finished":
        assert {name: (path / name).read_bytes() for name in NAMES} == whole
        return
    rounds = int(saved["state"]["simulation"]["round"]) if saved else 0
    assert run.kept <= rounds, "it may be killed before it has said so"
    assert (run.state, run.trace["round"].to_list()) == ("killed", [*range(1, rounds + 1)] * 2)


@pytest.mark.parametrize(("step", "kills"), [(23, 1), pytest.param(1, 2, marks=pytest.mark.slow)])
def test_no_kill_leaves_a_damaged_or_falsely_finished_run(tmp_path, step, kills):
    def play(root: Path, count: int) -> int:
        prepare = partial(die_before, count, 1 if count % 2 else 2**22)
        return Launched([*WORDS, f"output_dir={root}"], tmp_path / "log", prepare).wait()

    assert play(tmp_path / "whole", 0) == 0
    (whole,) = map(results, find_runs(tmp_path / "whole"))
    codes, count = [-signal.SIGKILL], 0
    while codes != [0]:  # the run has fewer operations than it is killed in
        count, codes = count + step, list[int]()
        root = tmp_path / f"{count}"
        while len(codes) < kills and 0 not in codes:
            codes.append(play(root, count))
            assert codes[-1] in (0, -signal.SIGKILL), count
            for path in find_runs(root):
                check(path, whole)
        assert play(root, 0) == 0
        assert [results(path) for path in find_runs(root)] == [whole], count
    assert 40 < count < 500
