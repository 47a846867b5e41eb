"""Readers of both formats and their messages, profiles by their definition, splits, and what is planted."""

from __future__ import annotations

import hashlib
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli.commands.data import main
from ol2r_cli.plugins.recommend.reviews import Reviews
from ol2r_cli.plugins.recommend.sources import ReviewFiles
from tests.plugins.recommend.small import generated, source

LINES = [f"{user},{item},{1 + (user + item) % 5}.0" for user in range(4) for item in range(5)]
ENTRY = [f"{line},{number % 3}:1 {number % 3}:1 2:-1" for number, line in enumerate(LINES)]
NAMES = {"features": "0=screen=10\n1=price=9\n2=battery=8\n", "phrases": "0=good\n1=bad\n"}
NAMES |= {"items": "".join(f"{item}=B00=Item &amp; {item}\n" for item in range(4)) + "4=B01=two\nlines\n"}
PHRASES = "0,0,2,1,1\n0,1,1,0,2\n"


def files(folder: Path, form: str = "entry", **changed: str) -> ReviewFiles:
    content = ENTRY if form == "entry" else [line.replace(":", " ") for line in ENTRY]
    texts = {"train": "\n".join(content[:17]) + "\n", "test": "\n".join(content[17:]) + "\n", "all": "\n".join(content)}
    texts |= {**NAMES, "phrases_of_reviews": PHRASES} | changed
    for name, text in texts.items():
        (folder / name).write_text(text)
    names = {name: name for name in texts}
    return ReviewFiles(str(folder), "", "", form, names, "https://example.org", 0, None, 1.0, None)


@pytest.mark.parametrize("form", ["entry", "text"])
def test_both_formats_have_the_same_reviews(tmp_path, form):
    read = files(tmp_path, form).load()
    assert (read.users, read.items, read.features, read.phrases) == (4, 5, 3, 2)
    assert list(zip(read.user, read.item, read.rating, strict=True))[6] == (1, 1, 3.0)
    mentions = zip(read.mention_review, read.mention_feature, read.mention_sign, strict=True)
    first = [(0, 0, 1), (0, 0, 1), (0, 2, -1), (1, 1, 1), (1, 1, 1), (1, 2, -1)]
    assert [tuple(map(int, each)) for each in mentions][:6] == first
    phrases = zip(read.phrase_review, read.phrase_feature, read.phrase, strict=True)
    assert [tuple(map(int, each)) for each in phrases] == [(0, 2, 1), (1, 1, 0)]
    assert read.test.tolist() == [17, 18, 19], "the split of the files"
    assert len(read.validation) == 2, "a ninth of 17"
    assert sorted([*read.train, *read.validation, *read.test]) == list(range(20))
    assert read.feature_names == ("screen", "price", "battery")
    assert read.item_name(1) == "Item & 1"
    assert read.item_name(4) == "two lines"


def far(number):
    """A number up to 2^63 - 1, with gaps."""
    return 2**63 - 1 - 3 * (9 - int(number))


@pytest.fixture
def gaps(tmp_path):
    """The same reviews, with other numbers for users, items, features and phrases."""

    def spread(line):
        user, item, rating, words = line.split(",")
        mentions = [f"{far(feature)}:{sign}" for feature, sign in (word.split(":") for word in words.split())]
        return f"{far(user)},{far(item)},{rating},{' '.join(mentions)}"

    lines = [*map(spread, ENTRY)]
    texts = {"train": "\n".join(lines[:17]), "test": "\n".join(lines[17:]), "all": "\n".join(lines)}
    texts["items"] = "".join(f"{far(item)}=B00=Item {item}\n" for item in "01234") + "17=B99=never reviewed\n"
    texts["features"] = "".join(f"{far(feature)}={feature}\n" for feature in "012")
    texts["phrases_of_reviews"] = f"{far('0')},{far('0')},{far('2')},{far('1')},1\n"
    texts["phrases"] = f"{far('0')}=good\n"
    (folder := tmp_path / "gaps").mkdir()
    return files(folder, **texts).load()


NAMED = "user_numbers", "item_numbers", "feature_names", "phrase_names", "item_names"


def test_gaps_between_numbers_change_no_array(gaps, tmp_path):
    dense = files(tmp_path, phrases_of_reviews="0,0,2,1,1\n").load()
    for field in fields(dense):
        if field.name not in NAMED:
            np.testing.assert_array_equal(getattr(gaps, field.name), getattr(dense, field.name), field.name)
    assert (dense.user_numbers, dense.item_numbers) == (None, None)
    assert gaps.fingerprint != dense.fingerprint
    with pytest.raises(ValueError, match=r"explain\.user must be from 0 to 3, got 4"):
        dense.place("user", 4)


def test_names_and_numbers_with_gaps_are_those_of_the_files(gaps):
    assert gaps.numbers("user").tolist() == [far(user) for user in "0123"]
    assert [gaps.place("item", far(item)) for item in "01234"] == [0, 1, 2, 3, 4]
    assert (gaps.feature_names, gaps.phrase_names) == (("0", "1", "2"), ("good", f"phrase {far('1')}"))
    assert (gaps.item_name(3), replace(gaps, item_names=()).item_name(3)) == ("Item 3", f"item {far('3')}")
    with pytest.raises(ValueError, match=rf"explain\.item must be from {far('0')} to {far('4')}, with gaps, got 17"):
        gaps.place("item", 17)


def test_reviews_without_gaps_keep_their_fingerprint():
    """Of the fields that reviews had before they had numbers with gaps, in their order."""
    of, digest = generated(), hashlib.sha256()
    for name in [field.name for field in fields(of)][:-2]:
        value = getattr(of, name)
        content = value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
        digest.update(f"{name}:{len(content)}:".encode() + content)
    assert of.fingerprint == digest.hexdigest()[:16]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train": f"0,{2**63},5.0,0:1\n"}, "train, line 1 must be user,item"),
        ({"phrases_of_reviews": f"0,0,2,{2**63},1\n"}, "line 1 must be user,item,feature,phrase,number of their"),
        ({"items": f"{2**63}=B00=far\n"}, "items, line 1 must be number=name"),
        ({"train": "0,0,5.0,0:1\n1,x,5.0,0:1\n"}, "train, line 2 must be user,item,rating,feature:sign .. "),
        ({"train": "0,0,5.0,0:1 1\n"}, "train, line 1 must be user,item"),
        ({"train": "0,0,nan,0:1\n"}, "train, line 1 must be user,item"),
        ({"train": "0,0,5.0,0:2\n"}, "train, line 1 must be user,item"),
        ({"test": "0,-1,5.0,0:1\n"}, "test, line 1 must be user,item"),
        ({"test": "9,9,5.0,0:1\n9,9,4.0,0:1\n"}, "test, line 2 must have a user and an item that no earlier line has"),
        ({"all": "0,0,5.0,0:1\n"}, "all must have the reviews for training and test, once"),
        ({"phrases_of_reviews": "0,0,2,1,9999\n"}, "line 1 must be user,item,feature,phrase,number of their review"),
        ({"phrases_of_reviews": "3,0,2,1,1\n"}, "line 1 must be user,item,feature,phrase,number of their review"),
        ({"features": "screen\n"}, "features, line 1 must be number=name, got 'screen'"),
        ({"test": "", "all": "\n".join(ENTRY[:17])}, "must have some in each split, got none for test of 17"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_its_place(tmp_path, changed, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        files(tmp_path, **changed).load()
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named_with_where_it_is_published(tmp_path):
    made = files(tmp_path)
    (tmp_path / "test").unlink()
    with pytest.raises(ValueError, match=r"must be a folder with test, got .*: it is published at https://example.org"):
        made.load()


def test_profiles_are_those_of_the_definition():
    of = generated()
    for rows in of.train, of.test:
        users, items, chosen = of.user_profile(rows), of.item_profile(rows), set(rows.tolist())
        of_user, of_item = np.zeros((2, of.users, of.features)), np.zeros((2, of.items, of.features))
        for review, feature, sign in zip(of.mention_review, of.mention_feature, of.mention_sign, strict=True):
            if int(review) in chosen:
                of_user[int(sign < 0), of.user[review], feature] += 1
                of_item[int(sign < 0), of.item[review], feature] += 1
        for profile, (plus, minus), weight in ((users, of_user, 1), (items, of_item, -1)):
            np.testing.assert_array_equal(profile, np.where(plus + minus > 0, plus + weight * minus, np.nan))


GIVEN = {"users": 60, "items": 40, "of_user": 10, "noise_features": 2}


def test_other_splits_are_other_tenths():
    loaded = [generated(**GIVEN, split=split) for split in (0, 1, 2)]
    for of in loaded:
        assert [len(rows) for rows in (of.train, of.validation, of.test)] == [480, 60, 60]
        assert sorted([*of.train, *of.validation, *of.test]) == list(range(600))
    assert len({of.fingerprint for of in loaded}) == 3


def test_settings_shrink_training_only():
    of, few = generated(**GIVEN), generated(**GIVEN, features=3, training=0.5)
    assert few.test.tolist() == of.test.tolist()
    assert set(few.train.tolist()) < set(of.train.tolist())
    assert (len(few.train), few.features) == (240, 3)
    kept = [of.feature_names.index(name) for name in few.feature_names]
    counts = np.bincount(of.mention_feature[np.isin(of.mention_review, few.train)], minlength=6)
    assert counts[kept].min() >= np.delete(counts, kept).max()
    np.testing.assert_array_equal(few.user_profile(few.train), of.user_profile(few.train)[:, kept])
    with pytest.raises(ValueError, match=r"reviews\.features must be at most 6, got 7"):
        generated(**GIVEN, features=7)


def test_only_training_reviews_choose_features():
    """Training mentions features 1 and 2 most, validation and test mention 0 and 3 more often."""
    said = {"train": [(1, 1), (2, -1), (1, 1), (2, 1), (3, 1)], "validation": [(0, 1)] * 9, "test": [(3, 1)] * 9}
    rows = [(user, 0, 5.0, mentions) for user, mentions in enumerate(said.values())]
    splits = {split: np.array([row]) for row, split in enumerate(said)}
    of = replace(Reviews.of(rows, [(0, 2, 0), (1, 0, 1)], {"feature": dict(enumerate("abcd"))}), **splits)
    kept = of.with_frequent(2)
    assert kept.feature_names == ("b", "c")
    assert kept.mention_feature.tolist() == [0, 1, 0, 1]
    assert kept.phrase_feature.tolist() == [1]
    assert kept.phrase.tolist() == [0]


def test_new_users_are_the_same_for_every_number_observed():
    """They have none for training."""
    of_users = []
    for observed in range(6):
        of = generated(**GIVEN, observed=observed)
        new = np.unique(of.user[of.test])
        of_users.append(new.tolist())
        assert len(new) == 3
        assert not np.isin(of.user[np.concatenate([of.train, of.validation])], new).any()
        for user in new:
            own = np.flatnonzero(of.user == user)
            assert of.observed[of.user[of.observed] == user].tolist() == own[:observed].tolist()
            assert of.test[of.user[of.test] == user].tolist() == own[observed:].tolist()
        assert [len(of.train), len(of.validation)] == [507, 63]
    assert of_users == of_users[:1] * 6
    with pytest.raises(ValueError, match=r"reviews\.observed must be null or at most 5, got 6"):
        source(**GIVEN, observed=6)
    with pytest.raises(ValueError, match=r"reviews\.observed needs ten users and more than five reviews of"):
        generated(of_user=5, observed=2)


def test_generated_profiles_lead_to_the_planted_leaves():
    made = source(of_user=16)
    of, (users, items, liked) = made.load(), map(np.array, made.planted())
    profile = of.user_profile(np.arange(len(of.user)))
    often = np.where(np.isnan(profile[:, 0]), 2, (profile[:, 0] < 16).astype(int))
    np.testing.assert_array_equal(2 * often + (profile[:, 1] < 16), users)
    profile = of.item_profile(np.arange(len(of.user)))
    praised = np.where(np.isnan(profile[:, 2]), 2, (profile[:, 2] < 0).astype(int))
    np.testing.assert_array_equal(2 * praised + (profile[:, 3] < 0), items)
    assert (items[of.item] == liked[users[of.user]]).mean() > 0.6, "of items that they like"


def test_table_4_1(data_dir, capsys):
    if not (data_dir / "reviews").is_dir():
        pytest.skip(f"no reviews in {data_dir}")
    assert main(["info", "reviews=amazon_cellphones", f"data_dir={data_dir}"]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split() == ["all", "6,285", "12,626", "95", "591", "55,388", "428,331"]
