"""`ol2r doctor` on machines where something is missing, broken or full."""

from __future__ import annotations

import fcntl
import importlib
import os
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock, call

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.plugins.gpu import plugin as gpu_plugin
from ol2r_cli.plugins.look_after import doctor
from ol2r_cli.plugins.look_after.doctor import PACKAGES, main

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


def test_a_machine_without_problems(tmp_path: Path, examined, monkeypatch):
    """A machine without problems, then with data and own choices."""
    out = examined()
    for package in PACKAGES:
        assert f"{package} {metadata.version(package)}" in out
    assert "note: data_dir: no dataset there: type data_dir=DIR or set OL2R_DATA" in out
    assert "BROKEN" not in out
    assert "own choices  none" in out
    assert out.endswith("all that `ol2r run` needs is there\n")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
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


def test_packages_that_are_missing_or_broken(monkeypatch: pytest.MonkeyPatch, examined):
    """Of what is missing nothing else is examined."""
    assert "loops        compiled (numba " in examined()
    monkeypatch.setattr(loops, "compiled", lambda: False)
    assert "loops        left to Python by NUMBA_DISABLE_JIT, which is slow (numba " in examined()
    imports = importlib.import_module
    broken = Mock(side_effect=OSError("libfoo.so: cannot open\nmore"))
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: broken() if name == "polars" else imports(name))
    out = examined(code=1)
    polars = "polars: cannot be imported (OSError: libfoo.so: cannot open more): type: pip install --force-reinstall"
    assert f"BROKEN: {polars} polars\n" in out
    assert out.count("BROKEN: ") == 1
    assert "output_dir" not in out


def test_problems_of_the_output_folder_and_of_settings(monkeypatch, examined, capsys):
    """An output folder that cannot be written, is full, or has no locks; and bad settings."""
    assert "BROKEN: output_dir: /proc must be writable (" in examined("output_dir=/proc/nowhere", code=1)
    assert main(["dataa_dir=x"]) == 2
    message = "ol2r doctor: there is no setting or group 'dataa_dir': did you mean data_dir?\n"
    assert capsys.readouterr() == ("", message)
    refuse = Mock(side_effect=OSError(38, os.strerror(38)))
    for flock, works in (fcntl.flock, True), (lambda *_: None, False), (refuse, False):
        monkeypatch.setattr(fcntl, "flock", flock)
        assert ("locks: none in output_dir: start every run in one process only" not in examined()) == works
    monkeypatch.setattr(doctor, "LITTLE_DISK", 2**80)
    assert "note: disk: " in (out := examined())
    assert " free: type output_dir=DIR to write elsewhere than " in out


def test_numba_cuda_works_or_is_not_there(monkeypatch: pytest.MonkeyPatch, examined):
    """A note says what to type where a GPU needs it."""
    works = "1.2 compiles loops, and the GPU plays them as the CPU does"
    fails = "numba-cuda 1.2 does not work (OSError: no libnvvm): type: pip install --force-reinstall 'ol2r[gpu]'"
    needed = "numba-cuda is away, and a GPU needs it for linear rankers: type: pip install 'ol2r[gpu]'"
    monkeypatch.setattr(doctor, "metadata", Mock(version=lambda package: "1.2"))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Mock(total_memory=2**30))
    for missing, gpus, error, value, note in (
        ("", 0, None, "1.2 compiles loops, for no GPU here", ""),
        ("", 1, None, works, ""),
        ("", 0, OSError("no libnvvm"), "1.2 does not work", fails),
        ("numba-cuda is away", 0, None, "none: numba-cuda is away; only a GPU needs it", ""),
        ("numba-cuda is away", 1, None, "none: numba-cuda is away; only a GPU needs it", needed),
    ):
        tried = Mock(side_effect=error)
        monkeypatch.setattr(gpu_plugin, "trial", Mock(try_loops=tried))
        monkeypatch.setattr(loops, "gpu_is_missing", lambda missing=missing: missing)
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        out = examined()
        assert f"numba-cuda   {value}\n" in out
        assert (f"note: GPU: {note}\n" if note else "\nnumba-cuda") in out
        assert ("note: GPU: " in out) == bool(note)
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


def test_gpus_or_why_none(monkeypatch: pytest.MonkeyPatch, examined):
    monkeypatch.setattr(gpu_plugin, "trial", Mock())
    monkeypatch.setattr(torch.version, "hip", None, raising=False)
    gpu = Mock(total_memory=80 * 2**30)
    gpu.name = "A GPU"
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    for built, count, value in (
        (None, 0, "is built for the CPU alone"),
        ("12.8", 2, "12.8: A GPU (80 GiB), A GPU (80 GiB)"),
        (
            "12.8",
            1,
            "a GPU from 2 replicas of a network on, and with T = 5,000 from 29 of PairRank and 378 of PDGD",
        ),
        ("12.8", 0, "is built for 12.8, and finds no driver or no GPU"),
    ):
        monkeypatch.setattr(torch.version, "cuda", built)
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        assert value in examined()
