"""What is searched, by which two commands know whether they work on the same study."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ol2r_cli.results.identity import NOT_HASHED
from ol2r_cli.search.space import Space

FOLDER = ".search"  # below output_dir


def plan(space: Space, metric: str, prune: bool, seed: int) -> dict[str, Any]:
    """All that decides which trials there are; folders and the like, which decide nothing, are left out."""
    told = [word for word in space.fixed if word.partition("=")[0] not in NOT_HASHED - {"dataset"}]
    ranges = sorted(map(repr, space.ranges))
    return {"settings": sorted(told), "ranges": ranges, "metric": metric, "prune": prune, "seed": seed}


def usual_name(plan: dict[str, Any]) -> str:
    """Ten hex digits, the same for the same plan."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:10]


def study_folder(output_dir: str, name: str) -> Path:
    """Where a study lies; ValueError for a name that is no name of a folder."""
    if not name or "/" in name or name.startswith("."):
        raise ValueError(f"--name must be the name of a folder, without / and not beginning with a dot, got {name!r}")
    return Path(output_dir).expanduser() / FOLDER / name
