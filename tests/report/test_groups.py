"""Which runs belong together, and that every (fold, seed) counts once."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.identity import RESULTS_VERSION
from tests.report.runs import found, make, only


def values(group, metric="test_ndcg_10") -> tuple[float, float, int]:
    estimate = group.estimate(metric)
    return estimate.mean, estimate.sd, estimate.n


def without_values_of_seeds(path: Path) -> None:
    """As earlier versions wrote the summary."""
    summary = RunDirectory(path).read_json("summary.json")
    del summary["by_seed"]
    RunDirectory(path).write_json("summary.json", summary)


def expected(*numbers: float) -> tuple:
    return pytest.approx((statistics.fmean(numbers), statistics.stdev(numbers), len(numbers)), abs=1e-6)


def test_seeds_replicas_and_folds_are_repetitions(tmp_path):
    make(tmp_path, test={0: 0.1, 1: 0.2, 2: 0.4})
    make(tmp_path, test={3: 0.8}, validation={3: 0.1})
    make(tmp_path, "dataset.fold=2", test={0: 0.3, 3: 0.5})
    make(tmp_path, "force=true", "output_dir=x", "device.threads=4", "dataset.data_dir=there", test={4: 0.9})
    group = only(tmp_path)
    assert group.seeds == {1: {0, 1, 2, 3, 4}, 2: {0, 3}}
    assert group.n == 7
    first, second = {0: 0.1, 1: 0.2, 2: 0.4, 3: 0.8, 4: 0.9}, {0: 0.3, 3: 0.5}
    _, sd, n = expected(*first.values(), *second.values()).expected
    folds = [sum(seeds.values()) / len(seeds) for seeds in (first, second)]  # 0.48 and 0.4: every fold counts the same
    assert values(group) == pytest.approx((sum(folds) / 2, sd, n), abs=1e-6)
    estimate = group.estimate("test_ndcg_10")
    assert (estimate.folds, estimate.between) == (2, pytest.approx(statistics.stdev(folds), abs=1e-6))
    by_pair = {(fold, seed): value for fold, seeds in ((1, first), (2, second)) for seed, value in seeds.items()}
    assert group.values("test_ndcg_10") == pytest.approx(by_pair, abs=1e-6)
    assert group.values("validation_ndcg_10") == pytest.approx({(1, 3): 0.1}, abs=1e-6)
    assert group.estimate("validation_ndcg_10").n == 1
    assert group.estimate("regret") is None


@pytest.mark.parametrize(
    "other",
    ["ranker.l2=1", "click.stop=1", "dataset.normalise=none", "rounds=3", "device.dtype=float32", "ranker=pdgd"],
)
def test_any_other_setting_makes_another_group(tmp_path, other):
    make(tmp_path)
    make(tmp_path, other, fingerprint="other data" if other.startswith("dataset") else None)
    assert len(found(tmp_path)) == 2


def test_a_seed_that_several_runs_have_counts_once(tmp_path):
    make(tmp_path, test={1: 0.2})
    make(tmp_path, test={0: 0.1, 1: 0.2, 2: 0.4})
    make(tmp_path, test={1: 0.2, 2: 0.4, 5: 0.9})  # overlaps in part: its tables are read
    assert values(only(tmp_path)) == expected(0.1, 0.2, 0.4, 0.9)
    for path in tmp_path.iterdir():
        without_values_of_seeds(path)
    assert values(only(tmp_path)) == expected(0.1, 0.2, 0.4, 0.9)
    assert values(only(tmp_path), "online_ndcg") == expected(0.1, 0.2, 0.4, 0.9)
    assert sorted(only(tmp_path).values("online_ndcg")) == [(1, 0), (1, 1), (1, 2), (1, 5)]
    make(tmp_path, "dataset.fold=2", test={1: 0.7})  # another fold, another value
    assert only(tmp_path).estimate("test_ndcg_10").mean == pytest.approx((0.4 + 0.7) / 2)


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_text("no table")])
def test_tables_that_are_needed_and_damaged_are_an_error(tmp_path, damage):
    make(tmp_path, test={0: 0.1, 1: 0.2, 2: 0.4})
    path = make(tmp_path, test={1: 0.2, 3: 0.4})
    without_values_of_seeds(path)
    for name in ("trace.parquet", "evaluation.parquet"):
        damage(path / name)
    with pytest.raises(ValueError, match=f"{path}.*: force=true runs it again"):
        only(tmp_path).estimate("test_ndcg_10")


def test_the_same_data_somewhere_else_are_the_same_data(tmp_path):
    make(tmp_path, "dataset.path=here", fingerprint="one")
    make(tmp_path, "dataset.path=there", test={1: 0.5}, fingerprint="one")
    make(tmp_path, "dataset.path=there", "dataset.fold=2", fingerprint="two")
    assert only(tmp_path).n == 3


def test_files_that_nothing_shows_to_be_the_same_data_are_not(tmp_path):
    make(tmp_path, "dataset.path=here", fingerprint="one")
    make(tmp_path, "dataset.path=there", "dataset.fold=2", fingerprint="two")
    assert len(found(tmp_path)) == 2


def test_other_data_under_the_same_settings_are_not_mixed(tmp_path):
    make(tmp_path, test={0: 0.1}, fingerprint="before the files were replaced")
    make(tmp_path, test={1: 0.2}, fingerprint="after")
    assert [group.n for group in found(tmp_path)] == [1, 1]
    assert len({group.settings["dataset.fingerprint"] for group in found(tmp_path)}) == 2


def test_results_of_another_version_are_not_mixed(tmp_path):
    make(tmp_path)
    path = make(tmp_path, test={1: 0.5})
    text = (path / "run.json").read_text()
    (path / "run.json").write_text(text.replace(f'"results_version": {RESULTS_VERSION}', '"results_version": 999'))
    assert sorted(group.settings["results_version"] for group in found(tmp_path))[1] == 999


def test_where_two_runs_differ_in_a_seed_the_larger_one_counts(tmp_path):
    """In its last bits, on a GPU or another machine; estimates and values go by the same run."""
    make(tmp_path, test={1: 0.3, 3: 0.5})
    make(tmp_path, test={0: 0.1, 1: 0.2, 2: 0.4})
    group = only(tmp_path)
    assert group.values("test_ndcg_10") == pytest.approx({(1, 0): 0.1, (1, 1): 0.2, (1, 2): 0.4, (1, 3): 0.5})
    assert group.estimate("test_ndcg_10").mean == pytest.approx(statistics.fmean(group.values("test_ndcg_10").values()))
