"""`ol2r doctor` on machines where something is missing, broken or full."""

from __future__ import annotations

import fcntl
import os
import re
import sys
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock, call

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.plugins.gpu import plugin as gpu_plugin
from ol2r_cli.plugins.look_after import doctor
from ol2r_cli.plugins.look_after.doctor import PACKAGES, main
from tests.finished import refused

TINY = Path(__file__).parents[2] / "data" / "tiny"


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What is printed in an empty folder, with its own data and cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OL2R_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OL2R_CACHE", str(tmp_path / "cache"))

    def run(*words: str, code: int = 0) -> str:
        assert main([*words]) == code
        return capsys.readouterr().out

    return run


def test_a_machine_without_problems(tmp_path, examined):
    out = examined()
    for package in PACKAGES:
        assert f"{package} {metadata.version(package)}" in out
    assert "loops        compiled (numba " in out
    assert "note: data_dir: no dataset there: type data_dir=DIR or set OL2R_DATA" in out
    assert "BROKEN" not in out
    assert "own choices  none" in out
    assert out.endswith("all that `ol2r run` needs is there\n")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_data_and_own_choices_are_named(tmp_path, examined, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mq2008").symlink_to(TINY)
    sources = {"typed": "--config-dir", "named": "OL2R_CHOICES", "mine": "choices in ol2r.yaml"}
    for name in sources:
        (tmp_path / name).mkdir()
    (tmp_path / "ol2r.yaml").write_text("choices: mine\noutput_dir: results\n")
    monkeypatch.setenv("OL2R_CHOICES", str(tmp_path / "named"))
    out = examined("--config-dir", "typed")
    assert f"mq2008       {tmp_path / 'data' / 'mq2008'}\n" in out
    assert "note: " not in out
    assert all(f"{tmp_path / name} (from {source})" in out for name, source in sources.items())
    assert "output_dir   results (" in out


def test_loops_that_are_not_compiled_are_told(monkeypatch, examined):
    monkeypatch.setattr(loops, "compiled", lambda: False)
    assert "loops        left to Python by NUMBA_DISABLE_JIT, which is slow (numba " in examined()


def test_without_a_package_nothing_else_is_examined(monkeypatch, examined):
    monkeypatch.setitem(sys.modules, "polars", None)  # as if it could not be imported
    out = examined(code=1)
    assert "BROKEN: polars: cannot be imported (ModuleNotFoundError: " in out
    assert "): type: pip install --force-reinstall polars\n" in out
    assert out.count("BROKEN: ") == 1
    assert "output_dir" not in out


def test_an_output_folder_that_is_full_or_cannot_be_written(examined):
    """As /proc is, where nothing is free."""
    out = examined("output_dir=/proc/nowhere", code=1)
    assert "BROKEN: output_dir: /proc must be writable (" in out
    assert "note: disk: 0 B free: type output_dir=DIR to write elsewhere than /proc\n" in out


def test_wrong_settings_are_one_line(examined, capsys):
    assert (
        refused(capsys, "doctor", "dataa_dir=x") == "there is no setting or group 'dataa_dir': did you mean data_dir?"
    )


@pytest.mark.parametrize(
    ("flock", "works"),
    [(fcntl.flock, True), (lambda *_: None, False), (Mock(side_effect=OSError(38, os.strerror(38))), False)],
    ids=["works", "has no effect", "is refused"],
)
def test_a_folder_without_locks_is_told(monkeypatch, examined, flock, works):
    monkeypatch.setattr(fcntl, "flock", flock)
    assert ("locks: none in output_dir: start every run in one process only" not in examined()) == works


@pytest.fixture
def machine(monkeypatch):
    """What lets torch see so many GPUs, and be built for a version of CUDA; returns what tries loops on one."""
    gpu = Mock(total_memory=80 * 2**30)
    gpu.name = "A GPU"

    def begin(gpus: int, built: str | None = "12.8", missing: str = "", error: Exception | None = None) -> Mock:
        tried = Mock(side_effect=error)
        monkeypatch.setattr(torch, "cuda", Mock(device_count=lambda: gpus, get_device_properties=lambda device: gpu))
        monkeypatch.setattr(torch, "version", Mock(cuda=built, hip=None))
        monkeypatch.setattr(loops, "gpu_is_missing", lambda: missing)
        monkeypatch.setattr(doctor, "metadata", Mock(version=lambda package: "1.2"))
        monkeypatch.setattr(gpu_plugin, "trial", Mock(try_loops=tried))
        return tried

    return begin


@pytest.mark.parametrize(
    ("built", "gpus", "value"),
    [
        (None, 0, "is built for the CPU alone"),
        ("12.8", 0, "is built for 12.8, and finds no driver or no GPU"),
        ("12.8", 2, "12.8: A GPU (80 GiB), A GPU (80 GiB)"),
        (
            "12.8",
            1,
            "a GPU from 2 replicas of a network on, and with T = 5,000 from 29 of PairRank and 378 of PDGD",
        ),
    ],
)
def test_gpus_or_why_none(machine, examined, built, gpus, value):
    machine(gpus, built)
    assert value in examined()


WORKS = "1.2 compiles loops, and the GPU plays them as the CPU does"
FAILS = "numba-cuda 1.2 does not work (OSError: no libnvvm): type: pip install --force-reinstall 'ol2r[gpu]'"
AWAY = "numba-cuda is away"
NEEDED = f"{AWAY}, and a GPU needs it for linear rankers: type: pip install 'ol2r[gpu]'"


@pytest.mark.parametrize(
    ("missing", "gpus", "error", "value", "note"),
    [
        ("", 0, None, "1.2 compiles loops, for no GPU here", ""),
        ("", 1, None, WORKS, ""),
        ("", 0, OSError("no libnvvm"), "1.2 does not work", FAILS),
        (AWAY, 0, None, f"none: {AWAY}; only a GPU needs it", ""),
        (AWAY, 1, None, f"none: {AWAY}; only a GPU needs it", NEEDED),
    ],
    ids=["no GPU", "works", "does not work", "missing", "missing for a GPU"],
)
def test_numba_cuda_works_or_is_not_there(machine, examined, missing, gpus, error, value, note):
    """A note says what to type where a GPU needs it."""
    tried = machine(gpus, missing=missing, error=error)
    out = examined()
    assert f"numba-cuda   {value}\n" in out
    assert re.findall(r"note: GPU: (.*)", out) == [note] * bool(note)
    assert tried.call_args_list == ([] if missing else [call(torch.device("cuda") if gpus else None)])


@pytest.mark.skipif(bool(loops.gpu_is_missing()), reason=f"{loops.gpu_is_missing()}: pip install '.[gpu]'")
def test_a_small_loop_is_tried(monkeypatch: pytest.MonkeyPatch):
    """It compiles for a GPU, and a device has to write the numbers of the CPU."""
    from ol2r_cli.loops import launch
    from ol2r_cli.plugins.gpu import trial

    trial.try_loops(None)
    trial.try_loops(torch.device("cpu"))
    numbers = torch.arange(6, dtype=torch.float64).reshape(2, 3)
    launch.launch(trial.multiplies_by_sum_and_largest, 2, 64, numbers)
    assert numbers.tolist() == [[0, 3 * 2, 2 * 3 * 2], [3 * 12 * 5, 4 * 12 * 5, 5 * 12 * 5]]
    monkeypatch.setattr(
        trial, "launch", Mock(side_effect=lambda loop, replicas, room, values: values.add_(next(noise)))
    )
    noise = iter([0.0, 1.0])
    with pytest.raises(RuntimeError, match="other numbers on cpu than on the CPU"):
        trial.try_loops(torch.device("cpu"))
