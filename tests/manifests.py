"""Manifests of runs that were never run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ol2r_cli.run import RESULTS
from ol2r_cli.run.run import checksum, sha256
from ol2r_cli.run.store import RunDirectory


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


def on_disk(path: Path) -> dict[str, Any]:
    """What `run.json` of a run says."""
    return json.loads((path / "run.json").read_text())


def change(path: Path, **changes: object):
    """Let `run.json` say something else."""
    (path / "run.json").write_text(json.dumps(on_disk(path) | changes))


def accept_changes(path: Path):
    """Record the files of a finished run as they are now, as whoever changes them on purpose can do."""
    content = on_disk(path)
    files = [path / name for name in {*RESULTS, *content["files"]} if (path / name).is_file()]
    content["files"] = {file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)} for file in files}
    content["checksum"] = checksum(content)
    RunDirectory(path).write_json("run.json", content)


@contextmanager
def edited_summary(path: Path) -> Iterator[dict[str, Any]]:
    """The content of summary.json, which is written and recorded at the end of the block."""
    content = json.loads((path / "summary.json").read_text())
    yield content
    RunDirectory(path).write_json("summary.json", content)
    accept_changes(path)
