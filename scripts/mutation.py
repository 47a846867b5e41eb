"""Measures what the tests protect: makes small changes to the code, one at a time, and counts how many a test notices.

    make mutation                                        # 35 mutants of each area, two workers: an hour or more
    make mutation ARGS="--only rankers sweeps --mutants 10 --seed 2"
    make mutation ARGS="--since HEAD~100"                # only lines that have changed since this commit

The candidates of an area are sorted by a hash of seed, function and change, and the first are taken, one per line. Each
worker has a copy of the repository, and runs tests in forks of a process that has imported torch. First every test of
the areas runs unchanged under coverage; what fails here is asked nothing. Then each mutant is shown to the tests that
execute its lines (to all of its area, if none is seen to), cheapest first, up to a budget of seconds. It is noticed if
one fails, or if they take far longer than they should.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import coverage
import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
AREAS = {  # the files to change below ol2r_cli/, and the tests to ask below tests/
    "rankers": ("ranker/**/*.py", ["ranker/", "plugins/check/test_contracts.py"]),
    "explorations": ("exploration/*.py", ["exploration/", "plugins/check/test_contracts.py"]),
    "learning": ("learning/*.py", ["learning/", "ranker/"]),
    "fairness": ("fairness/*.py", ["fairness/", "metrics/"]),
    "metrics": ("metrics/*.py", ["metrics/", "measure/"]),
    "run files": ("run/*.py", ["run/"]),
    "configuration": ("config/*.py", ["config/", "test_simulation.py"]),
    "sweeps": ("sweep/*.py", ["sweep/", "launcher/", "commands/test_run.py"]),
    "launchers": ("launcher/*.py", ["launcher/", "sweep/"]),
    "joint launches": ("plugins/gpu/joint.py", ["plugins/gpu/"]),
    "searches": ("plugins/search/*.py", ["plugins/search/"]),
    "data": ("dataset/*.py", ["dataset/", "commands/test_data.py"]),
    "users": ("click/*.py", ["click/", "plugins/check/test_contracts.py"]),
    "reports": ("report/**/*.py", ["report/", "commands/test_report.py"]),
    "recipes": ("plugins/benchmark/*.py", ["plugins/benchmark/"]),
    "commands": ("commands/*.py", ["commands/"]),
    "plug-ins": ("plugins/**/*.py", ["plugins/"]),
}
EQUIVALENT = [  # changes that no test can notice, judged by hand
    "self.rounds += 1 -> self.rounds -= 1",  # only rounds % refresh is looked at
    "if self.decay < 1: -> if self.decay <= 1:",  # with decay = 1 it takes off rate * moved * 0
    "positions = min(context.positions, context.documents) -> positions = max(context.positions, context.documents)",
    "if self.simulation.measurement.full(): -> if not self.simulation.measurement.full():",  # measured together: time
    "return certain.tril(-1).sum((-1, -2)) -> return certain.tril(-0).sum((-1, -2))",  # the diagonal is zero
]
PAIRS = (
    "Add-Sub Mult-Div FloorDiv-Mult Mod-FloorDiv Pow-Mult BitAnd-BitOr And-Or Lt-LtE Gt-GtE Eq-NotEq Is-IsNot In-NotIn"
)
PAIRS += " min-max any-all sum-mean amin-amax argmin-argmax floor-ceil minimum-maximum zeros-ones zeros_like-ones_like"
PAIRS += " new_zeros-new_ones logical_and-logical_or tril-triu startswith-endswith log1p-log expm1-exp square-sqrt"
OTHER = dict(pair.split("-")[::-1] for pair in PAIRS.split()) | dict(pair.split("-") for pair in PAIRS.split())
TEXTS = ast.JoinedStr | ast.List | ast.ListComp | ast.Dict | ast.Tuple  # another operator is only an error with these
NOT_COPIED = shutil.ignore_patterns(".*", "outputs", "dist", "build", "__pycache__", "shared")


def replacements(node: Any) -> Iterator[ast.AST]:
    """What a node can become."""
    match node:
        case ast.Raise() | ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Expr(value=ast.Call(func=function)):
            if not re.match(r"super\(\)\.__init__|_?log|warnings", ast.unparse(function)):
                yield ast.Pass()
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.UnaryOp):
            yield changed(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.UnaryOp():
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(1 - node.value if node.value in (0, 1) else node.value + 1)
        case ast.Compare():
            yield changed(node, ops=[swapped(node.ops[0]), *node.ops[1:]])
        case ast.Call(func=ast.Name(id=name)) if name in OTHER:
            yield changed(node, func=ast.Name(OTHER[name]))
        case ast.Call(func=ast.Attribute(attr=name)) if name in OTHER:
            yield changed(node, func=changed(node.func, attr=OTHER[name]))
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and swapped(node.op):
        sides = [getattr(node, name, None) for name in ("left", "right", "value")]
        if not any(isinstance(side, TEXTS) or isinstance(getattr(side, "value", 0), str) for side in sides):
            yield changed(node, op=swapped(node.op))


def changed(node: ast.AST, **fields: Any) -> Any:
    return type(node)(**{**vars(node), **fields})


def swapped(operator: ast.AST) -> Any:
    name = OTHER.get(type(operator).__name__)
    return getattr(ast, name)() if name else None


def slots(node: ast.AST, function: str = "", statement: Any = None) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """Every node that could be replaced: the function and the statement around it, its container and key there."""
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}"
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list"):
            container = value if isinstance(value, list) else vars(node)
            for key, child in list(enumerate(value)) if isinstance(value, list) else [(field, value)]:
                if isinstance(child, ast.AST):
                    around = child if isinstance(child, ast.stmt) else statement
                    yield function, around, container, key, child
                    yield from slots(child, function, around)


def candidates(path: Path) -> Iterator[tuple[str, range, str, ast.AST]]:
    """Function, lines and change of every mutant of a file, and its tree, which has the change until the next one."""
    tree = ast.parse(path.read_text())
    for function, statement, container, key, node in list(slots(tree)):
        before = ast.unparse(statement).split("\n")
        for new in replacements(node):
            container[key] = new
            after = ast.unparse(new if node is statement else statement).split("\n")
            pairs = zip_longest(before, after, fillvalue="")
            if change := next((f"{a.strip()} -> {b.strip()}" for a, b in pairs if a != b), ""):  # 1e300 + 1 is 1e300
                yield function, range(node.lineno, node.end_lineno + 1), change, tree
            container[key] = node


def changed_lines(since: str) -> dict[str, set[int]]:
    """The numbers of the lines that differ from a commit, by file."""
    words = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", since, "--", "ol2r_cli"]
    lines: dict[str, set[int]] = defaultdict(set)
    file = ""
    for line in subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif place := re.match(r"@@ \S+ \+(\d+),?(\d*) @@", line):
            lines[file] |= {*range(int(place[1]), int(place[1]) + int(place[2] or 1))}
    return lines


def drawn(
    area: str, seed: int, number: int, among: dict[str, set[int]] | None
) -> Iterator[tuple[str, range, str, str]]:
    """File, lines, change and text of so many mutants, of all lines or of those with these numbers."""
    first: dict[tuple[str, int], tuple[str, Path, int]] = {}  # of each line the one with the lowest hash
    for path in (ROOT / "ol2r_cli").glob(AREAS[area][0]):
        for place, (function, lines, change, _) in enumerate(candidates(path)):
            hashed = hashlib.sha1(f"{seed} {function} {change}".encode()).hexdigest()
            line = str(path), lines[0]
            if among is not None and lines[0] not in among.get(str(path.relative_to(ROOT)), ()):
                continue
            first[line] = min(first.get(line, (hashed, path, place)), (hashed, path, place))
    for _, path, place in sorted(first.values())[:number]:
        _, lines, change, tree = next(islice(candidates(path), place, None))
        yield str(path.relative_to(ROOT)), lines, change, ast.unparse(tree)


class Watch:
    """A pytest plugin: runs only the test functions named, in their order, and notes seconds, failures and lines."""

    def __init__(self, only: list[str], measured: coverage.Coverage | None):
        self.only, self.measured = {name: place for place, name in enumerate(only)}, measured
        self.seconds, self.failed = Counter[str](), []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.only:
            items[:] = sorted((i for i in items if named(i) in self.only), key=lambda item: self.only[named(item)])

    def pytest_runtest_setup(self, item: Any) -> None:
        if self.measured:
            self.measured.switch_context(named(item))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[named(report)] += report.duration
        self.failed += [named(report)] * report.failed


def named(test: Any) -> str:
    return str(test.nodeid).partition("[")[0]


def in_a_fork(words: list[str], only: list[str], limit: float) -> tuple[int | None, dict[str, Any], str]:
    """Run pytest in a copy, under coverage if no tests are named: exit code (None: too long), what it saw, output."""
    scratch = Path(tempfile.mkdtemp(prefix="mutation-"))
    process = os.fork()
    if not process:
        multiprocessing.current_process().daemon = False  # as that of a user, which may have children
        with suppress(BaseException):
            os._exit(run_pytest(words, only, scratch))
        os._exit(70)
    end, done = time.monotonic() + limit, (0, 0)
    while not done[0] and time.monotonic() < end:
        done = os.waitpid(process, os.WNOHANG)
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # it, or what it has left behind
    code = os.waitstatus_to_exitcode(done[1]) if done[0] else os.waitpid(process, 0) and None
    told, seen = {"seconds": {}, "failed": [], "lines": {}}, scratch / "seen.json"
    told |= json.loads(seen.read_text()) if seen.exists() else {}
    output = (scratch / "output").read_text(errors="replace")[-600:]
    shutil.rmtree(scratch, ignore_errors=True)
    return code, told, output


def run_pytest(words: list[str], only: list[str], scratch: Path) -> int:
    os.setsid()
    for number in 1, 2:
        os.dup2(os.open(scratch / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.chdir(TREE)
    # Compiled loops call only each other, and loops/ is in no area, so that what is compiled is valid for every mutant.
    os.environ |= {"PYTHONPATH": str(TREE), "HOME": str(scratch), "NUMBA_CACHE_DIR": str(TREE / ".numba")}
    sys.path.insert(0, str(TREE))
    sys.dont_write_bytecode = True
    measured = None if only else coverage.Coverage(data_file=None, include=[f"{TREE}/ol2r_cli/*"], config_file=False)
    watch, lines = Watch(only, measured), {}
    if measured:
        measured.start()
    fast = ["-m", "not slow and not gpu and not slurm", f"--basetemp={scratch / 'tests'}"]
    code = int(pytest.main([*words, "-q", "-p", "no:cacheprovider", *fast], plugins=[watch]))
    if measured:
        measured.stop()
        data = measured.get_data()
        lines = {str(Path(file).relative_to(TREE)): data.contexts_by_lineno(file) for file in data.measured_files()}
    told = {"seconds": watch.seconds, "failed": watch.failed, "lines": lines}
    (scratch / "seen.json").write_text(json.dumps(told))
    return code


def own_copy(folder: str) -> None:
    global TREE
    TREE = Path(folder, str(os.getpid()))
    shutil.copytree(ROOT, TREE, ignore=NOT_COPIED)


def measure(file: str) -> tuple[str, tuple[int | None, dict[str, Any], str]]:
    return file, in_a_fork([file], [], 1_800)


def attempt(task: tuple[tuple[Any, ...], str, list[str], float]) -> tuple[tuple[Any, ...], str]:
    """What becomes of a mutant."""
    about, text, tests, expected = task
    original = (TREE / about[1]).read_text()
    (TREE / about[1]).write_text(text)
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    code, told, output = in_a_fork([*files, "-x"], tests, 120 + 6 * expected)
    (TREE / about[1]).write_text(original)
    noticed = f"noticed by {told['failed'][0] if told['failed'] else f'exit code {code}'}"
    return about, {0: "survived", None: "timeout", 70: f"error {output}"}.get(code, noticed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=AREAS, nargs="+", metavar="AREA", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--since", metavar="COMMIT", help="change only lines that differ from this commit")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another sample")
    parser.add_argument("--mutants", type=int, default=35, help="per area (default: 35)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=20, help="seconds of tests per mutant (default: 20)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    areas = options.only or [*AREAS]
    among = changed_lines(options.since) if options.since else None
    asked = {area: tuple(f"tests/{name}" for name in AREAS[area][1]) for area in areas}
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    files = [file for file in files if any(file.startswith(tests) for tests in asked.values())]
    seconds: dict[str, float] = {}
    executing: dict[tuple[str, int], set[str]] = defaultdict(set)
    counts = {area: Counter[str]() for area in areas}
    with (
        tempfile.TemporaryDirectory(prefix="mutation-") as folder,
        multiprocessing.get_context("fork").Pool(options.workers, own_copy, (folder,)) as pool,
    ):
        for file, (code, told, output) in pool.imap_unordered(measure, files):
            print(f"{file}: exit code {code}, {output[-200:] if code else 'measured'}", flush=True)
            seconds |= {test: cost for test, cost in told["seconds"].items() if test not in told["failed"]}
            for name, lines in told["lines"].items():
                for line, tests in lines.items():
                    executing[name, int(line)] |= {*tests}
        tasks = []
        for area in areas:
            for file, lines, change, text in drawn(area, options.seed, options.mutants, among):
                tests = set().union(*(executing[file, line] for line in lines)) & seconds.keys()
                tests = tests or {test for test in seconds if test.startswith(asked[area])}
                chosen, expected = [], 0.0
                for test in sorted(tests, key=lambda test: (seconds[test], test)):
                    if not chosen or expected + seconds[test] <= options.budget:
                        chosen.append(test)
                        expected += seconds[test]
                tasks.append(((area, file, lines[0], change), text, chosen, expected))
        for (area, file, line, change), ended in pool.imap_unordered(attempt, tasks):
            kind = "equivalent" if change in EQUIVALENT and ended == "survived" else ended.split()[0]
            counts[area][kind] += 1
            print(f"{ended}: {file}:{line}: {change}", flush=True)
    counts["all"] = sum(counts.values(), Counter())
    kinds = "noticed", "timeout", "survived", "equivalent", "error"
    print(f"| area | mutants | {' | '.join(kinds)} | share noticed |\n|---|" + "---:|" * 7)
    for area, count in counts.items():
        share = (count["noticed"] + count["timeout"]) / max(count.total() - count["equivalent"], 1)
        print(f"| {area} | {count.total()} | {' | '.join(str(count[kind]) for kind in kinds)} | {share:.1%} |")


if __name__ == "__main__":
    main()
