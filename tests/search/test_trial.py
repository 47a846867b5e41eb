from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli import cli
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.survey import find_runs, read_state
from ol2r_cli.search.trial import INTERRUPTED, configured, metrics, play
from ol2r_cli.watched import validation_curve
from tests.search.spaces import TINY

RESULTS = ("trace.parquet", "evaluation.parquet", "ranker.pt")


def words(folder: Path) -> list[str]:
    return [*TINY, "replicas=2", f"output_dir={folder}"]


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The run of `ol2r run`, which nobody watched."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert cli.main(["run", *words(folder)]) == 0
    return next(find_runs(folder))


def test_a_trial_is_the_run_that_ol2r_run_makes_whether_or_not_it_is_watched(tmp_path, undisturbed, capsys):
    told: list[tuple[int, float]] = []
    played = play(words(tmp_path), lambda round, ndcg: told.append((round, ndcg["validation"])))
    assert (played.code, played.before, played.path.name) == (0, False, undisturbed.name)
    assert contents(played.path) == contents(undisturbed)
    assert [round for round, _ in told] == [10, 20, 30], "nothing is told of the untrained and of the last round"
    for value, known in zip(told, validation_curve(RunDirectory(undisturbed)), strict=False):
        assert value == pytest.approx(known, abs=1e-6)
    assert capsys.readouterr() == ("", "")


def test_a_finished_run_is_not_run_again(undisturbed):
    before = contents(undisturbed)
    played = play(words(undisturbed.parents[1]))
    assert (played.code, played.before, played.path) == (0, True, undisturbed)
    assert contents(undisturbed) == before
    assert metrics(played.path)["validation_ndcg_10"]["n"] == 2


def test_a_watched_run_is_stopped_and_goes_on_as_if_it_had_not(tmp_path, undisturbed):
    played = play(words(tmp_path), lambda round, ndcg: round == 20)
    state = read_state(played.path)
    assert (played.code, state.state, state.round) == (INTERRUPTED, "interrupted", 20)
    assert cli.main(["run", *words(tmp_path)]) == 0
    assert contents(played.path) == contents(undisturbed)


def test_whoever_watches_later_is_told_of_the_earlier_rounds_first(tmp_path, undisturbed):
    stopped = play(words(tmp_path), lambda round, ndcg: round == 20)
    told: list[tuple[int, float]] = []
    again = play(words(tmp_path), lambda round, ndcg: told.append((round, ndcg["validation"])) or round == 10)
    assert (again.code, read_state(stopped.path).round) == (INTERRUPTED, 20), "it need not be played to be stopped"
    assert [round for round, _ in told] == [10]
    told.clear()
    assert play(words(tmp_path), lambda round, ndcg: told.append((round, ndcg["validation"]))).code == 0
    assert [round for round, _ in told] == [10, 20, 30]
    assert [value for _, value in told] == pytest.approx(
        [value for _, value in validation_curve(RunDirectory(undisturbed))[:3]], abs=1e-6
    )


def test_rounds_that_were_evaluated_on_disk_are_told_as_well(tmp_path):
    """After 12 evaluations the first ten are on disk, and two wait in the checkpoint."""
    often = [*words(tmp_path), "evaluate_every=3"]
    play(often, lambda round, ndcg: round == 36)
    told: list[int] = []
    assert play(often, lambda round, ndcg: told.append(round)).code == 0
    assert told == list(range(3, 40, 3))


def test_a_run_without_validation_has_nobody_to_watch_it(tmp_path):
    told: list[int] = []
    assert play([*words(tmp_path), "evaluate_on=[test]"], lambda round, ndcg: told.append(round)).code == 0
    assert told == []


def test_what_is_no_experiment_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"^ranker.l2 must be above 0"):
        play([*words(tmp_path), "ranker.l2=-1"])
    with pytest.raises(ValueError, match=r"^there is no setting or group 'rouns'"):
        configured([*TINY, "+rouns=3"])
    assert not list(find_runs(tmp_path))


def test_a_signal_before_the_first_round_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        play(words(tmp_path), stop=[15])
    assert not list(find_runs(tmp_path))


def test_a_signal_is_heard_while_another_process_has_the_run(tmp_path):
    finished = play(words(tmp_path))
    (finished.path / "run.json").unlink()
    with RunDirectory(finished.path), pytest.raises(KeyboardInterrupt):
        play(words(tmp_path), stop=[15])
