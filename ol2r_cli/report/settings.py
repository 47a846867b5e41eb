"""The settings of a run from its `config.yaml`, read fast: the runs of a sweep have most of its text in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.results.identity import NOT_HASHED

FOLD = "dataset.fold"
# What tells no groups apart. The dataset itself does count: not by the place of its files, but see `groups`.
NEVER_COUNT = (NOT_HASHED - {"dataset"}) | {"seed", "replicas", FOLD}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ENTRY = re.compile(r"^(?=\w+:)", re.MULTILINE)  # where an entry of the outermost mapping begins


def read_settings(path: Path) -> dict[str, Any]:
    """The leaves by their name on the command line; whole numbers are the same written 1 or 1.0, as in the run's id.

    Parsing YAML takes milliseconds, a thousand times for a thousand runs. So the text is cut where an entry of the
    outermost mapping begins (`ranker:`, `rounds: 500`), and a piece that was read before is not read again. A text of
    which a piece is no mapping by itself is read as a whole. OSError, YAMLError, or ValueError for what is no mapping.
    """
    text = path.read_bytes().decode()
    pieces = [piece for piece in _ENTRY.split(text) if piece] or [text]
    try:
        return {name: value for piece in pieces for name, value in _leaves(piece).items()}
    except (yaml.YAMLError, ValueError):
        return _leaves(text)


@lru_cache(maxsize=4096)
def _leaves(text: str) -> dict[str, Any]:
    tree = yaml.load(text, _Loader)
    if not isinstance(tree, dict):
        raise ValueError(f"a configuration must be a mapping, got {type(tree).__name__}")
    return dict(_dotted(tree))


def _dotted(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(maxsize=4096)
def counts(name: str) -> bool:
    """Whether a setting tells groups apart; the dataset's own copies of data_dir and cache_dir no more than these."""
    parts = name.split(".")
    above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return not above & NEVER_COUNT and not (parts[0] == "dataset" and parts[-1] in NOT_HASHED)
