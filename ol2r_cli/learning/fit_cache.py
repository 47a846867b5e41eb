"""Fits of offline rankers, kept on disk under everything that decides them, so that each is made once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from ol2r_cli.dataset.cache import Cache, code_hash
from ol2r_cli.interfaces import Oracle
from ol2r_cli.tensor.shapes import Float


def fit_key(features: Float[Tensor, "N F"], oracle: Oracle, *settings: Any) -> str:
    """sha256 of a fit with these settings to these labels, by the present code of ol2r and of libraries.

    The labels are hashed besides the fingerprint, which does not cover them where a dataset was made by hand.
    """
    libraries = [library.__version__ for library in (np, scipy, torch)]
    code = code_hash("dataset", "learning", "metrics", "ranker", "tensor"), libraries
    text = json.dumps([code, oracle.fingerprint, list(features.shape), *settings], default=repr)
    key = hashlib.sha256(text.encode())
    for part in oracle.start, oracle.length, oracle.labels:
        key.update(part.numpy().tobytes())
    return key.hexdigest()


def cached_fit(cache_dir: str, key: str, fit: Callable[[], Tensor]) -> Float[Tensor, "P"]:
    """The parameters in <cache_dir>/offline/<key>; where they are absent or damaged, `fit` makes them.

    One process fits while others wait. An interrupted fit leaves only its lock file, released. Raises ValueError when
    the folder cannot be written.
    """

    def build(folder: Path) -> None:
        np.save(folder / "theta.npy", fit().numpy())

    cache = Cache(Path(cache_dir) / "offline", thorough=True)
    return torch.from_numpy(cache.open(key, build)["theta"])
