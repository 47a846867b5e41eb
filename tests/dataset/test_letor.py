"""Letor: finding files, splits, normalised variants, fingerprints."""

from __future__ import annotations

import gzip
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.dataset.parse import DataError, parse
from tests.dataset.letor_files import TEST_TEXT, TINY, TRAIN_TEXT, configured, letor, write_fold


def test_a_fold_is_one_table_with_queries_numbered_through(tmp_path: Path):
    dataset = letor(TINY, tmp_path / "cache", fold=2).load()
    parts = [parse(TINY / "Fold2" / f"{name}.txt") for name in ("train", "vali", "test")]
    np.testing.assert_array_equal(dataset.features.numpy(), np.concatenate([part.features for part in parts]))
    np.testing.assert_array_equal(dataset.labels.numpy(), np.concatenate([part.labels for part in parts]))
    assert dataset.query_ids == [query_id for part in parts for query_id in part.query_ids]
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


def test_files_are_found_in_folds_or_directly_plain_or_zipped(tmp_path: Path):
    names = ("valid.txt.gz", "test.txt")

    def put(folder: Path) -> None:
        folder.mkdir(parents=True)
        for name in ("train.txt", *names):
            (folder / name).write_bytes(
                gzip.compress(TRAIN_TEXT.encode()) if name.endswith("gz") else TRAIN_TEXT.encode()
            )

    files = {"train": ["train.txt"], "validation": ["vali.txt", "valid.txt"], "test": ["test.txt"]}
    put(tmp_path / "a" / "Fold2")
    put(tmp_path / "b")
    location = letor(tmp_path / "a", tmp_path, files=files, fold=2).locate()
    assert [file.relative_to(tmp_path).as_posix() for file in location.files.values()] == [
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
    write_fold(tmp_path / "B", train=TRAIN_TEXT, test=TEST_TEXT)
    assert len(letor(None, tmp_path / "cache", **settings).load().query_ids) == 11


OTHERS = "and likewise dataset.files.validation and dataset.files.test"


def test_files_of_other_names_are_listed_with_the_setting_that_names_them(tmp_path: Path):
    root = tmp_path / "set"
    folder = write_fold(root / "Fold1", my_train=TRAIN_TEXT, my_test=TEST_TEXT)
    (folder / ".hidden").touch()
    files = {"train": ["train.txt", "first.txt"], "validation": [], "test": ["test.txt"]}
    with pytest.raises(ValueError) as error:
        letor(root, tmp_path / "cache", files=files).load()
    assert str(error.value) == (
        f"dataset.files.train must name a file of {folder} (it has my_test.txt, my_train.txt), "
        f"got train.txt or first.txt; type 'dataset.files.train=[my_train.txt]', {OTHERS}"
    )
    named = files | {"train": ["my_train.txt"], "test": ["my_test.txt"]}
    assert len(letor(root, tmp_path / "cache", files=named).load().query_ids) == 11
    (folder / "train_2.txt.gz").touch()
    with pytest.raises(ValueError, match=r"type 'dataset\.files\.train=\[NAME\]', and"):
        letor(root, tmp_path / "cache", files=files).load()
    for file in folder.iterdir():
        file.unlink()
    (folder / "learn train.gz").touch()
    with pytest.raises(ValueError, match=r"\(it has learn train\.gz\), .* type 'dataset\.files\.train=\[NAME\]', and"):
        letor(root, tmp_path / "cache", files=files).load()


def test_a_path_without_files_says_what_is_there(tmp_path: Path):
    (tmp_path / "file").touch()
    (tmp_path / "empty" / "Fold1").mkdir(parents=True)
    (tmp_path / "none").mkdir()
    cases = [
        ("nowhere", r"dataset\.path must be a folder .*/nowhere, which does not exist\); type"),
        ("file", r"dataset\.path must be a folder .*/file, which is a file\); type"),
        ("none", r"dataset\.path must be a folder .*/none, which has no files\); type"),
        (
            "empty",
            r"dataset\.files\.train must name a file of .*/empty/Fold1 \(it has no files\), got train\.txt; type",
        ),
    ]
    for path, message in cases:
        with pytest.raises(ValueError, match=message):
            letor(tmp_path / path, tmp_path / "cache").load()
    (tmp_path / "above" / "MSLR").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"/above, which has the folders MSLR\); type dataset\.path=FOLDER"):
        letor(tmp_path / "above", tmp_path / "cache").load()


def test_a_later_folder_of_a_named_set_is_found_although_an_earlier_one_has_other_files(tmp_path: Path):
    write_fold(tmp_path / "A", readme="MQ2008")
    write_fold(tmp_path / "A" / "Querylevelnorm", train=TRAIN_TEXT)
    source = letor(None, tmp_path / "cache", data_dir=str(tmp_path), folders=["A", "A/Querylevelnorm"])
    assert len(source.load().query_ids) == 10


def test_home_and_variables_in_paths_expand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_fold(tmp_path / "set", train=TRAIN_TEXT)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SOMEWHERE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("~/set", "$SOMEWHERE/set", "set"):
        assert len(letor(Path(path), Path("~/cache")).load().query_ids) == 10
    assert (tmp_path / "cache").is_dir()


def test_yahoo_sets_are_told_apart_by_name_files_and_counts(tmp_path: Path):
    for number, text in ((1, TRAIN_TEXT), (2, TEST_TEXT)):
        for split in ("train", "valid", "test"):
            (tmp_path / "ltrc_yahoo").mkdir(exist_ok=True)
            (tmp_path / "ltrc_yahoo" / f"set{number}.{split}.txt").write_text(text)
    for number, queries, expected in ((1, 30, 29_921), (2, 3, 6_330)):
        dataset = configured("yahoo", tmp_path, tmp_path / "cache", set=number)
        loaded = dataset.load()
        assert (loaded.name, len(loaded.query_ids), loaded.features.shape[1]) == (f"yahoo_set{number}", queries, 700)
        assert dataset.expected["queries"] == expected


def test_validation_and_choice_of_queries_are_seeded_and_apart(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN_TEXT, test=TEST_TEXT)

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
    write_fold(tmp_path / "set", train=TRAIN_TEXT, vali=TEST_TEXT.replace("e0", "v0"), test=TEST_TEXT)
    loaded = letor(tmp_path / "set", tmp_path / "cache", validation=0.5).load()
    assert [len(loaded.splits[name]) for name in ("train", "validation", "test")] == [10, 1, 1]


def test_normalised_variants_are_cached_and_follow_the_definition(tmp_path: Path):
    for method in ("query_minmax", "query_zscore", "global_zscore"):
        check_normalised(tmp_path, method)


def check_normalised(tmp_path: Path, method: str) -> None:
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


def test_nothing_is_cached_of_a_bad_file(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN_TEXT + "x qid:z 1:1\n", test=TEST_TEXT)
    with pytest.raises(DataError, match=r"train\.txt:20: found grade 'x'"):
        letor(tmp_path / "set", tmp_path / "cache").load()
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_features_constant_over_training_are_dropped(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN_TEXT, test=TEST_TEXT)  # feature 2 is 5 in train, 6 in test
    raw = letor(tmp_path / "set", tmp_path / "cache").load().features
    kept = letor(tmp_path / "set", tmp_path / "cache", drop_constant=True).load().features
    assert torch.equal(kept, raw[:, [0, 2]])
    # Within queries only feature 3 varies.
    scaled = letor(tmp_path / "set", tmp_path / "cache", drop_constant=True, normalise="query_minmax").load()
    assert scaled.features.shape[1] == 1


def test_the_fingerprint_follows_the_numbers_and_nothing_else(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN_TEXT, test=TEST_TEXT)
    shutil.copytree(tmp_path / "set", tmp_path / "elsewhere")

    def fingerprint(folder: str = "set", **settings) -> str:
        return letor(tmp_path / folder, tmp_path / "cache", **settings).load().fingerprint

    # As it has always been: part of the id of every run on these files.
    known = "7d8c921af71e71a380a0a52f1f060455273c040180cc303fa3d57fa99001dc4d"
    assert letor(TINY, tmp_path).load().fingerprint == known
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
        {"missing": "minimum"},
        {"missing": 0},
        {"missing": 0.5},
        {"group": {"feature": 1, "threshold": 3}},
        {"group": {"feature": 1, "threshold": 3, "zeroed": False}},
    ]
    assert plain == fingerprint(missing="error")
    assert fingerprint(missing=0) == fingerprint(missing=0.0)
    prints = [plain, *(fingerprint(**settings) for settings in other)]
    assert len(set(prints)) == len(prints)
    write_fold(tmp_path / "elsewhere", test=TEST_TEXT.replace("1:8", "1:7"))
    assert fingerprint("elsewhere") != plain


def test_a_setting_out_of_range_names_what_is_allowed(tmp_path: Path):
    cases: list[tuple[str, object, str]] = [
        ("normalise", "minmax", "one of none, query_minmax, query_zscore, global_zscore, got 'minmax'"),
        ("overflow", "clip", "one of error, zero, got 'clip'"),
        ("missing", "zero", "one of error, minimum or from -1e+38 to 1e+38, got 'zero'"),
        ("missing", 1e39, "one of error, minimum or from -1e+38 to 1e+38, got 1e+39"),
        ("missing", float("inf"), "finite, got inf"),
        ("fold", 0, "1 or more, got 0"),
        ("queries", 0, "null or 1 or more, got 0"),
        ("validation", 0, "null or between 0 and 1, got 0"),
        ("validation", 1.0, "null or between 0 and 1, got 1.0"),
        ("grades", 1, "null or 2 or more, got 1"),
        ("features", 0, "null or 1 or more, got 0"),
        ("set", 3, "one of the sets 1, 2, got 3"),
    ]
    for setting, value, allowed in cases:
        with pytest.raises(ValueError) as error:
            letor(TINY, tmp_path, **{"expected": {1: {}, 2: {}}, "set": 1, setting: value})
        assert str(error.value) == f"dataset.{setting} must be {allowed}"


def test_null_is_read_as_the_setting_says_from_the_cache_too(tmp_path: Path):
    write_fold(tmp_path / "set", train="1 qid:1 1:NULL 2:5\n0 qid:1 1:4 2:6\n0 qid:1 1:3 2:NULL\n")
    expected = {"minimum": [[3, 5], [4, 6], [3, 5]], 0: [[0, 5], [4, 6], [3, 0]], -1.5: [[-1.5, 5], [4, 6], [3, -1.5]]}
    with pytest.raises(DataError, match=r"found value 'NULL' of feature 1, expected a number: dataset\.missing=min"):
        letor(tmp_path / "set", tmp_path / "cache").load()
    for _ in range(2):
        for missing, values in expected.items():
            source = letor(tmp_path / "set", tmp_path / "cache", missing=missing)
            assert source.load().features.tolist() == values


def test_labels_beyond_the_declared_grades_are_an_error(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN_TEXT)
    with pytest.raises(DataError, match=r"dataset\.grades must be at least 3 \(labels go up to 2\), got 2"):
        letor(tmp_path / "set", tmp_path / "cache", grades=2).load()
