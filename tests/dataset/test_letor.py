"""Letor: finding files, splits, normalised variants, groups, fingerprints."""

from __future__ import annotations

import gzip
import inspect
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli.dataset.check import check
from ol2r_cli.dataset.diagnose import DataError
from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.parse import parse
from tests.dataset.letor_files import ROOT, TINY, configured, letor, write_fold

CHOICES = ["letor", "mslr_web10k", "mslr_web30k", "yahoo", "mq2007", "mq2008", "istella_s"]
TRAIN = "".join(f"{q % 3} qid:t{q} 1:{q} 2:5 3:{d}\n" for q in range(10) for d in range(q % 3 + 1))
TEST = "2 qid:e0 1:9 2:6\n0 qid:e0 1:8 2:6 3:1\n"


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_spells_out_every_setting(tmp_path: Path, choice: str):
    settings = OmegaConf.load(ROOT / "configs" / "dataset" / f"{choice}.yaml")
    assert settings.pop("_target_") == "ol2r_cli.dataset.letor.Letor"
    assert list(settings) == list(inspect.signature(Letor).parameters)
    assert configured(choice, tmp_path, tmp_path).name == {"yahoo": "yahoo_set1"}.get(choice, choice)


def test_a_fold_is_one_table_with_queries_numbered_through(tmp_path: Path):
    dataset = letor(TINY, tmp_path / "cache", fold=2).load()
    parts = [parse(TINY / "Fold2" / f"{name}.txt") for name in ("train", "vali", "test")]
    np.testing.assert_array_equal(dataset.features.numpy(), np.concatenate([part.features for part in parts]))
    np.testing.assert_array_equal(dataset.labels.numpy(), np.concatenate([part.labels for part in parts]))
    assert dataset.query_ids == [identity for part in parts for identity in part.query_ids]
    counts = np.cumsum([0] + [len(part.query_ids) for part in parts])
    for number, split in enumerate(("train", "validation", "test")):
        assert dataset.splits[split].tolist() == list(range(counts[number], counts[number + 1]))
    served, labels = dataset.split("test").serve(torch.tensor([1]))
    first, last = parts[2].offsets[1:3]
    np.testing.assert_array_equal(served.features[0].numpy(), parts[2].features[first:last])
    np.testing.assert_array_equal(labels[0].numpy(), parts[2].labels[first:last])
    assert not list(TINY.rglob("*.npy")), "the cache must not lie beside the data"


def test_files_narrower_than_the_widest_are_filled_with_zeros(tmp_path: Path):
    write_fold(tmp_path / "set", train="1 qid:1 1:1 4:2\n", test="0 qid:2 2:3\n")
    expected = [[1, 0, 0, 2], [0, 3, 0, 0]]
    assert letor(tmp_path / "set", tmp_path / "cache").load().features.tolist() == expected
    wider = letor(tmp_path / "set", tmp_path / "cache", features=5).load()
    assert wider.features.tolist() == [[*row, 0] for row in expected]
    with pytest.raises(DataError, match=r"train\.txt:1: found feature id 4, expected at most 3"):
        letor(tmp_path / "set", tmp_path / "cache", features=3).load()


@pytest.mark.parametrize("names", [("valid.txt.gz", "test.txt"), ("vali.txt", "test.txt.gz")])
def test_files_are_found_in_folds_or_directly_plain_or_zipped(tmp_path: Path, names: tuple[str, str]):
    def put(folder: Path) -> None:
        folder.mkdir(parents=True)
        for name in ("train.txt", *names):
            (folder / name).write_bytes(gzip.compress(TRAIN.encode()) if name.endswith("gz") else TRAIN.encode())

    files = {"train": ["train.txt"], "validation": ["vali.txt", "valid.txt"], "test": ["test.txt"]}
    put(tmp_path / "a" / "Fold2")
    put(tmp_path / "b")
    found = letor(tmp_path / "a", tmp_path, files=files, fold=2).locate()
    assert [file.relative_to(tmp_path).as_posix() for file in found.files.values()] == [
        f"a/Fold2/{name}" for name in ("train.txt", *names)
    ]
    assert len(letor(tmp_path / "b", tmp_path, files=files).load().query_ids) == 30
    with pytest.raises(ValueError, match=r"dataset\.fold must be one of the folders of .* \(Fold2\), got 3"):
        letor(tmp_path / "a", tmp_path, files=files, fold=3).load()
    with pytest.raises(ValueError, match=r"dataset\.fold must be 1, got 3"):
        letor(tmp_path / "b", tmp_path, files=files, fold=3).load()


def test_a_missing_set_says_where_to_get_it_and_what_to_type(tmp_path: Path):
    settings = {"name": "mslr", "data_dir": str(tmp_path), "folders": ["A", "B"], "source": "https://example.org"}
    with pytest.raises(ValueError) as error:
        letor(None, tmp_path, **settings).load()
    message = str(error.value)
    for part in (str(tmp_path / "A"), str(tmp_path / "B"), "https://example.org", "dataset=synthetic", "dataset.path="):
        assert part in message
    assert "\n" not in message
    write_fold(tmp_path / "B", train=TRAIN, test=TEST)
    assert len(letor(None, tmp_path / "cache", **settings).load().query_ids) == 11


def test_home_and_variables_in_paths_expand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_fold(tmp_path / "set", train=TRAIN)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SOMEWHERE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("~/set", "$SOMEWHERE/set", "set"):
        assert len(letor(Path(path), Path("~/cache")).load().query_ids) == 10
    assert (tmp_path / "cache").is_dir()


def test_yahoo_sets_are_told_apart_by_name_files_and_counts(tmp_path: Path):
    for number, text in ((1, TRAIN), (2, TEST)):
        for split in ("train", "valid", "test"):
            (tmp_path / "ltrc_yahoo").mkdir(exist_ok=True)
            (tmp_path / "ltrc_yahoo" / f"set{number}.{split}.txt").write_text(text)
    for number, queries, expected in ((1, 30, 29_921), (2, 3, 6_330)):
        dataset = configured("yahoo", tmp_path, tmp_path / "cache", set=number)
        loaded = dataset.load()
        assert (loaded.name, len(loaded.query_ids), loaded.features.shape[1]) == (f"yahoo_set{number}", queries, 700)
        assert dataset.expected["queries"] == expected


def test_validation_and_choice_of_queries_are_seeded_and_apart(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN, test=TEST)

    def splits(**settings):
        loaded = letor(tmp_path / "set", tmp_path / "cache", **settings).load().splits
        return {name: set(numbers.tolist()) for name, numbers in loaded.items()}

    whole = splits()
    assert whole == {"train": set(range(10)), "validation": set(), "test": {10}}
    divided = splits(validation=0.3)
    assert len(divided["validation"]) == 3
    assert divided["train"] | divided["validation"] == set(range(10))
    assert not divided["train"] & divided["validation"]
    assert divided == splits(validation=0.3)
    assert any(splits(validation=0.3, seed=seed) != divided for seed in (1, 2, 3))
    fewer, more = splits(validation=0.3, queries=2), splits(validation=0.3, queries=4)
    assert fewer["validation"] == divided["validation"]
    assert len(fewer["train"]) == 2
    assert fewer["train"] < more["train"] < divided["train"]
    with pytest.raises(ValueError, match=r"dataset\.queries must be at most 7 .* got 8"):
        splits(validation=0.3, queries=8)
    with pytest.raises(ValueError, match=r"dataset\.validation must leave training queries"):
        splits(validation=0.99)


def test_a_validation_file_is_not_replaced(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN, vali=TEST.replace("e0", "v0"), test=TEST)
    loaded = letor(tmp_path / "set", tmp_path / "cache", validation=0.5).load()
    assert [len(loaded.splits[name]) for name in ("train", "validation", "test")] == [10, 1, 1]


@pytest.mark.parametrize("method", ["query_minmax", "query_zscore", "global_zscore"])
def test_normalised_variants_are_cached_and_follow_the_definition(tmp_path: Path, method: str):
    raw = letor(TINY, tmp_path).load()
    variant = letor(TINY, tmp_path, normalise=method).load()
    table, offsets = raw.features.numpy().astype(float), raw.offsets.tolist()
    train = table[: offsets[len(raw.splits["train"])]]
    for first, last in pairwise(offsets):
        x = table[first:last]
        base = train if method == "global_zscore" else x
        low, spread = (base.min(0), np.ptp(base, 0)) if method == "query_minmax" else (base.mean(0), base.std(0))
        varies = np.ptp(base, 0) > 0
        expected = np.where(varies, (x - low) / np.where(varies, spread, 1), 0)
        np.testing.assert_allclose(variant.features[first:last].numpy(), expected, rtol=2e-6, atol=2e-6)
    built = sorted(file.name for file in tmp_path.iterdir())
    letor(TINY, tmp_path, normalise=method).load()
    assert sorted(file.name for file in tmp_path.iterdir()) == built


def test_a_damaged_table_is_parsed_again(tmp_path: Path):
    expected = letor(TINY, tmp_path).load().features.clone()
    for file in tmp_path.rglob("features.npy"):
        file.write_bytes(file.read_bytes()[:-1])
    assert torch.equal(letor(TINY, tmp_path).load().features, expected)


def test_nothing_is_cached_of_a_bad_file(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN + "x qid:z 1:1\n", test=TEST)
    with pytest.raises(DataError, match=r"train\.txt:20: found grade 'x'"):
        letor(tmp_path / "set", tmp_path / "cache").load()
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_features_constant_over_training_are_dropped(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN, test=TEST)  # feature 2 is 5 in train, 6 in test
    raw = letor(tmp_path / "set", tmp_path / "cache").load().features
    kept = letor(tmp_path / "set", tmp_path / "cache", drop_constant=True).load().features
    assert torch.equal(kept, raw[:, [0, 2]])
    # Within queries only feature 3 varies.
    scaled = letor(tmp_path / "set", tmp_path / "cache", drop_constant=True, normalise="query_minmax").load()
    assert scaled.features.shape[1] == 1


def test_groups_by_threshold_before_or_after_normalisation(tmp_path: Path):
    write_fold(tmp_path / "set", train="0 qid:1 1:2 2:1\n1 qid:1 1:4 2:2\n2 qid:1 1:3 2:3\n", test="0 qid:2 1:9 2:4\n")

    def load(**group):
        rule = {"feature": 1, **group}
        return letor(tmp_path / "set", tmp_path / "cache", normalise="query_minmax", group=rule).load()

    scaled = load(threshold=0.5)  # feature 1 is 0, 1, .5 and, alone in its query, 0
    assert scaled.group.tolist() == [1, 0, 1, 1]
    assert scaled.features[:, 0].tolist() == [0, 0, 0, 0]
    assert scaled.features[:, 1].tolist() == [0, 0.5, 1, 0]
    raw = load(threshold=3, on="raw", zeroed=False)
    assert raw.group.tolist() == [1, 0, 1, 0]
    assert raw.features[:, 0].tolist() == [0, 1, 0.5, 0]
    with pytest.raises(ValueError, match=r"dataset\.group\.feature must be at most 2, got 3"):
        load(threshold=1, feature=3)


def test_groups_from_a_file(tmp_path: Path):
    write_fold(tmp_path / "set", train="0 qid:1 1:2\n1 qid:1 1:4\n", test="0 qid:2 1:9\n")
    file = tmp_path / "groups.txt"

    def load():
        return letor(tmp_path / "set", tmp_path / "cache", group={"file": str(file)}).load()

    file.write_text("0\n1\n2\n")
    before = load()
    assert before.group.tolist() == [0, 1, 2]
    file.write_text("0\n1\n10\n")
    assert load().fingerprint != before.fingerprint
    file.write_text("0\n-1\n2\n")
    with pytest.raises(ValueError, match=r"groups\.txt:2: found '-1', expected a whole number from 0 to 127"):
        load()
    file.write_text("0\n1\n")
    with pytest.raises(ValueError, match=r"one line per document \(3\), got 2 lines"):
        load()


def test_the_fingerprint_follows_the_numbers_and_nothing_else(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN, test=TEST)
    shutil.copytree(tmp_path / "set", tmp_path / "elsewhere")

    def fingerprint(folder: str = "set", **settings) -> str:
        return letor(tmp_path / folder, tmp_path / "cache", **settings).load().fingerprint

    plain = fingerprint()
    assert plain == fingerprint("elsewhere", name="other", seed=7, expected={"queries": 3}, features=3, grades=3)
    other = [
        {"normalise": "query_minmax"},
        {"drop_constant": True},
        {"queries": 3},
        {"queries": 3, "seed": 1},
        {"validation": 0.2},
        {"validation": 0.2, "seed": 1},
        {"features": 4},
        {"grades": 4},
        {"overflow": "zero"},
        {"group": {"feature": 1, "threshold": 3}},
        {"group": {"feature": 1, "threshold": 3, "zeroed": False}},
    ]
    prints = [plain, *(fingerprint(**settings) for settings in other)]
    assert len(set(prints)) == len(prints)
    write_fold(tmp_path / "elsewhere", test=TEST.replace("1:8", "1:7"))
    assert fingerprint("elsewhere") != plain


@pytest.mark.parametrize(
    ("setting", "given", "message"),
    [
        ("normalise", "minmax", "must be one of none, query_minmax, query_zscore, global_zscore, got 'minmax'"),
        ("overflow", "clip", "must be 'error' or 'zero', got 'clip'"),
        ("fold", 0, "must be at least 1, got 0"),
        ("queries", 0, "must be null or at least 1, got 0"),
        ("validation", 1.0, "must be null or between 0 and 1, got 1.0"),
        ("grades", 1, "must be null or at least 2, got 1"),
        ("features", 0, "must be null or at least 1, got 0"),
        ("set", 3, "must be one of the sets 1, 2, got 3"),
        ("group", {"feature": 3}, "must be null, {file: FILE} or"),
        ("group", {"feature": 0, "threshold": 1}, "feature must be a feature id from 1, got 0"),
        ("group", {"feature": 1, "threshold": 1, "on": "x"}, "on must be 'raw' or 'normalised', got 'x'"),
    ],
)
def test_bad_settings_name_what_is_allowed(tmp_path: Path, setting: str, given: object, message: str):
    with pytest.raises(ValueError) as error:
        letor(TINY, tmp_path, **{"expected": {1: {}, 2: {}}, "set": 1, setting: given})
    assert str(error.value).startswith(f"dataset.{setting}")
    assert message in str(error.value)


def test_labels_beyond_the_declared_grades_are_an_error(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN)
    with pytest.raises(DataError, match=r"dataset\.grades must be at least 3 \(labels go up to 2\), got 2"):
        letor(tmp_path / "set", tmp_path / "cache", grades=2).load()


def test_check_compares_counts_and_checksums(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN, test=TEST)
    expected = {"queries": 11, "documents": 22, "features": 3}
    checksums = {"test.txt": "0" * 64}
    findings = check(
        letor(tmp_path / "set", tmp_path / "cache", queries=2, features=9, expected=expected, checksums=checksums)
    )
    assert {finding.what: finding.agrees for finding in findings} == {
        "queries": True,
        "documents": False,  # 19 + 2
        "features": True,  # the largest id in the files, not the declared number
        "validation file": False,
        "sha256 of test.txt": False,
    }


@pytest.mark.parametrize("fold", [1, 5])
def test_mq2008_is_what_was_published(data_dir: Path, tmp_path: Path, fold: int):
    findings = check(configured("mq2008", data_dir, tmp_path, fold=fold))
    assert len(findings) == 3 + 3
    assert [finding for finding in findings if not finding.agrees] == []
