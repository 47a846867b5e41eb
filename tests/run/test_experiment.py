"""The settings of the run itself."""

from __future__ import annotations

from dataclasses import fields

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.run.experiment import RunSettings


def test_every_setting_of_run_yaml_has_a_declared_range():
    assert [field.name for field in fields(RunSettings)] == list(Catalogue().root.values)
