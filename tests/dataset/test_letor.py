"""Letor: finding files, splits, normalised variants, fingerprints."""

from __future__ import annotations

import bz2
import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.dataset.parse import DataError, parse
from tests.dataset.letor_files import TEST_TEXT, TINY, TRAIN_TEXT, Fold, configured, letor, parser_set_to, write_fold


def test_a_fold_is_one_table_with_queries_numbered_through(tmp_path):
    dataset, row = letor(TINY, tmp_path / "cache", fold=2).load(), 0
    for name, split in ("train", "train"), ("vali", "validation"), ("test", "test"):
        part = parse(TINY / "Fold2" / f"{name}.txt")
        rows = slice(row, row := row + len(part.labels))
        np.testing.assert_array_equal(dataset.features[rows].numpy(), part.features)
        np.testing.assert_array_equal(dataset.labels[rows].numpy(), part.labels)
        assert [dataset.query_ids[query] for query in dataset.splits[split]] == part.query_ids
    served, labels = dataset.split("test").serve(torch.tensor([1]))
    first, last = part.offsets[1:3]
    np.testing.assert_array_equal(served.features[0].numpy(), part.features[first:last])
    np.testing.assert_array_equal(labels[0].numpy(), part.labels[first:last])
    assert not list(TINY.rglob("*.npy")), "the cache must not lie beside the data"


def test_files_narrower_than_the_widest_are_filled_with_zeros(fold):
    fold.write(train="1 qid:1 1:1 4:2\n", test="0 qid:2 2:3\n")
    expected = [[1, 0, 0, 2], [0, 3, 0, 0]]
    assert fold.load().features.tolist() == expected
    assert fold.load(features=5).features.tolist() == [[*row, 0] for row in expected]
    with pytest.raises(DataError, match=r"train\.txt:1: found feature id 4 after 1, expected ascending .* to 3"):
        fold.load(features=3)
    assert not list(fold.cache.glob("*.partial"))


def test_files_are_found_in_folds_or_directly_plain_or_zipped(tmp_path, monkeypatch):
    for folder in "a/Fold2", "b":
        write_fold(tmp_path / folder, train=TRAIN_TEXT, test=TEST_TEXT)
        (tmp_path / folder / "valid.txt.gz").write_bytes(gzip.compress(b"0 qid:v 1:1\n"))
    files = letor(tmp_path / "a", tmp_path, fold=2).locate().files.values()
    assert [*files] == [tmp_path / "a/Fold2" / name for name in ("train.txt", "valid.txt.gz", "test.txt")]
    with pytest.raises(ValueError, match=r"dataset\.fold must be one of the folders of .* \(Fold2\), got 3"):
        letor(tmp_path / "a", tmp_path, fold=3).load()
    with pytest.raises(ValueError, match=r"dataset\.fold must be 1, got 3"):
        letor(tmp_path / "b", tmp_path, fold=3).load()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SOMEWHERE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in "~/b", "$SOMEWHERE/b", "b":
        assert len(letor(Path(path), Path("~/cache")).load().query_ids) == 12
    assert (tmp_path / "cache").is_dir()


def test_a_split_compressed_in_another_way_is_not_missing(fold):
    """Without its validation queries, a run would choose its best round among others."""
    fold.write(train=TRAIN_TEXT, test=TEST_TEXT)
    (fold.folder / "vali.txt.bz2").write_bytes(bz2.compress(TEST_TEXT.encode()))
    with pytest.raises(DataError, match=r"vali\.txt\.bz2: found a file that is compressed in another way"):
        fold.load()


def test_a_missing_set_says_where_to_get_it_and_what_to_type(tmp_path):
    names = {"train": ["train.txt"], "test": ["test.txt"]}
    settings = {"data_dir": str(tmp_path), "folders": ["A", "B"], "source": "https://example.org", "files": names}
    with pytest.raises(ValueError) as error:
        letor(None, tmp_path, **settings).load()
    assert str(error.value) == (
        "dataset.path must be a folder with Fold1/train.txt (or train.txt itself) of letor, got none (looked for: "
        f"{tmp_path / 'A'}, {tmp_path / 'B'}); get it from https://example.org, then type dataset.path=FOLDER, or use "
        "dataset=synthetic"
    )
    write_fold(tmp_path / "A", readme="the earlier folder has other files")
    write_fold(tmp_path / "B", train=TRAIN_TEXT, test=TEST_TEXT)
    assert len(letor(None, tmp_path / "cache", **settings).load().query_ids) == 11


def test_other_files_are_listed_with_what_to_type(fold):
    folder = write_fold(fold.folder / "Fold1", my_train=TRAIN_TEXT, my_test=TEST_TEXT)
    (folder / ".hidden").touch()
    with pytest.raises(ValueError) as error:
        fold.load(files={"train": ["train.txt", "first.txt"], "validation": [], "test": ["test.txt"]})
    assert str(error.value) == (
        f"dataset.files.train must name a file of {folder} (it has my_test.txt, my_train.txt), got train.txt or "
        "first.txt; type 'dataset.files.train=[NAME]', and likewise dataset.files.validation and "
        "dataset.files.test"
    )
    named = {"train": ["my_train.txt"], "validation": [], "test": ["my_test.txt"]}
    assert len(fold.load(files=named).query_ids) == 11


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("two", r"files\.train must name a file of .*type 'dataset\.files\.train=\[NAME\]', and"),
        ("nowhere", r"path must be a folder .*/nowhere\); type"),
        ("two/my_train.txt", r"path must be a folder .*/my_train.txt; type dataset\.path=FOLDER .*own_data"),
        ("two/none", r"path must be a folder .*/none\); type"),
        ("empty", r"path must be a folder .*/empty\); type dataset\.path=FOLDER"),
    ],
)
def test_a_path_without_a_fold_is_answered(tmp_path, path, message):
    write_fold(tmp_path / "two", my_train="", other_train="")
    (tmp_path / "two" / "none").mkdir()
    (tmp_path / "empty" / "Fold1").mkdir(parents=True)
    with pytest.raises(ValueError, match=rf"^dataset\.{message}"):
        letor(tmp_path / path, tmp_path / "cache").load()


@pytest.mark.parametrize(
    ("number", "text", "queries", "expected"), [(1, TRAIN_TEXT, 10, 29921), (2, TEST_TEXT, 1, 6330)]
)
def test_yahoo_sets_are_told_apart_by_name_files_and_counts(tmp_path, number, text, queries, expected):
    write_fold(tmp_path / "ltrc_yahoo", **{f"set{number}.train": text})
    dataset = configured("yahoo", tmp_path, tmp_path / "cache", set=number, validation=None)
    loaded = dataset.load()
    assert (loaded.name, len(loaded.query_ids), loaded.features.shape[1]) == (f"yahoo_set{number}", queries, 700)
    assert dataset.expected["queries"] == expected


@pytest.fixture
def splits(fold: Fold):
    """The numbers of queries of each split, of ten for training."""
    fold.write(train=TRAIN_TEXT, test=TEST_TEXT)
    return lambda **settings: {name: {*numbers.tolist()} for name, numbers in fold.load(**settings).splits.items()}


def test_training_queries_validate_where_no_file_does(splits, fold):
    assert splits() == {"train": {*range(10)}, "validation": set(), "test": {10}}
    divided = splits(validation=0.3)
    assert [len(divided["validation"]), len(splits(validation=0.01)["validation"])] == [3, 1]
    assert sorted([*divided["train"], *divided["validation"]]) == [*range(10)]
    assert any(splits(validation=0.3, seed=seed) != divided for seed in (1, 2, 3))
    fold.write(vali=TEST_TEXT.replace("e0", "v0"))
    assert [len(numbers) for numbers in splits(validation=0.5).values()] == [10, 1, 1]


def test_documents_without_features_are_refused(fold):
    fold.write(train="1 qid:1\n0 qid:1\n", test="1 qid:2\n")
    with pytest.raises(DataError, match=r"must have features, found none$"):
        fold.load()


def test_fewer_queries_are_some_of_more(splits):
    fewer, more, divided = (splits(validation=0.3, queries=number) for number in (2, 4, None))
    assert fewer["validation"] == divided["validation"]
    assert len(fewer["train"]) == 2
    assert fewer["train"] < more["train"] < divided["train"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"validation": 0.3, "queries": 8}, r"dataset\.queries must be at most 7 .* got 8"),
        ({"validation": 0.99}, r"dataset\.validation must leave training queries"),
        ({"grades": 2}, r"dataset\.grades must be at least 3 \(labels go up to 2\), got 2"),
    ],
)
def test_settings_that_do_not_fit_the_data_are_refused(splits, settings, message):
    with pytest.raises(ValueError, match=message):
        splits(**settings)


def test_the_fingerprint_follows_the_numbers_and_nothing_else(tmp_path, fold):
    fold.write(train=TRAIN_TEXT, test=TEST_TEXT)
    shutil.copytree(fold.folder, tmp_path / "elsewhere")
    # As it has always been: part of the id of every run on these files.
    known = "7d8c921af71e71a380a0a52f1f060455273c040180cc303fa3d57fa99001dc4d"
    assert letor(TINY, tmp_path).load().fingerprint == known
    plain = fold.load().fingerprint
    alike = {"name": "other", "seed": 7, "expected": {"queries": 3}, "features": 3, "grades": 3, "missing": "error"}
    assert letor(tmp_path / "elsewhere", fold.cache, **alike).load().fingerprint == plain
    assert fold.load(missing=0).fingerprint == fold.load(missing=0.0).fingerprint
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
    prints = [plain, *(fold.load(**settings).fingerprint for settings in other)]
    fold.write(test=TEST_TEXT.replace("1:8", "1:7"))
    prints.append(fold.load().fingerprint)
    assert len(set(prints)) == len(prints)


def test_a_set_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^dataset\.set must be one of the sets 1, 2, got 3$"):
        letor(TINY, tmp_path, expected={1: {}, 2: {}}, set=3)


@pytest.mark.parametrize(("missing", "values"), [("minimum", (3, 5)), (0, (0, 0)), (-1.5, (-1.5, -1.5))])
def test_null_is_read_as_the_setting_says_from_the_cache_too(fold, missing, values):
    fold.write(train="1 qid:1 1:NULL 2:5\n0 qid:1 1:4 2:6\n0 qid:1 1:3 2:NULL\n")
    for _ in range(2):
        assert fold.load(missing=missing).features.tolist() == [[values[0], 5], [4, 6], [3, values[1]]]


SAME = "1 of the 2 {}, such as qid:a, and 1 of the 1 that were compared have the same documents: results on test"
OTHER = "1 of the 2 {}, such as qid:a, and 0 of the 1 that were compared have the same documents: this is harmless"
TWO = "2 of the 2 {}, such as qid:b, and 1 of the 2 that were compared"


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param("0 qid:y 1:1 2:2\n0 qid:z 1:3 2:4\n", "", id="none"),
        pytest.param("1 qid:z 1:1\n0 qid:a 1:3 2:4\n2 qid:a 1:1 2:2\n", SAME, id="other order and labels"),
        pytest.param("1 qid:a 1:1 2:2\n0 qid:a 1:3 2:5\n0 qid:z 1:3\n", OTHER, id="another value"),
        pytest.param("1 qid:a 1:1 2:2\n0 qid:z 1:3\n", OTHER, id="fewer documents"),
        pytest.param("1 qid:c 1:7\n0 qid:b 1:5\n", TWO, id="two"),
    ],
)
@pytest.mark.parametrize("normalise", ["none", "query_minmax"])
def test_queries_in_two_splits_are_named(fold, test, expected, normalise):
    fold.write(train="1 qid:a 1:1 2:2\n0 qid:a 1:3 2:4\n2 qid:b 1:5\n0 qid:c 1:6\n", test=test)
    said = "\n".join(fold.load(normalise=normalise).warnings)
    assert said.startswith(expected.format("queries of test are in train too"))
    assert bool(said) == bool(expected)
    assert "\n" not in said


def test_of_queries_in_two_splits_those_count_that_are_used(fold):
    fold.write(
        train="1 qid:a 1:1\n2 qid:b 1:5\n0 qid:c 1:6\n",
        vali="0 qid:b 1:5\n0 qid:v 1:2\n",
        test="0 qid:v 1:2\n0 qid:c 1:6\n",
    )
    assert [line.split(", such")[0] for line in fold.load().warnings] == [
        "1 of the 2 queries of validation are in train too",
        "1 of the 2 queries of test are in train too",
        "1 of the 2 queries of test are in validation too",
    ]
    kept = [fold.load(queries=1, seed=seed) for seed in range(9)]
    numbers = {dataset.query_ids[int(dataset.splits["train"])]: len(dataset.warnings) for dataset in kept}
    assert numbers == {"a": 1, "b": 2, "c": 2}


SECONDS = 1.7e9  # in steps of 128 in single precision
COLUMNS = [  # of every document d of query q
    lambda q, d: SECONDS + d,  # 1: all equal
    lambda q, d: SECONDS + 1e6 * d,  # 2: moved by at most 64 of 3e6
    lambda q, d: SECONDS + q,  # 3: rounded, but one value in a query
    lambda q, d: (1 + d) * 1e-47,  # 4: 0
    lambda q, d: 1e-47 if d == 1 else d,  # 5: 0 of 3
    lambda q, d: SECONDS + d if q == 0 else d,  # 6: lost in one query of 110
    lambda q, d: SECONDS + d if q < 2 else d,  # 7: lost in two queries of 110
    lambda q, d: SECONDS + d if q == 0 else 0,  # 8: lost in the one query in which it varies
    lambda q, d: -1e19 * d,  # 9: large
    lambda q, d: 0.1 + d / 3,  # 10
]


@pytest.mark.parametrize("compiled", [True, False])
def test_features_that_single_precision_does_not_hold_are_named(fold, compiled):
    """By both parsers, and again from the cache. Large ones are named where they are not normalised."""
    rows = [
        f"0 qid:{q} " + " ".join(f"{number}:{column(q, d)!r}" for number, column in enumerate(COLUMNS, 1))
        for q in range(110)
        for d in range(4)
    ]
    fold.write(train="\n".join(rows[:240]) + "\n", test="\n".join(rows[240:]) + "\n")
    rounded = "features 1, 4, 7, 8 have values that single precision (7 digits) moves by over"
    with parser_set_to(**{} if compiled else {"compiled": False}):
        for normalise, large in ("none", ["features 9 have values above 1e+18"]), *[("query_minmax", [])] * 2:
            first, *others = fold.load(normalise=normalise).warnings
            assert first.startswith(rounded)
            assert [line.split(":")[0] for line in others] == large


def test_warnings_of_a_dataset_are_shown_once_and_logged(tmp_path, fold, capsys):
    fold.write(train="0 qid:a 1:1\n", test="0 qid:a 1:1\n")
    words = ["dataset=letor", f"dataset.path={fold.folder}", f"cache_dir={fold.cache}"]
    warning = "1 of the 1 queries of test are in train too"
    for command in ["data", "info"], ["run", "rounds=2", f"output_dir={tmp_path / 'out'}"]:
        assert cli.main([*command, *words]) == 0
        assert capsys.readouterr().err.count(f"warning: {warning}") == 1
    (log,) = (tmp_path / "out").rglob("log.txt")
    assert log.read_text().count(f" WARNING {warning}") == 1
