"""Manifests of runs that were never run."""

from __future__ import annotations

from typing import Any


def manifest(status: str, round: int = 0, rounds: int = 100, **more: Any) -> dict[str, Any]:
    """What `run.json` has from the first moment on, with a status."""
    return {
        "status": status,
        "id": "0" * 10,
        "command": "ol2r run",
        "choices": {"dataset": "synthetic", "ranker": "pairrank", "click": "perfect"},
        "seeds": [0],
        "progress": {"round": round, "rounds": rounds},
        "results_version": 2,
        "files": {},
        **more,
    }
