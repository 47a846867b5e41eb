"""The precision of a run is `device.dtype` or the one its ranker needs, its engine `device.engine` or the fastest."""

from __future__ import annotations

import re
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.config.composer import compose
from ol2r_cli.config.ranges import check_settings
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
    assert Device("cpu", "auto", 1, "auto").dtype is None
    with pytest.raises(ValueError, match=r"^device\.dtype must be one of auto, float64, float32, got 'half'$"):
        check_settings(Device, {"name": "cpu", "dtype": "half", "threads": 1, "engine": "auto"}, "device")
    with pytest.raises(ValueError, match=r"^device\.threads must be from 1 to 1024, got 0$"):
        check_settings(Device, {"name": "cpu", "dtype": "auto", "threads": 0, "engine": "auto"}, "device")
    with pytest.raises(ValueError, match=r"^device\.name must be auto, cpu, cuda or cuda:N, got 'tpu9'$"):
        Device("tpu9", "auto", 1, "auto")


def test_the_engine_is_part_of_the_id(monkeypatch):
    ids = {}
    for installed in (True, False):
        monkeypatch.setattr(loops, "available", lambda installed=installed: installed)
        for engine in ("auto", "tensors"):
            made = experiment(f"device.engine={engine}")
            ids[installed, engine] = made.id
            assert made.device.engine == ("loops" if installed and engine == "auto" else "tensors")
            assert made.simulation().context.loops == (made.device.engine == "loops")
    assert ids[True, "tensors"] == ids[False, "auto"] == ids[False, "tensors"] != ids[True, "auto"]


def test_numba_that_is_turned_off_is_as_numba_that_is_absent(monkeypatch):
    monkeypatch.setattr(loops, "missing", loops.missing.__wrapped__)
    monkeypatch.setattr(loops, "import_module", lambda _: SimpleNamespace(config=SimpleNamespace(DISABLE_JIT=1)))
    assert Device("cpu", "auto", 1, "auto").engine == "tensors"
    with pytest.raises(ValueError, match=r"needs numba, which NUMBA_DISABLE_JIT turns off"):
        Device("cpu", "auto", 1, "loops")


def test_an_engine_that_cannot_run_is_refused(monkeypatch):
    errors = {
        "is not installed": ModuleNotFoundError("No module named 'numba'"),
        "cannot be imported (Numba needs NumPy 2.4 or less)": ImportError("Numba needs NumPy 2.4 or less\nmore"),
    }
    monkeypatch.setattr(loops, "missing", loops.missing.__wrapped__)  # without what was found before
    for reason, error in errors.items():
        monkeypatch.setattr(loops, "import_module", Mock(side_effect=error))
        message = re.escape(f"device.engine=loops needs numba, which {reason}: type pip install -U numba")
        with pytest.raises(ValueError, match=f"^{message}$"):
            Device("cpu", "auto", 1, "loops")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"^device\.engine=loops needs device\.name=cpu, got cuda$"):
        Device("cuda", "auto", 1, "loops")
    assert Device("auto", "auto", 1, "auto").engine == "tensors"
    with pytest.raises(ValueError, match=r"^device\.engine must be one of auto, loops, tensors, got 'jit'$"):
        check_settings(Device, {"name": "cpu", "dtype": "auto", "threads": 1, "engine": "jit"}, "device")
