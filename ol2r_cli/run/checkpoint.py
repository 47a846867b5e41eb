"""The state of a run on disk, `checkpoint.pt`, and going on from it: in the same run, or in a run of more rounds.

A checkpoint is a nested mapping of tensors and plain values. It is replaced atomically and read with
`weights_only=True`, so that reading it never executes code from the file.
"""

from __future__ import annotations

import pickle
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor

from ol2r_cli.formatting import error_line
from ol2r_cli.run.directory import CHECKPOINT, MANIFEST, RunDirectory
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.integrity import DamagedTable
from ol2r_cli.run.manifest import read_manifest, versions
from ol2r_cli.run.tables import BLOCKS, EVALUATION, INTERACTIONS, TRACE

_PLAIN = (bool, int, float, str, type(None))
# The errors that zipfile and torch raise for a damaged file, and for a file that is not a checkpoint.
_DAMAGE = (BadZipFile, OSError, EOFError, RuntimeError, LookupError, ValueError, TypeError, pickle.UnpicklingError)


def save(directory: RunDirectory, state: Mapping[str, Any], fingerprint: str) -> None:
    """Replace the checkpoint. `fingerprint` is the id of the run that the state belongs to.

    TypeError if `state` contains anything but tensors, numbers, strings, None, and lists, tuples and mappings of them,
    because it could be written but not read.
    """
    _check(state, "state")
    content = {"results_version": RESULTS_VERSION, "fingerprint": fingerprint, "state": dict(state)}
    directory.write_torch(CHECKPOINT, content)


def load(directory: RunDirectory, fingerprint: str) -> dict[str, Any] | None:
    """The state, with its tensors on the CPU; None without a checkpoint that can be read.

    A damaged file is named on stderr and ignored, because starting from nothing costs only time. ValueError for a
    sound checkpoint of another run, or of another `results_version`.
    """
    try:
        with ZipFile(directory / CHECKPOINT) as archive:  # torch does not verify the checksums of its own format
            if (damaged := archive.testzip()) is not None:
                raise BadZipFile(f"wrong checksum of {damaged}")
        content = torch.load(directory / CHECKPOINT, map_location="cpu", weights_only=True)
        version, owner, state = content["results_version"], content["fingerprint"], content["state"]
    except FileNotFoundError:
        return None
    except _DAMAGE as error:
        reason = error_line(error)[:200]
        print(f"starts afresh: {directory / CHECKPOINT} cannot be read ({reason})", file=sys.stderr)
        return None
    for what, actual, expected in (("results_version", version, RESULTS_VERSION), ("run", owner, fingerprint)):
        if actual != expected:
            raise ValueError(
                f"{directory / CHECKPOINT} must be of {what} {expected}, got {actual}: type force=true to start afresh"
            )
    return state


def remove(directory: RunDirectory) -> None:
    """Remove the checkpoint, if there is one."""
    (directory / CHECKPOINT).unlink(missing_ok=True)


def _check(value: Any, name: str) -> None:
    """TypeError unless `weights_only` can read the value. A number of numpy, for example, is a float but is refused."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check(key, f"a key of {name}")
            _check(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{name}[{index}]")
    elif type(value) not in _PLAIN and not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor or a plain value, got {type(value).__name__}")


@dataclass(frozen=True)
class ShorterRun:
    """A finished run with the same settings except for a smaller number of rounds."""

    directory: RunDirectory
    manifest: Mapping[str, Any]

    @property
    def rounds(self) -> int:
        """Its number of rounds."""
        return int(self.manifest["progress"]["rounds"])

    @property
    def has_checkpoint(self) -> bool:
        """Whether its checkpoint was kept."""
        return (self.directory / CHECKPOINT).is_file()

    def obstacle(self, device: str, depends_on_rounds: str, tables: Sequence[str]) -> str:
        """Why a run on `device` that goes on from here might differ from an undisturbed one; empty if it cannot differ.

        `depends_on_rounds` is the setting that makes the first rounds depend on the number of rounds, if there is one.
        `tables` are the files whose rows the longer run needs.
        """
        versions_then = self.manifest.get("versions") or {}
        more = [name for name in versions_then if name not in ("ol2r", "python")]
        versions_now = versions(self.manifest.get("engine", "tensors"), more)
        changed = [name for name in versions_now if name != "python" and versions_then.get(name) != versions_now[name]]
        if depends_on_rounds:
            return f"cannot be extended, since {depends_on_rounds} depends on the number of rounds"
        if not self.has_checkpoint:
            return "has no checkpoint: type keep_checkpoint=true with a run that may be extended later"
        for name in tables:
            if not (self.directory / name).is_file():
                return f"has no {name} any more"
        if changed:
            name = changed[0]
            return f"was made with {name} {versions_then.get(name)}, and this is {versions_now[name]}"
        if self.manifest.get("device") != device:
            return f"was made on {self.manifest.get('device')}, and this is {device}"
        return ""


def extend(
    directory: RunDirectory,
    id_with: Callable[[int], str],
    *,
    rounds: int,
    is_evaluated: Callable[[int], bool],
    command: str,
    device: str,
    depends_on_rounds: str = "",
    tables: Sequence[str] = (TRACE.file,),
) -> dict[str, Any] | None:
    """Go on from a shorter run if there is one: copies its files to `directory` and returns its final state.

    Prints on stderr that it does, or why a shorter run cannot be extended; in that case, and without a shorter run, it
    returns None. `id_with` gives the id of the run with a number of rounds, `is_evaluated` tells whether a round is a
    regular evaluation; `depends_on_rounds` and `tables` are those of `ShorterRun.obstacle`. The directory must be
    locked and empty.
    """
    shorter = find_shorter(directory, rounds, id_with)
    if shorter is None:
        return None
    description = f"the run of {shorter.rounds} rounds in {shorter.directory.path}"
    obstacle, state = shorter.obstacle(device, depends_on_rounds, tables), None
    if not obstacle:
        try:
            state = _copy(shorter, directory, id_with(rounds), rounds, is_evaluated, command)
        except DamagedTable:
            directory.clear()
        obstacle = "" if state else "is damaged, or replaced at the moment"
    print(f"starts afresh: {description} {obstacle}" if obstacle else f"goes on from {description}", file=sys.stderr)
    return state


def find_shorter(directory: RunDirectory, rounds: int, id_with: Callable[[int], str]) -> ShorterRun | None:
    """The finished run beside `directory` that differs only in having fewer than `rounds` rounds.

    If there are several, the longest with a checkpoint; if none has one, the longest.
    """
    label, candidates = directory.path.name.rpartition("-")[0], []
    for path in directory.path.parent.iterdir():
        other_label, _, id = path.name.rpartition("-")
        if other_label != label or not re.fullmatch("[0-9a-f]{10}", id):
            continue
        with suppress(OSError, ValueError, LookupError, TypeError):  # a run with a damaged manifest is not a candidate
            run = ShorterRun(RunDirectory(path), read_manifest(path) or {})
            if run.manifest["status"] == "finished" and run.rounds < rounds and id_with(run.rounds) == id:
                candidates.append(run)
    return max(candidates, key=lambda run: (run.has_checkpoint, run.rounds), default=None)


def _copy(
    shorter: ShorterRun,
    directory: RunDirectory,
    id: str,
    rounds: int,
    is_evaluated: Callable[[int], bool],
    command: str,
) -> dict[str, Any] | None:
    """Make `directory` the run `id` with this many rounds, interrupted where `shorter` ended; returns its state.

    None, with nothing written, if the checkpoint cannot be read or another process replaces the shorter run. Some
    evaluations are not copied: those in the queue of the checkpoint, which the longer run makes later and together with
    others, and that of the last round, unless it is a regular evaluation.
    """
    state = load(shorter.directory, shorter.manifest["id"])
    if state is None:
        return None
    for table in (TRACE, BLOCKS, INTERACTIONS):
        if (shorter.directory / table.file).is_file():
            table.write(directory, table.read(shorter.directory))  # with the seal of the longer run
    with suppress(FileNotFoundError), directory.replacing("log.txt") as path:
        shutil.copyfile(shorter.directory / "log.txt", path)
    rows = EVALUATION.read(shorter.directory)
    if len(rows):
        evaluated = [t for t in rows["round"].unique() if t == 0 or is_evaluated(t)]
        regular, waiting = rows["round"].is_in(evaluated), rows["round"].is_in(list(state["queue"]))
        rows = rows.filter(regular & ~waiting)
        EVALUATION.write(directory, rows)
        if "rows" in state:  # a checkpoint of version 0.1 has none
            state["rows"][EVALUATION.file] = len(rows)
    if read_manifest(shorter.directory.path) != shorter.manifest:
        directory.clear()
        return None
    content = {  # times and the number of sittings are copied, so that they are those of all rounds
        **{name: value for name, value in shorter.manifest.items() if name != "checksum"},
        "status": "interrupted",
        "id": id,
        "command": command,
        "progress": {"round": shorter.rounds, "rounds": rounds},
        "extended_from": {"id": shorter.manifest["id"], "round": shorter.rounds},
    }
    directory.write_json(MANIFEST, content)
    save(directory, state, id)
    return state
