"""`ol2r` in processes of its own that start in a tenth of a second: forked from a server that has torch imported."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")
# Not polars: its threads do not survive a fork; imported but unused, they have not started.
_SERVER.set_forkserver_preload(["torch", "hydra", "ol2r_cli.experiment", "ol2r_cli.sitting", "ol2r_cli.run"])


class Launched:
    """A running `ol2r ARGUMENTS`; what it prints goes to `output` and `errors`."""

    def __init__(self, arguments: list[str], folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._files = folder / "output", folder / "errors"
        self._process = _SERVER.Process(target=_main, args=(arguments, *map(str, self._files)))
        self._process.start()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def send(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self._process.is_alive():
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        self._process.join(60)
        assert self._process.exitcode is not None, f"still running: {self.errors}"
        return self._process.exitcode

    def until(self, reached: Callable[[], object]) -> None:
        """Wait until something is so, while it runs."""
        while not reached():
            assert self._process.is_alive(), f"ended too early: {self.errors}"
            time.sleep(0.002)

    @property
    def output(self) -> str:
        return self._files[0].read_text()

    @property
    def errors(self) -> str:
        return self._files[1].read_text()


def _main(arguments: list[str], output: str, errors: str) -> None:
    for descriptor, file in (1, output), (2, errors):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    from ol2r_cli.cli import main

    sys.exit(main(arguments))
