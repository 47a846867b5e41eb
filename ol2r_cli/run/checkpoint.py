"""The state of a run on disk, `checkpoint.pt`, from which the same command goes on.

A checkpoint is a nested mapping of tensors and plain values, with the sizes and hashes of the parts of tables that were
written before it. It is replaced atomically, after them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ol2r_cli.formatting import printable
from ol2r_cli.run import CHECKPOINT, TABLES
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import damaged_files, read_checkpoint
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.run.tables import is_part


def save(directory: RunDirectory, state: Mapping[str, Any], fingerprint: str) -> None:
    """Replace the checkpoint of the run with the id `fingerprint`, and remove the parts of tables that only the one
    before had.

    TypeError if `state` contains anything but tensors, numbers, strings, None, and lists, tuples and mappings of them,
    because it could be written but not read.
    """
    _check(state, "state")
    files = {name: record for name, record in directory.files.items() if name in TABLES or is_part(name)}
    content = {"results_version": RESULTS_VERSION, "fingerprint": fingerprint, "files": files, "state": dict(state)}
    directory.write_torch(CHECKPOINT, content)
    directory.remove_parts()


def restore(directory: RunDirectory, fingerprint: str) -> dict[str, Any] | None:
    """The state from which the run with the id `fingerprint` goes on, with its directory as it was then.

    None, with an empty directory, without a checkpoint, and where it or a table was damaged, which is named on stderr
    and not used, because starting from nothing costs only time. ValueError for a sound checkpoint of another run, or of
    another `results_version`.
    """
    saved, problem = None, ""
    try:
        saved = read_checkpoint(directory.path)
    except ValueError as error:
        problem = str(error)
    if saved is not None:
        version, run = saved["results_version"], saved["fingerprint"]
        for what, actual, expected in ("results_version", version, RESULTS_VERSION), ("run", run, fingerprint):
            if actual != expected:
                must = f"{directory / CHECKPOINT} must be of {what} {expected}, got {actual}"
                raise ValueError(f"{must}: type force=true to start afresh")
        problem = next(damaged_files(directory.path, saved["files"]), "")
    if problem:
        print(f"starts afresh: {printable(problem)}", file=sys.stderr)
    if saved is None or problem:
        directory.clear()
        return None
    directory.files = saved["files"]
    directory.remove_parts()
    return saved["state"]


def _check(value: Any, name: str) -> None:
    """TypeError unless `weights_only` can read the value. A number of numpy, for example, is a float but is refused."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check(key, f"a key of {name}")
            _check(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{name}[{index}]")
    elif type(value) not in (bool, int, float, str, type(None)) and not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor or a plain value, got {type(value).__name__}")
