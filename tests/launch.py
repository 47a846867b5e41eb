"""Runs `ol2r` in processes that start in a tenth of a second: they are forked from a server that has imported torch."""

from __future__ import annotations

import fcntl
import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from ol2r_cli.run import trace

_SERVER = multiprocessing.get_context("forkserver")
# Polars is imported along with them. Its threads would not survive a fork, but it starts them only when it is used.
_SERVER.set_forkserver_preload(["torch", "hydra", "ol2r_cli.run.runner", "ol2r_cli.commands.run"])


class Launched:
    """A process that runs `ol2r ARGUMENTS` after `prepare`; `output` and `errors` are what it prints."""

    def __init__(self, arguments: list[str], folder: Path, prepare: Callable[[], object] = bool):
        folder.mkdir(parents=True, exist_ok=True)
        self._files = folder / "output", folder / "errors"
        self._process = _SERVER.Process(target=_main, args=(arguments, prepare, *map(str, self._files)))
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def send(self, number: int) -> None:
        """Send a signal if the process still runs."""
        if self._process.is_alive():
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the end; returns the exit code, or minus the signal that killed the process."""
        self._process.join(600)  # seconds; the machine may be busy
        assert self._process.exitcode is not None, f"still running: {self.errors}"
        return self._process.exitcode

    def until(self, reached: Callable[[], object]) -> None:
        """Wait until a condition is true; the process must not end before."""
        while not reached():
            assert self._process.is_alive(), f"ended too early: {self.errors}"
            time.sleep(0.002)

    @property
    def output(self) -> str:
        return self._files[0].read_text()

    @property
    def errors(self) -> str:
        return self._files[1].read_text()


def ended(function: Callable[..., object], *arguments: object) -> int:
    """Call a function in a process of its own; returns the exit code, or minus the signal that killed the process."""
    process = _SERVER.Process(target=function, args=arguments)
    process.start()
    process.join(600)  # seconds; the machine may be busy
    assert process.exitcode is not None, "still running"
    return process.exitcode


def execute(script: Path, module: str, kept: Path, words: list[str], output: Path) -> None:
    """Execute a script as a module of this name, which keeps machine code in a folder; writes what it prints."""
    from ol2r_cli.loops import compile as compiling

    compiling.FOLDER, sys.argv = str(kept), [str(script), *words]
    sys.path.insert(0, str(script.parent))
    with output.open("w") as file, redirect_stdout(file):
        exec(compile(script.read_text(), str(script), "exec"), {"__name__": module})


def without_locks() -> None:
    """Let flock have no effect."""
    fcntl.flock = lambda *_: None


def die_before(count: int, part_bytes: int) -> None:
    """Kill this process by SIGKILL in place of its `count`-th fsync, rename or unlink. Parts of tables of so many bytes
    are not written again."""
    trace.PART_BYTES = part_bytes
    operations = itertools.count(1)

    def counting(operation):
        def count_down(*arguments, **keywords):
            if next(operations) == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **keywords)

        return count_down

    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, counting(getattr(os, name)))


def _main(arguments: list[str], prepare: Callable[[], object], output: str, errors: str) -> None:
    prepare()
    for descriptor, file in (1, output), (2, errors):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    from ol2r_cli.cli import main

    sys.exit(main(arguments))
