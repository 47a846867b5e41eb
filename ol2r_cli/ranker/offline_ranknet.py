"""The upper line of the plots, and the direction of the cosine trace: RankNet trained offline on the true labels."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.interfaces import Oracle, Sizes
from ol2r_cli.learning.offline import fit_ranknet
from ol2r_cli.ranker.linear import LinearRanker
from ol2r_cli.shapes import Float

VERSION = 1  # of the fit: raised when its numbers change
WORTH = 100_000  # feature values and pairs of documents; a fit to fewer takes less time than a file


class OfflineRankNet(LinearRanker):
    """A linear RankNet, fitted to the true labels of all training queries before the first round; it never learns.

    `l2` > 0 is lambda, per pair: mean cross-entropy + l2/2 |theta|^2. The weights are kept in `cache_dir`, by dataset,
    labels and settings, and fitted once.
    """

    needs_labels = True

    theta: Tensor

    def __init__(self, l2: float, cache_dir: str):
        super().__init__()
        if not l2 > 0:
            raise ValueError(f"ranker.l2 must be above 0, got {l2}")
        self.l2, self.folder = float(l2), Path(os.path.expandvars(cache_dir)).expanduser() / "offline"

    def setup(self, sizes: Sizes, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or fetch what was fitted before; all replicas share it."""
        if oracle is None:
            raise ValueError("ranker=offline_ranknet needs the labels of the dataset")
        theta = self._weights(features, oracle)
        self.register_buffer("theta", theta.to(sizes.device, sizes.dtype).expand(sizes.replicas, -1).clone())

    def weights(self) -> Float[Tensor, "B N F"]:
        """One member: theta."""
        return self.theta[:, None]

    def _weights(self, features: Float[Tensor, "N F"], oracle: Oracle) -> Float[Tensor, "F"]:
        def fit() -> Tensor:
            return fit_ranknet(features, oracle, self.l2)

        work = int((oracle.length * (oracle.length + features.shape[1])).sum())
        return fit() if work < WORTH else _kept(self.folder / f"{self._key(features, oracle)}.npy", fit)

    def _key(self, features: Float[Tensor, "N F"], oracle: Oracle) -> str:
        """sha256 of all that decides the weights. The labels are hashed besides the fingerprint, which does not
        cover them where a dataset was made by hand."""
        text = json.dumps([VERSION, oracle.fingerprint, list(features.shape), self.l2])
        key = hashlib.sha256(text.encode())
        for part in oracle.start, oracle.length, oracle.labels:
            key.update(part.numpy().tobytes())
        return key.hexdigest()


def _kept(file: Path, fit: Callable[[], Tensor]) -> Float[Tensor, "F"]:
    """What is in the file; where it is absent or damaged, it is fitted and written, by one process at a time."""
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


def _write(file: Path, theta: Float[Tensor, "F"]) -> None:
    """An array as numpy saves it, and its sha256 behind it; under another name first, so that the file is whole."""
    content = io.BytesIO()
    np.save(content, theta.numpy())
    partial = file.with_suffix(".partial")
    partial.write_bytes(content.getvalue() + hashlib.sha256(content.getvalue()).digest())
    partial.replace(file)


def _read(file: Path) -> Float[Tensor, "F"] | None:
    """The array, or None if there is none whose sha256 stands behind it."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    array, checksum = content[:-32], content[-32:]
    return torch.from_numpy(np.load(io.BytesIO(array))) if hashlib.sha256(array).digest() == checksum else None
