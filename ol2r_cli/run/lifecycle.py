"""What happens to every run in its directory, whatever it does there: it begins, is interrupted, fails or finishes."""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch

from ol2r_cli.config.overrides import command_of
from ol2r_cli.plugins import Render
from ol2r_cli.run import DONE, FAILED, INTERRUPTED, LOG, MANIFEST, stop_signals
from ol2r_cli.run.own_code import explained, is_own
from ol2r_cli.run.own_time import OwnTime
from ol2r_cli.run.run import DamagedFile, Run
from ol2r_cli.run.store import LOGGER, DirectoryLost, LogFile, Manifest, RunDirectory
from ol2r_cli.source import ChangedSource, check_unchanged
from ol2r_cli.text.formatting import error_line
from ol2r_cli.text.program import as_called, if_there

# Errors whose message says what to type; a traceback adds nothing.
EXPLAINED = (OSError, FloatingPointError, torch.linalg.LinAlgError, DirectoryLost, DamagedFile, ChangedSource)
_log = logging.getLogger(LOGGER)


class Lifecycle(ABC):
    """Does the work of a run, and keeps its directory, which must be locked, up to date.

    The constructor writes nothing. `words` are those of the command that runs it again. `render` gives what is printed
    at the end; None prints no progress either.
    `settings` has `force` and, where the run has checkpoints, `keep_checkpoint`.

    `run` does all of the work. The parts of it are `start`, work that `attempt` does within `working`, and `_close`.
    `code` is None until the run has ended. A subclass says what the work is, and its `kind_name` is the command of it.
    """

    kind_name: str  # the name of its `RunKind`
    code: int | None = None  # the exit code, once the run has ended
    error: Exception | None = None  # that of a run that has failed
    check: Callable[[], None] = staticmethod(check_unchanged)  # a batch has one for all of its runs
    manifest: Manifest

    def __init__(
        self, settings: Mapping[str, Any], directory: RunDirectory, words: Sequence[str], render: Render | None
    ):
        self.settings, self.directory = settings, directory
        self.words, self.command, self.render = words, command_of(words, self.kind_name), render

    @abstractmethod
    def _resume(self) -> int:
        """Load the checkpoint, if there is one; returns the last completed round."""

    @abstractmethod
    def _manifest(self, first: int) -> Manifest:
        """Write the settings, and return the manifest of a run that begins after round `first`."""

    @abstractmethod
    def _introduce(self, first: int) -> None:
        """Log and show what is known before the first round, which follows round `first`."""

    @abstractmethod
    def _play(self) -> None:
        """Do all of the work that is left, write the results, and `_close`."""

    @abstractmethod
    def _interrupted(self) -> tuple[str, str]:
        """Return where the run is, and what the same command does from there."""

    def run(self) -> int:
        """Do the work that is left and return the exit code; ChangedSource where ol2r is another one now."""
        with stop_signals() as stop:
            self.start(stop)
            if self.code is None:
                with self.working():
                    self.attempt(self._play)
        assert self.code is not None
        if self.code == DONE:
            self.clean_up()
            if self.render:
                print(self.render(Run.read_finished(self.directory.path), False))
        return self.code

    def start(self, stop: list[int]) -> None:
        """Load the checkpoint and begin to write. The run is interrupted as soon as there is a signal in `stop`.

        Raises what is wrong before the log is open, as a checkpoint that does not fit. Whatever is wrong later ends the
        run with an exit code.
        """
        self.check()
        if self.settings["force"]:
            self.directory.clear()
        first = self._resume()
        self.stop, self._log_file, self._open = stop, LogFile(self.directory), ExitStack()
        self.time = OwnTime()
        with self.working():
            self.attempt(lambda: self._begin(first))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Surround everything that is done for this run while others are played too: its log, and the time it takes."""
        with self._log_file.receiving(), self.time.counting():
            yield

    def attempt(self, part: Callable[[], object]) -> None:
        """Do a part of the work. An error in it is logged and printed, and ends the run with its exit code."""
        try:
            with ExitStack() as closing:
                closing.push(self._open)
                part()
                closing.pop_all()  # nothing was raised: what is open stays open
        except KeyboardInterrupt:
            command = "the same command" + (" without force=true" if self.settings["force"] else "")
            where, how = self._interrupted()
            _log.info("interrupted %s: %s %s", where, command, how)
            print(f"interrupted {where}: {command} {how}", file=sys.stderr)
            self.code = INTERRUPTED
        except Exception as error:
            self._report(error)
            self.code, self.error = FAILED, error
        if self.code is not None:
            self._log_file.close()

    def _report(self, error: Exception) -> None:
        """Log and print why the run has failed."""
        _log.error("%s", traceback.format_exc())
        print(f"ol2r {self.kind_name}: failed: {as_called(self._explain(error))}", file=sys.stderr)
        if not (self.directory / MANIFEST).is_file():
            with suppress(DirectoryLost):
                self.directory.clear()  # the first file could not be written: there is no run
        elif not isinstance(error, EXPLAINED):
            print(f"the traceback is in {self.directory / LOG}", file=sys.stderr)

    def clean_up(self) -> None:
        """Remove what a finished run does not need, after its manifest says so: one that is killed before needs it."""
        with suppress(OSError):
            self.directory.clean_up(bool(self.settings.get("keep_checkpoint")))

    def _begin(self, first: int) -> None:
        self.manifest = self._open.enter_context(self._manifest(first))
        self._introduce(first)

    def _close(self) -> None:
        """Let the manifest say that the run is finished."""
        self.check()  # a module that was imported meanwhile could be of another version
        self._open.close()
        self.code = DONE

    def _explain(self, error: Exception) -> str:
        """Return an error in one line, where possible with what to type."""
        if isinstance(error, DamagedFile):
            return f"{error}, while the run was writing to it: run it again"
        if isinstance(error, ChangedSource):
            return str(error)
        if is_own(error):
            return explained(error)
        if not isinstance(error, OSError):
            return error_line(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            how = if_there(", for example with `ol2r clean`")
            what = f"no space is left for output_dir ({self.directory.path}): free some{how}"
        else:
            what = f"output_dir ({self.directory.path}) must be a folder that can be used, got: {error.strerror}"
        return f"{what}, and the same command goes on from the last checkpoint; or type output_dir=DIR"
