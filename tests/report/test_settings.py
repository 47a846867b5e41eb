"""Configurations are read in pieces, and the pieces say what the whole says."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from omegaconf import OmegaConf

from ol2r_cli.report import settings
from ol2r_cli.report.settings import counts, read_settings

NAMES = st.from_regex(r"\A[a-z_]{1,6}\Z")
LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers() | st.text(), max_size=3)
TREES = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda below: st.dictionaries(NAMES, below, max_size=3), max_leaves=6)
)


def whole(tree: dict, prefix: str = "") -> dict:
    """The leaves of a tree by their dotted names."""
    leaves = {}
    for name, value in tree.items():
        leaves |= whole(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return leaves


@settings_of_hypothesis(max_examples=40, deadline=None)
@given(TREES)
def test_pieces_say_what_the_whole_says(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("run") / "config.yaml"
    path.write_text(text := yaml.safe_dump({"all": 1} | tree, allow_unicode=True, sort_keys=False))
    assert read_settings(path) == whole(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x\n",
        "# all\na: [1]\nb: [1]\n",
        "---\na: [1]\nb: [1]\n",
        "{a: [1], b: [1]}",
        "? a\n: [1]\nb: [1]\n",
    ],
)
def test_what_cannot_be_cut_is_read_as_a_whole(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    assert read_settings(tmp_path / "config.yaml") == {"a": [1], "b": [1]}


@pytest.mark.parametrize("text", ["", "word", "a: 1\n- b", "a: [1"])
def test_what_is_no_mapping_is_an_error(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises((ValueError, yaml.YAMLError)):
        read_settings(tmp_path / "config.yaml")


def test_what_runs_have_in_common_is_parsed_once(tmp_path, monkeypatch):
    """100 runs, 10 values of l2, 10 seeds: ten `ranker`, ten `seed`, and one of each of the others."""
    parsed = []
    load = yaml.load
    monkeypatch.setattr(settings.yaml, "load", lambda text, loader: parsed.append(text) or load(text, loader))
    for run in range(100):
        tree = {"click": {"stop": 0.5}, "ranker": {"l2": run // 10, "why": "only in this test"}, "seed": run % 10}
        (tmp_path / f"{run}.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(tree)))
    read = [read_settings(tmp_path / f"{run}.yaml") for run in range(100)]
    assert [(found["ranker.l2"], found["seed"]) for found in read] == [(run // 10, run % 10) for run in range(100)]
    assert len(parsed) <= 10 + 10 + 1


def test_what_cannot_change_results_tells_no_groups_apart():
    assert [
        name for name in ("seed", "replicas", "dataset.fold", "dataset.data_dir", "device.name") if counts(name)
    ] == []
    assert all(map(counts, ("ranker.l2", "rounds", "dataset.path", "device.dtype")))
