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
    with pytest.raises(DataError, match=r"train\.txt:1: found feature id 4 after 1, expected ascending .* to 3"):
        letor(tmp_path / "set", tmp_path / "cache", features=3).load()
    assert not list((tmp_path / "cache").glob("*.partial"))
    with pytest.raises(DataError, match=r"dataset\.grades must be at least 5 \(labels go up to 4\), got 2"):
        letor(TINY, tmp_path / "cache", grades=2).load()


def test_files_are_found_in_folds_or_directly_plain_or_zipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = ("train.txt", "valid.txt.gz", "test.txt")
    for folder in (tmp_path / "a" / "Fold2", tmp_path / "b"):
        folder.mkdir(parents=True)
        for name in names:
            text = TRAIN_TEXT.replace("qid:", f"qid:{name[:2]}").encode()
            (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    located = letor(tmp_path / "a", tmp_path, fold=2).locate()
    assert [file.relative_to(tmp_path).as_posix() for file in located.files.values()] == [
        f"a/Fold2/{name}" for name in names
    ]
    with pytest.raises(ValueError, match=r"dataset\.fold must be one of the folders of .* \(Fold2\), got 3"):
        letor(tmp_path / "a", tmp_path, fold=3).load()
    with pytest.raises(ValueError, match=r"dataset\.fold must be 1, got 3"):
        letor(tmp_path / "b", tmp_path, fold=3).load()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SOMEWHERE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("~/b", "$SOMEWHERE/b", "b"):
        assert len(letor(Path(path), Path("~/cache")).load().query_ids) == 30
    assert (tmp_path / "cache").is_dir()


def test_a_split_compressed_in_another_way_is_not_missing(tmp_path: Path):
    """A split that is compressed in another way is not missing.

    Without its validation queries, a run would choose its best round among others.
    """
    folder = write_fold(tmp_path / "data", train=TRAIN_TEXT, test=TEST_TEXT)
    (folder / "vali.txt.bz2").write_bytes(bz2.compress(TEST_TEXT.encode()))
    with pytest.raises(DataError, match=r"vali\.txt\.bz2: found a file that is compressed in another way"):
        letor(folder, tmp_path / "cache").load()


def test_a_missing_set_says_where_to_get_it_and_what_to_type(tmp_path: Path):
    settings = {"data_dir": str(tmp_path), "folders": ["A", "B"], "source": "https://example.org"}
    with pytest.raises(ValueError) as error:
        letor(None, tmp_path, **settings).load()
    message = str(error.value)
    for part in (str(tmp_path / "A"), str(tmp_path / "B"), "https://example.org", "dataset=synthetic", "dataset.path="):
        assert part in message
    assert "\n" not in message
    write_fold(tmp_path / "A", readme="the earlier folder has other files")
    write_fold(tmp_path / "B", train=TRAIN_TEXT, test=TEST_TEXT)
    assert len(letor(None, tmp_path / "cache", **settings).load().query_ids) == 11


def test_other_files_are_listed_with_what_to_type(tmp_path: Path):
    """Other files than those of the dataset are listed with what to type."""
    root = tmp_path / "set"
    folder = write_fold(root / "Fold1", my_train=TRAIN_TEXT, my_test=TEST_TEXT)
    (folder / ".hidden").touch()
    files = {"train": ["train.txt", "first.txt"], "validation": [], "test": ["test.txt"]}
    with pytest.raises(ValueError) as error:
        letor(root, tmp_path / "cache", files=files).load()
    assert str(error.value) == (
        f"dataset.files.train must name a file of {folder} (it has my_test.txt, my_train.txt), got train.txt or "
        "first.txt; type 'dataset.files.train=[NAME]', and likewise dataset.files.validation and "
        "dataset.files.test"
    )
    named = files | {"train": ["my_train.txt"], "test": ["my_test.txt"]}
    assert len(letor(root, tmp_path / "cache", files=named).load().query_ids) == 11
    write_fold(tmp_path / "two", my_train="", other_train="")
    (tmp_path / "empty" / "Fold1").mkdir(parents=True)
    (tmp_path / "none").mkdir()
    for path, message in [
        ("two", r"dataset\.files\.train must name a file of .*type 'dataset\.files\.train=\[NAME\]', and"),
        ("nowhere", r"dataset\.path must be a folder .*/nowhere\); type"),
        ("two/my_train.txt", r"dataset\.path must be a folder .*/my_train.txt; type dataset\.path=FOLDER .*own_data"),
        ("none", r"dataset\.path must be a folder .*/none\); type"),
        ("empty", r"dataset\.path must be a folder .*/empty\); type dataset\.path=FOLDER"),
    ]:
        with pytest.raises(ValueError, match=message):
            letor(tmp_path / path, tmp_path / "cache").load()


def test_yahoo_sets_are_told_apart_by_name_files_and_counts(tmp_path: Path):
    for number, text, queries, expected in ((1, TRAIN_TEXT, 10, 29_921), (2, TEST_TEXT, 1, 6_330)):
        write_fold(tmp_path / "ltrc_yahoo", **{f"set{number}.train": text})
        dataset = configured("yahoo", tmp_path, tmp_path / "cache", set=number, validation=None)
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
    assert (len(divided["validation"]), len(splits(validation=0.01)["validation"])) == (3, 1)
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
    write_fold(tmp_path / "set", vali=TEST_TEXT.replace("e0", "v0"))
    assert [len(numbers) for numbers in splits(validation=0.5).values()] == [10, 1, 1], "a file is not replaced"


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
        ("missing", 1e39, "one of error, minimum or from -1e+38 to 1e+38, got 1e+39"),
        ("validation", 1.0, "null or between 0 and 1, got 1.0"),
        ("grades", 1, "null or from 2 to 63, got 1"),
        ("grades", 64, "null or from 2 to 63, got 64"),
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


def test_queries_in_two_splits_are_named(tmp_path: Path):
    """Queries in two splits are named with whether their documents are the same."""
    train = "1 qid:a 1:1 2:2\n0 qid:a 1:3 2:4\n2 qid:b 1:5\n0 qid:c 1:6\n"
    same = "1 of the 2 {}, such as qid:a, and 1 of the 1 that were compared have the same documents: results on test"
    other = "1 of the 2 {}, such as qid:a, and 0 of the 1 that were compared have the same documents: this is harmless"
    cases = [
        ("0 qid:y 1:1 2:2\n0 qid:z 1:3 2:4\n", ()),
        ("1 qid:z 1:1\n0 qid:a 1:3 2:4\n2 qid:a 1:1 2:2\n", (same,)),  # in another order, with other labels
        ("1 qid:a 1:1 2:2\n0 qid:a 1:3 2:5\n0 qid:z 1:3\n", (other,)),
        ("1 qid:a 1:1 2:2\n0 qid:z 1:3\n", (other,)),
        (
            "1 qid:c 1:7\n0 qid:b 1:5\n",
            ("2 of the 2 {}, such as qid:b, and 1 of the 2 that were compared",),
        ),
    ]
    for test, expected in cases:
        write_fold(tmp_path / "set", train=train, test=test)
        for settings in ({}, {"normalise": "query_minmax"}):
            lines = letor(tmp_path / "set", tmp_path / "cache", **settings).load().warnings
            assert len(lines) == len(expected), test
            for line, start in zip(lines, expected, strict=True):
                assert line.startswith(start.format("queries of test are in train too")), test
    write_fold(tmp_path / "set", vali="0 qid:b 1:5\n0 qid:v 1:2\n", test="0 qid:v 1:2\n0 qid:c 1:6\n")
    lines = letor(tmp_path / "set", tmp_path / "cache").load().warnings
    assert [line.split(", such")[0] for line in lines] == [
        f"1 of the 2 queries of {second} are in {first} too"
        for second, first in (("validation", "train"), ("test", "train"), ("test", "validation"))
    ]
    kept = [letor(tmp_path / "set", tmp_path / "cache", queries=1, seed=seed).load() for seed in range(9)]
    numbers = {dataset.query_ids[int(dataset.splits["train"])]: len(dataset.warnings) for dataset in kept}
    assert numbers == {"a": 1, "b": 2, "c": 2}, "of the queries that are used"


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
def test_features_that_single_precision_does_not_hold_are_named(tmp_path: Path, monkeypatch, compiled: bool):
    """By both parsers, and again from the cache. Large ones are named where they are not normalised."""
    rows = [
        f"0 qid:{q} " + " ".join(f"{number}:{column(q, d)!r}" for number, column in enumerate(COLUMNS, 1))
        for q in range(110)
        for d in range(4)
    ]
    write_fold(tmp_path / "set", train="\n".join(rows[:240]) + "\n", test="\n".join(rows[240:]) + "\n")
    if not compiled:
        monkeypatch.setattr("ol2r_cli.loops.compiled", lambda: False)
    for normalise in "none", "query_minmax", "query_minmax":
        lines = letor(tmp_path / "set", tmp_path / "cache", normalise=normalise).load().warnings
        assert lines[0].startswith("features 1, 4, 7, 8 have values that single precision (7 digits) moves by over")
        assert [line.split(":")[0] for line in lines[1:]] == ["features 9 have values above 1e+18"] * (
            normalise == "none"
        )


def test_warnings_of_a_dataset_are_shown_once_and_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_fold(tmp_path / "set", train="0 qid:a 1:1\n", test="0 qid:a 1:1\n")
    words = ["dataset=letor", f"dataset.path={tmp_path / 'set'}", f"cache_dir={tmp_path / 'cache'}"]
    warning = "1 of the 1 queries of test are in train too"
    assert cli.main(["data", "info", *words]) == 0
    assert capsys.readouterr().err.count(f"warning: {warning}") == 1
    assert cli.main(["run", *words, "rounds=2", f"output_dir={tmp_path / 'out'}"]) == 0
    assert capsys.readouterr().err.count(f"warning: {warning}") == 1
    (log,) = (tmp_path / "out").rglob("log.txt")
    assert log.read_text().count(f" WARNING {warning}") == 1
