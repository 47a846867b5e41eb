"""The small run that campaigns disturb, and what must hold of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

import torch
from faults import TINY, Ended, ol2r

import ol2r_cli.commands.run
import ol2r_cli.run.runner  # noqa: F401 - before any fork
from ol2r_cli.run.directory import RunDirectory
from ol2r_cli.run.integrity import read_table
from ol2r_cli.run.run_state import read_state
from ol2r_cli.run.tables import BLOCKS, EVALUATION, INTERACTIONS, TRACE
from ol2r_cli.run.verification import differences

TABLES = [table.file for table in (TRACE, EVALUATION, BLOCKS, INTERACTIONS)]
RESULTS = [*TABLES, "summary.json", "ranker.pt", "config.yaml"]
REFUSALS = ("ol2r run: ", "starts afresh: ", "interrupted after ", "the traceback is in ")


class SmallRun:
    """A run on data in files, which writes every kind of file below `folder`, and the results of an undisturbed one."""

    def __init__(self, folder: Path, *more: str):
        torch.set_num_threads(1)
        self.folder = folder
        self.words = words(folder, *more)
        ended = self.run()
        if ended.code:
            raise RuntimeError(f"the undisturbed run fails: {ended.errors}")
        self.operations = ended.operations
        self.files = sorted(path.name for path in self.path.iterdir())
        self.results = {name: (self.path / name).read_bytes() for name in RESULTS}

    @property
    def path(self) -> Path:
        """The directory of the run; it exists only after its beginning."""
        runs = [path.parent for path in self.folder.glob("outputs/*/*/run.json")]
        return runs[0] if runs else self.folder / "no run"

    def run(self) -> Ended:
        """Run it undisturbed, or resume it."""
        return ol2r(self.words, self.folder)

    def clear(self) -> None:
        """Remove everything that it has written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def wrong_now(self) -> str:
        """What is wrong after a disturbance: a run that is called finished and is not, a table that is not sealed."""
        return checked(self._wrong_now)

    def _wrong_now(self) -> str:
        state = read_state(self.path)
        if state is not None and state.state == "finished":
            return self.difference()
        for name in TABLES:
            if (self.path / name).is_file():
                read_table(self.path / name, run=RunDirectory(self.path).id)
        return ""

    def wrong_at_the_end(self) -> str:
        """What is wrong after the same command was given once more, which must give the undisturbed results."""
        ended = self.run()
        if ended.code or bad_output(ended.errors):
            return f"the next command ended with {ended.code}: {ended.errors[-300:]!r}"
        if problem := self.difference():
            return problem
        left = sorted({path.name for path in self.path.iterdir()} ^ {*self.files})
        return f"left behind, or missing: {', '.join(left)}" if left else checked(self._not_intact)

    def difference(self, without: Collection[str] = ()) -> str:
        """Which file of the run, except for those `without`, differs from that of the undisturbed one."""
        for name, content in self.results.items():
            file = self.path / name
            if name not in without and (not file.is_file() or file.read_bytes() != content):
                return f"{name} differs from that of an undisturbed run"
        return ""

    def _not_intact(self) -> str:
        state = read_state(self.path)
        return "; ".join(differences(state)) if state is not None else "no run"


def words(folder: Path, *more: str) -> list[str]:
    """The command."""
    return [
        "run",
        "dataset=letor",
        f"dataset.path={TINY}",
        "rounds=40",
        "evaluate_every=10",
        "checkpoint_rounds=15",
        "replicas=2",
        "device.threads=1",
        "save_interactions=true",
        "block_rounds=[1,20]",
        f"output_dir={folder / 'outputs'}",
        f"cache_dir={folder / 'cache'}",
        *more,
    ]


def bad_output(errors: str) -> str:
    """The first line on stderr that is not one of a known kind; more than two lines are bad, too."""
    lines = errors.splitlines()
    return next((line for line in lines if not line.startswith(REFUSALS)), "" if len(lines) < 3 else lines[2])


def checked(question: Callable[[], str]) -> str:
    """The answer of a function that uses polars, whose threads do not survive a fork: it is asked in a fork itself."""
    with tempfile.TemporaryFile("w+") as answer:
        process = os.fork()
        if not process:
            try:
                answer.write(question())
            except BaseException as error:
                answer.write(f"{type(error).__name__}: {error}")
            answer.flush()
            os._exit(0)
        if code := os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]):
            return f"a look at the run ended with {code}"
        answer.seek(0)
        return answer.read()
