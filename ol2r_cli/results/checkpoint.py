"""The state of a run on disk: `checkpoint.pt`, a nested mapping of tensors and plain values.

Written as a whole or not at all, read with `weights_only=True`, hence without running anything that is in the file.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.identity import RESULTS_VERSION

CHECKPOINT = "checkpoint.pt"
_PLAIN = (bool, int, float, str, type(None))
# What a file that is not, or no longer, a checkpoint makes zipfile and torch raise.
_DAMAGE = (BadZipFile, OSError, EOFError, RuntimeError, LookupError, ValueError, TypeError, pickle.UnpicklingError)
_log = logging.getLogger(__name__)


def save(directory: RunDirectory, state: Mapping[str, Any], fingerprint: str) -> None:
    """Replace the checkpoint. `fingerprint` says what the state belongs to: the run's id.

    TypeError when `state` holds anything but tensors, numbers, strings, None, and lists, tuples and mappings of them:
    it could be written but not read back.
    """
    _check(state, "state")
    content = {"results_version": RESULTS_VERSION, "fingerprint": fingerprint, "state": dict(state)}
    directory.write_torch(CHECKPOINT, content)


def load(directory: RunDirectory, fingerprint: str) -> dict[str, Any] | None:
    """The state, with its tensors on the CPU; None when there is no checkpoint to go on from.

    A file that cannot be read is reported as a warning and ignored, because the run can start afresh without loss of
    anything but time. A whole file of another run, or of another version of the results, is a ValueError.
    """
    try:
        with ZipFile(directory / CHECKPOINT) as archive:  # torch does not look at the check sums of its own format
            if (damaged := archive.testzip()) is not None:
                raise BadZipFile(f"wrong check sum of {damaged}")
        content = torch.load(directory / CHECKPOINT, map_location="cpu", weights_only=True)
        version, owner, state = content["results_version"], content["fingerprint"], content["state"]
    except FileNotFoundError:
        return None
    except _DAMAGE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        _log.warning("%s cannot be read, the run starts afresh (%s)", directory / CHECKPOINT, reason)
        return None
    for what, found, expected in (("results_version", version, RESULTS_VERSION), ("run", owner, fingerprint)):
        if found != expected:
            raise ValueError(
                f"{directory / CHECKPOINT} must be of {what} {expected}, got {found}: type force=true to start afresh"
            )
    return state


def remove(directory: RunDirectory) -> None:
    """Take the checkpoint away, as after success."""
    (directory / CHECKPOINT).unlink(missing_ok=True)


def _check(value: Any, where: str) -> None:
    """Exactly the types that `weights_only` reads: a numpy number, for one, is a float too but cannot be read back."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check(key, f"a key of {where}")
            _check(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            _check(item, f"{where}[{place}]")
    elif type(value) not in _PLAIN and not isinstance(value, Tensor):
        raise TypeError(f"{where} must be a tensor or a plain value, got {type(value).__name__}")
