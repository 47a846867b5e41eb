"""A finished run of fewer rounds, from whose checkpoint a run with otherwise the same settings goes on.

The longer run has an id, hence a directory, of its own. What the shorter one left is copied there, the checkpoint last:
from then on it is a run that was interrupted, and an interrupted extension is resumed like any other.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ol2r_cli.results import checkpoint
from ol2r_cli.results.directory import MANIFEST, RunDirectory
from ol2r_cli.results.manifest import read_manifest
from ol2r_cli.results.provenance import versions
from ol2r_cli.results.schema import BLOCKS, EVALUATION, INTERACTIONS, TRACE

_COPIED = (TRACE.file, BLOCKS.file, INTERACTIONS.file, "log.txt")


@dataclass(frozen=True)
class Shorter:
    """A finished run with the same settings but for `rounds`."""

    directory: RunDirectory
    manifest: Mapping[str, Any]

    @property
    def rounds(self) -> int:
        return int(self.manifest["progress"]["rounds"])

    @property
    def kept(self) -> bool:
        """Whether it has a checkpoint."""
        return (self.directory / checkpoint.CHECKPOINT).is_file()

    def obstacle(self, device: str, foresees: str, tables: Sequence[str] = (TRACE.file,)) -> str:
        """Why a run on `device` that went on from here might not equal an undisturbed one, empty where it does.

        `foresees` is the setting that makes what happens from round 1 on depend on the number of rounds, if one does;
        `tables` are the files whose rows the longer run takes over.
        """
        before = self.manifest.get("versions") or {}
        software = {name: version for name, version in versions().items() if name != "python"}
        other = [name for name, version in software.items() if before.get(name) != version]
        if foresees:
            return f"cannot be extended, since {foresees} depends on the number of rounds"
        if not self.kept:
            return "has no checkpoint: type keep_checkpoint=true with a run that may be extended later"
        for name in tables:
            if not (self.directory / name).is_file():
                return f"has no {name} any more"
        if other:
            return f"was made with {other[0]} {before.get(other[0])}, and this is {software[other[0]]}"
        if self.manifest.get("device") != device:
            return f"was made on {self.manifest.get('device')}, and this is {device}"
        return ""


def extend(
    directory: RunDirectory,
    id_with: Callable[[int], str],
    *,
    rounds: int,
    evaluate_every: int,
    command: str,
    device: str,
    foresees: str = "",
    tables: Sequence[str] = (TRACE.file,),
) -> dict[str, Any] | None:
    """Go on from a shorter run where there is one, and say so: the state at its end, whose files are then here.

    None, with a line that says why where there is a shorter run, when the run is to start afresh. `id_with` gives the
    id of the run with so many rounds; `foresees` and `tables` are as in `Shorter.obstacle`. The directory must be held
    and empty.
    """
    shorter = find_shorter(directory, rounds, id_with)
    if shorter is None:
        return None
    about = f"the run of {shorter.rounds} rounds in {shorter.directory.path}"
    obstacle, state = shorter.obstacle(device, foresees, tables), None
    if not obstacle:
        state = take_over(directory, shorter, id_with(rounds), rounds, evaluate_every, command)
        obstacle = "" if state else "is damaged, or replaced at the moment"
    print(f"starts afresh: {about} {obstacle}" if obstacle else f"goes on from {about}", file=sys.stderr)
    return state


def find_shorter(directory: RunDirectory, rounds: int, id_with: Callable[[int], str]) -> Shorter | None:
    """The finished run beside `directory` that differs in nothing but having fewer than `rounds`: of several the
    longest that has kept its checkpoint, else the longest."""
    label, found = directory.path.name.rpartition("-")[0], []
    for path in directory.path.parent.iterdir():
        before, _, id = path.name.rpartition("-")
        if before != label or not re.fullmatch("[0-9a-f]{10}", id):
            continue
        with suppress(OSError, ValueError, LookupError, TypeError):  # a damaged manifest is no run to go on from
            one = Shorter(RunDirectory(path), read_manifest(path) or {})
            if one.manifest["status"] == "finished" and one.rounds < rounds and id_with(one.rounds) == id:
                found.append(one)
    return max(found, key=lambda one: (one.kept, one.rounds), default=None)


def take_over(
    directory: RunDirectory, shorter: Shorter, id: str, rounds: int, evaluate_every: int, command: str
) -> dict[str, Any] | None:
    """Make `directory` the run `id` of so many rounds, interrupted where `shorter` ended; returns the state there.

    None, with nothing written, when the checkpoint cannot be read or the shorter run is being replaced. Evaluations
    stay behind that the longer run would do later, together with others, or not at all: the last round was evaluated
    whatever its number.
    """
    state = checkpoint.load(shorter.directory, shorter.manifest["id"])
    if state is None:
        return None
    for name in _COPIED:
        with suppress(FileNotFoundError), directory.replacing(name) as path:
            shutil.copyfile(shorter.directory / name, path)
    rows = EVALUATION.read(shorter.directory)
    if len(rows):
        regular, waiting = rows["round"] % evaluate_every == 0, rows["round"].is_in(list(state["queue"]))
        directory.write_parquet(EVALUATION.file, rows.filter(regular & ~waiting))
    if read_manifest(shorter.directory.path) != shorter.manifest:
        directory.clear()
        return None
    content = {  # times and sittings are carried over, so that they are those of all rounds
        **shorter.manifest,
        "status": "interrupted",
        "id": id,
        "command": command,
        "progress": {"round": shorter.rounds, "rounds": rounds},
        "extended_from": {"id": shorter.manifest["id"], "round": shorter.rounds},
    }
    directory.write_json(MANIFEST, content)
    checkpoint.save(directory, state, id)
    return state
