"""Run ids: what decides the results is hashed, and nothing else."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path

import pytest

from ol2r_cli.run.identity import RESULTS_VERSION, identity, run_path

SETTINGS = {
    "seed": 1,
    "replicas": 10,
    "rounds": 5000,
    "positions": 10,
    "evaluate_every": 100,
    "block_rounds": [10, 100],
    "ranker": {"_target_": "ol2r_cli.ranker.pdgd.PDGD", "learning_rate": 0.1},
    "click": {"_target_": "ol2r_cli.click.dependent.Dependent", "click": None},
    "device": {
        "_target_": "ol2r_cli.device.Device",
        "name": "auto",
        "dtype": "float64",
        "threads": 1,
        "compile": False,
    },
    "dataset": {"path": "a", "fold": 1},
    "force": False,
    "output_dir": "outputs",
    "save_interactions": False,
}


def changed(dotted: str, value: object) -> dict:
    settings = copy.deepcopy(SETTINGS)
    *groups, name = dotted.split(".")
    node = settings
    for group in groups:
        node = node.setdefault(group, {})
    node[name] = value
    return settings


def test_the_id_is_the_beginning_of_a_sha256_over_canonical_json():
    settings = '{"click":{"a":[0.5,1]},"seed":1}'
    text = f'{{"code":{{}},"dataset":"f","results_version":{RESULTS_VERSION},"settings":{settings}}}'
    expected = hashlib.sha256(text.encode()).hexdigest()[:10]
    assert identity({"seed": 1, "click": {"a": [0.5, 1]}, "force": True, "measures": ["a"]}, "f", {}) == expected


@pytest.mark.parametrize(("name", "before"), [("validation_sessions", 0), ("model.parent_factors", True)])
def test_a_new_setting_leaves_ids_at_its_earlier_value(name, before):
    """A run is the one of before there was the setting; with another value it is another one."""
    group = name.partition(".")[0] if "." in name else None
    old = changed(f"{group}.other", 1) if group else SETTINGS

    def of(value):
        settings = changed(name, value)
        return settings | {group: {"other": 1, **settings[group]}} if group else settings

    assert identity(of(before), "f", {}) == identity(old, "f", {})
    assert identity(of(7), "f", {}) != identity(old, "f", {})


NOT_HASHED = """force note output_dir data_dir cache_dir ranker.cache_dir device._target_ device.name device.threads
checkpoint_every checkpoint_rounds keep_checkpoint launcher dataset measures"""


def test_everything_is_hashed_but_where_and_how_fast_it_runs():
    before = identity(SETTINGS, "f", {})
    same = [changed(dotted, "something else") for dotted in NOT_HASHED.split()]
    same += [dict(reversed(SETTINGS.items())), changed("rounds", 5000.0), changed("block_rounds", (10, 100))]
    assert [settings for settings in same if identity(settings, "f", {}) != before] == []
    changes = {"block_rounds": [10], "click.click": [0.0, 1.0], "device.dtype": "float32", "ranker.learning_rate": 0.2}
    changes |= {"ranker.device": "a setting of a role with the name of a group", "a_setting_of_the_future": 1}
    changes |= {"seed": True, "measure": {"ndcg": {"discount": 1}}}  # a flag is not a number
    others = [identity(changed(dotted, value), "f", {}) for dotted, value in changes.items()]
    others += [identity(SETTINGS, "g", {}), identity(SETTINGS, "f", {"ranker": "a"})]
    assert len({before, *others}) == 1 + len(changes) + 2
    with pytest.raises(TypeError, match=r"ranker\.path must be a plain value .*, got PosixPath"):
        identity(changed("ranker.path", Path("x")), "f", {})


def test_the_path_contains_the_choices():
    choices = {"dataset": "mslr_web10k", "ranker": "pairrank", "click": "navigational", "fairness": "none"}
    assert run_path("out", choices, "0123456789") == Path("out/mslr_web10k/pairrank-navigational-0123456789")
    fair = choices | {"fairness": "fairexp", "ranker": "mine/pairrank"}
    assert run_path("out", fair, "0123456789") == Path("out/mslr_web10k/mine_pairrank-navigational-fairexp-0123456789")
    assert run_path("~/out", choices, "0").is_relative_to(Path.home())
