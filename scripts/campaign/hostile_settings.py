"""Hostile command lines of `ol2r run`: what does not run is refused in one line, and nothing is written."""

from __future__ import annotations

import json
import math
import os
import random
import resource
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from forks import REFUSED, SURVIVED, Cases, start

from ol2r_cli import api
from ol2r_cli.config.catalogue import config_dir, dotted

MEMORY = 3 << 30  # bytes that a run is told there are; it cannot map much more, so that the machine is safe
PATIENCE = 15, 30, 30  # seconds until Ctrl-C, until the next one, and until the command hangs
GROUPS = ["ranker", "click", "exploration", "fairness", "device", "dataset", "experiment", "launcher", "ranker/model"]
BASE = ["experiment=smoke", "dataset.queries={train:4,validation:2,test:2}", "dataset.documents=6", "device=cpu"]
NUMBERS = "nan inf -inf -1 0 1 2 0.5 -0.5 1e-300 1e300 1e400 9223372036854775808 1e30 0x10 007 .5 100000 4294967297"
TEXTS = (
    "'' \"\" null true abc é 日本 ' a\\ a=b a:b # %s {0} ../.. - a_file a_file/below /dev/null/x ~ $HOME * os.getcwd"
)
TEXTS += " ranker.oracle.OracleRanker torch.nn.Linear builtins.int ol2r_cli.device.Device [1,2 {a:1 [nan] {a:1} [[]]"
TEXTS += " [inf,-inf] [null] {1:2} {train:0} {_target_:builtins.int} [test,test] {feature:99,threshold:0} {file:a_file}"
TEXTS += " ${rounds} ${nothing} ${ranker} ${ ${oc.env:NOPE} ${a:b} ??? 1,2 range(1,3) glob(*) interval(0,1) int(nan)"
VALUES = [*NUMBERS.split() * 2, *TEXTS.split(), "", " ", "a b", "a\nb", "\x00", "\x1b[31m", "\ud800", "x" * 300]
WORDS = "= =1 rounds rounds= a.b.c=1 .rounds=1 ~ + +x=1 ~rounds=3 ranker@x=oracle ranker=[oracle,random] ~ranker -x --"
WORDS += " --nothing ranker/model=mlp dataset.queries.train=1 --config-dir=nowhere --paired=a,b replicas=1000000"
WORDS += " hydra.run.dir=x hydra.mode=x hydra/launcher=joblib positions=1000000000000000000 exposure=[1] beta=-1"


def cases(seed: int, count: int, folder: Path) -> Cases:
    """A small run with drawn choices, and up to three mutations."""
    for number in range(count):
        draw, here = random.Random(f"{seed} {number}"), folder / "here"
        words = [*BASE, *(f"{name}={draw.choice((1, 2, 5))}" for name in ("rounds", "positions", "evaluate_every"))]
        words += [f"{group}={draw.choice(_choices(group))}" for group in GROUPS[:4] if draw.random() < 0.2]
        words += [_mutation(draw, words) for _ in range(draw.choice((0, 1, 1, 1, 1, 2, 3)))]
        here.mkdir()
        (here / "a_file").write_text("0\n")
        command = ["run", f"output_dir={here / 'runs'}", f"cache_dir={folder / 'cache'}", *words]
        yield shlex.join(words), _outcome(here, *_ended(command, here))
        shutil.rmtree(here)


def _choices(group: str) -> list[str]:
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def _mutation(draw: random.Random, words: list[str]) -> str:
    """A setting with a hostile value, a choice that does not fit or is misspelt, or a word of another form."""
    try:
        names = [name for name, _ in dotted(api.compose(*words).config)]
    except ValueError:  # an earlier mutation is refused by itself
        names = ["rounds", "ranker.l2", "seed"]
    name, group, value = draw.choice(names), draw.choice(GROUPS), draw.choice(VALUES)
    misspelt = name.replace(draw.choice(name), draw.choice(("", "é", ".", "xx")), 1)
    forms = [f"{name}={value}"] * 5 + [f"{draw.choice(('+', '++', '~'))}{name}={value}", f"{misspelt}={value}"]
    forms += [f"{group}={draw.choice([*_choices(group), value])}", f"{group.replace('/', '.')}._target_={value}"]
    return draw.choice([*forms, draw.choice(WORDS.split())])


def _ended(command: list[str], here: Path) -> tuple[int | None, str, bool]:
    """The exit code (None: it hangs), stderr, and whether it was interrupted."""

    def before() -> None:
        os.chdir(here)
        os.environ |= {"HOME": str(here), "OL2R_DATA": str(here / "data")}
        pages, real = MEMORY // resource.getpagesize(), os.sysconf
        os.sysconf = lambda name: pages if name == "SC_PHYS_PAGES" else real(name)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + 2 * MEMORY + (10 << 30),) * 2)  # 10 GB: stacks of threads

    process, log = start(command, here.with_name("log"), before), here.with_name("log.err")
    for number, (seconds, sent) in enumerate(
        zip(PATIENCE, (signal.SIGINT, signal.SIGINT, signal.SIGKILL), strict=True)
    ):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), log.read_text(errors="replace"), number > 0
            time.sleep(0.01)
        os.kill(process, sent)
    os.waitpid(process, 0)
    return None, "it does not end after two Ctrl-C", True


def _outcome(here: Path, code: int | None, text: str, interrupted: bool) -> str:
    lines, written = text.splitlines(), [path for path in here.rglob("*") if path.name != "a_file"]
    states = [json.loads(path.read_text())["status"] for path in here.rglob("run.json")]
    numbers = [value for path in here.rglob("summary.json") for _, value in dotted(json.loads(path.read_text()))]
    advice = len(lines) == 1 and text.startswith("ol2r run: ")
    advises = "FloatingPointError" in text and ("must be" in text or "see `ol2r list" in text)
    right = {
        0: states == ["finished"] and all(line.startswith("warning: ") for line in lines) and _finite(numbers),
        1: states == ["failed"] and advice and advises,
        2: not written and advice,
        130: interrupted and len(lines) == 1 and states in ([], ["interrupted"]),
    }
    if code is not None and right.get(code) and "Traceback" not in text:
        return REFUSED if code in (1, 2) else SURVIVED
    return f"exit code {code}, states {states}, {len(written)} files, {text[:400]!r}"


def _finite(value: Any) -> bool:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return all(map(_finite, values)) and not (isinstance(value, float) and not math.isfinite(value))
