"""`ol2r doctor` on machines where something is missing, broken or full."""

from __future__ import annotations

import fcntl
import importlib
import os
import re
import sys
from importlib import metadata
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.commands import doctor
from ol2r_cli.commands.doctor import Finding, examine, main
from ol2r_cli.config.catalogue import Catalogue

TINY = Path(__file__).parents[1] / "data" / "tiny"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In an empty folder, with its own data and cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OL2R_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OL2R_CACHE", str(tmp_path / "cache"))


def named(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_a_machine_without_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    out = capsys.readouterr().out
    for package in ("torch", "numpy", "polars", "hydra-core", "omegaconf", "rich", "scikit-learn"):
        assert metadata.version(package) in next(line for line in out.splitlines() if line.startswith(f"{package} "))
    for name in ("ol2r", "python", "CPU cores", "CUDA", "output_dir", "free there", "cache_dir", "data_dir", "mq2008"):
        assert name in out
    assert out.endswith("all that `ol2r run` needs is there\n")
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("No module named 'numba'"), "numba is not installed; "),
        (
            ImportError("Numba needs NumPy 2.4 or less\nmore"),
            "numba cannot be imported (Numba needs NumPy 2.4 or less); ",
        ),
    ],
)
def test_a_machine_without_a_working_numba(monkeypatch: pytest.MonkeyPatch, capsys, error: Exception, reason: str):
    monkeypatch.setattr(loops, "missing", loops.missing.__wrapped__)  # without what was found before
    monkeypatch.setattr(loops, "import_module", Mock(side_effect=error))
    found = named(list(examine([])))["engine"]
    assert (found.value, found.needed) == ("tensors", False)
    assert found.problem.startswith(reason)
    assert "type: pip install 'numba" in found.problem
    assert main([]) == 0


def test_a_package_that_is_missing_broken_or_too_old(monkeypatch: pytest.MonkeyPatch, capsys):
    versions, imports = metadata.version, importlib.import_module

    def version(name: str) -> str:
        if name == "rich":
            raise metadata.PackageNotFoundError(name)
        return "0.1" if name == "numpy" else versions(name)

    def import_module(name: str):
        if name == "polars":
            raise OSError("libfoo.so: cannot open\nmore")
        return imports(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(
        doctor.metadata, "requires", lambda name: ["numpy>=2.1,<3", "rich<16,>=14", "x>1; extra == 'y'"]
    )
    monkeypatch.setattr(doctor.importlib, "import_module", import_module)
    findings = named(list(doctor.versions()))
    assert findings["rich"].problem == "type: pip install 'rich<16,>=14'"
    assert findings["polars"].problem.startswith(
        "cannot be imported (libfoo.so: cannot open): type: pip install --force"
    )
    assert findings["numpy"].problem == "must be >=2.1,<3, got 0.1: type: pip install 'numpy>=2.1,<3'"
    assert findings["torch"].problem == ""
    assert main([]) == 1
    out = capsys.readouterr().out
    assert out.count("BROKEN: ") == 3
    assert "is there" not in out


def test_what_needs_a_missing_package_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "hydra", None)
    findings = named(list(examine([])))
    assert findings["hydra-core"].problem.startswith("cannot be imported")
    assert "output_dir" not in findings
    assert "CPU cores" in findings


def test_an_output_folder_that_cannot_be_written(capsys: pytest.CaptureFixture[str]):
    assert main(["output_dir=/proc/nowhere"]) == 1
    assert "BROKEN: output_dir: /proc must be writable (" in capsys.readouterr().out


def test_what_a_file_system_does_with_locks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def refuse(*_: object) -> None:
        raise OSError(38, os.strerror(38))

    for flock, shown in (fcntl.flock, "flock"), (lambda *_: None, "none: start every"), (refuse, "none: start every"):
        monkeypatch.setattr(fcntl, "flock", flock)
        assert main([]) == 0
        assert re.search(rf"locks there +{shown}", capsys.readouterr().out)


def test_a_full_disk_is_a_note(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(doctor, "LITTLE_DISK", 2**80)
    assert main([]) == 0
    assert "note: free there: type output_dir=DIR" in capsys.readouterr().out


def test_data_is_found_by_its_usual_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    assert "note: data_dir: no dataset there: type data_dir=DIR or set OL2R_DATA" in capsys.readouterr().out
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mq2008").symlink_to(TINY)
    assert main([]) == 0
    out = capsys.readouterr().out
    assert f"mq2008        {tmp_path / 'data' / 'mq2008'} (2 folds)" in out
    assert "not found: looked for MSLR-WEB10K, mslr-web10k, WEB10K" in out
    assert "note: data_dir" not in out
    for name, choice in Catalogue().choices["dataset"].items():
        assert (f"\n{name} " in out) == bool(choice.values.get("folders"))


def test_bad_settings_are_one_line_and_2(capsys: pytest.CaptureFixture[str]):
    assert main(["dataa_dir=x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "ol2r doctor: there is no setting or group 'dataa_dir': did you mean data_dir?\n"


class Properties:
    name, total_memory = "A GPU", 80 * 2**30


@pytest.mark.parametrize(
    ("built", "available", "hidden", "value", "problem"),
    [
        (None, False, None, "is built for the CPU alone", ""),
        ("12.8", True, None, "12.8: A GPU (80 GiB), A GPU (80 GiB)", ""),
        ("12.8", False, None, "built for CUDA 12.8, but no driver", ""),
        ("12.8", False, "", "none", "CUDA_VISIBLE_DEVICES= shows no GPU: type: unset CUDA_VISIBLE_DEVICES"),
    ],
)
def test_gpus_or_why_none(monkeypatch: pytest.MonkeyPatch, built, available, hidden, value, problem):
    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(torch.version, "hip", None, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    cuda = named(list(doctor.machine()))["CUDA"]
    assert value in cuda.value
    assert cuda.problem == problem
    assert not cuda.needed


def test_the_project_file_and_the_folders_with_own_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert f"project file  none: no ol2r.yaml in {tmp_path}\n" in out
    assert "own choices   none\n" in out
    for name in ("typed", "named", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "ol2r.yaml").write_text("choices: mine\noutput_dir: results\n")
    monkeypatch.setenv("OL2R_CHOICES", str(tmp_path / "named"))
    assert main(["--config-dir", "typed"]) == 0
    out = capsys.readouterr().out
    sources = {"typed": "--config-dir", "named": "OL2R_CHOICES", "mine": "ol2r.yaml"}
    lines = [f"own choices   {tmp_path / name} (from {source})\n" for name, source in sources.items()]
    assert "".join(lines) in out
    assert f"project file  {tmp_path / 'ol2r.yaml'}\n" in out
    assert "output_dir    results (does not exist yet)" in out
