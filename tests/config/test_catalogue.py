from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import Catalogue, Choice, config_dir, defaults_list
from ol2r_cli.config.composer import compose

FILE = """\
# A ranker of my own:
# with two lines of explanation. Me, 2024.
defaults:
  - pairrank
  - override /exploration@_global_.exploration: none
  - _self_

_target_: mine.Ranker
rate: .5  # step size > 0
name: "a # b"  # what it is called
levels: [1,
  2]  # on two lines
table:  # by grade
  5: {click: [0, 1]}
empty:  # nothing yet
bare: 3
"""


def own(folder: Path, group: str, name: str, text: str) -> Path:
    path = folder / group / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_is_read_with_its_comments(tmp_path):
    choice = Choice("ranker", "mine", own(tmp_path, "ranker", "mine", FILE))
    assert choice.header == ["A ranker of my own:", "with two lines of explanation. Me, 2024."]
    assert [(s.name, s.default, s.comment) for s in choice.settings] == [
        ("rate", ".5", "step size > 0"),
        ("name", '"a # b"', "what it is called"),
        ("levels", "[1, 2]", "on two lines"),
        ("table", "{5: {click: [0, 1]}}", "by grade"),
        ("empty", "", "nothing yet"),
        ("bare", "3", ""),
    ]
    assert choice.brings == {"exploration": "none"}
    assert choice.values["table"] == {5: {"click": [0, 1]}}


def test_values_are_those_that_hydra_reads(tmp_path):
    """Numbers with an exponent are numbers, without a sign or a dot too, and dates are text."""
    numbers = "a: 1e-3\nb: 1.5e3\nc: -2.E+5\nd: 1_0e2\ne: [1e2, .inf, 5., .5]\nf: 0x1f\ng: 010\n"
    texts = "h: 2020-01-02\ni: 1e3x\nj: '1e3'\nk: 5e\nl: .5e3\nm: 12:30\nn: yes\no: null\np:\n"
    file = own(tmp_path, "ranker", "mine", numbers + texts)
    for path in file, *sorted(config_dir().rglob("*.yaml")):
        by_hydra = OmegaConf.to_container(OmegaConf.load(path))
        assert repr(Choice("ranker", path.stem, path).content) == repr(by_hydra), path
    assert Choice("ranker", "mine", file).content["a"] == 0.001


def test_settings_within_a_block_stand_behind_it(tmp_path):
    """Those with a comment, with those of the file from which the block is inherited."""
    parent = "steps:  # how\n  rate: 1  # fast\n  batch: 2\n  deep:\n    er: 3  # still\nlast: 4\n"
    paths = {
        "parent": own(tmp_path, "ranker", "parent", parent),
        "heir": own(tmp_path, "ranker", "heir", "defaults: [parent]\nmore: 5\n"),
        "other": own(tmp_path, "ranker", "other", "defaults: [parent]\nsteps:\n  size: 6  # large\n"),
    }
    siblings: dict[str, Choice] = {}
    for name, path in paths.items():
        siblings[name] = Choice("ranker", name, path, siblings)
    names = {name: [setting.name for setting in choice.settings] for name, choice in siblings.items()}
    assert names["parent"] == ["steps", "steps.rate", "steps.deep.er", "last"]
    assert names["heir"] == [*names["parent"], "more"]
    assert names["other"] == ["steps", "steps.rate", "steps.deep.er", "steps.size", "last"]
    assert siblings["heir"].settings[1] == ("steps.rate", "1", "fast")
    assert siblings["parent"].settings[0].default == "{rate: 1, batch: 2, deep: {er: 3}}"


def test_own_choices_inherit_and_do_not_shadow(tmp_path):
    own(tmp_path, "ranker", "mine", "defaults: [pairrank]\nl2: 7\n")
    own(tmp_path, "ranker", "other", FILE)
    hidden = own(tmp_path, "ranker", "pairrank", "# Another.\n_target_: mine.Ranker\n")
    for group in (".git/ranker", "outputs/run"):
        own(tmp_path, group, "mine", FILE)
    (tmp_path / "outputs" / "run" / "run.json").touch()
    catalogue = Catalogue([tmp_path])
    mine, other, parent = (catalogue.choices["ranker"][name] for name in ("mine", "other", "pairrank"))
    assert mine.values == parent.values | {"l2": 7}
    assert [(s.name, s.comment) for s in mine.settings] == [(s.name, s.comment) for s in parent.settings]
    assert mine.settings[0].default == "7"
    names = [setting.name for setting in other.settings]
    assert (names[0], names[-1], other.values["rate"]) == ("l2", "bare", 0.5)
    assert catalogue.collisions == [(hidden, parent.path)]
    assert (mine.comes_along, parent.comes_along) == (False, True)
    assert not [group for group in catalogue.choices if group.startswith(("outputs", ".git", "reproduce"))]


@pytest.mark.parametrize(("text", "what"), [("a: [1\n", "must be YAML"), ("- 1\n", "must be lines `setting: value`")])
def test_files_that_are_no_settings(tmp_path, text, what):
    path = own(tmp_path, "ranker", "broken", text)
    with pytest.raises(ValueError, match=f"^[^\n]*{path}[^\n]*{what}[^\n]*$"):
        _ = Choice("ranker", "broken", path).content


def test_entries_of_a_defaults_list():
    entries = ["_self_", "pairrank", {"model": "mlp"}, {"/click": "perfect"}, {"optional /fairness": None}]
    entries += [
        {"override /exploration@_global_.exploration": "none"},
        {"override /hydra/launcher": "basic"},
        {"a b": 1},
    ]
    assert list(defaults_list({"defaults": entries}, "ranker")) == [
        ("ranker/model", "mlp"),
        ("click", "perfect"),
        ("fairness", None),
        ("exploration", "none"),
    ]


def test_a_part_comes_with_its_ranker_and_is_inherited(tmp_path):
    own(tmp_path, "ranker", "mine", "defaults: [pdgd, _self_]\ndecay: 1.0\n")
    own(tmp_path, "ranker/model", "tree", "# A tree.\n_target_: mine.Tree\ndepth: 3  # levels\n")
    catalogue = Catalogue([tmp_path])
    assert catalogue.parts == ["ranker/model"]
    assert catalogue.choices["ranker"]["mine"].brings == {
        "ranker/model": "linear",
        "exploration": "plackett_luce",
    }
    typed = ["ranker=mine", "ranker/model=tree"]
    assert catalogue.chosen(typed)["ranker/model"] == "tree"
    assert catalogue.tree(typed)["ranker"]["model"] == {"depth": 3}
    assert "ranker/model" not in catalogue.chosen(["ranker=pairrank", "ranker/model=tree"])
    config = compose([*typed, f"--config-dir={tmp_path}"])
    assert config.choices["ranker/model"] == "tree"
    assert config.config.ranker.model == {"_target_": "mine.Tree", "depth": 3}
    assert config.choices["exploration"] == "plackett_luce"
