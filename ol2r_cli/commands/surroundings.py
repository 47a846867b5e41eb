"""The folders and the terminal that `ol2r doctor` looks at; nothing is left behind."""

from __future__ import annotations

import fcntl
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.commands.finding import Finding

if TYPE_CHECKING:
    from omegaconf import DictConfig

_NOT_FOUND = "not found"
LITTLE_DISK = 2**30  # bytes; runs take megabytes, parsed datasets up to gigabytes


def data(config: DictConfig, overrides: list[str]) -> Iterator[Finding]:
    """Where each named dataset lies below data_dir, or the names it was looked for by."""
    from ol2r_cli.catalogue import Catalogue
    from ol2r_cli.compose import build, compose, own_folders
    from ol2r_cli.dataset.letor import Letor
    from ol2r_cli.dataset.locate import expand

    rest, own = own_folders(overrides)
    below = [word for word in rest if not word.startswith(("dataset", "experiment"))]
    below += [f"--config-dir={folder}" for folder in own]
    sources = {
        name: build(compose([*below, f"dataset={name}"]).dataset)
        for name, choice in Catalogue(own).choices["dataset"].items()
        if choice.values.get("folders")
    }
    findings = [_dataset(name, source) for name, source in sources.items() if isinstance(source, Letor)]
    nothing = all(finding.value.startswith(_NOT_FOUND) for finding in findings)
    hint = "no dataset there: type data_dir=DIR or set OL2R_DATA; dataset=synthetic needs none" if nothing else ""
    yield Finding("data", "data_dir", _existing(expand(config.data_dir)), hint)
    yield from findings


def _dataset(name: str, source: Any) -> Finding:
    try:
        location = source.locate()
    except ValueError as error:
        looked = f"{_NOT_FOUND}: looked for {', '.join(source.folders)}"
        return Finding("", name, str(error) if str(error).startswith("dataset.fold") else looked)
    folds = len(list(location.root.glob("Fold[0-9]*")))
    return Finding("", name, f"{location.root}" + (f" ({folds} fold{'s' * (folds > 1)})" if folds else ""))


def disk(config: DictConfig) -> Iterator[Finding]:
    """Whether the folders of a run can be written, and what room there is."""
    from ol2r_cli.dataset.locate import expand

    outputs, cache = Path(config.output_dir).expanduser(), expand(config.cache_dir)
    there = _nearest_existing(outputs)
    free = shutil.disk_usage(there).free
    full = f"type output_dir=DIR to write elsewhere than {there}" if free < LITTLE_DISK else ""
    yield Finding("disk", "output_dir", _existing(outputs), _unusable(there, "output_dir"), needed=True)
    yield Finding("", "free there", _bytes(free), full)
    files = [file for file in cache.rglob("*") if file.is_file()] if cache.is_dir() else []
    size = f"{_existing(cache)}, {_bytes(sum(file.stat().st_size for file in files))}" if files else _existing(cache)
    yield Finding("", "cache_dir", size, _unusable(_nearest_existing(cache), "cache_dir"), needed=True)


def _unusable(folder: Path, setting: str) -> str:
    """Empty when a file in the folder can be written and locked."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"ol2r")
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return f"{folder} must be writable and able to lock files ({error.strerror}): type {setting}=DIR"
    return ""


def _nearest_existing(path: Path) -> Path:
    """The folder itself, or the one it would be made in."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _existing(path: Path) -> str:
    return str(path) if path.is_dir() else f"{path} (does not exist yet)"


def _bytes(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.1f} MiB"


def terminal() -> Iterator[Finding]:
    """How wide, and whether in colour; what is piped on is plain."""
    kind = "a terminal" if sys.stdout.isatty() else "no terminal: plain lines, progress every 30 s"
    yield Finding("terminal", "output is", f"{kind}, {shutil.get_terminal_size().columns} columns")
    if sys.stdout.isatty():
        try:
            from rich.console import Console
        except ImportError:  # reported with the versions
            return
        yield Finding("", "colours", Console().color_system or "none")
