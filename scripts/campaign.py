"""Fault campaigns: disturbs ol2r in seeded ways, and counts what it survives, refuses with advice, or gets wrong.

    make campaign                                       # all of them, at the sizes of docs/explanation/reliability.md
    make campaign ARGS="kills damage --count 50 --seed 7"

kills: SIGKILL before, during and after each file operation of a run, then cases with two kills. batches: the same of a
process that plays three runs together, after which it plays them again. damage: each file of a
finished run, of an interrupted one and of the cache removed, cut, changed or swapped with that of another run. writers:
two to six processes start one run, with locks that work, do nothing or are refused; some are killed or suspended.
Afterwards the same command must give the files of an undisturbed run, byte for byte. settings: hostile command lines;
what does not run is refused in one line, and nothing is written. Exit code 1: a case is wrong.

Commands run in forks, which take milliseconds where starting Python takes seconds. The process that forks may not use
polars or threads, which do not survive a fork.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch

import ol2r_cli.commands.run
import ol2r_cli.loops.preloaded
import ol2r_cli.run.runner  # noqa: F401
from ol2r_cli import api
from ol2r_cli.cli import main as ol2r
from ol2r_cli.config.catalogue import config_dir, dotted
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.launcher.job import payload, run_payloads

ROOT = Path(__file__).parents[1]
TABLES = [f"{name}.parquet" for name in ("trace", "evaluation", "blocks", "interactions")]
RESULTS = [*TABLES, "summary.json", "config.yaml", "ranker.pt"]
COUNT, BEFORE, DURING, AFTER = range(4)  # how a process meets a file operation, as in kills.c
CHANGES = ["removed", "emptied", "truncated", "a bit flipped", "zeroed", "a byte inserted", "swapped"]
SURVIVED, REFUSED = "survived", "refused"  # outcomes of a case; any other text says what is wrong
Cases = Iterator[tuple[str, str]]  # the case, and its outcome

MEMORY = 3 << 30  # bytes that a hostile run is told there are; it cannot map much more, so that the machine is safe
PATIENCE = (15, signal.SIGINT), (30, signal.SIGINT), (30, signal.SIGKILL)  # seconds, and what a process gets then
GROUPS = ["ranker", "click", "exploration", "fairness", "device", "dataset", "experiment", "launcher", "ranker/model"]
CHOICES = {group: sorted(path.stem for path in (config_dir() / group).glob("*.yaml")) for group in GROUPS}
BASE = ["experiment=smoke", "dataset.queries={train:4,validation:2,test:2}", "dataset.documents=6", "device=cpu"]
NUMBERS = "nan inf -inf -1 0 1 2 0.5 -0.5 1e-300 1e300 1e400 9223372036854775808 1e30 0x10 007 .5 100000 4294967297"
TEXTS = "'' null true abc é 日本 ' a\\ a=b a:b # %s {0} ../.. - a_file a_file/below /dev/null/x ~ $HOME * os.getcwd"
TEXTS += " ranker.oracle.OracleRanker torch.nn.Linear builtins.int ol2r_cli.device.Device [1,2 {a:1 [nan] {a:1} [[]]"
TEXTS += " [inf,-inf] [null] {1:2} {train:0} {_target_:builtins.int} [test,test] {feature:99,threshold:0} {file:a_file}"
TEXTS += " ${rounds} ${nothing} ${ranker} ${ ${oc.env:NOPE} ${a:b} ??? 1,2 range(1,3) glob(*) interval(0,1) int(nan)"
VALUES = [*NUMBERS.split() * 2, *TEXTS.split(), "", " ", "a b", "a\nb", "\x00", "\x1b[31m", "\ud800", "x" * 300]
WORDS = "= =1 rounds rounds= a.b.c=1 .rounds=1 ~ + +x=1 ~rounds=3 ranker@x=oracle ranker=[oracle,random] ~ranker -x --"
WORDS += " --nothing ranker/model=mlp dataset.queries.train=1 --config-dir=nowhere --paired=a,b replicas=1000000"
WORDS += " hydra.run.dir=x hydra.mode=x hydra/launcher=joblib positions=1000000000000000000 exposure=[1] beta=-1"


def start(
    words: list[str], log: Path, before: Callable[[], object] = int, call: Callable[[list[str]], int] = ol2r
) -> int:
    """Begin a command, after `before`, with its output in LOG.out and LOG.err; the number of its process."""
    process = os.fork()
    if process:
        return process
    code = 99
    with suppress(BaseException):
        for number, end in (1, ".out"), (2, ".err"):
            os.dup2(os.open(f"{log}{end}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        before()
        code = call(words)
    os._exit(code)


def errors(log: Path) -> str:
    return Path(f"{log}.err").read_text(errors="replace")


def bad(told: str) -> bool:
    """Whether stderr has more than an error and a remark of a line each."""
    return "Traceback" in told or len(told.splitlines()) > 2


def wait(process: int) -> int:
    """The exit code of a process, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class SmallRun:
    """A run on data in files, which writes every kind of file below `folder`, and the files of an undisturbed one."""

    def __init__(self, folder: Path, *more: str):
        self.folder, self.log, self.outputs = folder, folder.with_name("log"), str(folder / "outputs")
        self.words = ["run", "dataset=letor", f"dataset.path={ROOT / 'tests/data/tiny'}", "rounds=40", "replicas=2"]
        self.words += ["evaluate_every=10", "checkpoint_rounds=15", "device.threads=1", "save_interactions=true"]
        self.words += ["block_rounds=[1,20]", f"output_dir={self.outputs}", f"cache_dir={folder / 'cache'}", *more]
        listing = folder.with_name("operations")
        if wait(start(self.words, self.log, partial(self.meet, 0, COUNT, listing), self.call)):
            raise RuntimeError(f"the undisturbed run fails: {errors(self.log)}")
        self.operations = listing.read_text().splitlines()
        self.names = self.files()
        self.results = {f"{path.name}/{name}": (path / name).read_bytes() for path in self.paths for name in RESULTS}

    def call(self, words: list[str]) -> int:
        """Run a command; its exit code."""
        return ol2r(words)

    @property
    def paths(self) -> list[Path]:  # of the runs that have begun
        return [path.parent for path in self.folder.glob("outputs/*/*/run.json")]

    @property
    def path(self) -> Path:  # of the run, once it has begun
        return next(iter(self.paths), self.folder / "no run")

    def files(self) -> set[str]:
        """The names of all files of runs."""
        return {f"{path.name}/{file.name}" for path in self.paths for file in path.iterdir()}

    def meet(self, operation: int, how: int, listing: Path | None = None) -> None:
        """In a forked process: what happens at its `operation`-th file operation from now on."""
        file = os.open(listing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if listing else -1
        ctypes.CDLL(None).ol2r_kill(str(self.folder).encode(), ctypes.c_long(operation), how, file)

    def kill(self, operation: int, how: int, *more: str) -> int:
        """Run it, or resume it, until it is killed."""
        return wait(start([*self.words, *more], self.log, partial(self.meet, operation, how), self.call))

    def finished(self) -> bool:
        """Whether `ol2r status` calls it finished, and `ol2r verify` finds nothing else."""
        code = wait(start(["status", self.outputs, "--json"], self.log))
        runs = [] if code else json.loads(Path(f"{self.log}.out").read_text())
        return bool(runs) and runs[0]["state"] == "finished" and not wait(start(["verify", self.outputs], self.log))

    def difference(self) -> str:
        """Which file differs from that of the undisturbed run."""
        root = self.path.parent
        for name, content in self.results.items():
            if not (root / name).is_file() or (root / name).read_bytes() != content:
                return f"{name} differs from that of an undisturbed run"
        return ""

    def outcome(self) -> str:
        """What the same command, given once more, makes of it."""
        code, told = wait(start(self.words, self.log, call=self.call)), errors(self.log)
        if code or bad(told):
            return f"the next command ended with {code}: {told[-300:]!r}"
        if changed := self.files() ^ self.names:
            return f"left behind, or missing: {changed}"
        return self.difference() or (SURVIVED if self.finished() else "it is not called finished and intact")


class SmallBatch(SmallRun):
    """Three runs that one process plays together, which differ in seeds and numbers. The words are those of all."""

    def __init__(self, folder: Path):
        self.changes = [["seed=1"], ["seed=2", "ranker.l2=0.5"], ["seed=3", "exploration.alpha=0.2"]]
        super().__init__(folder)

    def call(self, words: list[str]) -> int:
        """Play the batch as a process of a sweep does; 0 if all runs are finished."""
        codes: dict[int, int | None] = {}
        payloads = []
        for changes in self.changes:
            composition = compose([*words[1:], *changes])
            payloads.append(payload(composition.settings, composition.choices, words, ""))
        run_payloads(payloads, [f"{self.log}.{number}" for number in range(len(payloads))], codes.__setitem__, build)
        return 0 if list(codes.values()) == [0] * len(payloads) else 1

    @property
    def paths(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob("outputs/*/*/run.json"))

    def finished(self) -> bool:
        code = wait(start(["status", self.outputs, "--json"], self.log))
        states = [] if code else [run["state"] for run in json.loads(Path(f"{self.log}.out").read_text())]
        is_intact = not wait(start(["verify", self.outputs], self.log))
        return states == ["finished"] * len(self.changes) and is_intact


def kills(seed: int, count: int, folder: Path) -> Cases:
    yield from killed(SmallRun(folder / "run"), random.Random(seed), count)


def batches(seed: int, count: int, folder: Path) -> Cases:
    yield from killed(SmallBatch(folder / "run"), random.Random(seed), count)


def killed(small: SmallRun, draw: random.Random, count: int) -> Cases:
    """The cases of one kill and of two."""
    single = [(number, how) for number in range(1, len(small.operations) + 1) for how in (BEFORE, AFTER)]
    single += [(number, DURING) for number, name in enumerate(small.operations, 1) if name.startswith("write")]
    twice = [draw.sample(single, 2) for _ in range(count - len(single))]
    for case in [*([kill] for kill in draw.sample(single, min(count, len(single)))), *twice]:
        shutil.rmtree(small.folder)
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
    for base, kill in ("finished", 0), ("finished other", 0), ("interrupted", late), ("interrupted other", late):
        shutil.rmtree(small.folder, ignore_errors=True)
        small.kill(kill, BEFORE, *(["seed=5"] if "other" in base else []))
        small.path.rename(small.folder / place)  # the directory of the other seed has another name
        shutil.copytree(small.folder, folder / base)
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
        shutil.rmtree(small.folder)
        shutil.copytree(folder / base, small.folder)
        (small.folder / name).write_bytes(new)
        if change == "removed":
            (small.folder / name).unlink()
        wrong = "it is called finished" if base == "finished" and small.difference() and small.finished() else ""
        code, told = wait(start(small.words, small.log)), errors(small.log)
        refused = code == 2 and len(told.splitlines()) == 1 and ": type " in told
        if bad(told) or (code and not refused):
            wrong = wrong or f"the command ended with {code}: {told[-300:]!r}"
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


def refuse(*_: object) -> None:
    raise OSError(37, os.strerror(37))


LOCKS = {"flock": fcntl.flock, "flock that does nothing": lambda *_: None, "flock that is refused": refuse}


def writers(seed: int, count: int, folder: Path) -> Cases:
    small = SmallRun(folder / "run")

    def before(locks: str, pause: float, kill: int) -> None:
        fcntl.flock = LOCKS[locks]
        small.meet(kill, AFTER)
        time.sleep(pause)

    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        locks, operation = draw.choice([*LOCKS]), partial(draw.randint, 1, len(small.operations))
        shutil.rmtree(small.folder, ignore_errors=True)
        if draw.random() < 0.5:  # they resume what a killed process has left
            small.kill(operation(), AFTER)
        processes = {}
        for log in [folder / f"log{index}" for index in range(draw.randint(2, 6))]:
            pause, kill = max(0, draw.uniform(-0.6, 0.6)), operation() if draw.random() < 0.2 else 0
            processes[log] = start(small.words, log, partial(before, locks, pause, kill))
        time.sleep(draw.uniform(0.1, 0.8))
        suspended = draw.choice([*processes.values()])
        os.kill(suspended, signal.SIGSTOP)
        time.sleep(draw.choice((0, 1.5)))
        os.kill(suspended, signal.SIGCONT)
        wrong = ""
        for log, process in processes.items():
            code = wait(process)
            if code not in (0, 1, 2, -signal.SIGKILL) or bad(errors(log)):
                wrong = wrong or f"a process ended with {code}: {errors(log)[-300:]!r}"
        yield f"{number} ({locks})", wrong or small.outcome()


def settings(seed: int, count: int, folder: Path) -> Cases:
    """A small run with drawn choices, and up to three mutations."""
    for number in range(count):
        draw, here = random.Random(f"{seed} {number}"), folder / "here"
        words = [*BASE, *(f"{name}={draw.choice((1, 2, 5))}" for name in ("rounds", "positions", "evaluate_every"))]
        words += [f"{group}={draw.choice(CHOICES[group])}" for group in GROUPS[:4] if draw.random() < 0.2]
        words += [mutation(draw, words) for _ in range(draw.choice((0, 1, 1, 1, 1, 2, 3)))]
        here.mkdir()
        (here / "a_file").write_text("0\n")
        command = ["run", f"output_dir={here / 'runs'}", f"cache_dir={folder / 'cache'}", *words]
        code = ended(start(command, folder / "log", partial(confine, here)))
        yield shlex.join(words), judged(here, code, errors(folder / "log"))
        shutil.rmtree(here)


def mutation(draw: random.Random, words: list[str]) -> str:
    """A setting with a hostile value, a choice that does not fit or is misspelt, or a word of another form."""
    try:
        names = [name for name, _ in dotted(api.compose(*words).config)]
    except ValueError:  # an earlier mutation is refused by itself
        names = ["rounds", "ranker.l2", "seed"]
    name, group, value = draw.choice(names), draw.choice(GROUPS), draw.choice(VALUES)
    misspelt = name.replace(draw.choice(name), draw.choice(("", "é", ".", "xx")), 1)
    forms = [f"{name}={value}"] * 5 + [f"{draw.choice(('+', '++', '~'))}{name}={value}", f"{misspelt}={value}"]
    forms += [f"{group}={draw.choice([*CHOICES[group], value])}", f"{group.replace('/', '.')}._target_={value}"]
    return draw.choice([*forms, draw.choice(WORDS.split())])


def confine(here: Path) -> None:
    """In a forked process: a folder and a limit of memory of its own."""
    os.chdir(here)
    os.environ |= {"HOME": str(here), "OL2R_DATA": str(here / "data")}
    pages, real = MEMORY // resource.getpagesize(), os.sysconf
    os.sysconf = lambda name: pages if name == "SC_PHYS_PAGES" else real(name)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2 * MEMORY + (10 << 30),) * 2)  # 10 GB: stacks of threads


def ended(process: int) -> int:
    """The exit code of a process, which is interrupted, interrupted again and killed if it takes long."""
    for seconds, number in PATIENCE:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(process, number)
    return wait(process)


def judged(here: Path, code: int, text: str) -> str:
    lines, written = text.splitlines(), [path for path in here.rglob("*") if path.name != "a_file"]
    states = [json.loads(path.read_text())["status"] for path in here.rglob("run.json")]
    summary = "".join(path.read_text() for path in here.rglob("summary.json"))
    one = len(lines) == 1 and text.startswith("ol2r run: ")
    advises = "FloatingPointError" in text and ("must be" in text or "see `ol2r list" in text)
    right = {
        0: states == ["finished"]
        and all(line.startswith("warning: ") for line in lines)
        and not re.search(r"\b(NaN|Infinity)\b", summary),
        1: states == ["failed"] and one and advises,
        2: not written and one,
        130: len(lines) == 1 and states in ([], ["interrupted"]),
    }
    if right.get(code) and "Traceback" not in text:
        return REFUSED if code in (1, 2) else SURVIVED
    return f"exit code {code}, states {states}, {len(written)} files, {text[:400]!r}"


CAMPAIGNS = {
    "kills": (kills, 1_000),
    "batches": (batches, 1_000),
    "damage": (damage, 600),
    "writers": (writers, 60),
    "settings": (settings, 2_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)}; all without a name")
    parser.add_argument("--seed", type=int, default=1, help="the same seed tries the same cases")
    parser.add_argument("--count", type=int, help="cases of each campaign")
    options = parser.parse_args()
    if unknown := set(options.names) - set(CAMPAIGNS):
        parser.error(f"NAME must be one of {', '.join(CAMPAIGNS)}, got {min(unknown)}")
    if not hasattr(ctypes.CDLL(None), "ol2r_kill"):  # start again with the library
        with tempfile.TemporaryDirectory(prefix="ol2r-kills-") as folder:
            library, source = Path(folder, "kills.so"), Path(__file__).with_name("kills.c")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
            again = [sys.executable, *sys.orig_argv[1:]]
            return subprocess.run(again, env=os.environ | {"LD_PRELOAD": str(library)}).returncode
    torch.set_num_threads(1)
    rows, wrong = ["| campaign | tried | survived | refused with advice | wrong |\n|---|---|---|---|---|"], []
    for name in options.names or CAMPAIGNS:
        cases, count = CAMPAIGNS[name]
        told: Counter[str] = Counter()
        with tempfile.TemporaryDirectory(prefix=f"ol2r-{name}-") as folder:
            for case, outcome in cases(options.seed, options.count or count, Path(folder)):
                told[outcome] += 1
                if outcome not in (SURVIVED, REFUSED):
                    wrong.append(f"{name}: {case}: {outcome}")
                    print(wrong[-1], file=sys.stderr, flush=True)
        fine = told[SURVIVED] + told[REFUSED]
        rows.append(f"| {name} | {told.total()} | {told[SURVIVED]} | {told[REFUSED]} | {told.total() - fine} |")
    print(*rows, *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
