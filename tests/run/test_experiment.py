"""The settings of the run itself."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import compose
from ol2r_cli.plugins import added_lines
from ol2r_cli.run.experiment import Experiment, RunSettings


def test_every_setting_of_run_yaml_has_a_declared_range():
    of_plugins = added_lines()
    assert [*(field.name for field in fields(RunSettings)), *of_plugins] == list(Catalogue().root.values)


@pytest.mark.parametrize(("seed", "replicas"), [(2**63 - 1, 1), (2**63 - 3, 3)])
def test_seeds_of_all_replicas_are_within_64_bits(tmp_path, seed, replicas):
    """The last replica has seed + replicas - 1."""
    words = f"experiment=smoke seed={seed} replicas={replicas} rounds=1 output_dir={tmp_path}"
    composition = compose(words.split())
    assert Experiment(composition.settings, composition.choices).seeds[-1] == 2**63 - 1


def test_seeds_beyond_64_bits_are_refused():
    composition = compose(["experiment=smoke", f"seed={2**63 - 2}", "replicas=3"])
    message = f"seed must be from 0 to {2**63 - 3} with replicas=3, got {2**63 - 2}"
    with pytest.raises(ValueError, match=re.escape(message)):
        Experiment(composition.settings, composition.choices)


def test_groups_of_documents_are_part_of_an_id():
    compositions = [
        compose(["experiment=smoke", f"dataset.group_ratio={ratio}"]) for ratio in (".5", ".4", "[.5,.3,.2]")
    ]
    assert len({Experiment(one.settings, one.choices).id for one in compositions}) == 3
