"""What a run is: its id, a hash of everything that decides the results, and the directory that is named after it.

The same experiment has the same directory, alone and in a sweep. Every setting that could change a result changes the
directory. Settings that only decide where and how fast a run is computed do not. The hashes of the user's own code
(`own_code.py`), and of files that roles read, are part of the id: an edited ranker is another run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.config.ranges import with_whole_numbers
from ol2r_cli.plugins import added_lines

RESULTS_VERSION = 6  # raised by every change that alters results, with old and new numbers in CHANGELOG.md

# Settings without effect on results, by their dotted name. All others are hashed: a new setting cannot be forgotten.
NOT_HASHED = frozenset(
    {
        *("force", "note", "output_dir", "data_dir", "cache_dir", "ranker.cache_dir", "launcher"),
        *("device._target_", "device.name", "device.threads"),
        *("checkpoint_every", "checkpoint_rounds", "keep_checkpoint"),
    }
)
# Settings that are hashed unless they have this value, with which a run is as it was before there was the setting.
# So are settings that plug-ins add, but for those below.
HASHED_UNLESS = {"model.parent_factors": True}
# Settings of `ol2r run` that are always hashed, with the values of a run that has nothing of them: ids have them also
# where no plug-in adds them.
HASHED_ALWAYS: Mapping[str, Any] = {
    "start": {"run": None, "labels": None, "noise": 0.0},
    "trace_cosine": False,
    "block_rounds": [],
    "save_interactions": False,
}
# Settings for which something else is hashed: for the dataset its fingerprint, since the same data in another folder
# are the same data, and for the list of measures the settings of each, in `measure`.
HASHED_OTHERWISE = frozenset({"dataset", "measures"})


def identity(settings: Mapping[str, Any], fingerprint: str, code: Mapping[str, str]) -> str:
    """Return the run id: the first 10 hex digits of a sha256 over the canonical JSON of all that decides the results.

    `settings` is the resolved configuration in plain containers, of which `NOT_HASHED`, `HASHED_OTHERWISE` and
    `HASHED_UNLESS` are left out; `fingerprint` is that of the dataset; `code` has the hashes of the user's own code
    (`own_code`), and is mostly empty. The order of keys does not matter, and 1 and 1.0 are the same. TypeError for a
    setting that is not a plain value.
    """
    content = {
        "settings": _decisive(settings),
        "dataset": fingerprint,
        "code": dict(code),
        "results_version": RESULTS_VERSION,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _decisive(value: Any, name: str = "") -> Any:
    """Return the part of the settings, or of the setting `name`, that decides the results, as plain values."""
    if isinstance(value, Mapping):
        by_name = {f"{name}.{key}" if name else str(key): key for key in value}
        known = [full for full in by_name if full not in NOT_HASHED | HASHED_OTHERWISE]
        unless = HASHED_UNLESS | added_values()
        decisive = [full for full in known if full in HASHED_ALWAYS or unless.get(full, ...) != value[by_name[full]]]
        return {str(by_name[full]): _decisive(value[by_name[full]], full) for full in decisive}
    if isinstance(value, list | tuple):
        return [_decisive(item, name) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return with_whole_numbers(value)
    raise TypeError(f"{name} must be a plain value (resolve the configuration first), got {type(value).__name__}")


@cache
def added_values() -> dict[str, Any]:
    """Return the settings that plug-ins add to those of a run, with the values of a run that has nothing of them."""
    return {setting: yaml.safe_load(line)[setting] for setting, line in added_lines().items()}


def run_path(output_dir: str | Path, choices: Mapping[str, str], id: str) -> Path:
    """Return `<output_dir>/<dataset>/<ranker>-<click>[-<fairness>][-<intent>]-<id>`.

    `choices` maps the groups dataset, ranker, click, fairness and intent to their choices; the last two may be absent.
    """
    parts = [choices["ranker"], choices["click"]]
    parts += [choices[group] for group in ("fairness", "intent") if choices.get(group, "none") != "none"]
    dataset, run = (name.replace("/", "_") for name in (choices["dataset"], "-".join([*parts, id])))
    return Path(os.path.expanduser(output_dir)) / dataset / run
