"""The precision of a run: what is asked for, else what its ranker needs."""

from __future__ import annotations

import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli.device import Device
from ol2r_cli.experiment import Experiment
from ol2r_cli.interfaces import Ranker
from tests.worlds import tiny

# OmegaConf annotates its DictConfig in a way that the checker of annotations calls old-fashioned.
pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

LINEAR = ("ranker=pdgd",)
NETWORK = ("ranker=pdgd", "ranker/model=mlp", "ranker.model.width=4")


def experiment(*overrides: str) -> Experiment:
    config = OmegaConf.to_container(tiny("device=cpu", *overrides))
    choices = {group: name for group, name in config.pop("choices").items() if name}
    return Experiment(OmegaConf.create(config), choices)


@pytest.mark.parametrize(
    ("words", "asked", "given"),
    [
        ((), "auto", torch.float64),
        (LINEAR, "auto", torch.float64),
        (NETWORK, "auto", torch.float32),
        (("ranker=oracle",), "auto", torch.float64),
        (LINEAR, "float32", torch.float32),
        (NETWORK, "float64", torch.float64),
    ],
)
def test_everything_of_a_run_has_it(words, asked, given):
    made = experiment(*words, f"device.dtype={asked}")
    simulation = made.simulation()
    assert simulation.sizes.dtype == given
    assert {evaluator.split.dtype for evaluator in made.evaluators()} == {given}
    _, interaction = next(simulation.play())
    assert interaction.belief.scores.dtype == given


def test_the_id_is_that_of_the_precision_by_its_name():
    for words, own, other in (LINEAR, "float64", "float32"), (NETWORK, "float32", "float64"):
        ids = {asked: experiment(*words, f"device.dtype={asked}").id for asked in ("auto", own, other)}
        assert ids["auto"] == ids[own] != ids[other]


def test_a_ranker_that_says_nothing_gets_double_precision():
    assert Ranker.dtype == torch.float64
    assert Device("cpu", "auto", 1).dtype is None
    with pytest.raises(ValueError, match=r"^device\.dtype must be one of auto, float64, float32, got 'half'$"):
        Device("cpu", "half", 1)
