"""Skylines fitted offline: what they learn, against definitions and LightGBM, that a fit is made once, what is kept."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.cli import main
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.device import restored
from ol2r_cli.interfaces import Oracle
from ol2r_cli.ranker import offline
from ol2r_cli.ranker.offline import TrainingPairs, fit_ranknet
from ol2r_cli.run.recomputed import TrainedRanker
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.tensor.streams import Streams
from tests.finished import FEATURES, text
from tests.reference import objective as reference
from tests.reference import regression_trees
from tests.worlds import handmade, offline_ndcg, simulate, tiny

L2 = 1e-3
LISTS = [[4, 0, 1, 2, 0, 3], [1, 0, 0], [0, 2], [0, 0], [3, 1, 0]]
RANKNET, NETWORK, TREES = "ranker=offline_ranknet", "ranker=offline_network", "ranker=offline_lambdamart"
SMALL = {
    RANKNET: (),
    NETWORK: ("ranker.model.width=8",),
    TREES: ("ranker.trees=12", "ranker.leaves=6", "ranker.min_documents=3"),
}


@pytest.fixture
def lightgbm():
    """LightGBM, or the test is skipped."""
    return pytest.importorskip("lightgbm", exc_type=ImportError)


@pytest.fixture
def lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What lets the import of LightGBM raise an error."""

    def begin(error: str) -> None:
        (tmp_path / "lightgbm.py").write_text(f"raise {error}")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "lightgbm")

    return begin


def ranker_of(folder: Path, ranker: str, *overrides: str, dataset: Dataset | None = None, seeds=(0, 1), **more):
    """The ranker of a simulation, fitted."""
    small = () if "ranker/model=linear" in overrides else SMALL[ranker]
    config = tiny(ranker, *small, f"cache_dir={folder}", *overrides)
    return simulate(config, list(seeds), 1, dataset or handmade(LISTS), **more).ranker


def ndcg_of(ranker, dataset: Dataset) -> float:
    evaluate = offline_ndcg(dataset, "test", torch.tensor([0]), dtype=ranker.theta.dtype)
    return float(evaluate(ranker, ranker.deploy()[:1][None])[0, 0, -1])


def with_labels(dataset: Dataset, values: torch.Tensor, grades: int = 5) -> Dataset:
    """Labels by the rank of these values [queries, documents] within each list."""
    labels = values.argsort(1).argsort(1) * grades // values.shape[1]
    return dataclasses.replace(dataset, labels=labels.to(torch.int8).flatten())


def curved(train: int = 20, validation: int = 8, test: int = 8, documents: int = 12) -> Dataset:
    """Labels that grow with |x_1 - x_2|, about which a linear score is right for every second pair, and some noise."""
    queries = train + validation + test
    made = handmade([[0] * documents] * queries, features=4)
    noise = torch.rand(queries, documents, generator=torch.Generator().manual_seed(1)) / 4
    distance = (made.features[:, 0] - made.features[:, 1]).abs().reshape(queries, documents)
    parts = torch.arange(queries).split([train, validation, test])
    splits = dict(zip(("train", "validation", "test"), parts, strict=True))
    return dataclasses.replace(with_labels(made, distance + noise), splits=splits)


def relabelled(dataset: Dataset, split: str) -> Dataset:
    """The dataset with reversed labels in one split."""
    labels = dataset.labels.clone()
    for query in dataset.splits[split]:
        own = slice(dataset.offsets[query], dataset.offsets[query + 1])
        labels[own] = 4 - labels[own]
    return dataclasses.replace(dataset, labels=labels)


# What all three have in common: a fit is made once, kept, and shared.

SETTINGS = {
    RANKNET: f"l2={10 * L2}",
    NETWORK: "loss=ranknet learning_rate=0.02 batch=2 patience=2 seed=1 epochs=2 model.init=standard model.width=6",
    TREES: "trees=11 leaves=5 learning_rate=0.2 min_documents=4 truncation_level=3 seed=1 patience=2",
}


@pytest.mark.parametrize("ranker", SMALL)
def test_a_fit_is_made_once_and_another_for_whatever_else(tmp_path, lightgbm, ranker):
    words, dataset = [ranker, *(["ranker.epochs=3"] if ranker == NETWORK else [])], curved(4, 3, 1, documents=60)
    first = ranker_of(tmp_path, *words, dataset=dataset).deploy()
    (file,) = (tmp_path / "offline").glob("*/theta.npy")
    fitted = file.stat().st_mtime_ns
    others = [
        relabelled(dataset, "test"),
        relabelled(dataset, "train"),
        dataclasses.replace(dataset, fingerprint="another"),
        dataclasses.replace(dataset, splits={**dataset.splits, "train": dataset.splits["train"][:3]}),
    ]
    assert torch.equal(ranker_of(tmp_path, *words, dataset=dataset).deploy(), first)
    found = [ranker_of(tmp_path, *words, dataset=other).deploy() for other in others]
    assert torch.equal(found[0], first), "only its key has the labels of other splits"
    for setting in SETTINGS[ranker].split():
        ranker_of(tmp_path, *words, f"ranker.{setting}", dataset=dataset)
    kept = len(list((tmp_path / "offline").glob("*/theta.npy")))
    assert kept == 1 + len(others) + len(SETTINGS[ranker].split())
    assert file.stat().st_mtime_ns == fitted


def test_a_fit_that_takes_no_time_is_not_kept(tmp_path):
    ranker_of(tmp_path, RANKNET)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ranker", SMALL)
def test_all_replicas_seeds_and_precisions_share_one_fit(tmp_path, lightgbm, ranker):
    dataset = curved(8, 2, 2)
    first = ranker_of(tmp_path, ranker, dataset=dataset).deploy()
    assert torch.equal(first[0], first[1])
    assert torch.equal(ranker_of(tmp_path, ranker, dataset=dataset, seeds=(7,)).deploy()[0], first[0])
    single = ranker_of(tmp_path, ranker, dataset=dataset, dtype=torch.float32).deploy()
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), first.double(), rtol=1e-6, atol=1e-6)
    if ranker == TREES:
        with restored():
            torch.set_num_threads(2)
            assert torch.equal(ranker_of(tmp_path, ranker, dataset=dataset).deploy(), first), "LightGBM's threads"


@pytest.mark.parametrize(
    ("ranker", "line"),
    [
        (RANKNET, f"ranker on {sum(a > b for labels in LISTS for a in labels for b in labels)} pairs .."),
        (NETWORK, "network: epoch 1 of at most 50 .."),
        (TREES, "LambdaMART: tree 1 of at most 12 .."),
    ],
)
def test_only_a_long_fit_is_announced(tmp_path, capfd, lightgbm, monkeypatch, ranker, line):
    for quiet, said in ((1e9, ""), (-1, f"fitting the offline {line}\n")):  # a busy machine may need seconds
        monkeypatch.setattr(offline, "QUIET", quiet)
        ranker_of(tmp_path, ranker)
        assert capfd.readouterr() == ("", said)


@pytest.mark.parametrize("lists", [[[0, 0, 0], [2, 2]], [[1], [0], [3]], [[0, 1]]], ids=str)
def test_trees_are_not_grown_from_too_little(tmp_path, lightgbm, lists):
    dataset = handmade(lists)
    assert not every_score(ranker_of(tmp_path, TREES, dataset=dataset), dataset).any()


def test_where_no_label_differs_parameters_stay_the_first_ones(tmp_path):
    flat = handmade([[0, 0, 0], [2, 2]])
    assert not ranker_of(tmp_path, RANKNET, dataset=flat).deploy().any()
    ranker = ranker_of(tmp_path, NETWORK, "ranker.model.init=standard", "ranker.seed=5", dataset=flat)
    initial = ranker.model.initial(Streams(torch.tensor([5])).at("offline", 0), 4, 1).flatten()
    assert torch.equal(ranker.deploy()[0], initial.to(ranker.model.dtype).to(ranker.theta.dtype))


# RankNet at its optimum.

WORLD = [[2, 0, 1], [0], [4, 4], [0] * 9, [1, 0], [0, 3, 0, 1, 1, 2, 0], [1, 0, 0, 4, 2, 2, 0, 0, 1, 0, 3], [0, 2]]
WORLD += [[n % 4 for n in range(29)], [n % 3 for n in range(30)]]  # near enough to be padded and worked on together
WIDTH = 5


def labelled(lists=WORLD, width=WIDTH):
    """Random features, and labels of which other splits own the first seven rows and the last three."""
    length = torch.tensor([len(labels) for labels in lists])
    start = 7 + length.cumsum(0) - length
    labels = torch.tensor([0, 1, 2, 3, 4, 0, 1, *(label for labels in lists for label in labels), 1, 2, 3])
    features = torch.rand(len(labels), width, generator=torch.Generator().manual_seed(0))
    return features, Oracle(labels.to(torch.int8), start, length, "by hand")


def written_out(features, oracle):
    """x_better - x_worse of every pair, by the definition."""
    rows = [
        features[better].double().numpy() - features[worse].double().numpy()
        for start, length in zip(oracle.start.tolist(), oracle.length.tolist(), strict=True)
        for better in range(start, start + length)
        for worse in range(start, start + length)
        if oracle.labels[better] > oracle.labels[worse]
    ]
    return np.array(rows).reshape(-1, features.shape[1])


def measured(function, theta, rows, l2):
    """A function of the reference, whose `mean` is that of all pairs times their number, with l2 |theta|^2 where ours
    has l2/2."""
    return function(theta, reference.equal(rows), l2 / 2, "mean") / len(rows)


@pytest.mark.parametrize("cells", [1, 60, offline.CELLS])
def test_loss_gradient_and_curvature_are_those_of_the_pairs(monkeypatch, cells):
    monkeypatch.setattr(offline, "CELLS", cells)
    features, oracle = labelled()
    rows, theta = written_out(features, oracle), np.random.default_rng(1).normal(size=WIDTH)
    pairs = TrainingPairs(features, oracle)
    assert pairs.count == len(rows)
    loss, gradient = pairs.loss(torch.from_numpy(theta))
    assert float(loss) == pytest.approx(measured(reference.objective, theta, rows, 0), rel=1e-12)
    np.testing.assert_allclose(gradient, measured(reference.gradient, theta, rows, 0), rtol=0, atol=1e-12)
    curvature = measured(reference.hessian, np.zeros(WIDTH), rows, 0)
    np.testing.assert_allclose(pairs.curvature(), curvature, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("width", "l2"), [(3, 10), (3, 1e-7), (12, 1e-2), (12, 1e-4)])
def test_the_fit_is_the_optimum(width, l2):
    """Of features of any scale: with features c x and l2 c^2 the objective is that of c theta."""
    features, oracle = labelled(width=width)
    rows, theta = written_out(features, oracle), fit_ranknet(features, oracle, l2)
    assert np.linalg.norm(measured(reference.gradient, theta.numpy(), rows, l2)) < 1e-6
    best = reference.optimum(reference.equal(rows), l2 / 2, "mean", width)
    least = measured(reference.objective, best, rows, l2)
    assert measured(reference.objective, theta.numpy(), rows, l2) <= least + 1e-10
    for scale in 1e-3, 1e4:
        scaled = fit_ranknet(features * scale, oracle, l2 * scale**2)
        torch.testing.assert_close(scaled * scale, theta, rtol=1e-4, atol=1e-6)


def test_an_optimum_out_of_reach_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(offline, "STEPS", 1)
    with pytest.raises(ValueError, match=r"^ranker.l2 must be larger .*, got 0.001 \(the gradient stays at "):
        ranker_of(tmp_path, RANKNET, f"ranker.l2={L2}")


# What each can learn.


def test_linear_labels_are_learned_by_the_linear_ranker(tmp_path, lightgbm):
    """Linear labels are learned by the linear ranker, and others by the others.

    A misplaced pair costs at least log 2 / pairs; weights that separate all cost less, if l2 is small enough.
    """
    world = handmade([[0] * 15] * 20)
    linear = with_labels(world, (world.features @ torch.tensor([1.0, -2.0, 0.5, 3.0])).reshape(20, 15))
    assert ndcg_of(ranker_of(tmp_path, RANKNET, "ranker.l2=1e-9", dataset=linear), linear) == pytest.approx(1)
    world = handmade([[0] * 15] * 30, features=3)
    bent = with_labels(world, (world.features[:, 0] - world.features[:, 1]).abs().reshape(30, 15))
    words = NETWORK, "ranker.loss=lambdarank", "ranker.batch=2"
    assert ndcg_of(ranker_of(tmp_path, *words, "ranker.model.width=20", dataset=bent), bent) > 0.95
    straight = ndcg_of(ranker_of(tmp_path, *words, "ranker/model=linear", dataset=bent), bent)
    assert straight < 0.85
    assert ndcg_of(ranker_of(tmp_path, TREES, "ranker.trees=100", dataset=bent), bent) > straight + 0.05


# LambdaMART.


def every_score(fitted, dataset: Dataset, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """The scores of all documents of the table, query after query."""
    served = [dataset.split(name, dtype=dtype) for name in ("train", "validation", "test")]
    parts = [split.serve(torch.tensor([query]))[0] for split in served for query in range(len(split))]
    return torch.cat([fitted.score(fitted.deploy()[:1], part)[0, 0] for part in parts])


@pytest.mark.parametrize("patience", [None, 3])
def test_scores_are_those_of_a_plain_call_of_lightgbm(tmp_path, lightgbm, patience):
    """And of a walk through its trees: `LGBMRanker` with the documented settings, on the training documents and, to
    stop, on those of validation."""
    dataset = curved()
    size = {name: [12] * len(queries) for name, queries in dataset.splits.items()}
    rows = {name: slice(12 * int(queries[0]), 12 * int(queries[-1]) + 12) for name, queries in dataset.splits.items()}
    features, labels = dataset.features.numpy(), dataset.labels.numpy()
    theirs = lightgbm.LGBMRanker(
        n_estimators=40, num_leaves=7, learning_rate=0.2, min_child_samples=5, lambdarank_truncation_level=6,
        label_gain=[0, 1, 3, 7, 15], n_jobs=1, verbose=-1,
    )  # fmt: skip
    watched = patience and {
        "eval_X": (features[rows["validation"]],),
        "eval_y": (labels[rows["validation"]],),
        "eval_group": [size["validation"]],
        "eval_at": [10],
        "callbacks": [lightgbm.early_stopping(patience, verbose=False)],
    }
    theirs.fit(features[rows["train"]], labels[rows["train"]], group=size["train"], **(watched or {}))
    settings = ["trees=40", "leaves=7", "learning_rate=0.2", "min_documents=5", "truncation_level=6"]
    settings += [f"patience={patience or 'null'}"]
    ours = ranker_of(tmp_path, TREES, *(f"ranker.{setting}" for setting in settings), dataset=dataset)
    scores = every_score(ours, dataset)
    np.testing.assert_allclose(scores, theirs.predict(features), rtol=1e-14, atol=1e-15)
    trees = theirs.booster_.dump_model(num_iteration=theirs.best_iteration_ or 40)["tree_info"]
    walked = [regression_trees.score(trees, row) for row in dataset.features.tolist()]
    np.testing.assert_allclose(scores, walked, rtol=1e-14, atol=1e-15)


def test_the_validation_split_decides_only_when_to_stop(tmp_path, lightgbm):
    dataset, stops = curved(), "ranker.patience=2"
    plain, stopped = (ranker_of(tmp_path, TREES, *words, dataset=dataset).deploy() for words in ((), (stops,)))
    assert not torch.equal(plain, stopped)
    for split, changes in {"test": (False, False), "validation": (False, True), "train": (True, True)}.items():
        other = relabelled(dataset, split)
        assert torch.equal(ranker_of(tmp_path, TREES, dataset=other).deploy(), plain) is not changes[0], split
        assert torch.equal(ranker_of(tmp_path, TREES, stops, dataset=other).deploy(), stopped) is not changes[1], split
    for splits in {**dataset.splits, "validation": torch.arange(0)}, {"train": dataset.splits["train"]}:
        without = dataclasses.replace(dataset, splits=splits)
        ranker_of(tmp_path, TREES, dataset=without)
        with pytest.raises(ValueError, match=r"^ranker.patience needs .* validation split: type ranker.patience=null$"):
            ranker_of(tmp_path, TREES, stops, dataset=without)


def drawn_tree(random: np.random.Generator, leaves: int) -> dict:
    """A tree of any shape; its thresholds are float32 numbers, or lie between two of them, or are
    LightGBM's largest."""
    if leaves == 1:
        return {"leaf_value": float(random.normal())}
    left = int(random.integers(1, leaves))
    threshold = float(np.float32(random.integers(-4, 5) / 10)) + random.choice(
        [0, 1e-12, -1e-12, 1e300], p=[0.5, 0.2, 0.2, 0.1]
    )
    children = drawn_tree(random, left), drawn_tree(random, leaves - left)
    node = {"split_feature": int(random.integers(3)), "threshold": threshold, "decision_type": "<="}
    return {**node, "missing_type": "None", "left_child": children[0], "right_child": children[1]}


@pytest.mark.parametrize("seed", range(5))
def test_flat_trees_are_walked_from_the_root(seed):
    """Features at the thresholds and at their neighbours on both sides; trees that are not there count nothing. So many
    rows that they are worked on in parts."""
    trees, random = build(tiny(TREES, "ranker.trees=6", "ranker.leaves=9").ranker), np.random.default_rng(seed)
    forest = [{"tree_structure": drawn_tree(random, leaves)} for leaves in (9, 1, 4, 2, 7)]
    values = (random.integers(-5, 6, (200, 3)) / 10).astype(np.float32)
    away = random.integers(-1, 2, values.shape)
    moved = np.nextafter(values, np.where(away > 0, np.inf, -np.inf).astype(np.float32))
    rows = torch.from_numpy(np.where(away == 0, values, moved))
    theta, times = trees.flat([tree["tree_structure"] for tree in forest]), offline.AT_ONCE_IN_TREES // 1000
    assert theta.shape == (6 * (4 * 9 - 3),)
    expected = torch.tensor([regression_trees.score(forest, row) for row in rows.tolist()], dtype=torch.float64)
    assert len(expected.unique()) > 4
    assert torch.equal(trees.sums(theta, rows.double().repeat(times, 1)), expected.repeat(times))
    torch.testing.assert_close(trees.sums(theta.float(), rows).double(), expected, rtol=0, atol=1e-5)
    assert not trees.sums(trees.flat([]), torch.randn(5, 3).double()).any()


def test_replicas_with_trees_of_their_own_are_scored_with_them(tmp_path, lightgbm):
    dataset = curved()
    fitted = ranker_of(tmp_path, TREES, dataset=dataset)
    candidates, _ = dataset.split("test").serve(torch.arange(3))
    one = fitted.deploy()[:1]
    two = ranker_of(tmp_path, TREES, dataset=relabelled(dataset, "train")).deploy()[:1]
    together = fitted.score(torch.cat([two, one, two]), candidates)
    for place, theta in enumerate((two, one, two)):
        assert torch.equal(together[place], fitted.score(theta, candidates)[0])
    assert not torch.equal(together[0], together[1])


def test_a_query_that_is_too_long_for_lightgbm_is_refused(tmp_path, lightgbm):
    with pytest.raises(ValueError, match=r"^LightGBM accepts queries of at most 10000 documents, got one of 10001$"):
        ranker_of(tmp_path, TREES, dataset=handmade([[0, 1], [0] * 10_000 + [1]]))


DATA = ["dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=9", f"dataset.features={FEATURES}"]


@pytest.mark.parametrize("error", ["OSError('libgomp.so.1: cannot open shared object file')", "ImportError('none')"])
def test_where_lightgbm_cannot_be_imported_what_to_type_is_said(tmp_path, lightgbm, lacking, capsys, error):
    """A library that it misses, and no LightGBM at all."""
    lacking(error)
    assert main(["run", TREES, "rounds=3", *DATA, f"output_dir={tmp_path}/out", f"cache_dir={tmp_path}/cache"]) == 2
    needs = f"ranker=offline_lambdamart needs LightGBM ({error.split(chr(39))[1]})"
    assert capsys.readouterr().err == f"ol2r run: {needs}: type pip install 'ol2r[lightgbm]'\n"
    assert not (tmp_path / "out").exists()
    assert main(["list", *TREES.split("=")]) == 0


def test_a_trained_ranker_scores_new_documents_without_lightgbm(tmp_path, lightgbm, lacking):
    words = [TREES, *SMALL[TREES], "rounds=3", *DATA, "replicas=2", "seed=3"]
    assert main(["run", *words, f"output_dir={tmp_path}/out", f"cache_dir={tmp_path}/cache"]) == 0
    (path,) = find_runs(tmp_path / "out")
    assert json.loads((path / "run.json").read_text())["versions"]["lightgbm"] == lightgbm.__version__
    (tmp_path / "new.txt").write_text(text(queries=3, seed=1))

    def scored() -> torch.Tensor:
        ranker = TrainedRanker(Run.read_finished(path))
        return ranker.scores(ranker.feature_source().of_file(tmp_path / "new.txt"))

    before = scored()
    lacking("ImportError")
    assert torch.equal(scored(), before)
    assert len(before.unique()) > 1
    assert main(["export", str(path), "--to", "trec", "--out", str(tmp_path / "trec")]) == 0
