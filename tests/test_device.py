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
    return Experiment(composition.settings, composition.choices)


def test_all_parts_of_a_run_have_its_precision_and_its_id_names_it():
    for words, own, other in (LINEAR, "float64", "float32"), (NETWORK, "float32", "float64"):
        ids = {}
        for setting, name in ("auto", own), (own, own), (other, other):
            made, expected = experiment(*words, f"device.dtype={setting}"), getattr(torch, name)
            simulation, ids[setting] = made.simulation(), made.id
            assert simulation.context.dtype == expected, (words, setting)
            assert {evaluator.split.dtype for evaluator in made.evaluators()} == {expected}
            _, interaction = next(simulation.play())
            assert interaction.prediction.scores.dtype == expected
        assert ids["auto"] == ids[own] != ids[other]


def test_few_replicas_of_a_linear_ranker_on_a_gpu_are_slower_than_on_a_cpu():
    for words, replicas, said in (LINEAR, 2, True), (LINEAR, 30, False), (NETWORK, 2, False):
        made = experiment(*words, f"replicas={replicas}")
        assert not made.warnings()
        made.device.torch = torch.device("cuda")
        assert [line.endswith("type device=cpu") for line in made.warnings()] == [True] * said


def test_settings_outside_their_range_are_refused():
    assert Ranker.dtype == torch.float64
    settings = {"name": "cpu", "dtype": "auto", "threads": 1, "engine": "auto"}
    for name, value, message in (
        ("dtype", "half", "must be one of auto, float64, float32, got 'half'"),
        ("threads", 0, "must be from 1 to 1024, got 0"),
        ("engine", "jit", "must be one of auto, loops, tensors, got 'jit'"),
    ):
        with pytest.raises(ValueError, match=f"^device.{name} {message}$"):
            check_settings(Device, settings | {name: value}, "device")
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


def test_an_engine_that_cannot_run_is_refused(monkeypatch):
    turned_off = SimpleNamespace(config=SimpleNamespace(DISABLE_JIT=1))
    found = {
        "is not installed": Mock(side_effect=ModuleNotFoundError("No module named 'numba'")),
        "cannot be imported (Numba needs NumPy 2.4 or less)": Mock(
            side_effect=ImportError("Numba needs NumPy 2.4 or less\nmore")
        ),
        "NUMBA_DISABLE_JIT turns off": Mock(return_value=turned_off),
    }
    monkeypatch.setattr(loops, "missing", loops.missing.__wrapped__)  # without what was found before
    for reason, imported in found.items():
        monkeypatch.setattr(loops, "import_module", imported)
        assert Device("cpu", "auto", 1, "auto").engine == "tensors"
        message = re.escape(f"device.engine=loops needs numba, which {reason}: type pip install -U numba")
        with pytest.raises(ValueError, match=f"^{message}$"):
            Device("cpu", "auto", 1, "loops")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"^device\.engine=loops needs device\.name=cpu, got cuda$"):
        Device("cuda", "auto", 1, "loops")
    assert Device("auto", "auto", 1, "auto").engine == "tensors"
