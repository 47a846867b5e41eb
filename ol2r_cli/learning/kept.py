"""What an offline ranker has fitted, kept on disk by all that decides it, so that it is fitted once."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.interfaces import Oracle
from ol2r_cli.shapes import Float


def fit_file(
    cache_dir: str, features: Float[Tensor, "N F"], oracle: Oracle, version: int | str, *settings: Any
) -> Path:
    """Where a fit with these settings to these labels is kept: <cache_dir>/offline/<sha256>.npy.

    `version` changes when the numbers of the fit do. The labels are hashed besides the fingerprint, which does not
    cover them where a dataset was made by hand.
    """
    text = json.dumps([version, oracle.fingerprint, list(features.shape), *settings], default=repr)
    key = hashlib.sha256(text.encode())
    for part in oracle.start, oracle.length, oracle.labels:
        key.update(part.numpy().tobytes())
    return Path(os.path.expandvars(cache_dir)).expanduser() / "offline" / f"{key.hexdigest()}.npy"


def kept(file: Path, fit: Callable[[], Tensor]) -> Float[Tensor, "P"]:
    """What is in the file; where it is absent or damaged, it is fitted and written, by one process at a time.

    ValueError where the folder cannot be written. A fit that is interrupted leaves nothing but its lock, released.
    """
    theta = _read(file)
    if theta is not None:
        return theta
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released by the operating system when a process dies
            theta = _read(file)
            if theta is None:
                theta = fit()
                _write(file, theta)
    except OSError as problem:
        raise ValueError(
            f"cache_dir must be a writable folder with space left, got {file.parents[1]} ({problem}); "
            "type cache_dir=FOLDER"
        ) from problem
    return theta


def _write(file: Path, theta: Float[Tensor, "P"]) -> None:
    """An array as numpy saves it, and its sha256 behind it; under another name first, so that the file is whole."""
    content = io.BytesIO()
    np.save(content, theta.numpy())
    partial = file.with_suffix(".partial")
    partial.write_bytes(content.getvalue() + hashlib.sha256(content.getvalue()).digest())
    partial.replace(file)


def _read(file: Path) -> Float[Tensor, "P"] | None:
    """The array, or None if there is none whose sha256 stands behind it."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    array, checksum = content[:-32], content[-32:]
    return torch.from_numpy(np.load(io.BytesIO(array))) if hashlib.sha256(array).digest() == checksum else None
