"""The state of a run on disk, `checkpoint.pt`, from which the same command goes on.

A checkpoint is a nested mapping of tensors and plain values. It is replaced atomically and read with
`weights_only=True`, so that reading it never executes code from the file.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor

from ol2r_cli.formatting import error_line
from ol2r_cli.run.directory import CHECKPOINT, RunDirectory
from ol2r_cli.run.identity import RESULTS_VERSION

_PLAIN = (bool, int, float, str, type(None))
# The errors that zipfile and torch raise for a damaged file, and for a file that is not a checkpoint.
_DAMAGE = (BadZipFile, OSError, EOFError, RuntimeError, LookupError, ValueError, TypeError, pickle.UnpicklingError)


def save(directory: RunDirectory, state: Mapping[str, Any], fingerprint: str) -> None:
    """Replace the checkpoint. `fingerprint` is the id of the run that the state belongs to.

    TypeError if `state` contains anything but tensors, numbers, strings, None, and lists, tuples and mappings of them,
    because it could be written but not read.
    """
    _check(state, "state")
    content = {"results_version": RESULTS_VERSION, "fingerprint": fingerprint, "state": dict(state)}
    directory.write_torch(CHECKPOINT, content)


def load(directory: RunDirectory, fingerprint: str) -> dict[str, Any] | None:
    """The state, with its tensors on the CPU; None without a checkpoint that can be read.

    A damaged file is named on stderr and ignored, because starting from nothing costs only time. ValueError for a
    sound checkpoint of another run, or of another `results_version`.
    """
    try:
        with ZipFile(directory / CHECKPOINT) as archive:  # torch does not verify the checksums of its own format
            if (damaged := archive.testzip()) is not None:
                raise BadZipFile(f"wrong checksum of {damaged}")
        content = torch.load(directory / CHECKPOINT, map_location="cpu", weights_only=True)
        version, owner, state = content["results_version"], content["fingerprint"], content["state"]
    except FileNotFoundError:
        return None
    except _DAMAGE as error:
        reason = error_line(error)[:200]
        print(f"starts afresh: {directory / CHECKPOINT} cannot be read ({reason})", file=sys.stderr)
        return None
    for what, actual, expected in (("results_version", version, RESULTS_VERSION), ("run", owner, fingerprint)):
        if actual != expected:
            raise ValueError(
                f"{directory / CHECKPOINT} must be of {what} {expected}, got {actual}: type force=true to start afresh"
            )
    return state


def remove(directory: RunDirectory) -> None:
    """Remove the checkpoint, if there is one."""
    (directory / CHECKPOINT).unlink(missing_ok=True)


def _check(value: Any, name: str) -> None:
    """TypeError unless `weights_only` can read the value. A number of numpy, for example, is a float but is refused."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check(key, f"a key of {name}")
            _check(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{name}[{index}]")
    elif type(value) not in _PLAIN and not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor or a plain value, got {type(value).__name__}")
