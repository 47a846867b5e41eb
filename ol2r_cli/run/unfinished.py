"""Unfinished runs of the same settings and other code, which must not be forgotten when the code has changed.

Such a run has another id, and so another directory. Runs with code of their own leave a mark in the folder `.code`
beside them until they finish: an empty file that is named after the id without code and the run. So they are found
without reading the manifests of all runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ol2r_cli.run.code_versions import changed_files, code_files
from ol2r_cli.run.directory import CHECKPOINT, MANIFEST, RunDirectory
from ol2r_cli.run.run_state import RunState, read_state

_MARKS = ".code"  # the folder, beside the runs


def mark(directory: RunDirectory, base: str) -> None:
    """Say that there is a run in `directory` whose id without code would be `base`."""
    file = _mark(directory, base)
    file.parent.mkdir(exist_ok=True)
    file.touch()


def unmark(directory: RunDirectory, base: str) -> None:
    """Remove the mark, when the run has finished."""
    with suppress(OSError):
        _mark(directory, base).unlink()
        _mark(directory, base).parent.rmdir()


def _mark(directory: RunDirectory, base: str) -> Path:
    return directory.path.parent / _MARKS / f"{base}-{directory.path.name}"


def check_other_code(directory: RunDirectory, base: str, code: Mapping[str, str]) -> None:
    """ValueError if a run of the same settings and other code has stopped in the middle, so that it would be left.

    `base` is the id without code, `code` the hashes of the present files. A run that has begun in `directory` itself
    goes on.
    """
    if (directory / MANIFEST).exists():
        return
    for state in _stopped(directory, base):
        then = code_files(state.manifest)
        changed = changed_files(then, code)
        if not changed:
            continue
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ValueError(
            f"{state.path} stands at round {state.round} of {state.rounds} with another {changed[0]}{more}: "
            f"type force=true to run the changed code from round 1, put the file back to resume that run, or remove "
            "its directory"
        )


def _stopped(directory: RunDirectory, base: str) -> Iterator[RunState]:
    """The runs with this id without code that could be resumed from a checkpoint."""
    parent, label = directory.path.parent, directory.path.name.rpartition("-")[0]
    marks = sorted((parent / _MARKS).glob(f"{base}-*"))
    for name in [f"{label}-{base}", *(mark.name.partition("-")[2] for mark in marks)]:
        path = parent / name
        if path == directory.path or name.rpartition("-")[0] != label or not (path / CHECKPOINT).is_file():
            continue
        state = read_state(path)
        if state is not None and state.state in ("interrupted", "killed", "failed"):
            yield state
