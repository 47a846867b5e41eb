"""`ol2r doctor` on machines where something is missing, broken or full."""

from __future__ import annotations

import fcntl
import importlib
import os
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.commands import doctor
from ol2r_cli.commands.doctor import PACKAGES, examine, main

TINY = Path(__file__).parents[1] / "data" / "tiny"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In an empty folder, with its own data and cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OL2R_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OL2R_CACHE", str(tmp_path / "cache"))


def examined(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main([*words]) == code
    return capsys.readouterr().out


def test_a_machine_without_problems_then_with_data(tmp_path: Path, capsys):
    out = examined(capsys)
    for package in PACKAGES:
        assert f"{package} {metadata.version(package)}" in out
    assert "note: data_dir: no dataset there: type data_dir=DIR or set OL2R_DATA" in out
    assert "BROKEN" not in out
    assert out.endswith("all that `ol2r run` needs is there\n")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mq2008").symlink_to(TINY)
    out = examined(capsys)
    assert f"mq2008       {tmp_path / 'data' / 'mq2008'} (2 folds)" in out
    assert "note: data_dir" not in out


def test_packages_that_are_missing_or_broken(monkeypatch: pytest.MonkeyPatch, capsys):
    """numba may be missing; of the others nothing else is examined."""
    monkeypatch.setattr(loops, "missing", lambda: "is not installed")
    assert "note: engine: numba is not installed; with it, " in examined(capsys)
    imports = importlib.import_module
    broken = Mock(side_effect=OSError("libfoo.so: cannot open\nmore"))
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: broken() if name == "polars" else imports(name))
    out = examined(capsys, code=1)
    polars = "polars: cannot be imported (OSError: libfoo.so: cannot open more): type: pip install --force-reinstall"
    assert f"BROKEN: {polars} polars\n" in out
    assert out.count("BROKEN: ") == 1
    assert "output_dir" not in out


def test_an_output_folder_that_cannot_be_written_or_is_full_and_bad_settings(monkeypatch, capsys):
    assert "BROKEN: output_dir: /proc must be writable (" in examined(capsys, "output_dir=/proc/nowhere", code=1)
    monkeypatch.setattr(doctor, "LITTLE_DISK", 2**80)
    assert "note: disk: type output_dir=DIR to write elsewhere than " in examined(capsys)
    assert main(["dataa_dir=x"]) == 2
    message = "ol2r doctor: there is no setting or group 'dataa_dir': did you mean data_dir?\n"
    assert capsys.readouterr() == ("", message)


def test_what_a_file_system_does_with_locks(monkeypatch: pytest.MonkeyPatch, capsys):
    refuse = Mock(side_effect=OSError(38, os.strerror(38)))
    for flock, works in (fcntl.flock, True), (lambda *_: None, False), (refuse, False):
        monkeypatch.setattr(fcntl, "flock", flock)
        assert ("locks: start every run in one process only" not in examined(capsys)) == works


def test_gpus_or_why_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.version, "hip", None, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    gpu = Mock(total_memory=80 * 2**30)
    gpu.name = "A GPU"
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    unset = "CUDA_VISIBLE_DEVICES= shows no GPU: type: unset CUDA_VISIBLE_DEVICES"
    for built, available, hidden, value, problem in (
        (None, False, None, "is built for the CPU alone", ""),
        ("12.8", True, None, "12.8: A GPU (80 GiB), A GPU (80 GiB)", ""),
        ("12.8", False, None, "built for CUDA 12.8, but no driver", ""),
        ("12.8", False, "", "none", unset),
    ):
        monkeypatch.setattr(torch.version, "cuda", built)
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if hidden is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        (cuda,) = [finding for finding in examine([]) if finding.name == "CUDA"]
        assert value in cuda.value
        assert (cuda.problem, cuda.needed) == (problem, False)


def test_the_folders_with_own_choices_and_who_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    sources = {"typed": "--config-dir", "named": "OL2R_CHOICES", "mine": "ol2r.yaml"}
    for name in sources:
        (tmp_path / name).mkdir()
    (tmp_path / "ol2r.yaml").write_text("choices: mine\noutput_dir: results\n")
    monkeypatch.setenv("OL2R_CHOICES", str(tmp_path / "named"))
    out = examined(capsys, "--config-dir", "typed")
    assert all(f"{tmp_path / name} (from {source})" in out for name, source in sources.items())
    assert "output_dir   results (" in out
