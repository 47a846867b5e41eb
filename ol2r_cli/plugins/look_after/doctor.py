"""`ol2r doctor [SETTING=VALUE ...]`: checks what `ol2r run` needs: packages, CUDA, data, disk.

examples:
  ol2r doctor
  ol2r doctor data_dir=/data output_dir=/scratch/outputs     with the settings of a run
exit codes: 0 `ol2r run` can work here, 1 something that it needs is broken, 2 bad settings
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from ol2r_cli import loops
from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import add_config_dir, as_options, choice_folders
from ol2r_cli.files import Lock, is_held
from ol2r_cli.plugins import installed, launching
from ol2r_cli.run import DONE, FAILED
from ol2r_cli.run.versions import version_line
from ol2r_cli.text.formatting import byte_size, error_line, wrapped
from ol2r_cli.text.program import as_called
from ol2r_cli.text.table import show

PACKAGES = {  # that `ol2r run` imports, with their modules
    "torch": "torch",
    "numpy": "numpy",
    "numba": "numba",
    "polars": "polars",
    "omegaconf": "omegaconf",
    "rich": "rich",
    "hydra-core": "hydra",
    "scikit-learn": "sklearn",
}
ROUNDS = 5_000  # of the default run
LITTLE_DISK = 2**30  # bytes; runs take megabytes, parsed datasets up to gigabytes


@dataclass
class Findings:
    """What there is, by name; what should be known; what `ol2r run` needs and lacks."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def add(self, name: str, what: object) -> None:
        self.rows.append((name, str(what)))


@command(argument("override", metavar="SETTING=VALUE", nargs="*", help="as for `ol2r run`"), add_config_dir)
def main(given: argparse.Namespace) -> int:
    """Return 1 when something that `ol2r run` needs is broken. Of broken packages nothing else is examined."""
    findings = Findings()
    findings.add("ol2r", f"{version_line()} in {Path(__file__).parents[2]}, Python {sys.version.split()[0]}")
    _examine_packages(findings)
    if not findings.broken:
        _examine([*given.override, *as_options(given.config_dir)], findings)
    show(findings.rows)
    print()
    for line in findings.broken:
        print(wrapped(f"BROKEN: {line}"))
    for line in findings.notes:
        print(wrapped(f"note: {line}"))
    if findings.broken:
        return FAILED
    print(as_called("all that `ol2r run` needs is there"))
    return DONE


def _examine_packages(findings: Findings) -> None:
    working = []
    for package, module in PACKAGES.items():
        try:
            importlib.import_module(module)  # because an installed one may be broken
            working.append(f"{package} {metadata.version(package)}")
        except Exception as error:
            install = f"type: pip install --force-reinstall {package}"
            findings.broken.append(f"{package}: cannot be imported ({error_line(error)}): {install}")
    findings.add("packages", ", ".join(working))
    findings.add("plug-ins", ", ".join(installed().plugins))
    for plugin, reason in installed().left_out.items():
        findings.notes.append(f"the plug-in {plugin} is left out: {reason}")


def _examine(words: list[str], findings: Findings) -> None:
    from ol2r_cli.config import composer
    from ol2r_cli.dataset import letor

    how = "compiled" if loops.compiled() else "left to Python by NUMBA_DISABLE_JIT, which is slow"
    findings.add("loops", f"{how} (numba {metadata.version('numba')})")
    _examine_gpu(findings)
    folders = [f"{folder.path} (from {folder.source})" for folder in choice_folders(split_search_path(words)[1])]
    findings.add("own choices", ", ".join(folders) or "none")
    compose = composer.Composer(words)
    config = compose(words).config
    _examine_folder("output_dir", Path(config.output_dir).expanduser(), findings)
    _examine_folder("cache_dir", letor.expand(config.cache_dir), findings)
    _examine_datasets(letor.expand(config.data_dir), compose.catalogue, findings)


def _examine_gpu(findings: Findings) -> None:
    """Find which GPUs there are, when device=auto takes one, and whether loops can be compiled for it."""
    import torch

    from ol2r_cli import device

    devices = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    gpus = ", ".join(f"{gpu.name} ({gpu.total_memory / 2**30:.0f} GiB)" for gpu in devices)
    built = torch.version.cuda or torch.version.hip
    why = f"is built for {built}, and finds no driver or no GPU" if built else "is built for the CPU alone"
    findings.add("CUDA", f"{built}: {gpus}" if gpus else f"none: torch {torch.__version__} {why}")
    if gpus:
        one_step, history = device.ONE_STEP.replicas_of(ROUNDS), device.HISTORY.replicas_of(ROUNDS)
        linear = f"and with T = {ROUNDS:,} from {history} of PairRank and {one_step} of PDGD; else the CPU"
        findings.add("device=auto", f"a GPU from {device.NETWORKS.replicas} replicas of a network on, {linear}")
    findings.add("numba-cuda", _numba_cuda(bool(gpus), findings.notes))


def _examine_folder(setting: str, path: Path, findings: Findings) -> None:
    """Find how much room a folder has that `ol2r run` writes to, and whether it can be written and locked."""
    folder = next(place for place in (path.absolute(), *path.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(folder).free
    missing = "" if path.is_dir() else ", does not exist yet"
    findings.add(setting, f"{path} ({byte_size(free)} free{missing})")
    if free < LITTLE_DISK:
        findings.notes.append(f"disk: {byte_size(free)} free: type {setting}=DIR to write elsewhere than {folder}")
    try:
        scratch = tempfile.TemporaryDirectory(dir=folder, prefix=".ol2r-doctor-")
    except OSError as error:
        findings.broken.append(f"{setting}: {folder} must be writable ({error.strerror}): type {setting}=DIR")
        return
    file = Path(scratch.name, ".lock")
    locks = False
    with scratch, suppress(OSError), Lock(file):
        locks = is_held(file)
    if setting == "output_dir" and not locks:
        findings.notes.append("locks: none in output_dir: start every run in one process only")


def _examine_datasets(root: Path, catalogue: Catalogue, findings: Findings) -> None:
    """Find the datasets below the folder of data."""
    from ol2r_cli.dataset import letor

    findings.add("data_dir", root)
    before = len(findings.rows)
    for name, choice in catalogue.choices["dataset"].items():
        values = choice.values
        files = {}
        for split, templates in values.get("files", {}).items():
            files[split] = [template.format(set=values["set"]) for template in templates]
        places = [root / folder for folder in values.get("folders", ())]
        try:
            location = letor.locate(places, files, values.get("fold", 1))
        except ValueError as error:
            findings.add(name, error)
            continue
        if location:
            findings.add(name, location.root)
    if len(findings.rows) == before:
        findings.notes.append(
            "data_dir: no dataset there: type data_dir=DIR or set OL2R_DATA; dataset=synthetic needs none"
        )


def _numba_cuda(has_gpu: bool, notes: list[str]) -> str:
    """Return whether loops compile for a GPU, and whether one plays them as the CPU does; append a note if not."""
    of_gpu, reason = launching(), loops.gpu_is_missing()
    if reason or of_gpu is None:
        if has_gpu:
            notes.append(f"GPU: {reason}, and a GPU needs it for linear rankers: type: pip install 'ol2r[gpu]'")
        return f"none: {reason}; only a GPU needs it"
    import torch

    version = metadata.version("numba-cuda")
    try:
        of_gpu.try_loops(torch.device("cuda") if has_gpu else None)
    except Exception as error:
        install = "type: pip install --force-reinstall 'ol2r[gpu]'"
        notes.append(f"GPU: numba-cuda {version} does not work ({error_line(error)}): {install}")
        return f"{version} does not work"
    return f"{version} compiles loops, " + ("and the GPU plays them as the CPU does" if has_gpu else "for no GPU here")
