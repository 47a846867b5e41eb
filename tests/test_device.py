"""The precision of a run is `device.dtype`, or the one its ranker needs."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import check_settings
from ol2r_cli.device import Device
from ol2r_cli.interfaces import Ranker
from ol2r_cli.run.experiment import Experiment
from tests.worlds import TINY

# OmegaConf annotates its DictConfig in a way that the checker of annotations calls old-fashioned.
pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

LINEAR = ("ranker=pdgd",)
NETWORK = ("ranker=pdgd", "ranker/model=mlp", "ranker.model.width=4")


def experiment(*overrides: str) -> Experiment:
    composition = compose([*TINY, "device=cpu", *overrides])
    return Experiment(composition.config, composition.choices)


@pytest.mark.parametrize(
    ("overrides", "setting", "expected"),
    [
        ((), "auto", torch.float64),
        (LINEAR, "auto", torch.float64),
        (NETWORK, "auto", torch.float32),
        (("ranker=oracle",), "auto", torch.float64),
        (LINEAR, "float32", torch.float32),
        (NETWORK, "float64", torch.float64),
    ],
)
def test_all_parts_of_a_run_have_its_precision(overrides, setting, expected):
    made = experiment(*overrides, f"device.dtype={setting}")
    simulation = made.simulation()
    assert simulation.context.dtype == expected
    assert {evaluator.split.dtype for evaluator in made.evaluators()} == {expected}
    _, interaction = next(simulation.play())
    assert interaction.prediction.scores.dtype == expected


def test_the_id_is_that_of_the_precision_by_its_name():
    for words, own, other in (LINEAR, "float64", "float32"), (NETWORK, "float32", "float64"):
        ids = {asked: experiment(*words, f"device.dtype={asked}").id for asked in ("auto", own, other)}
        assert ids["auto"] == ids[own] != ids[other]


def test_a_ranker_that_says_nothing_gets_double_precision():
    assert Ranker.dtype == torch.float64
    assert Device("cpu", "auto", 1).dtype is None
    with pytest.raises(ValueError, match=r"^device\.dtype must be one of auto, float64, float32, got 'half'$"):
        check_settings(Device, {"name": "cpu", "dtype": "half", "threads": 1}, "device")
    with pytest.raises(ValueError, match=r"^device\.threads must be from 1 to 1024, got 0$"):
        check_settings(Device, {"name": "cpu", "dtype": "auto", "threads": 0}, "device")
    with pytest.raises(ValueError, match=r"^device\.name must be auto, cpu, cuda or cuda:N, got 'tpu9'$"):
        Device("tpu9", "auto", 1)
