"""Mutated command lines of `ol2r run`, in this process: what does not run is refused in one line.

A case is a small run of generated data or of tests/data/tiny with another choice of each group, of which up to three
settings, choices or words are mutated. survived: exit code 0, a finished run, and a summary of finite numbers; or the
run was too long for SOFT_LIMIT, was interrupted as by Ctrl-C, said so in one line, and left a truthful run.json.
refused: exit code 2, one line on stderr, and nothing written (the shared cache of fits and parsed files is not counted,
because it holds nothing of a run); or exit code 1, a line that says that numbers are not finite or a matrix is singular
and which setting to change, one line that names the log, and a run.json that says failed. Everything else is wrong:
tracebacks, several lines, a command that does not end after two Ctrl-C (the first waits for the end of a round, which
takes long with 100,000 steps), files that a refused command left.

Memory is pretended to be MEMORY bytes, and the process cannot map much more, so that an allocation that is not foreseen
fails here rather than endangers the machine. A crash of the process ends the campaign: the last folder below the
campaign's own has the number of the case, and `make` gives its command line.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import random
import re
import resource
import shlex
import shutil
import signal
import traceback
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tally import Tally

from ol2r_cli.commands.run import main
from ol2r_cli.config.catalogue import Catalogue, Choice, dotted
from ol2r_cli.dataset import synthetic
from ol2r_cli.run import experiment

SOFT_LIMIT, HARD_LIMIT = 3, 20  # seconds until Ctrl-C, and from then until the next Ctrl-C; a third one is too late
MEMORY, STACKS = 3 << 30, 10 << 30  # bytes: of tensors, and of address space for the stacks of up to 1024 threads

TINY = Path(__file__).parents[2] / "tests" / "data" / "tiny"
GENERATED = ["dataset.queries={train:4,validation:2,test:2}", "dataset.documents=6", "dataset.features=6"]
GROUPS = ("ranker", "click", "exploration", "fairness", "device", "dataset", "experiment", "launcher", "ranker/model")

# fmt: off
NUMBERS = [
    "nan", "inf", "-inf", "-1", "0", "-0", "1", "2", "3", "7", "0.5", "-0.5", "1.5", "1e-300", "1e300", "1e400",
    "1e-7", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e30", "0x10", "1_000", "1e3",
    "007", "+5", ".5", "5.", "1000", "100000", "1000001", "2147483648", "4294967297",
]
TEXTS = [
    "", "''", '""', "' '", "null", "true", "false", "None", "abc", "é", "\u65e5\u672c", "\u2028", "a b", "'a b'",
    "a\nb", "'", '"', "'a", "\\", "a\\", "a=b", "a:b", "#", "%s", "{0}", "\x00", "\x1b[31m", "\ud800", "x" * 300,
    "../..", "-", "nowhere/at/all", "a_file", "a_file/below", "/dev/null/x", "/proc/nothing", "~", "~/x", ".",
    "$HOME", "*", "\t",
]
NESTED = [
    "[]", "{}", "[[]]", "[1,2", "{a:1", "{a:1}", "[1,2,3]", "[nan]", "[inf,-inf]", "[null]", "[-1]", "[a,b]", "{1:2}",
    "{train:1}", "{train:0,validation:0,test:0}", "{train:-1}", "[0.2,0.3,0.5]", "[1]", "[1,1]", "[[1,2],[3]]",
    "[0,0]", "{5:{click:[.4,.6,.7,.8,.9],stop:[0,0,0,0,2]}}", "{2:{click:[nan,1],stop:[0,0]}}",
    "{_target_:builtins.int}", "[test]", "[validation,test]", "[test,test]", "[1e400]", "[9223372036854775808]",
    "{feature:1,threshold:0}", "{feature:99,threshold:0}", "{feature:1,threshold:nan}", "{file:nowhere}",
    "{file:a_file}", "{feature:1}",
]
RESOLVED = [
    "${rounds}", "${seed}", "${nothing}", "${ranker}", "${.l2}", "${", "${}", "${oc.env:HOME}", "${oc.env:NOPE}",
    "${oc.decode:nan}", "${oc.env:NOPE,7}", "${a:b}", "'${rounds}'", "x${rounds}y", "${ranker.l2}", "???", "${..}",
    "${oc.select:nothing,3}", "${hydra:job.name}", "${dataset}", "${output_dir}", "${oc.dict.keys:ranker}",
]
SWEPT = [
    "1,2", "range(1,3)", "choice(a,b)", "glob(*)", "interval(0,1)", "shuffle(1,2)", "sort(2,1)", "tag(a,1)",
]
CAST = [
    "int(2.7)", "float(3)", "str(5)", "bool(x)", "int(nan)", "json_str({a:1})", "extend_list(1)", "nothing(1)",
]
TARGETS = [
    "nowhere.Class", "os", "json", "builtins.int", "builtins.dict", "pathlib.Path", "torch.nn.Linear",
    "torch.float64", "collections.nothing", "ol2r_cli.ranker.oracle.OracleRanker",
    "ol2r_cli.click.dependent.DependentClick", "ol2r_cli.device.Device", "ol2r_cli",
    "ol2r_cli.fairness.no_fairness.NoFairness", "ol2r_cli.exploration.stated.Stated", "ol2r_cli.ranker.Ranker", "..",
    "7", "null",
]
HYDRA = [
    "hydra.run.dir=x", "hydra.output_subdir=null", "hydra.verbose=true", "hydra.job.chdir=true",
    "hydra/job_logging=none", "hydra=x", "hydra.searchpath=[pkg://nowhere]", "hydra.searchpath=[file://nowhere]",
    "hydra/launcher=joblib", "+hydra.x=1", "hydra.mode=x",
]
WORDS = [
    "", "=", "==", "=1", "rounds", "rounds=", "rounds==5", "a.b.c=1", ".rounds=1", "rounds.=1", "rounds.x=1", "~",
    "+", "++", "+x=1", "~rounds=3", "~nothing", "rounds@x=1", "ranker@x=oracle", "ranker=[oracle,random]",
    "ranker.model=7", "ranker=", "ranker=null", "~ranker", "~fairness", "+ranker=oracle", "ranker.model.width=3",
    "-x", "--nothing", "--", "ranker/model=linear", "ranker/model=mlp", "ranker/nothing=x",
    "dataset.files.train=[nowhere]", "--package=ranker", "dataset.fold=9", "dataset.queries.train=1",
    "dataset.queries.test=0", "dataset.queries.other=1", "experiment=null", "--config-dir=nowhere", "-cd",
    "--paired=a,b", "--keep-going", "--resolve", "block_rounds=[1,2]", "replicas=1000000",
    "positions=1000000000000000000", "exposure=[1,0.5,0.3,0.2]", "exposure=[1]", "beta=0", "beta=-1",
    "_target_=os.getcwd",
]
# fmt: on
VALUES = [NUMBERS, TEXTS, NESTED, RESOLVED, SWEPT, CAST]
WEIGHTS = [12, 6, 6, 4, 1, 1]


class TimeLimit(BaseException):
    """A case has not ended HARD_LIMIT seconds after the second Ctrl-C; no Exception, so that nothing catches it."""


def run(seed: int, count: int, folder: Path) -> Tally:
    """Try `count` command lines."""
    tally = Tally("settings")
    with _surroundings(folder):
        for number in range(count):
            words = make(seed, number)
            here = folder / str(number)
            here.mkdir()
            (here / "a_file").write_text("0\n")
            os.chdir(here)
            os.environ["HOME"] = str(here)
            outcome = judge([f"output_dir={here / 'runs'}", f"cache_dir={folder / 'cache'}", *words], here)
            if outcome in ("survived", "refused"):
                setattr(tally, outcome, getattr(tally, outcome) + 1)
            else:
                tally.wrong.append(f"seed {seed}, case {number}: {outcome}: ol2r run {shlex.join(words)!r}")
            os.chdir(folder)
            shutil.rmtree(here, ignore_errors=True)
    return tally


@contextlib.contextmanager
def _surroundings(folder: Path) -> Iterator[None]:
    """Memory and time limits, and environment variables that point into `folder`."""
    here, environment, memory = Path.cwd(), dict(os.environ), experiment.available_memory
    space, handler = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGALRM)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    os.environ |= {"OL2R_DATA": str(folder / "data"), "OL2R_CACHE": str(folder / "cache")}
    os.environ.pop("NOPE", None)
    experiment.available_memory = synthetic.available_memory = lambda _: MEMORY  # type: ignore[assignment]
    signal.signal(signal.SIGALRM, _alarm)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2 * MEMORY + STACKS, space[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, space)
        signal.signal(signal.SIGALRM, handler)
        experiment.available_memory = synthetic.available_memory = memory
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(here)


_alarms: list[int] = []


def _alarm(*_: object) -> None:
    """Twice Ctrl-C, of which the first lets the round end; then the end of the case."""
    _alarms.append(1)
    if len(_alarms) > 2:
        raise TimeLimit
    os.kill(os.getpid(), signal.SIGINT)


def judge(words: Sequence[str], here: Path) -> str:
    """`survived`, `refused`, or what is wrong with `ol2r run WORDS` in the working directory `here`."""
    before = _files(here)
    out, errors = io.StringIO(), io.StringIO()
    _alarms.clear()
    signal.setitimer(signal.ITIMER_REAL, SOFT_LIMIT, HARD_LIMIT)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), warnings.catch_warnings():
            warnings.simplefilter("default")
            code = main(list(words))
    except TimeLimit:
        return f"no end {HARD_LIMIT} s after the second Ctrl-C"
    except SystemExit as error:
        return f"SystemExit({error.code})"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} {str(error)[:200]!r} in {last.filename}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    text, new = errors.getvalue(), sorted(_files(here) - before)
    lines = text.splitlines()
    if "Traceback" in text or "Warning" in text:
        return f"exit code {code} with {text[-300:]!r}"
    if code == 0:
        return _judge_finished(here, new, text)
    if code == 2:
        if "type no ~" in text and not any(word.startswith("~") for word in words):
            return f"advice against a ~ that is not there: {text}"
        if len(lines) != 1 or not text.startswith("ol2r run: ") or not text.endswith("\n"):
            return f"refused with {text[:600]!r}"
        return f"refused, and left {new[:5]}: {text}" if new else "refused"
    if code == 1:
        advised = "must be" in text or "see `ol2r list" in text
        numeric = ("FloatingPointError" in text and advised) and ("not finite" in text or "singular" in text)
        named = len(lines) == 1 and text.startswith("ol2r run: failed: ")
        right = numeric and named and _statuses(here) == ["failed"]
        return "refused" if right else f"failed with {text[:600]!r} and {_statuses(here)}"
    if code == 130 and _alarms:
        began = len(lines) == 1 and text.startswith("interrupted after round ")
        right = _statuses(here) == (["interrupted"] if began else []) and (began or lines == ["interrupted"])
        return "survived" if right else f"interrupted with {text[:600]!r} and {_statuses(here)}"
    return f"exit code {code} with {text[:600]!r}"


def _judge_finished(here: Path, new: Sequence[str], text: str) -> str:
    summaries = [here / name for name in new if name.endswith("/summary.json")]
    if _statuses(here) != ["finished"] or len(summaries) != 1:
        return f"exit code 0 with the states {_statuses(here)} and {len(summaries)} summaries: {text[:300]!r}"
    if not all(line.startswith("warning: ") for line in text.splitlines()):  # of a role, such as of a setting too large
        return f"exit code 0 with {text[:600]!r}"
    bad = [name for name, value in dotted(json.loads(summaries[0].read_text())) if not _finite(value)]
    return f"a summary that is not finite: {bad[:5]}" if bad else "survived"


def _statuses(here: Path) -> list[str]:
    """The state of every run below a folder."""
    return [json.loads(path.read_text())["status"] for path in here.rglob("run.json")]


def _finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def make(seed: int, number: int) -> list[str]:
    """The command line of this case; equal for equal arguments."""
    rng = random.Random(f"{seed} {number}")
    words = _base(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 2, 3))):
        words += _mutation(rng, words)
    return words


@cache
def _catalogue() -> Catalogue:
    return Catalogue()


def _base(rng: random.Random) -> list[str]:
    """A command line that runs, mostly: some choices do not fit together, which is a case as well."""
    words = ["experiment=smoke", f"rounds={rng.choice((1, 2, 3, 5))}", f"positions={rng.choice((1, 4, 10))}"]
    words += [f"evaluate_every={rng.choice((1, 2, 100))}", "device=cpu", f"seed={rng.choice((0, 0, 3))}"]
    if rng.random() < 0.15:
        words = [word for word in words if "smoke" not in word]
        words += ["dataset=letor", f"dataset.path={TINY}"]
    else:
        words += GENERATED
    words.append(f"ranker={rng.choice(list(_catalogue().choices['ranker']))}")
    for group in ("click", "exploration", "fairness"):
        if rng.random() < (0.15 if group == "exploration" else 0.4):
            words.append(f"{group}={rng.choice(list(_catalogue().choices[group]))}")
    if rng.random() < 0.2:
        words.append("replicas=2")
    return words


def _mutation(rng: random.Random, words: Sequence[str]) -> list[str]:
    """One more word, or none."""
    kind = rng.random()
    if kind < 0.25:
        return _likely(rng, words)
    if kind < 0.55:
        return [f"{_name(rng, words)}={_value(rng)}"]
    if kind < 0.63:
        return [rng.choice(("+", "++", "~", "~")) + f"{_name(rng, words)}{rng.choice(('', '=' + _value(rng)))}"]
    if kind < 0.69:
        return [f"{rng.choice(('', '', '+'))}{_misspelt(rng, _name(rng, words))}={_value(rng)}"]
    if kind < 0.79:
        group = rng.choice(GROUPS)
        name = rng.choice([*_catalogue().choices[group], "null"])
        return [f"{group}={name if rng.random() < 0.6 else _misspelt(rng, name)}"]
    if kind < 0.84:
        return [f"{rng.choice(GROUPS).replace('/', '.')}._target_={rng.choice(TARGETS)}"]
    if kind < 0.87:
        return [f"{rng.choice(GROUPS)}={_value(rng)}"]
    if kind < 0.9:
        return [rng.choice(HYDRA)]
    return [rng.choice(WORDS)]


def _name(rng: random.Random, words: Sequence[str]) -> str:
    """A setting of the choices that are in `words`, sometimes the node above it."""
    names = [name for name, _ in dotted(_catalogue().tree(words))]
    name = rng.choice(names)
    return name.rpartition(".")[0] or name if rng.random() < 0.05 else name


def _likely(rng: random.Random, words: Sequence[str]) -> list[str]:
    """A setting with a value near its default, or with one of the words that its comment lists, or no word."""
    settings = [
        (f"{choice.node}.{setting.name}", choice.values.get(setting.name), setting.comment)
        for choice in (_catalogue().root, *_chosen(words))
        for setting in choice.settings
    ]
    name, default, comment = rng.choice(settings)
    listed = re.findall(r"(\w+)(?: \([^)]*\))? \|| \| (\w+)", comment)
    if isinstance(default, bool):
        value = str(not default).lower()
    elif listed:
        value = rng.choice([word for pair in listed for word in pair if word])
    elif isinstance(default, int | float):
        value = rng.choice(
            (default * 10, default / 10, default * 1e-6, default + 1, default // 2, default * 1e6, -default)
        )
        value = str(int(value)) if isinstance(default, int) else f"{value:g}"
    else:
        return []
    return [f"{name.lstrip('.')}={value}"]


def _chosen(words: Sequence[str]) -> list[Choice]:
    chosen = _catalogue().chosen(words).items()
    return [_catalogue().choices[group][name] for group, name in chosen if name in _catalogue().choices.get(group, ())]


def _value(rng: random.Random) -> str:
    return rng.choice(rng.choices(VALUES, WEIGHTS)[0])


def _misspelt(rng: random.Random, name: str) -> str:
    place = rng.randrange(len(name))
    return name[:place] + rng.choice(("", "x", "é", name[place] * 2, ".", "_", name[place].upper())) + name[place + 1 :]
