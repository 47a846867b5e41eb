"""`ol2r doctor [SETTING=VALUE ...]`: checks what `ol2r run` needs: packages, CUDA, data, disk.

examples:
  ol2r doctor
  ol2r doctor data_dir=/data output_dir=/scratch/outputs     with the settings of a run
exit codes: 0 `ol2r run` can work here, 1 something that it needs is broken, 2 bad settings
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ol2r_cli import loops
from ol2r_cli.cli import argument, command
from ol2r_cli.config.catalogue import add_config_dir, as_options, choice_folders
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.files import is_held, locked
from ol2r_cli.formatting import byte_size, error_line, plural, show
from ol2r_cli.run import DONE, FAILED
from ol2r_cli.run.identity import version_line

PACKAGES = ("torch", "numpy", "polars", "hydra-core", "omegaconf", "rich", "scikit-learn")  # that `ol2r run` imports
MODULES = {"hydra-core": "hydra", "scikit-learn": "sklearn"}  # where the name is not that of the package
LITTLE_DISK = 2**30  # bytes; runs take megabytes, parsed datasets up to gigabytes


class Finding(NamedTuple):
    """The state of one thing. `problem`: what is wrong and what to type; `needed`: `ol2r run` needs it."""

    name: str
    value: str
    problem: str = ""
    needed: bool = False


@command(argument("override", metavar="SETTING=VALUE", nargs="*", help="as for `ol2r run`"), add_config_dir)
def main(given: argparse.Namespace) -> int:
    """Return 1 when something that `ol2r run` needs is broken."""
    findings = list(examine([*given.override, *as_options(given.config_dir)]))
    show([(finding.name, finding.value) for finding in findings])
    print()
    problems = [finding for finding in findings if finding.problem]
    for finding in problems:
        print(f"{'BROKEN' if finding.needed else 'note'}: {finding.name}: {finding.problem}")
    if any(finding.needed for finding in problems):
        return FAILED
    print("all that `ol2r run` needs is there")
    return DONE


def examine(overrides: Sequence[str]) -> Iterator[Finding]:
    """Yield all findings; those on packages alone where one of them is broken."""
    yield Finding("ol2r", f"{version_line()} in {Path(__file__).parents[1]}, Python {sys.version.split()[0]}")
    working = []
    for package in PACKAGES:
        try:
            importlib.import_module(MODULES.get(package, package))  # because an installed one may be broken
            working.append(f"{package} {metadata.version(package)}")
        except Exception as error:
            install = "type: pip install --force-reinstall "
            yield Finding(package, "broken", f"cannot be imported ({error_line(error)}): {install}{package}", True)
    yield Finding("packages", ", ".join(working))
    if len(working) < len(PACKAGES):
        return
    if reason := loops.missing():
        slower = f"numba {reason}; with it, rankers without a network are two to three times as fast on a CPU"
        yield Finding("engine", "tensors", f"{slower}: type: pip install numba")
    else:
        yield Finding("engine", f"loops on a CPU (numba {metadata.version('numba')}), tensors on a GPU")
    yield Finding("CUDA", *_cuda())
    folders = choice_folders(split_search_path(overrides)[1])
    yield Finding("own choices", ", ".join(f"{folder.path} (from {folder.source})" for folder in folders) or "none")

    from ol2r_cli.config.composer import Composer
    from ol2r_cli.dataset.cache import expand
    from ol2r_cli.dataset.letor import locate

    composer = Composer(list(overrides))
    config = composer(list(overrides)).config
    yield from _disk("output_dir", Path(config.output_dir).expanduser())
    yield from _disk("cache_dir", expand(config.cache_dir))
    root, places = expand(config.data_dir), []
    for name, choice in composer.catalogue.choices["dataset"].items():
        values = composer.catalogue.values(choice)
        named = values.get("files", {}).items()
        files = {split: [file.format(set=values["set"]) for file in names] for split, names in named}
        try:
            if location := locate(
                [root / folder for folder in values.get("folders", ())], files, values.get("fold", 1)
            ):
                folds = len(list(location.root.glob("Fold[0-9]*")))
                places.append(Finding(name, f"{location.root}" + (f" ({plural(folds, 'fold')})" if folds else "")))
        except ValueError as error:
            places.append(Finding(name, str(error)))
    hint = "no dataset there: type data_dir=DIR or set OL2R_DATA; dataset=synthetic needs none"
    yield Finding("data_dir", str(root), "" if places else hint)
    yield from places


def _cuda() -> tuple[str, str]:
    """Return the devices, or the reason for having none; a note only where the user may expect a GPU."""
    import torch

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
    reason = str(caught[-1].message).partition("\n")[0] if caught else "no driver or no GPU answers"
    return f"none: torch is built for CUDA {built}, but {reason}", ""


def _disk(setting: str, path: Path) -> Iterator[Finding]:
    """Yield whether a run can write a folder, the free space, and whether a second process is refused there."""
    folder = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.is_dir())
    free, problem, locks = shutil.disk_usage(folder).free, "", False
    try:
        scratch = tempfile.TemporaryDirectory(dir=folder, prefix=".ol2r-doctor-")
        with scratch, suppress(OSError), locked(file := Path(scratch.name, ".lock")):
            locks = is_held(file)
    except OSError as error:
        problem = f"{folder} must be writable ({error.strerror}): type {setting}=DIR"
    new = "" if path.is_dir() else ", does not exist yet"
    yield Finding(setting, f"{path} ({byte_size(free)} free{new})", problem, needed=True)
    if free < LITTLE_DISK and not problem:
        yield Finding("disk", f"{byte_size(free)} free", f"type {setting}=DIR to write elsewhere than {folder}")
    if setting == "output_dir" and not problem and not locks:
        yield Finding("locks", "none in output_dir", "start every run in one process only")
