"""LambdaMART among the online rankers: its trees are LightGBM's, what they depend on, and what needs LightGBM."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.cli import main
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.learning import lambdamart_fit
from ol2r_cli.ranker import offline as offline_lambdamart
from ol2r_cli.run.run import Run
from tests.reference import regression_trees as reference
from tests.worlds import handmade, offline_ndcg, simulate, tiny

RANKER = "ranker=offline_lambdamart"
SMALL = ["ranker.trees=12", "ranker.leaves=6", "ranker.min_documents=3"]
NEEDS = "ranker=offline_lambdamart needs LightGBM (import of lightgbm halted; None in sys.modules): type pip install"


@pytest.fixture
def lightgbm():
    """LightGBM, or the test is skipped."""
    return pytest.importorskip("lightgbm", exc_type=ImportError)


@pytest.fixture
def boosters(lightgbm, monkeypatch: pytest.MonkeyPatch) -> list:
    """Every booster that LightGBM trains; all fits are worth keeping."""
    made: list = []
    train = lightgbm.train

    def kept(*given, **more):
        made.append(train(*given, **more))
        return made[-1]

    monkeypatch.setattr(lightgbm, "train", kept)
    monkeypatch.setattr(offline_lambdamart, "LEAST_WORK", 0)
    return made


def world(train: int = 20, validation: int = 8, test: int = 8, per_query: int = 12) -> Dataset:
    """Labels that grow with |x_1 - x_2|, which no linear score can follow, and some noise."""
    queries = train + validation + test
    made = handmade([[0] * per_query] * queries, features=4)
    noise = torch.rand(queries, per_query, generator=torch.Generator().manual_seed(1)) / 4
    distance = (made.features[:, 0] - made.features[:, 1]).abs().reshape(queries, per_query) + noise
    labels = (distance.argsort(1).argsort(1) * 5 // per_query).to(torch.int8).flatten()
    splits = dict(
        zip(("train", "validation", "test"), torch.arange(queries).split([train, validation, test]), strict=True)
    )
    return dataclasses.replace(made, labels=labels, splits=splits)


def ranker(folder: Path, dataset: Dataset, *overrides: str, seeds=(0, 1), **more):
    """The ranker of a simulation, fitted."""
    config = tiny(RANKER, *SMALL, f"cache_dir={folder}", *overrides)
    return simulate(config, list(seeds), 1, dataset, **more).ranker


def relabelled(dataset: Dataset, split: str) -> Dataset:
    """The dataset with reversed labels in one split."""
    labels = dataset.labels.clone()
    for query in dataset.splits[split]:
        own = slice(dataset.offsets[query], dataset.offsets[query + 1])
        labels[own] = 4 - labels[own]
    return dataclasses.replace(dataset, labels=labels)


def every_score(fitted, dataset: Dataset, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """The scores of all documents of the table, query after query."""
    served = [dataset.split(name, dtype=dtype) for name in ("train", "validation", "test")]
    parts = [split.serve(torch.tensor([query]))[0] for split in served for query in range(len(split))]
    return torch.cat([fitted.score(fitted.deploy()[:1], part)[0, 0] for part in parts])


@pytest.mark.parametrize("patience", ["null", "3"])
def test_scores_are_those_of_lightgbm_and_of_a_walk_through_its_trees(tmp_path, boosters, patience):
    dataset = world()
    fitted = ranker(tmp_path, dataset, f"ranker.patience={patience}", "ranker.trees=40", "ranker.learning_rate=0.3")
    scores = every_score(fitted, dataset)
    (booster,) = boosters
    assert (booster.best_iteration > 0) == (patience != "null")
    np.testing.assert_allclose(scores, booster.predict(dataset.features.numpy()), rtol=1e-14, atol=1e-15)
    trees = booster.dump_model()["tree_info"]
    assert len(trees) == (booster.best_iteration or 40)
    walked = [reference.score(trees, row) for row in dataset.features.tolist()]
    np.testing.assert_allclose(scores, walked, rtol=1e-14, atol=1e-15)


def test_trees_are_those_of_a_plain_call_of_lightgbm(tmp_path, boosters):
    """`LGBMRanker` with the documented settings, on the training documents and, to stop, on those of validation."""
    from lightgbm import LGBMRanker, early_stopping

    dataset = world()
    size, rows = {}, {}
    for name, queries in dataset.splits.items():
        size[name] = [12] * len(queries)
        rows[name] = slice(int(dataset.offsets[queries[0]]), int(dataset.offsets[queries[-1] + 1]))
    features, labels = dataset.features.numpy(), dataset.labels.numpy()
    for patience in None, 3:
        theirs = LGBMRanker(
            n_estimators=40,
            num_leaves=7,
            learning_rate=0.2,
            min_child_samples=5,
            lambdarank_truncation_level=6,
            label_gain=[0, 1, 3, 7, 15],
            n_jobs=1,
            verbose=-1,
        )
        stopping = (
            {}
            if patience is None
            else {
                "eval_X": (features[rows["validation"]],),
                "eval_y": (labels[rows["validation"]],),
                "eval_group": [size["validation"]],
                "eval_at": [10],
                "callbacks": [early_stopping(patience, verbose=False)],
            }
        )
        theirs.fit(features[rows["train"]], labels[rows["train"]], group=size["train"], **stopping)
        settings = ["trees=40", "leaves=7", "learning_rate=0.2", "min_documents=5", "truncation_level=6"]
        settings += [f"patience={'null' if patience is None else patience}"]
        ours = ranker(tmp_path, dataset, *(f"ranker.{setting}" for setting in settings))
        np.testing.assert_allclose(every_score(ours, dataset), theirs.predict(features), rtol=1e-14, atol=1e-15)


def test_it_learns_what_a_linear_ranker_cannot(tmp_path, lightgbm):
    dataset = world(train=40)

    def ndcg(fitted) -> float:
        return float(offline_ndcg(dataset, "test", torch.tensor([0]))(fitted, fitted.deploy()[:1][None])[0, 0, -1])

    linear = simulate(tiny("ranker=offline_ranknet", f"cache_dir={tmp_path}"), [0], 1, dataset).ranker
    assert ndcg(ranker(tmp_path, dataset, "ranker.trees=100")) > ndcg(linear) + 0.05


def test_other_splits_decide_nothing_unless_the_validation_split_says_when_to_stop(tmp_path, lightgbm):
    dataset = world()
    stops = "ranker.patience=2"
    plain, stopped = ranker(tmp_path, dataset).deploy(), ranker(tmp_path, dataset, stops).deploy()
    assert not torch.equal(plain, stopped)
    for split, changes in {"test": (False, False), "validation": (False, True), "train": (True, True)}.items():
        other = relabelled(dataset, split)
        assert torch.equal(ranker(tmp_path, other).deploy(), plain) is not changes[0], split
        assert torch.equal(ranker(tmp_path, other, stops).deploy(), stopped) is not changes[1], split


def test_all_replicas_seeds_threads_and_precisions_share_the_trees(tmp_path, lightgbm, monkeypatch):
    dataset = world()
    first = ranker(tmp_path, dataset).deploy()
    assert torch.equal(first[0], first[1])
    assert torch.equal(ranker(tmp_path, dataset, seeds=(7,)).deploy()[0], first[0])
    assert torch.equal(ranker(tmp_path, dataset, "ranker.seed=5").deploy(), first), "few documents: no sample is drawn"
    single = ranker(tmp_path, dataset, dtype=torch.float32)
    assert torch.equal(single.deploy(), first.float())
    with monkeypatch.context() as threads:
        threads.setattr(torch, "get_num_threads", lambda: 2)
        assert torch.equal(ranker(tmp_path / "two", dataset).deploy(), first)
    values = every_score(ranker(tmp_path, dataset), dataset), every_score(single, dataset, torch.float32).double()
    torch.testing.assert_close(*values, rtol=1e-5, atol=1e-5)


def test_a_fit_is_made_once_and_another_for_whatever_else(tmp_path, boosters):
    dataset = world()
    first = ranker(tmp_path, dataset).deploy()
    assert torch.equal(ranker(tmp_path, dataset).deploy(), first)
    assert len(boosters) == 1
    others = ["trees=5", "leaves=4", "learning_rate=0.2", "min_documents=4", "truncation_level=3", "patience=2"]
    for setting in [*others, "seed=1"]:
        ranker(tmp_path, dataset, f"ranker.{setting}")
    ranker(tmp_path, relabelled(dataset, "train"))
    fewer = {**dataset.splits, "validation": dataset.splits["validation"][1:]}
    ranker(tmp_path, dataclasses.replace(dataset, splits=fewer), "ranker.patience=2")
    assert len(boosters) == len(list((tmp_path / "offline").glob("*/theta.npy"))) == len(others) + 4


def test_replicas_with_trees_of_their_own_are_scored_with_them(tmp_path, lightgbm):
    dataset = world()
    fitted = ranker(tmp_path, dataset)
    candidates, _ = dataset.split("test").serve(torch.arange(3))
    one, two = fitted.deploy()[:1], ranker(tmp_path, relabelled(dataset, "train")).deploy()[:1]
    together = fitted.score(torch.cat([two, one, two]), candidates)
    for place, parameters in enumerate((two, one, two)):
        assert torch.equal(together[place], fitted.score(parameters, candidates)[0])
    assert not torch.equal(together[0], together[1])


def test_where_nothing_can_be_learned_all_scores_are_equal(tmp_path, lightgbm):
    for lists in [[0, 0, 0], [2, 2]], [[1], [0], [3]], [[0, 1]]:
        dataset = handmade(lists)
        assert not every_score(ranker(tmp_path, dataset), dataset).any(), lists


def test_a_dataset_without_a_validation_split_cannot_say_when_to_stop(tmp_path, lightgbm):
    dataset = world()
    for splits in {**dataset.splits, "validation": torch.arange(0)}, {"train": dataset.splits["train"]}:
        without = dataclasses.replace(dataset, splits=splits)
        ranker(tmp_path, without)
        with pytest.raises(ValueError, match=r"^ranker.patience needs .* validation split: type ranker.patience=null$"):
            ranker(tmp_path, without, "ranker.patience=3")


def test_a_longer_query_than_lightgbm_accepts_is_an_error(tmp_path, lightgbm, monkeypatch):
    monkeypatch.setattr(lambdamart_fit, "LONGEST", 11)
    with pytest.raises(ValueError, match=r"^LightGBM accepts queries of at most 11 documents, got one of 12$"):
        ranker(tmp_path, world())


def test_only_a_long_fit_is_announced(tmp_path, lightgbm, capfd, monkeypatch):
    monkeypatch.setattr(lambdamart_fit, "QUIET", 1e9)  # a busy machine may need seconds
    ranker(tmp_path / "one", world())
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(lambdamart_fit, "QUIET", -1)
    ranker(tmp_path / "two", world())
    assert capfd.readouterr() == ("", "fitting the offline LambdaMART: tree 1 of at most 12 ..\n")


def test_without_lightgbm_one_line_says_what_to_type(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    overrides = [RANKER, "rounds=3", "dataset.queries={train: 4, validation: 2, test: 2}", "dataset.documents=5"]
    assert main(["run", *overrides, f"output_dir={tmp_path}/out", f"cache_dir={tmp_path}/cache"]) == 2
    assert capsys.readouterr().err == f"ol2r run: {NEEDS} 'ol2r[lightgbm]'\n"
    assert not (tmp_path / "out").exists()
    assert main(["list", *RANKER.split("=")]) == 0


def test_a_library_that_lightgbm_misses_is_named(tmp_path, lightgbm, monkeypatch):
    def broken(name, *rest, **more):
        if name == "lightgbm":
            raise OSError("libgomp.so.1: cannot open shared object file")
        return imported(name, *rest, **more)

    imported = importlib.__import__
    monkeypatch.setattr("builtins.__import__", broken)
    with pytest.raises(ValueError, match=r"needs LightGBM \(libgomp\.so\.1: cannot open shared object file\): type "):
        ranker(tmp_path, world())


def test_a_trained_ranker_scores_new_documents_without_lightgbm(tmp_path, lightgbm, monkeypatch, capsys):
    overrides = [RANKER, *SMALL, "rounds=3", "dataset.documents=9", "dataset.features=4", "replicas=2", "seed=3"]
    overrides += ["dataset.queries={train: 12, validation: 4, test: 4}"]
    assert main(["run", *overrides, f"output_dir={tmp_path}/out", f"cache_dir={tmp_path}/cache"]) == 0
    (path,) = (file.parent for file in (tmp_path / "out").rglob("ranker.pt"))
    assert json.loads((path / "run.json").read_text())["versions"]["lightgbm"] == lightgbm.__version__
    values = np.random.default_rng(0).random((6, 4)).astype(np.float32)
    lines = [" ".join(["0 qid:1", *(f"{n}:{x:.6f}" for n, x in enumerate(row, 1))]) for row in values.tolist()]
    (tmp_path / "new.txt").write_text("\n".join(lines) + "\n")
    before = Run.read_finished(path).read_ranker().scores(tmp_path / "new.txt")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert torch.equal(Run.read_finished(path).read_ranker().scores(tmp_path / "new.txt"), before)
    assert len(before.unique()) > 1
    capsys.readouterr()
    assert main(["export", str(path), "--to", "trec", "--out", str(tmp_path / "trec")]) == 0
