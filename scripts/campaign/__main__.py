"""Fault campaigns: disturbs ol2r in seeded ways, and counts what it survives, refuses with advice, or gets wrong.

    make campaign                                       # all of them, at the sizes of docs/reliability.md
    make campaign ARGS="kills damage --count 50 --seed 7"

kills: SIGKILL before, during and after each file operation of a run, then cases with two kills. damage: each file of a
finished run, of an interrupted one and of the cache removed, cut, changed or swapped with that of another run. writers:
two to six processes start one run, with locks that work, do nothing or are refused; some are killed or suspended.
Afterwards the same command must give the files of an undisturbed run, byte for byte. settings: hostile command lines.

The same seed tries the same cases. Exit code 1: a case is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import hostile_settings
import torch
from forks import REFUSED, SURVIVED, Cases, start, wait

import ol2r_cli.commands.run
import ol2r_cli.loops.preloaded
import ol2r_cli.run.runner  # noqa: F401

ROOT = Path(__file__).parents[2]
TABLES = [f"{name}.parquet" for name in ("trace", "evaluation", "blocks", "interactions")]
RESULTS = [*TABLES, "summary.json", "config.yaml", "ranker.pt"]
COUNT, BEFORE, DURING, AFTER = range(4)  # how a process meets a file operation, as in kills.c
CHANGES = ["removed", "emptied", "truncated", "a bit flipped", "zeroed", "a byte inserted", "swapped"]
LOCKS = ["flock", "flock that does nothing", "flock that is refused"]


class SmallRun:
    """A run on data in files, which writes every kind of file below `folder`, and the files of an undisturbed one."""

    def __init__(self, folder: Path, *more: str):
        self.folder, self.log = folder, folder.with_name("log")
        self.words = ["run", "dataset=letor", f"dataset.path={ROOT / 'tests/data/tiny'}", "rounds=40", "replicas=2"]
        self.words += ["evaluate_every=10", "checkpoint_rounds=15", "device.threads=1", "save_interactions=true"]
        self.words += ["block_rounds=[1,20]", f"output_dir={folder / 'outputs'}", f"cache_dir={folder / 'cache'}"]
        self.words += more
        listing = folder.with_name("operations")
        if wait(start(self.words, self.log, partial(self.meet, 0, COUNT, listing))):
            raise RuntimeError(f"the undisturbed run fails: {self.errors()}")
        self.operations = listing.read_text().splitlines()
        self.names = {path.name for path in self.path.iterdir()}
        self.results = {name: (self.path / name).read_bytes() for name in RESULTS}

    @property
    def path(self) -> Path:
        """The directory of the run, or `no run` before it has begun."""
        return next((path.parent for path in self.folder.glob("outputs/*/*/run.json")), self.folder / "no run")

    def meet(self, operation: int, how: int, listing: Path | None = None) -> None:
        """In a forked process: what happens at its `operation`-th file operation from now on."""
        file = os.open(listing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if listing else -1
        ctypes.CDLL(None).ol2r_kill(str(self.folder).encode(), ctypes.c_long(operation), how, file)

    def kill(self, operation: int, how: int, *more: str) -> int:
        """Run it, or resume it, until it is killed."""
        return wait(start([*self.words, *more], self.log, partial(self.meet, operation, how)))

    def errors(self, log: Path | None = None) -> str:
        return Path(f"{log or self.log}.err").read_text(errors="replace")

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def finished(self) -> bool:
        """Whether `ol2r status` calls it finished."""
        code = wait(start(["status", str(self.folder / "outputs"), "--json"], self.log))
        runs = [] if code else json.loads(Path(f"{self.log}.out").read_text())
        return [run["state"] for run in runs] == ["finished"]

    def intact(self) -> bool:
        return wait(start(["verify", str(self.folder / "outputs")], self.log)) == 0

    def difference(self) -> str:
        """Which file differs from that of the undisturbed run."""
        for name, content in self.results.items():
            if not (self.path / name).is_file() or (self.path / name).read_bytes() != content:
                return f"{name} differs from that of an undisturbed run"
        return ""

    def outcome(self) -> str:
        """What the same command, given once more, makes of it."""
        code, errors = wait(start(self.words, self.log)), self.errors()
        if code or bad(errors):
            return f"the next command ended with {code}: {errors[-300:]!r}"
        if changed := {path.name for path in self.path.iterdir()} ^ self.names:
            return f"left behind, or missing: {changed}"
        return self.difference() or (SURVIVED if self.intact() else "ol2r verify finds a fault")


def bad(errors: str) -> bool:
    """Whether stderr has more than an error and a remark of a line each."""
    return "Traceback" in errors or len(errors.splitlines()) > 2


def kills(seed: int, count: int, folder: Path) -> Cases:
    small, draw = SmallRun(folder / "run"), random.Random(seed)
    single = [
        ((number, how),)
        for number, operation in enumerate(small.operations, 1)
        for how in (BEFORE, DURING, AFTER)
        if how != DURING or operation.startswith("write")
    ]
    drawn = (draw.randint(1, len(small.operations)) for _ in iter(int, 1))
    twice = [tuple((next(drawn), draw.choice([BEFORE, AFTER])) for _ in range(2)) for _ in range(count - len(single))]
    for case in [*(single if count >= len(single) else draw.sample(single, count)), *twice]:
        small.clear()
        wrong = ""
        for kill in case:
            code = small.kill(*kill)
            wrong = wrong or ("" if code in (0, -signal.SIGKILL) else f"ended with {code}")
            wrong = wrong or (small.difference() if small.finished() else "")
        yield f"operations and how {case}", wrong or small.outcome()


def damage(seed: int, count: int, folder: Path) -> Cases:
    small, draw = SmallRun(folder / "run", "keep_checkpoint=true"), random.Random(seed)
    place = small.path.relative_to(small.folder)
    late = max(number for number, name in enumerate(small.operations, 1) if name.endswith("/ranker.pt"))
    for base, more in [("finished", []), ("finished other", ["seed=5"]), ("interrupted", [])]:
        if base != "finished":
            small.clear()
            small.kill(late if base == "interrupted" else 0, BEFORE, *more)
        small.path.rename(small.folder / place)  # nothing, but for the run of another seed
        shutil.copytree(small.folder, folder / base)
    shutil.copytree(folder / "finished other", folder / "interrupted other")
    files = [(base, file) for base in ("finished", "interrupted") for file in (folder / base / place).iterdir()]
    files += [("interrupted", file) for file in (folder / "interrupted/cache").rglob("*") if file.is_file()]
    cases = [(*case, change) for case in sorted(files) for change in CHANGES]
    cases.remove(("finished", folder / "finished" / place / "interactions.parquet", "removed"))  # the user may do that
    draw.shuffle(cases)
    for base, file, change in cases[:count]:
        name, content = file.relative_to(folder / base), file.read_bytes()
        other = folder / f"{base} other" / name
        new = changed(content, other.read_bytes() if other.exists() else b"", change, draw) if content else content
        if new == content:  # it is empty, or the same in both runs
            continue
        small.clear()
        shutil.copytree(folder / base, small.folder, dirs_exist_ok=True)
        (small.folder / name).write_bytes(new)
        if change == "removed":
            (small.folder / name).unlink()
        wrong = ""
        if base == "finished" and small.difference() and small.finished() and small.intact():
            wrong = "it is called finished and intact"
        code, errors = wait(start(small.words, small.log)), small.errors()
        refused = code == 2 and len(errors.splitlines()) == 1 and ": type " in errors
        if bad(errors) or (code and not refused):
            wrong = wrong or f"the command ended with {code}: {errors[-300:]!r}"
        yield f"{base}, {file.name} {change}", wrong or (REFUSED if refused else small.difference() or SURVIVED)


def changed(content: bytes, other: bytes, change: str, draw: random.Random) -> bytes:
    """The content of a damaged file; nothing, if it was removed."""
    at = draw.randrange(len(content))
    head, tail = content[:at], content[at:]
    return {
        "truncated": head,
        "a bit flipped": head + bytes([tail[0] ^ 1 << draw.randrange(8)]) + tail[1:],
        "zeroed": head + bytes(len(tail[:512])) + tail[512:],
        "a byte inserted": head + bytes([draw.randrange(256)]) + tail,
        "swapped": other,
    }.get(change, b"")


def writers(seed: int, count: int, folder: Path) -> Cases:
    small = SmallRun(folder / "run")

    def before(locks: str, pause: float, kill: int) -> None:
        def replaced(*_: object) -> None:
            if locks == LOCKS[2]:
                raise OSError(37, os.strerror(37))

        if locks != LOCKS[0]:
            fcntl.flock = replaced  # type: ignore[assignment]
        if kill:
            small.meet(kill, AFTER)
        time.sleep(pause)

    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        locks, operation = draw.choice(LOCKS), partial(draw.randint, 1, len(small.operations))
        small.clear()
        if draw.random() < 0.5:  # they resume what a killed process has left
            small.kill(operation(), AFTER)
        processes = {}
        for index in range(draw.randint(2, 6)):
            log, pause = folder / f"log{index}", draw.choice([0.0, 0.0, draw.uniform(0, 0.6)])
            processes[log] = start(
                small.words, log, partial(before, locks, pause, operation() if draw.random() < 0.2 else 0)
            )
        if draw.random() < 0.5:
            time.sleep(draw.uniform(0.1, 0.8))
            suspended = draw.choice([*processes.values()])
            os.kill(suspended, signal.SIGSTOP)
            time.sleep(1.5)
            os.kill(suspended, signal.SIGCONT)
        wrong = ""
        for log, process in processes.items():
            code = wait(process)
            if code not in (0, 1, 2, -signal.SIGKILL) or bad(small.errors(log)):
                wrong = wrong or f"a process ended with {code}: {small.errors(log)[-300:]!r}"
        yield f"{number} ({locks})", wrong or small.outcome()


def main() -> int:
    campaigns = {"kills": (kills, 1_000), "damage": (damage, 600), "writers": (writers, 60)}
    campaigns["settings"] = (hostile_settings.cases, 2_000)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(campaigns)}; all without a name")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="cases of each campaign")
    options = parser.parse_args()
    if unknown := set(options.names) - set(campaigns):
        parser.error(f"NAME must be one of {', '.join(campaigns)}, got {min(unknown)}")
    if not hasattr(ctypes.CDLL(None), "ol2r_kill"):  # start again with the library
        library = Path(tempfile.mkdtemp(prefix="ol2r-kills-"), "kills.so")
        source = Path(__file__).with_name("kills.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        os.execve(sys.executable, sys.orig_argv, os.environ | {"LD_PRELOAD": str(library)})
    torch.set_num_threads(1)
    rows, wrong = ["| campaign | tried | survived | refused with advice | wrong |\n|---|---|---|---|---|"], []
    for name in options.names or campaigns:
        cases, count = campaigns[name]
        told: Counter[str] = Counter()
        with tempfile.TemporaryDirectory(prefix=f"ol2r-{name}-") as folder:
            for case, outcome in cases(options.seed, options.count or count, Path(folder)):
                told[outcome if outcome in (SURVIVED, REFUSED) else "wrong"] += 1
                if outcome not in (SURVIVED, REFUSED):
                    wrong.append(f"{name}: {case}: {outcome}")
                    print(wrong[-1], file=sys.stderr, flush=True)
        rows.append(f"| {name} | {told.total()} | {told[SURVIVED]} | {told[REFUSED]} | {told['wrong']} |")
    print(*rows, *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
