"""Runs tests in processes forked from this one, and writes down what becomes of them and which lines they execute."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import coverage
import pytest

PYTEST = ["-p", "no:cacheprovider", "-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]


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
