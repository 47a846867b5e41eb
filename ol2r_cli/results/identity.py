"""Which run is which: a hash of everything that decides the numbers, and the folder that follows from it.

Asking for the same experiment again, alone or within a sweep, leads to the same folder; any setting that could change a
result leads to another. Where and how fast a run is computed does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS_VERSION = 2  # raised by every change that alters results, with old and new numbers in CHANGELOG.md

# Settings by their dotted name. All others are hashed, so that a new setting is never overlooked.
NOT_HASHED = frozenset(
    {
        "force",
        "output_dir",
        "data_dir",
        "cache_dir",
        "ranker.cache_dir",
        "device._target_",
        "device.name",
        "device.threads",
        "device.compile",
        "checkpoint_every",
        "checkpoint_rounds",
        "keep_checkpoint",
        "log_level",
        "log_every",
        "progress",
        "launcher",
        "hydra",
        "dataset",  # the fingerprint stands for it: the same files count as the same wherever they lie
    }
)


def identity(settings: Mapping[str, Any], fingerprint: str) -> str:
    """The run id: the first 10 hex digits of a sha256 over the canonical JSON of what decides the results.

    `settings` is the resolved configuration as plain containers (ranker, click, exploration, fairness, seed, replicas,
    rounds, positions, evaluation settings, device.dtype, ...), less `NOT_HASHED`; `fingerprint` is the dataset's.
    The order of keys does not matter, nor whether a whole number is written 1 or 1.0.
    """
    decisive = {"settings": _decisive(settings), "dataset": fingerprint, "results_version": RESULTS_VERSION}
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _decisive(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        prefix = f"{name}." if name else ""
        below = ((key, f"{prefix}{key}") for key in value)
        return {str(key): _decisive(value[key], full) for key, full in below if full not in NOT_HASHED}
    if isinstance(value, list | tuple):
        return [_decisive(item, name) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} must be a plain value (resolve the configuration first), got {type(value).__name__}")


def run_path(output_dir: str | Path, choices: Mapping[str, str], id: str) -> Path:
    """`<output_dir>/<dataset>/<ranker>-<click>[-<fairness>]-<id>`.

    `choices` maps a group to the choice made in it: dataset, ranker, click and, unless it is none, fairness.
    """
    parts = [choices["ranker"], choices["click"]]
    if choices.get("fairness", "none") != "none":
        parts.append(choices["fairness"])
    dataset, run = (name.replace("/", "_") for name in (choices["dataset"], "-".join([*parts, id])))
    return Path(output_dir).expanduser() / dataset / run
