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


def test_a_machine_without_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    out = capsys.readouterr().out
    for package in PACKAGES:
        assert f"{package} {metadata.version(package)}" in out
    assert "note: data_dir: no dataset there: type data_dir=DIR or set OL2R_DATA" in out
    assert "BROKEN" not in out
    assert out.endswith("all that `ol2r run` needs is there\n")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_machine_without_a_working_numba(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(loops, "missing", loops.missing.__wrapped__)  # without what was found before
    for error, reason in (
        (ModuleNotFoundError("No module named 'numba'"), "is not installed"),
        (ImportError("Numba needs NumPy 2.4 or less\nmore"), "cannot be imported (Numba needs NumPy 2.4 or less)"),
    ):
        monkeypatch.setattr(loops, "import_module", Mock(side_effect=error))
        assert main([]) == 0
        assert f"note: engine: numba {reason}; with it, " in capsys.readouterr().out


def test_a_package_that_is_missing_or_broken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What needs packages is left out then."""
    versions, imports = metadata.version, importlib.import_module

    def version(name: str) -> str:
        if name == "rich":
            raise metadata.PackageNotFoundError(name)
        return versions(name)

    def import_module(name: str):
        if name == "polars":
            raise OSError("libfoo.so: cannot open\nmore")
        return imports(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(
        doctor.metadata, "requires", lambda name: ["numpy>=2.1,<3", "rich<16,>=14", "x>1; extra == 'y'"]
    )
    monkeypatch.setattr(doctor.importlib, "import_module", import_module)
    assert main([]) == 1
    out = capsys.readouterr().out
    assert "BROKEN: rich: type: pip install 'rich<16,>=14'\n" in out
    polars = "polars: cannot be imported (OSError: libfoo.so: cannot open more): type: pip install --force-reinstall"
    assert f"BROKEN: {polars} 'polars'\n" in out
    assert out.count("BROKEN: ") == 2
    assert "output_dir" not in out


def test_an_output_folder_that_cannot_be_written_or_is_full_and_bad_settings(monkeypatch, capsys):
    assert main(["output_dir=/proc/nowhere"]) == 1
    assert "BROKEN: output_dir: /proc must be writable (" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "LITTLE_DISK", 2**80)
    assert main([]) == 0
    assert "note: disk: type output_dir=DIR to write elsewhere than " in capsys.readouterr().out
    assert main(["dataa_dir=x"]) == 2
    message = "ol2r doctor: there is no setting or group 'dataa_dir': did you mean data_dir?\n"
    assert capsys.readouterr() == ("", message)


def test_what_a_file_system_does_with_locks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def refuse(*_: object) -> None:
        raise OSError(38, os.strerror(38))

    for flock, works in (fcntl.flock, True), (lambda *_: None, False), (refuse, False):
        monkeypatch.setattr(fcntl, "flock", flock)
        assert main([]) == 0
        assert ("locks: start every run in one process only" not in capsys.readouterr().out) == works


def test_data_are_found_by_their_usual_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mq2008").symlink_to(TINY)
    assert main([]) == 0
    out = capsys.readouterr().out
    assert f"mq2008       {tmp_path / 'data' / 'mq2008'} (2 folds)" in out
    assert "note: data_dir" not in out


class Properties:
    name, total_memory = "A GPU", 80 * 2**30


def test_gpus_or_why_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.version, "hip", None, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
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
    for name in ("typed", "named", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "ol2r.yaml").write_text("choices: mine\noutput_dir: results\n")
    monkeypatch.setenv("OL2R_CHOICES", str(tmp_path / "named"))
    assert main(["--config-dir", "typed"]) == 0
    out = capsys.readouterr().out
    for name, source in {"typed": "--config-dir", "named": "OL2R_CHOICES", "mine": "ol2r.yaml"}.items():
        assert f"{tmp_path / name} (from {source})" in out
    assert "output_dir   results (" in out
