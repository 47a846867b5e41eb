"""The software and the processors that `ol2r doctor` looks at."""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from ol2r_cli.commands.finding import Finding

# distribution -> module: what `ol2r run` imports
PACKAGES = {
    "torch": "torch",
    "numpy": "numpy",
    "polars": "polars",
    "hydra-core": "hydra",
    "omegaconf": "omegaconf",
    "rich": "rich",
    "scikit-learn": "sklearn",
}


def versions() -> Iterator[Finding]:
    """Of ol2r, Python and the packages; imported, because an installed package may still be broken."""
    from ol2r_cli import __version__

    old = "" if sys.version_info >= (3, 11) else "must be 3.11 or later: make a new virtual environment with it"
    yield Finding("versions", "ol2r", f"{__version__} in {Path(__file__).parents[1]}")
    yield Finding("", "python", f"{sys.version.split()[0]} ({sys.executable})", old, needed=True)
    wanted = _requirements()
    for package, module in PACKAGES.items():
        wish = f"{package}{wanted.get(package, '')}"
        try:
            version = metadata.version(package)
            importlib.import_module(module)
        except metadata.PackageNotFoundError:
            yield Finding("", package, "not installed", f"type: pip install '{wish}'", needed=True)
        except Exception as error:
            problem = f"cannot be imported ({first_line(error)}): type: pip install --force-reinstall '{wish}'"
            yield Finding("", package, version, problem, needed=True)
        else:
            fits = _fits(version, wanted.get(package, ""))
            problem = "" if fits else f"must be {wanted[package]}, got {version}: type: pip install '{wish}'"
            yield Finding("", package, version, problem, needed=True)


def _requirements() -> dict[str, str]:
    """Version ranges by package, as ol2r was installed; empty where it runs from a folder without installation."""
    try:
        lines = metadata.requires("ol2r") or []
    except metadata.PackageNotFoundError:
        return {}
    found = (re.fullmatch(r"([\w-]+)\s*([^;\s]*)", line) for line in lines)
    return {match[1].lower(): match[2] for match in found if match}


def _fits(version: str, wanted: str) -> bool:
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:  # comes with Hydra, whose own absence is reported
        return True
    return SpecifierSet(wanted).contains(version, prereleases=True)


def machine() -> Iterator[Finding]:
    """Cores, threads, GPUs, and the library behind matrix products in float64."""
    import torch

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("machine", "CPU cores", f"{usable} of {os.cpu_count()}")
    yield Finding("", "torch threads", f"{torch.get_num_threads()} (a run sets device.threads, by default 1)")
    library = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    yield _float64(torch, f"{library[1] if library else 'unknown'} ({torch.backends.cpu.get_cpu_capability()})")
    yield Finding("", "CUDA", *_cuda(torch))


def _float64(torch: Any, library: str) -> Finding:
    """Whether a system in double precision is solved, as every refit does."""
    try:
        matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
        exact = torch.tensor([[0.6, -0.2], [-0.2, 0.4]], dtype=torch.float64)
        right = bool(torch.allclose(torch.linalg.inv(matrix), exact, rtol=0, atol=1e-14))
    except RuntimeError as error:
        problem = f"torch cannot invert a matrix ({first_line(error)}): type: pip install --force-reinstall torch"
        return Finding("", "float64 with", library, problem, needed=True)
    problem = "" if right else "torch inverts a matrix wrongly: type: pip install --force-reinstall torch"
    return Finding("", "float64 with", library, problem, needed=True)


def _cuda(torch: Any) -> tuple[str, str]:
    """The devices, or why there is none; a note only where a GPU could be meant."""
    built = torch.version.cuda or torch.version.hip
    if not built:
        return f"none: torch {torch.__version__} is built for the CPU alone", ""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        devices = (torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count()))
        return f"{built}: " + ", ".join(f"{d.name} ({d.total_memory / 2**30:.0f} GiB)" for d in devices), ""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        return "none", f"CUDA_VISIBLE_DEVICES={hidden} shows no GPU: type: unset CUDA_VISIBLE_DEVICES"
    reason = first_line(told[-1].message) if told else "no driver or no GPU answers"
    return f"none: torch is built for CUDA {built}, but {reason}", ""


def first_line(error: object) -> str:
    """Of a message; the kind of error where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
