"""Values written as overrides are read back by Hydra as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from ol2r_cli.config.overrides import as_typed, split_launcher, split_search_path, translate
from ol2r_cli.plugins.python.passed_classes import as_overrides

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
KEYS = st.from_regex("[a-z][a-z_0-9]*", fullmatch=True).filter(lambda key: key not in ("true", "null", "nan", "inf"))
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=6)


@given(VALUES)
@example(["a\\", "\\'", "it's", "\\\\", "", "null", "True", "1e3", "7", "${x}", "a,b", " a", "{", "x y\\\\"])
def test_every_value_is_read_back_as_it_was(value: object):
    """By Hydra's own parser."""
    read = OverridesParser.create().parse_override(f"a.b={as_typed(value)}").value()
    assert read == value
    assert type(read) is type(value)


def test_values_in_the_grammar_of_hydra():
    assert as_typed([True, False, None, 3, np.int64(3), (0.5,)]) == "[true,false,null,3,3,[0.5]]"
    assert as_typed([np.float64(1e-5), torch.tensor(2.0), torch.tensor([1, 2])]) == "[1e-05,2.0,[1,2]]"
    assert as_typed({"train": range(2), "test": [Path("a/b")]}) == "{train:[0,1],test:[a/b]}"
    assert as_typed(["two words", "it's", "1e3", "None"]) == r"['two words','it\'s','1e3','None']"


def test_settings_from_python():
    given = as_overrides("ranker=pdgd", {"ranker.l2": 0.1}, ["seed=1", {"force": True}], rounds=5, note=None)
    assert given == ["ranker=pdgd", "ranker.l2=0.1", "seed=1", "force=true", "rounds=5", "note=null"]
    assert as_overrides("~fairness", "--config-dir=mine") == ["~fairness", "--config-dir=mine"]


@pytest.mark.parametrize("value", [object(), b"x"], ids=["object", "bytes"])
def test_a_value_that_has_no_form_is_refused(value: object):
    with pytest.raises(ValueError, match=r"^ranker\.model must be a number, text, true, false, null, a list"):
        as_typed(value, "ranker.model")


@pytest.mark.parametrize("word", ["rounds", "--force", "-m", 3])
def test_what_is_no_setting_is_refused(word: object):
    with pytest.raises(ValueError, match="a setting must be 'NAME=VALUE'"):
        as_overrides(word)


def test_words_are_split_by_what_they_are_for(tmp_path: Path):
    words = ["click=per,nav", "dataset.click=per"]
    assert translate(words) == ["click=perfect,navigational", "dataset.click=per"]
    assert split_launcher(["seed=1", "launcher=slurm", "+launcher.jobs=2", "launchers=3"]) == (
        ["seed=1", "launchers=3"],
        ["launcher=slurm", "+launcher.jobs=2"],
    )
    words = ["seed=1", "-cd", str(tmp_path), f"+hydra.searchpath=[file://{tmp_path}/a, '{tmp_path}/b']"]
    assert split_search_path(words) == (["seed=1"], [tmp_path, tmp_path / "a", tmp_path / "b"])
