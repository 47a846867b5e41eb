"""`ol2r doctor [override ...]`: checks what `ol2r run` needs: packages, CUDA, data, disk."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli import loops
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import PROJECT_FILE, add_config_dir, as_options, choice_folders
from ol2r_cli.formatting import HelpFormatter, byte_size, show
from ol2r_cli.lock import is_held, locked
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, FAILED

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from ol2r_cli.config.catalogue import Catalogue

EPILOG = """examples:
  ol2r doctor
  ol2r doctor data_dir=/data output_dir=/scratch/outputs     with the settings of a run
exit codes: 0 `ol2r run` can work here, 1 something that it needs is broken, 2 bad settings
"""
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
ENGINE = "numba"  # for device.engine=loops
LITTLE_DISK = 2**30  # bytes; runs take megabytes, parsed datasets up to gigabytes


@dataclass(frozen=True)
class Finding:
    """The state of one thing. `problem`: what is wrong and what to type; `needed`: `ol2r run` needs it."""

    name: str
    value: str
    problem: str = ""
    needed: bool = False


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r doctor`."""
    options = argparse.ArgumentParser(
        "ol2r doctor",
        usage="ol2r doctor [data_dir=DIR] [output_dir=DIR] [SETTING=VALUE ...]",
        description=(__doc__ or "").partition(": ")[2],
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    options.add_argument("override", nargs="*", help="as for `ol2r run`")
    add_config_dir(options)
    return options


def main(arguments: list[str]) -> int:
    """Exit code 0, 1 when something that `ol2r run` needs is broken, 2 when the overrides are wrong."""
    options, more = parser().parse_known_args(arguments)
    try:
        findings = list(examine([*options.override, *more, *as_options(options.config_dir)]))
    except ValueError as error:
        print(f"ol2r doctor: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    show([(finding.name, finding.value) for finding in findings])
    print()
    problems = [finding for finding in findings if finding.problem]
    for finding in problems:
        print(f"{'BROKEN' if finding.needed else 'note'}: {finding.name}: {finding.problem}")
    if any(finding.needed for finding in problems):
        return FAILED
    print("all that `ol2r run` needs is there")
    return DONE


def examine(overrides: list[str]) -> Iterator[Finding]:
    """All findings. A package that cannot be imported is a finding; what needs it is then left out."""
    yield from versions()
    try:
        yield from machine()
        from ol2r_cli.config.composer import Composer

        composer = Composer(overrides)
        config = composer(overrides).config
        yield from own_choices(overrides)
        yield from disk(config)
        yield from data(config.data_dir, composer.catalogue)
    except ImportError:
        return


def versions() -> Iterator[Finding]:
    """The versions of ol2r, Python and the packages, which are imported: an installed package may be broken."""
    from ol2r_cli.run.code import version_line

    old = "" if sys.version_info >= (3, 11) else "must be 3.11 or later: make a new virtual environment with it"
    yield Finding("ol2r", f"{version_line()} in {Path(__file__).parents[1]}")
    yield Finding("python", f"{sys.version.split()[0]} ({sys.executable})", old, needed=True)
    required = _requirements()
    for package, module in PACKAGES.items():
        requirement = f"{package}{required.get(package, '')}"
        try:
            version = metadata.version(package)
            importlib.import_module(module)
        except metadata.PackageNotFoundError:
            yield Finding(package, "not installed", f"type: pip install '{requirement}'", needed=True)
        except Exception as error:
            problem = f"cannot be imported ({_first_line(error)}): type: pip install --force-reinstall '{requirement}'"
            yield Finding(package, version, problem, needed=True)
        else:
            fits = _fits(version, required.get(package, ""))
            problem = "" if fits else f"must be {required[package]}, got {version}: type: pip install '{requirement}'"
            yield Finding(package, version, problem, needed=True)


def _requirements() -> dict[str, str]:
    """Version ranges by package, from the installation of ol2r; empty where it runs from a folder."""
    try:
        lines = metadata.requires("ol2r") or []
    except metadata.PackageNotFoundError:
        return {}
    matches = (re.fullmatch(r"([\w-]+)\s*([^;\s]*)", line) for line in lines)
    return {match[1].lower(): match[2] for match in matches if match}


def _fits(version: str, required: str) -> bool:
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:  # comes with Hydra, whose own absence is a finding
        return True
    return SpecifierSet(required).contains(version, prereleases=True)


def _first_line(error: object) -> str:
    """The first line of a message; the kind of error where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def machine() -> Iterator[Finding]:
    """The engine, cores and GPUs."""
    import torch

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("engine", *_engine())
    yield Finding("CPU cores", f"{usable} of {os.cpu_count()}")
    yield Finding("CUDA", *_cuda(torch))


def _engine() -> tuple[str, str]:
    """What `device.engine=auto` chooses, and a note where it is the slower one."""
    if reason := loops.missing():
        slower = f"{ENGINE} {reason}; with it, rankers without a network are two to three times as fast on a CPU"
        return "tensors", f"{slower}: type: pip install '{ENGINE}{_requirements().get(ENGINE, '')}'"
    return f"loops on a CPU ({ENGINE} {metadata.version(ENGINE)}), tensors on a GPU", ""


def _cuda(torch: Any) -> tuple[str, str]:
    """The devices, or the reason for having none; a note only where the user may expect a GPU."""
    built = torch.version.cuda or torch.version.hip
    if not built:
        return f"none: torch {torch.__version__} is built for the CPU alone", ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        devices = (torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count()))
        return f"{built}: " + ", ".join(f"{d.name} ({d.total_memory / 2**30:.0f} GiB)" for d in devices), ""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        return "none", f"CUDA_VISIBLE_DEVICES={hidden} shows no GPU: type: unset CUDA_VISIBLE_DEVICES"
    reason = _first_line(caught[-1].message) if caught else "no driver or no GPU answers"
    return f"none: torch is built for CUDA {built}, but {reason}", ""


def own_choices(overrides: Sequence[str]) -> Iterator[Finding]:
    """The project file, and the folders with own choices, each with who names it."""
    project = Path(PROJECT_FILE).absolute()
    yield Finding("project file", str(project) if project.is_file() else f"none: no {PROJECT_FILE} in {project.parent}")
    folders = choice_folders(split_search_path(overrides)[1])
    for folder in folders:
        yield Finding("own choices", f"{folder.path} (from {folder.source})")
    if not folders:
        yield Finding("own choices", "none")


def disk(config: DictConfig) -> Iterator[Finding]:
    """Whether a run can write its folders, and the free space."""
    from ol2r_cli.dataset.cache import expand

    outputs, cache = Path(os.path.expanduser(config.output_dir)), expand(config.cache_dir)
    folder = _nearest_existing(outputs)
    free = shutil.disk_usage(folder).free
    full = f"type output_dir=DIR to write elsewhere than {folder}" if free < LITTLE_DISK else ""
    yield Finding("output_dir", _existing(outputs), _unusable(folder, "output_dir"), needed=True)
    yield Finding("locks there", _locks(folder))
    yield Finding("free there", byte_size(free), full)
    yield Finding("cache_dir", _existing(cache), _unusable(_nearest_existing(cache), "cache_dir"), needed=True)


def _unusable(folder: Path, setting: str) -> str:
    """Empty when a file in the folder can be written."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"ol2r")
    except OSError as error:
        return f"{folder} must be writable ({error.strerror}): type {setting}=DIR"
    return ""


def _locks(folder: Path) -> str:
    """Whether a second process that starts the same run is refused."""
    with suppress(OSError), tempfile.TemporaryDirectory(dir=folder, prefix=".ol2r-doctor-") as scratch:
        file = Path(scratch, ".lock")
        with locked(file):
            if is_held(file):
                return "flock"
    return "none: start every run in one process only"


def _nearest_existing(path: Path) -> Path:
    """The folder itself, or the one that it would be created in."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _existing(path: Path) -> str:
    return str(path) if path.is_dir() else f"{path} (does not exist yet)"


def data(data_dir: str, catalogue: Catalogue) -> Iterator[Finding]:
    """Where each named dataset lies below data_dir, or the names that were looked for."""
    from ol2r_cli.dataset.cache import expand

    root = expand(data_dir)
    choices = {name: catalogue.values(choice) for name, choice in catalogue.choices["dataset"].items()}
    named = {name: values for name, values in choices.items() if values.get("folders")}
    places = {name: _place(root, values) for name, values in named.items()}
    hint = "no dataset there: type data_dir=DIR or set OL2R_DATA; dataset=synthetic needs none"
    yield Finding("data_dir", _existing(root), "" if any(places.values()) else hint)
    for name, values in named.items():
        yield Finding(name, places[name] or f"not found: looked for {', '.join(values['folders'])}")


def _place(root: Path, values: Mapping[str, Any]) -> str:
    """The folder of a dataset and its number of folds; the reason why the fold cannot be read; empty if not found."""
    from ol2r_cli.dataset.letor import locate

    files = {split: [file.format(set=values["set"]) for file in names] for split, names in values["files"].items()}
    try:
        location = locate([root / folder for folder in values["folders"]], files, values["fold"])
    except ValueError as error:
        return str(error)
    if location is None:
        return ""
    folds = len(list(location.root.glob("Fold[0-9]*")))
    return str(location.root) + (f" ({folds} fold{'s' * (folds > 1)})" if folds else "")
