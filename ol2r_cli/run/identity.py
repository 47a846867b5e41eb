"""Run ids: a hash of everything that decides the results, and the run directory that is named after it.

The same experiment has the same directory, alone and in a sweep. Every setting that could change a result changes the
directory. Settings that only decide where and how fast a run is computed do not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ol2r_cli.config.moved_classes import MOVED_FROM, MOVED_TO

RESULTS_VERSION = 4  # raised by every change that alters results, with old and new numbers in CHANGELOG.md

# Settings by their dotted name. All others are hashed, so that a new setting cannot be forgotten.
NOT_HASHED = frozenset(
    {
        *("force", "note", "output_dir", "data_dir", "cache_dir", "ranker.cache_dir", "launcher", "hydra"),
        *("device._target_", "device.name", "device.threads", "device.compile", "progress", "log_level", "log_every"),
        *("checkpoint_every", "checkpoint_rounds", "keep_checkpoint"),
        "dataset",  # its fingerprint is hashed instead: the same data in another folder are the same data
        "measures",  # the node `measure` is hashed instead, where `trace_regret` and `trace_blocks` do not say it all
    }
)
# The measures of a default run. `trace_regret` and `trace_blocks`, which are hashed, say whether these two are taken.
STANDARD_MEASURES = frozenset({"ndcg", "regret", "blocks", "unfairness"})
# Settings that earlier versions did not have, with the values that do as those versions did. Their ids are unchanged.
ADDED: Mapping[str, Any] = {
    "evaluate_rounds": "even",
    "intent": {"_target_": "ol2r_cli.intent.schedules.NoChange"},
    "ranker.projection": "none",
    "ranker.document_space": {"below": 2, "earlier": 10, "normalise": True},
    "ranker.window": None,
    "ranker.discount": 1.0,
}
_DISCOUNT = 0.9995  # of the measure ndcg in a default run, which had no settings in earlier versions
_ALWAYS = STANDARD_MEASURES - {"regret", "blocks"}


def identity(settings: Mapping[str, Any], fingerprint: str, code: Mapping[str, str]) -> str:
    """The run id: the first 10 hex digits of a sha256 over the canonical JSON of everything that decides the results.

    `settings` is the resolved configuration in plain containers, of which `NOT_HASHED` is left out; `fingerprint` is
    that of the dataset; `code` has the hashes of the user's own code (`run/code.py`), and is mostly empty. The
    order of keys does not matter, and 1 and 1.0 are the same. TypeError for a setting that is not a plain value.
    """
    decisive = {name: value for name, value in settings.items() if name != "measure"}
    nodes = settings.get("measure") or {}
    as_usual = (nodes.get("ndcg") or {}).get("discount", _DISCOUNT) == _DISCOUNT
    usual = STANDARD_MEASURES if as_usual else STANDARD_MEASURES - {"ndcg"}
    others = {name: node for name, node in nodes.items() if name not in usual}
    left_out = sorted(_ALWAYS - (settings.get("measure", dict.fromkeys(_ALWAYS)).keys()))
    if others or left_out:
        decisive["measure"] = others | dict.fromkeys(left_out)
    content = {"settings": _decisive(decisive), "dataset": fingerprint, "results_version": RESULTS_VERSION}
    if code:
        content["code"] = dict(code)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _decisive(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        prefix = f"{name}." if name else ""
        names = {key: f"{prefix}{key}" for key in value}
        return {
            str(key): _decisive(value[key], full)
            for key, full in names.items()
            if full not in NOT_HASHED and not (full in ADDED and value[key] == ADDED[full])
        }
    if isinstance(value, list | tuple):
        return [_decisive(item, name) for item in value]
    if isinstance(value, str) and name.endswith("._target_"):
        present = MOVED_TO.get(value, value)
        return MOVED_FROM.get(present, present)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} must be a plain value (resolve the configuration first), got {type(value).__name__}")


def run_path(output_dir: str | Path, choices: Mapping[str, str], id: str) -> Path:
    """`<output_dir>/<dataset>/<ranker>-<click>[-<fairness>][-<intent>]-<id>`.

    `choices` maps the groups dataset, ranker, click, fairness and intent to their choices; the last two may be absent.
    """
    parts = [choices["ranker"], choices["click"]]
    parts += [choices[group] for group in ("fairness", "intent") if choices.get(group, "none") != "none"]
    dataset, run = (name.replace("/", "_") for name in (choices["dataset"], "-".join([*parts, id])))
    return Path(os.path.expanduser(output_dir)) / dataset / run
