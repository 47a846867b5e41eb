"""The settings of the run itself."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import compose
from ol2r_cli.run import MANIFEST
from ol2r_cli.run import experiment as experiments
from ol2r_cli.run.experiment import Experiment, RunSettings
from tests.manifests import manifest


def test_every_setting_of_run_yaml_has_a_declared_range():
    assert [field.name for field in fields(RunSettings)] == list(Catalogue().root.values)


def test_more_than_two_groups_are_measured_under_ids_of_their_own(monkeypatch):
    """Versions that measured two groups only gave the id without their number; with two, the id is that of before."""
    hashed = {}
    monkeypatch.setattr(experiments, "identity", lambda settings, *_: hashed.update(settings) or "0123456789")
    for ratio, expected in ("[.5,.3,.2]", 3), (".5", None):
        hashed.clear()
        composition = compose(["experiment=smoke", f"dataset.group_ratio={ratio}"])
        assert Experiment(composition.config, composition.choices).id == "0123456789"
        assert hashed.get("groups") == expected


def test_a_run_is_finished_if_its_manifest_says_so(tmp_path: Path):
    composition = compose([f"output_dir={tmp_path}", "experiment=smoke"])
    experiment = Experiment(composition.config, composition.choices)
    file = experiment.directory / MANIFEST
    file.parent.mkdir(parents=True)
    whole = json.dumps(manifest("finished"))
    # The third lacks everything else, and the fourth is damaged: they are run again.
    for content in "", json.dumps(manifest("running")), '{"status": "finished"}', '{"status": "fini', whole:
        file.write_text(content)
        assert experiment.finished() is (content == whole), content
    experiment.settings["force"] = True
    assert not experiment.finished()
