"""How far a run is, seen from outside: from the files it writes while it goes."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ol2r_cli.results.manifest import read_manifest

_LAST = 4096  # bytes at the end of log.txt, which hold the last evaluation


@dataclass(frozen=True)
class Glimpse:
    """Rounds done; rounds per second and seconds to go, None while unknown; the last test NDCG@10, None before one."""

    round: int = 0
    speed: float | None = None
    left: float | None = None
    ndcg: float | None = None


def glimpse(directory: Path) -> Glimpse:
    """Of the run in a directory; all zero and None before it has begun."""
    try:
        manifest = read_manifest(directory) or {}
    except (ValueError, OSError):
        return Glimpse()
    progress, speed = manifest.get("progress"), manifest.get("rounds_per_second")
    if not progress or manifest.get("status") not in ("running", "finished"):  # what an earlier sitting has left
        return Glimpse()
    left = (progress["rounds"] - progress["round"]) / speed if speed else None
    return Glimpse(progress["round"], speed, left, _last_ndcg(directory / "log.txt"))


def _last_ndcg(log: Path) -> float | None:
    with suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST))
        found = re.findall(rb"test NDCG@10 ([\d.]+)", file.read())
        return float(found[-1]) if found else None
    return None
