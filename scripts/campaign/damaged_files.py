"""Every file of a finished run, of an interrupted run and of the cache: removed, truncated, changed, or swapped.

A finished run with a damaged file must be called damaged, or its readers must refuse the file; the same command must
then give the results of an undisturbed run. An interrupted run, and one whose cache is damaged, must give them too, or
must be refused with a line that says what to type.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from faults import Disturbance, How, ol2r
from small_run import TABLES, SmallRun, bad_output, checked
from tally import Tally

from ol2r_cli.run.integrity import REMOVABLE, read_table
from ol2r_cli.run.run_state import read_state

CHANGES = ("removed", "emptied", "truncated", "a bit flipped", "zeroed", "a byte inserted", "swapped")


def run(seed: int, count: int, folder: Path) -> Tally:
    """`count` cases, over all files and kinds of damage in turn."""
    tally, small = Tally("damaged files"), SmallRun(folder / "run", "keep_checkpoint=true")
    bases = _bases(folder, small)
    targets = [(base, file, change) for base, files in bases.items() for file in files for change in CHANGES]
    draw = random.Random(seed)
    draw.shuffle(targets)
    for number in range(count):
        base, file, change = targets[number % len(targets)]
        _copy(folder / base, small.folder)
        target = small.folder / file
        other = folder / f"{base} of another" / file
        if "cache" in file.parts:  # both runs have the same data: swap with another file of the cache
            other = folder / base / draw.choice([each for each in bases[base] if each.parent == file.parent])
        if not _damage(target, other, change, random.Random(f"{seed} {number}")):
            continue  # a file that was empty, or is the same in both runs
        problem = _believed(small) if base == "finished" else ""
        ended = small.run()
        refused = ended.code == 2 and len(ended.errors.splitlines()) == 1 and ": type " in ended.errors
        if bad_output(ended.errors) or (ended.code and not refused):
            problem = problem or f"the command ended with {ended.code}: {ended.errors[-300:]!r}"
        may_be_removed = {file.name} & {*REMOVABLE} if (base, change) == ("finished", "removed") else ()
        problem = problem or ("" if refused else small.difference(may_be_removed))
        tally.add(f"{base}, {file.name} {change} (case {number})", problem, refused)
    return tally


def _bases(folder: Path, small: SmallRun) -> dict[str, list[Path]]:
    """Makes what is damaged, and the same of another run, below `folder`; returns the files of each."""
    path = small.path.relative_to(small.folder)
    _copy(small.folder, folder / "finished")
    last = max(i for i, operation in enumerate(small.operations, 1) if operation.endswith("/ranker.pt"))
    small.clear()
    ol2r(small.words, small.folder, Disturbance(last, How.KILL_BEFORE))
    _copy(small.folder, folder / "interrupted")
    for base, kill in ("finished", None), ("interrupted", Disturbance(last, How.KILL_BEFORE)):
        small.clear()
        ol2r([*small.words, "seed=5"], small.folder, kill)
        other = small.path
        if not other.exists():
            raise RuntimeError(f"there is no {base} run of another seed")
        shutil.move(other, small.folder / path)
        _copy(small.folder, folder / f"{base} of another")
    files: dict[str, list[Path]] = {}
    for base in "finished", "interrupted":
        root = folder / base
        files[base] = sorted(file.relative_to(root) for file in (root / path).iterdir() if file.name != ".lock")
    root = folder / "interrupted"
    files["interrupted"] += sorted(file.relative_to(root) for file in (root / "cache").rglob("*") if file.is_file())
    return files


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _damage(file: Path, other: Path, change: str, draw: random.Random) -> bool:
    """Damage a file; whether its content is another one now."""
    content = file.read_bytes()
    if change == "removed":
        file.unlink()
        return True
    changed = bytearray(content)
    place = draw.randrange(len(content)) if content else 0
    if change == "emptied":
        changed.clear()
    elif change == "truncated":
        del changed[place:]
    elif change == "a bit flipped" and content:
        changed[place] ^= 1 << draw.randrange(8)
    elif change == "zeroed":
        changed[place : place + 512] = bytes(len(changed[place : place + 512]))
    elif change == "a byte inserted":
        changed.insert(place, draw.randrange(256))
    elif change == "swapped" and other.is_file():
        changed[:] = other.read_bytes()
    file.write_bytes(changed)
    return bytes(changed) != content


def _believed(small: SmallRun) -> str:
    """What of a damaged finished run is believed although it differs from the undisturbed one; empty if nothing is."""

    def look() -> str:
        state = read_state(small.path)
        if state is None or state.state != "finished":
            return ""
        for name in ("summary.json", "config.yaml"):
            if (small.path / name).read_bytes() != small.results[name]:
                return f"{name} is believed"
        for name in TABLES:
            if not (small.path / name).is_file() or (small.path / name).read_bytes() == small.results[name]:
                continue
            try:
                read_table(small.path / name, run=small.path.name.rpartition("-")[2])
            except ValueError:
                continue
            return f"{name} is believed"
        return ""

    return checked(look)
