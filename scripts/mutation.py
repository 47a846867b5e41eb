"""Measures what the tests protect: makes small changes to the code, one at a time, and counts how many a test notices.

    make mutation                                             # all areas, two workers
    .venv/bin/python scripts/mutation.py --only rankers       # one area
    .venv/bin/python scripts/mutation.py --table              # only the table of what has been done so far

Everything is written to --out; an interrupted campaign goes on with the same command, as long as code and tests stay.
A larger --budget asks again about those that survived.

1. A copy of the repository per worker; nothing is ever changed in the repository itself.
2. Coverage: each test file runs once, unchanged, in a process of its own: which test executes which line, and how long
   it takes. A test that fails here, and again without coverage, is asked nothing.
3. Mutants: per area, candidates are sorted by a hash of function, line and change, so that code which moves to another
   file keeps its mutants; the first are taken, at most one per line.
4. Each mutant runs in a process forked from one that has torch and pytest imported, with tests that execute its line,
   cheapest first, spread over test files and functions, up to --budget seconds of expected time.
5. Control: tests that noticed something run again, unchanged; one that fails is asked nothing from then on, and what
   it noticed is tried again by the next call.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import hashlib
import importlib.util
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
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest

# Area: the files to break, and the tests to ask first; of lines that no test is seen to execute only these are asked.
AREAS = {
    "rankers": {"code": ["ol2r_cli/ranker/**"], "tests": ["tests/ranker/**", "tests/test_contracts.py"]},
    "explorations": {"code": ["ol2r_cli/exploration/**"], "tests": ["tests/exploration/**", "tests/test_contracts.py"]},
    "learning": {"code": ["ol2r_cli/learning/**"], "tests": ["tests/learning/**", "tests/ranker/**"]},
    "fairness": {
        "code": ["ol2r_cli/fairness/**", "ol2r_cli/metrics/exposure.py"],
        "tests": ["tests/fairness/**", "tests/metrics/test_exposure.py"],
    },
    "metrics": {
        "code": [f"ol2r_cli/metrics/{name}.py" for name in ("ranking", "measurement", "evaluation")],
        "tests": ["tests/metrics/**"],
    },
    "run files": {
        "code": ["ol2r_cli/run/**"],
        "tests": ["tests/run/**", "tests/test_resume.py", "tests/test_extend.py"],
    },
    "configuration": {"code": ["ol2r_cli/config/**"], "tests": ["tests/config/**", "tests/test_simulation.py"]},
    "sweeps": {
        "code": ["ol2r_cli/sweep/**", "ol2r_cli/launcher/[pj]*.py", "ol2r_cli/commands/run.py"],
        "tests": ["tests/sweep/**", "tests/launcher/**", "tests/commands/test_run.py", "tests/test_cli.py"],
    },
}
PRELOADED = ["torch", "numpy", "scipy.optimize", "hydra", "omegaconf", "polars", "hypothesis", "jaxtyping", "beartype"]
PYTEST = ["-p", "no:cacheprovider", "-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
NOT_COPIED = {".git", ".venv", "outputs", "dist", "build", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis"}
FILES, TESTS = 5, 60  # test files and tests asked about a mutant, at most

ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "//", "**": "*", "&": "|", "|": "&", "^": "&"}
COMPARISONS = {  # boundary moved, and turned round
    **{"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]},
    **{"is": ["is not"], "is not": ["is"], "in": ["not in"], "not in": ["in"]},
}
OPERATORS = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Is: "is", ast.IsNot: "is not", ast.In: "in"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.NotIn: "not in"},
}
BUILTINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
PAIRS = [("min", "max"), ("any", "all"), ("sum", "mean"), ("amin", "amax"), ("argmin", "argmax"), ("floor", "ceil")]
PAIRS += [("minimum", "maximum"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("new_zeros", "new_ones")]
PAIRS += [("logical_and", "logical_or"), ("tril", "triu"), ("startswith", "endswith")]
METHODS = {**dict(PAIRS), **{b: a for a, b in PAIRS}, "log": "log1p", "exp": "expm1", "sqrt": "square"}
LOGGING = re.compile(r"_?log(ger|ging)?\.|warnings\.warn\b")


@dataclass(frozen=True)
class Mutant:
    """One change: bytes `start` .. `end` of a file become `text`."""

    id: str  # hash that orders the candidates of an area
    area: str
    file: str
    function: str
    operator: str
    line: int  # the one that changes
    lines: tuple[int, int]  # of the expression
    statement: tuple[int, int]  # around it, without its body
    imported: bool  # whether it runs when the module is imported
    before: str
    after: str
    start: int
    end: int
    text: str

    def made(self, root: Path) -> bytes:
        """The file with the change."""
        source = (root / self.file).read_bytes()
        return source[: self.start] + self.text.encode() + source[self.end :]


class Finder:
    """Every change that can be made to a file; none adds or removes lines."""

    def __init__(self, source: bytes, area: str, file: str, seed: int):
        self.source, self.area, self.file, self.seed = source, area, file, seed
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.rows = source.decode().split("\n")
        self.found: list[Mutant] = []
        self.seen: Counter[str] = Counter()
        self.names: list[str] = []  # of classes and functions around
        self.returns: list[str] = []  # of functions around
        self.statement = (1, 1)
        self.block(ast.parse(source).body)

    def span(self, node: Any) -> tuple[int, int]:
        """Where a node starts and ends, in bytes."""
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def words(self, node: ast.AST) -> str:
        return self.source[slice(*self.span(node))].decode()

    def add(self, operator: str, node: Any, span: tuple[int, int], text: str) -> None:
        """A candidate that puts `text` in place of some bytes of a node."""
        start, end = span
        text += "\n" * (self.source[start:end].count(b"\n") - text.count("\n"))
        rows = (self.source[:start] + text.encode() + self.source[end:]).decode().split("\n")
        line = next(i for i, (old, new) in enumerate(zip(self.rows, rows, strict=True)) if old != new)
        before, after = (" ".join(every[line].split()) for every in (self.rows, rows))
        function, lines = ".".join(self.names), (node.lineno, node.end_lineno)
        key = f"{self.seed}|{function}|{before}|{operator}|{after}"
        self.seen[key] += 1
        id, imported = hashlib.sha1(f"{key}|{self.seen[key]}".encode()).hexdigest()[:12], not self.returns
        where = self.area, self.file, function, operator, line + 1, lines, self.statement, imported
        self.found.append(Mutant(id, *where, before, after, start, end, text))

    def remove(self, node: ast.stmt) -> None:
        self.add("statement", node, self.span(node), "pass")

    def negate(self, node: ast.expr) -> None:
        """The opposite condition, unless the swaps of comparisons and of `not` make it already."""
        if not (isinstance(node, ast.UnaryOp) or (isinstance(node, ast.Compare) and len(node.ops) == 1)):
            self.add("condition", node, self.span(node), f"not ({self.words(node)})")

    def swap(self, operator: str, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Another operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        between = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self.source[start:end])
        found = re.search(re.escape(old.encode()).replace(rb"\ ", rb"\s+"), between)
        if found:
            self.add(operator, node, (start + found.start(), start + found.end()), new)

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            around, body = self.statement, getattr(statement, "body", None)
            last = body[0].lineno - 1 if body else statement.end_lineno or 0
            self.statement = statement.lineno, max(last, statement.lineno)
            self.take(statement)
            self.statement = around

    def take(self, node: ast.stmt) -> None:
        """What can be done to a statement and to its parts."""
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return
            case ast.Assert() | ast.Expr(value=ast.Constant()) | ast.FunctionDef(name="__repr__"):
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.names.append(node.name)
                self.parts(node.args)
                self.returns.append(ast.unparse(node.returns) if node.returns else "")
                self.block(node.body)
                self.returns.pop()
                self.names.pop()
                return
            case ast.ClassDef():
                self.names.append(node.name)
                self.block(node.body)
                self.names.pop()
                return
            case ast.Raise():  # nothing in its message
                self.remove(node)
                return
            case ast.Expr(value=ast.Call()):
                if LOGGING.match(self.words(node)):
                    return
                if not self.words(node).startswith("super().__init__"):
                    self.remove(node)
            case ast.AugAssign():
                old = OPERATORS.get(type(node.op), "")
                self.remove(node)
                if old in ARITHMETIC and not isinstance(node.value, ast.List | ast.JoinedStr | ast.ListComp):
                    self.swap("arithmetic", node, node.target, node.value, f"{old}=", f"{ARITHMETIC[old]}=")
            case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                flat = [part for target in targets for part in getattr(target, "elts", [target])]
                if all(isinstance(part, ast.Attribute | ast.Subscript) for part in flat):
                    self.remove(node)
                if isinstance(node, ast.AnnAssign):
                    self.expression(node.value)
                    return
            case ast.Return(value=ast.expr() as value) if self.returns and not isinstance(value, ast.Constant):
                if self.returns[-1] == "bool":
                    self.negate(value)
                elif self.returns[-1].endswith("| None"):
                    self.add("return", value, self.span(value), "None")
        self.parts(node)

    def parts(self, node: Any) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
            elif isinstance(child, ast.stmt):
                self.block([child])
            elif not (isinstance(child, ast.keyword) and child.arg == "strict") and not isinstance(child, ast.arg):
                self.parts(child)  # `strict` of zip asks for what holds anyway; ast.arg is a name and its annotation
        for test in getattr(node, "ifs", [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else []):
            self.negate(test)

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.JoinedStr():  # texts; also, before Python 3.12 nothing in them says where it is
                return
            case ast.Call(func=ast.Name(id="cast" | "isinstance" | "getattr" | "TypeVar")):
                return
            case ast.Constant(value=bool()):
                self.add("constant", node, self.span(node), str(not node.value))
            case ast.Constant(value=0 | 1) if isinstance(node.value, int):
                self.add("constant", node, self.span(node), str(1 - node.value))
            case ast.Constant(value=int() | float()):
                self.add("constant", node, self.span(node), repr(node.value + 1))
            case ast.BinOp() if not _textual(node):
                old = OPERATORS.get(type(node.op), "")
                if old in ARITHMETIC:
                    self.swap("arithmetic", node, node.left, node.right, old, ARITHMETIC[old])
            case ast.UnaryOp():
                self.add("unary", node, self.span(node), f"({self.words(node.operand)})")
            case ast.BoolOp():
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    self.swap("boolean", node, left, right, old, new)
            case ast.Compare():
                for left, kind, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                    for new in COMPARISONS[OPERATORS[type(kind)]]:
                        self.swap("comparison", node, left, right, OPERATORS[type(kind)], new)
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                self.add("call", node, self.span(node.func), BUILTINS[name])
            case ast.Call(func=ast.Name(id="sorted"), args=[_], keywords=[]):
                self.add("call", node, self.span(node.func), "list")
            case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
                end = self.span(node.func)[1]
                self.add("call", node, (end - len(name), end), METHODS[name])
        self.parts(node)


def _textual(node: ast.BinOp) -> bool:
    """Whether it joins texts, lists, paths or types, where another operator could only be an error."""
    for side in node.left, node.right:
        if isinstance(side, ast.JoinedStr | ast.List | ast.ListComp | ast.Dict | ast.Tuple):
            return True
        if isinstance(side, ast.Constant) and isinstance(side.value, str | None):
            return True
        if isinstance(node.op, ast.BitOr) and isinstance(side, ast.Name) and re.match("[A-Z].*[a-z]", side.id):
            return True
    return False


def draw(root: Path, areas: dict[str, Any], seed: int, number: int) -> list[Mutant]:
    """So many mutants per area, which take turns."""
    drawn: list[tuple[int, str, Mutant]] = []
    for area, globs in areas.items():
        paths: set[Path] = set()
        for pattern in globs["code"]:
            found = {path for path in root.glob(re.sub(r"\*\*$", "**/*.py", pattern)) if path.is_file()}
            if not found:
                print(f"{area}: no file matches {pattern}", file=sys.stderr)
            paths |= found
        every = [m for path in paths for m in Finder(path.read_bytes(), area, str(path.relative_to(root)), seed).found]
        taken: set[tuple[str, int]] = set()
        for mutant in sorted(every, key=lambda mutant: (mutant.id, mutant.file)):
            if len(taken) < number and (mutant.file, mutant.line) not in taken:
                drawn.append((len(taken), area, mutant))
                taken.add((mutant.file, mutant.line))
    return [mutant for *_, mutant in sorted(drawn, key=lambda one: one[:2])]


class Seen:
    """A pytest plugin: runs only certain tests, in their order, and writes down what becomes of them.

    With `patience`, for coverage: a test function whose cases have taken so many seconds runs no more of them.
    """

    def __init__(self, only: list[str] | None = None, patience: float = 0):
        self.only, self.patience, self.measuring = only, patience, None
        self.told: dict[str, Any] = {"tests": {}, "fixtures": {}, "failed": [], "left": [], "processes": []}
        self.begun, self.spent, self.now = time.monotonic(), Counter[str](), ""

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        if self.only is not None:
            place = {id: number for number, id in enumerate(self.only)}
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in place])
            items[:] = sorted((i for i in items if i.nodeid in place), key=lambda item: place[item.nodeid])
        self.told["collected"] = time.monotonic() - self.begun

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.told["failed"].append(report.nodeid)

    def pytest_runtest_protocol(self, item: Any) -> bool | None:
        spent = self.spent[item.nodeid.partition("[")[0]]
        if self.patience and (spent > self.patience or time.monotonic() - self.begun > 20 * self.patience):
            self.told["left"].append(item.nodeid)
            return True  # as if it had been run
        self.now, self.started = item.nodeid, time.monotonic()
        every = item._fixtureinfo.name2fixturedefs.items()
        self.told["fixtures"][item.nodeid] = [name for name, those in every if those[-1].scope != "function"]
        self.context(item.nodeid)
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        """What belongs to several tests is written under its own name."""
        if fixturedef.scope != "function":
            self.context(f"fixture {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self.context(self.now)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.told["failed"].append(report.nodeid)
        if report.when == "teardown":
            seconds = time.monotonic() - self.started
            self.told["tests"][report.nodeid] = round(seconds, 4)
            self.spent[report.nodeid.partition("[")[0]] += seconds
            self.now = ""
            self.context("")

    def context(self, name: str) -> None:
        if self.measuring:
            self.measuring.switch_context(name)

    def measure(self, tree: Path, scratch: Path) -> None:
        """Begin to measure this process, test by test, and the processes that tests start."""
        include = f"{tree}/ol2r_cli/*"
        settings = f"data_file={scratch}/cov\nparallel=true\ninclude={include}\ncontext=process\npatch=_exit,fork\n"
        (scratch / "coveragerc").write_text(f"[run]\n{settings}")
        os.environ["COVERAGE_PROCESS_START"] = str(scratch / "coveragerc")
        for kind, name in (subprocess.Popen, "__init__"), (multiprocessing.process.BaseProcess, "start"):
            setattr(kind, name, self._noticed(getattr(kind, name)))
        data = {"data_file": str(scratch / "cov"), "data_suffix": True, "config_file": False}
        self.measuring = coverage.Coverage(include=[include], **data)
        self.measuring.start()

    def _noticed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def noticed(*arguments: Any, **keywords: Any) -> Any:
            self.told["processes"].append(self.now)
            return function(*arguments, **keywords)

        return noticed

    def lines(self, tree: Path, scratch: Path) -> dict[str, dict[str, list[int]]]:
        """File -> test, fixture or process -> lines executed."""
        self.measuring.stop()
        self.measuring.save()
        del os.environ["COVERAGE_PROCESS_START"]
        found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for path in scratch.glob("cov.*"):
            data = coverage.CoverageData(basename=str(path))
            try:
                data.read()
            except coverage.CoverageException:  # of a process that was killed while it wrote
                continue
            for name in data.measured_files():
                for line, contexts in data.contexts_by_lineno(name).items():
                    for context in contexts:
                        found[str(Path(name).relative_to(tree))][context].add(line)
        return {f: {context: sorted(those) for context, those in by.items()} for f, by in found.items()}


def run(tree: Path, arguments: list[str], seconds: float, only: list[str] | None = None, patience: float = 0) -> dict:
    """Run pytest in a process forked from this one, in a copy of the repository: how it ended, and what `Seen` saw."""
    scratch, begun = Path(tempfile.mkdtemp(prefix="mut")), time.monotonic()
    pid = os.fork()
    if not pid:
        code = 70
        try:
            code = _pytest(tree, arguments, scratch, Seen(only, patience))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code, pause = None, 0.005
    try:
        while code is None and time.monotonic() < begun + seconds:
            done, status = os.waitpid(pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if done else None
            time.sleep(pause)
            pause = min(pause * 1.3, 0.1)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # it, or what it has left behind
    if code is None:
        os.waitpid(pid, 0)
    report, output = scratch / "report.json", scratch / "output"
    told = json.loads(report.read_text()) if report.exists() else {"failed": []}
    told["output"] = output.read_text(errors="replace")[-2000:] if output.exists() else ""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(tree / "outputs", ignore_errors=True)
    return {"code": code, "seconds": round(time.monotonic() - begun, 1), **told}


def _pytest(tree: Path, arguments: list[str], scratch: Path, seen: Seen) -> int:
    """In the forked process: like `python -m pytest` in the copy, with a home and temporary files of its own."""
    os.setsid()
    output = os.open(scratch / "output", os.O_WRONLY | os.O_CREAT)
    for descriptor in 1, 2:
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(tree)
    for name in "home", "tmp":
        (scratch / name).mkdir()
    os.environ |= {"PYTHONPATH": str(tree), "HOME": str(scratch / "home"), "TMPDIR": str(scratch / "tmp")}
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "" if seen.patience else "1"}
    sys.dont_write_bytecode, tempfile.tempdir = not seen.patience, None  # compiled only while nothing is broken
    sys.path[:] = [str(tree), *(place for place in sys.path if place != str(Path(__file__).resolve().parent))]
    sys.argv, main = ["pytest"], types.ModuleType("__main__")  # the main module of processes that tests spawn
    main.__spec__ = importlib.util.find_spec("pytest.__main__")
    sys.modules["__main__"] = main
    if seen.patience:
        seen.measure(tree, scratch)
    code = int(pytest.main([*arguments, *PYTEST, f"--basetemp={scratch / 'pytest'}"], plugins=[seen]))
    if seen.patience:
        seen.told["lines"] = seen.lines(tree, scratch)
    package = sys.modules.get("ol2r_cli")
    if package is not None and not str(package.__file__).startswith(str(tree)):
        raise RuntimeError(f"tested {package.__file__} instead of {tree}")
    (scratch / "report.json").write_text(json.dumps(seen.told))
    return code


def pool(trees: list[Path], function: Callable[[Path, Any], Any], tasks: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Tasks and results as they come, from one process per copy."""
    context = multiprocessing.get_context("fork")
    waiting, done = context.SimpleQueue(), context.SimpleQueue()

    def work(tree: Path) -> None:
        while (number := waiting.get()) is not None:
            done.put((number, function(tree, tasks[number])))

    # Not daemons: those, and what is forked from them, may not start processes.
    workers = [context.Process(target=work, args=(tree,)) for tree in trees]
    for worker in workers:
        worker.start()
    for number in [*range(len(tasks)), *[None] * len(workers)]:
        waiting.put(number)
    for _ in tasks:
        number, result = done.get()
        yield tasks[number], result
    for worker in workers:
        worker.join()


def refresh(root: Path, tree: Path) -> None:
    """Make a copy equal to the repository; files that are equal keep their times, hence what is compiled of them."""
    wanted: set[Path] = set()
    for folder, folders, files in os.walk(root):
        folders[:] = set(folders) - NOT_COPIED
        for source in (Path(folder, name) for name in files):
            target = tree / source.relative_to(root)
            wanted.add(target)
            if not target.is_file() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    for path in tree.rglob("*"):
        if path.is_file() and path not in wanted and path.suffix != ".pyc":
            path.unlink()


def fingerprint(root: Path) -> str:
    """Of code, configs and tests."""
    told = hashlib.sha1()
    for path in sorted(path for top in ("ol2r_cli", "configs", "tests") for path in (root / top).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            told.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return told.hexdigest()[:12]


def measure(tree: Path, task: tuple[str, float]) -> dict[str, Any]:
    """Run a test file under coverage; what fails runs again without."""
    file, patience = task
    told = run(tree, [file, "-m", "not slow and not gpu and not slurm"], 30 * patience + 60, patience=patience)
    failed = sorted({id for id in told["failed"] if "::" in id})
    return told | {"failed": run(tree, [file], 600, only=failed)["failed"] if failed else []}


class Index:
    """Which tests execute which lines, and how long they take."""

    def __init__(self, measured: dict[str, dict[str, Any]], unsound: set[str]):
        self.seconds: dict[str, float] = {}
        self.collecting: dict[str, float] = {}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))  # file -> line -> tests
        self.left: dict[str, set[str]] = {}  # tests that had no turn -> words of their names
        for file, told in measured.items():
            if "lines" in told:
                self.collecting[file] = told["collected"]
                self._take(told, unsound | set(told["failed"]))

    def _take(self, told: dict[str, Any], unsound: set[str]) -> None:
        mean = sum(told["tests"].values()) / max(len(told["tests"]), 1)
        self.left |= {id: set(re.findall(r"\w+", id.partition("[")[2])) for id in set(told["left"]) - unsound}
        self.seconds |= {id: seconds for id, seconds in told["tests"].items() if id not in unsound}
        self.seconds |= dict.fromkeys(set(told["left"]) - unsound, mean)
        users: dict[str, set[str]] = defaultdict(set, process=set(told["processes"]))
        for id, names in told["fixtures"].items():
            for name in names:
                users[f"fixture {name}"].add(id)
        for file, contexts in told["lines"].items():
            for context, numbers in contexts.items():
                ids = ({context} if "::" in context else users[context]) & self.seconds.keys()
                for line in numbers:
                    self.lines[file][line] |= ids

    def executing(self, mutant: Mutant) -> set[str]:
        """Tests that execute the expression, else its statement; of what runs on import all that use the file."""
        lines = self.lines[mutant.file]
        named = {id for id, words in self.left.items() if Path(mutant.file).stem in words}
        if mutant.imported:
            return set().union(named, *lines.values())
        for first, last in mutant.lines, mutant.statement:
            found = set().union(*(lines.get(line, set()) for line in range(first, last + 1)))
            if found:
                return found | named
        return set()

    def choose(self, mutant: Mutant, tests: list[str], budget: float) -> tuple[list[str], float]:
        """Tests to ask, in order, and the seconds they should take; `tests` are the files that the area names."""
        own = re.compile("|".join(fnmatch.translate(pattern) for pattern in tests)).match
        queues: dict[str, list[str]] = defaultdict(list)
        cases: Counter[str] = Counter()
        ids = self.executing(mutant) or {id for id in self.seconds if own(id.partition("::")[0])}
        for id in sorted(ids, key=lambda id: (self.seconds[id], id)):
            queues[id.partition("::")[0]].append(id)
        for ids in queues.values():  # the cheapest case of every function, then the second one of each
            ranks = {id: (cases.update([id.partition("[")[0]]), cases[id.partition("[")[0]])[1] for id in ids}
            ids.sort(key=lambda id: ranks[id])
        order = sorted(queues, key=lambda file: (not own(file), self.collecting[file] + self.seconds[queues[file][0]]))
        chosen: dict[str, list[str]] = defaultdict(list)
        expected = 0.0
        while order and sum(map(len, chosen.values())) < TESTS:
            for file in list(order):
                if not queues[file] or (file not in chosen and len(chosen) >= FILES):
                    order.remove(file)
                    continue
                turn = 3 if own(file) else 1
                for id in queues[file][:turn]:
                    cost = self.seconds[id] + (0 if file in chosen else self.collecting[file])
                    if not chosen or expected + cost <= budget:
                        chosen[file].append(id)
                        expected += cost
                queues[file] = queues[file][turn:]
        files = sorted(chosen, key=lambda file: (not own(file), self.collecting[file] + self.seconds[chosen[file][0]]))
        return [id for file in files for id in chosen[file]], expected


@contextmanager
def broken(tree: Path, mutant: Mutant) -> Iterator[None]:
    """A copy with the change made, and nothing compiled of the file."""
    file, text = tree / mutant.file, mutant.made(tree)
    original, times = file.read_bytes(), file.stat()
    compiled = {path: path.read_bytes() for path in file.parent.glob(f"__pycache__/{file.stem}.*.pyc")}
    for path in compiled:
        path.unlink()
    file.write_bytes(text)
    try:
        yield
    finally:
        file.write_bytes(original)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        for path, code in compiled.items():
            path.write_bytes(code)


def attempt(tree: Path, task: tuple[Mutant, list[str], float, float]) -> dict[str, Any]:
    """What becomes of a mutant."""
    mutant, ids, expected, budget = task
    files = list(dict.fromkeys(id.partition("::")[0] for id in ids))
    told = asdict(mutant) | {"asked": len(ids), "files": files, "budget": budget}
    told |= {"status": "no tests", "seconds": 0, "by": ""}
    if not ids:
        return told
    for file in files:  # each in a process of its own, as in step 2
        with broken(tree, mutant):
            ran = run(tree, [file, "-x"], max(60, 6 * expected), only=ids)
        told["seconds"] = round(told["seconds"] + ran["seconds"], 1)
        told["status"] = {0: "survived", None: "timeout", 5: "no tests", 70: "error"}.get(ran["code"], "killed")
        if told["status"] != "survived":
            by = [*ran["failed"], f"exit code {ran['code']}"][0] if told["status"] == "killed" else ""
            return told | {"by": by, "output": ran["output"] if not by else ""}
    return told


def control(tree: Path, ids: list[str]) -> set[str]:
    """Which of these tests of one file fail in a copy that is not broken."""
    ran = run(tree, [ids[0].partition("::")[0]], 1800, only=ids)
    return set(ran["failed"]) if "tests" in ran else set(ids)


def campaign(given: argparse.Namespace, mutants: list[Mutant], areas: dict[str, Any], code: str) -> None:
    """Ask the tests about every mutant that has no result yet, then see that the tests that noticed are sound."""
    trees = [given.out / f"copy-{number}" for number in range(1, given.workers + 1)]
    for tree in trees:
        refresh(given.root, tree)
    for name in PRELOADED:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)
    folder, store = given.out / f"coverage-{code}", given.out / "results.jsonl"
    folder.mkdir(exist_ok=True)
    files = sorted(str(path.relative_to(given.root)) for path in (given.root / "tests").rglob("test_*.py"))
    stored = {file: folder / (file.replace("/", "+") + ".json") for file in files}
    missing = [(file, given.patience) for file in files if not stored[file].exists()]
    for number, ((file, _), told) in enumerate(pool(trees, measure, missing), 1):
        stored[file].write_text(json.dumps(told))
        counts = (
            f"{len(told.get('tests', []))} ran, {len(told.get('left', []))} left, failed: {told['failed'] or 'none'}"
        )
        trouble = "" if "lines" in told else f", NOT MEASURED: exit code {told['code']}, {told['output'][-300:]}"
        print(f"coverage {number}/{len(missing)} {told['seconds']} s {file}: {counts}{trouble}", flush=True)
    done, unsound = results(store, code)
    index = Index({file: json.loads(path.read_text()) for file, path in stored.items()}, unsound)
    done = {id for id, told in done.items() if told["status"] != "survived" or told["budget"] >= given.budget}
    chosen = {m: index.choose(m, areas[m.area]["tests"], given.budget) for m in mutants if m.id not in done}
    tasks = [(mutant, *those, given.budget) for mutant, those in chosen.items()]
    with store.open("a") as log:
        for number, ((mutant, *_), told) in enumerate(pool(trees, attempt, tasks), 1):
            print(json.dumps(told | {"code": code}), file=log, flush=True)
            progress = f"{number}/{len(tasks)} {told['status']} {told['seconds']} s, {told['asked']} tests"
            print(f"{progress}: {mutant.file}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
        noticed: dict[str, set[str]] = defaultdict(set)  # test file -> tests
        for told in results(store, code)[0].values():
            if "::" in told["by"]:
                noticed[told["by"].partition("::")[0]].add(told["by"])
        unsound = {id for _, failed in pool(trees, control, [sorted(ids) for ids in noticed.values()]) for id in failed}
        print(json.dumps({"unsound": sorted(unsound), "code": code}), file=log)
    print(f"control: tests that noticed something, but fail without any change: {sorted(unsound) or 'none'}")


def results(store: Path, code: str) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """The last result of every mutant of this code, and the tests that turned out to be unsound."""
    every = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    unsound = {id for told in every if told["code"] == code for id in told.get("unsound", [])}
    done = {told["id"]: told for told in every if told["code"] == code and "id" in told}
    return {id: told for id, told in done.items() if told["by"] not in unsound}, unsound


def table(done: list[dict[str, Any]], equivalent: list[dict[str, str]], areas: dict[str, Any]) -> str:
    """Markdown: what became of the mutants, by area."""
    same = {
        (entry["line"], entry["replacement"], entry[place]) for entry in equivalent for place in ("file", "function")
    }
    counts: dict[str, Counter[str]] = {area: Counter() for area in areas}
    for told in done:
        alike = same & {(told["before"], told["after"], told[place]) for place in ("file", "function")}
        counts[told["area"]]["equivalent" if alike and told["status"] == "survived" else told["status"]] += 1
    counts["all"] = sum(counts.values(), Counter())
    columns = ["killed", "timeout", "survived", "equivalent", "no tests", "error"]
    lines = [f"| area | mutants | {' | '.join(columns)} | share killed |", "|---|" + "---:|" * (len(columns) + 2)]
    for area, count in counts.items():
        share = (count["killed"] + count["timeout"]) / max(count.total() - count["equivalent"], 1)
        lines.append(f"| {area} | {count.total()} | {' | '.join(str(count[c]) for c in columns)} | {share:.1%} |")
    return "\n".join(lines)


def main() -> int:
    """Exit code 0 when all is done, however much the tests notice; 2 for a wrong option."""
    first, rest = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=root, help="the repository (default: the one of this script)")
    parser.add_argument("--out", type=Path, help="folder of copies and results (default: outputs/mutation there)")
    parser.add_argument("--areas", type=Path, help='JSON file instead of AREAS: {AREA: {"code": [..], "tests": [..]}}')
    parser.add_argument("--only", metavar="AREA", help="only this area")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another sample (default: 1)")
    parser.add_argument("--mutants", type=int, default=35, help="mutants per area (default: 35)")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--budget", type=float, default=90, help="seconds of tests per mutant (default: 90)")
    parser.add_argument("--patience", type=float, default=15, help="coverage: seconds per test function (default: 15)")
    told = "JSON list of mutants that change nothing, judged by hand: {file, function, line, replacement, reason}"
    parser.add_argument("--equivalent", type=Path, help=told)
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("--table", action="store_true", help="only the table of what has been done so far")
    given = parser.parse_args()
    given.root = given.root.resolve()
    given.out = (given.out or given.root / "outputs" / "mutation").resolve()
    areas = json.loads(given.areas.read_text()) if given.areas else AREAS
    if given.only and given.only not in areas:
        parser.error(f"--only must be one of {', '.join(areas)}, got {given.only}")
    areas = {area: globs for area, globs in areas.items() if given.only in (None, area)}
    mutants = draw(given.root, areas, given.seed, given.mutants)
    if given.list:
        for mutant in mutants:
            print(f"{mutant.id} {mutant.area}: {mutant.file}:{mutant.line}: {mutant.before}  ->  {mutant.after}")
        return 0
    given.out.mkdir(parents=True, exist_ok=True)
    code = fingerprint(given.root)
    if not given.table:
        campaign(given, mutants, areas, code)
    done, _ = results(given.out / "results.jsonl", code)
    equivalent = json.loads(given.equivalent.read_text()) if given.equivalent else []
    print(table([done[mutant.id] for mutant in mutants if mutant.id in done], equivalent, areas))
    return 0


if __name__ == "__main__":
    sys.exit(main())
