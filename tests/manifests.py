"""Manifests of runs that were never run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ol2r_cli.run.directory import RunDirectory
from ol2r_cli.run.integrity import checksum, file_records


def manifest(status: str, round: int = 0, rounds: int = 100, **more: Any) -> dict[str, Any]:
    """What `run.json` has from the first moment on, with a status."""
    return {
        "status": status,
        "id": "0" * 10,
        "command": "ol2r run",
        "choices": {"dataset": "synthetic", "ranker": "pairrank", "click": "perfect"},
        "dataset": {"name": "synthetic", "fingerprint": "f"},
        "seeds": [0],
        "progress": {"round": round, "rounds": rounds},
        "results_version": 2,
        "files": {},
        **more,
    }


def accept_changes(path: Path) -> None:
    """Record the files of a finished run as they are now, as whoever changes them on purpose can do."""
    content = json.loads((path / "run.json").read_text())
    content["files"] = file_records(RunDirectory(path))
    content["checksum"] = checksum(content)
    RunDirectory(path).write_json("run.json", content)
