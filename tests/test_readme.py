"""What README.md shows of a first run is what `ol2r run` gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from ol2r_cli.compose import compose
from ol2r_cli.experiment import Experiment

# OmegaConf annotates its DictConfig in a way that the checker of annotations calls old-fashioned.
pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_first_run_has_this_id():
    config = OmegaConf.to_container(compose(["device=cpu"]))
    choices = {group: name for group, name in config.pop("choices").items() if name}
    experiment = Experiment(OmegaConf.create(config), choices)
    (told,) = re.findall(r"^    finished: run (\w+)$", README, re.MULTILINE)
    assert told == experiment.id
    assert f"  files            {experiment.directory.path}\n" in README
