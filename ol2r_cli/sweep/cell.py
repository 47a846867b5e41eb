"""One job of a sweep as it is planned: what was typed, what it comes to, and how it ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ol2r_cli.launcher.job import Job, payload
from ol2r_cli.results.directory import MANIFEST
from ol2r_cli.results.survey import RunState, read_state

NEW, RESUMES, FINISHED, RUNNING, BAD = "new", "resumes", "finished", "running", "bad"  # before the sweep
DONE, SKIPPED, FAILED, STOPPED, LEFT = "done", "skipped", "failed", "interrupted", "not started"  # after it
ELSEWHERE = "running elsewhere"  # likewise


@dataclass(eq=False)
class Cell:
    """A job, from its words to its end.

    `settings` are empty and `directory` is None as long as nothing is known, and when it is bad; `reason` says why it
    is bad or has failed. `ending` is empty before the sweep; `seconds` is how long it took in this sweep.
    """

    number: int
    words: tuple[str, ...]
    name: str = ""
    options: tuple[str, ...] = ()  # `--config-dir DIR`
    settings: Mapping[str, Any] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    directory: Path | None = None
    reason: str = ""
    bad: bool = False
    ending: str = ""
    log: Path | None = None
    before: bytes | None = None  # the manifest that was there when it was handed over
    seconds: float = 0.0

    @property
    def command(self) -> str:
        """The line that runs it by itself."""
        return f"ol2r run {shlex.join([*self.words, *self.options])}".strip()

    @property
    def well(self) -> bool:
        """Whether its run is there, finished."""
        return self.ending in (DONE, SKIPPED)

    @property
    def on_gpu(self) -> bool:
        """Whether it would use whatever GPU it is given."""
        return self.settings["device"]["name"] in ("auto", "cuda")

    def found(self) -> RunState | None:
        """What is in its run directory now; None where there is no run."""
        return read_state(self.directory) if self.directory else None

    def state(self) -> tuple[str, int]:
        """One of the five states before a sweep, and the round from which the run would go on."""
        if self.bad:
            return BAD, 0
        found = self.found()
        if found is None or self.settings["force"]:
            return NEW, 0
        if found.state in (FINISHED, RUNNING):
            return found.state, found.round
        kept = self.directory is not None and (self.directory / "checkpoint.pt").is_file()
        return (RESUMES, found.round) if kept else (NEW, 0)

    def job(self) -> Job:
        """For a launcher. What it prints goes to a file below `output_dir` with the name of the run."""
        assert self.directory is not None
        self.before = _manifest(self.directory)
        folder = Path(str(self.settings["output_dir"])).expanduser() / ".sweep" / self.directory.parent.name
        self.log = folder / f"{self.directory.name}.log"
        content = payload(self.settings, self.choices, [*self.words, *self.options])
        return Job(self.number, self.name, self.command, content, self.directory, self.log)

    def again(self, job: Job) -> Job:
        """The same once more: from its checkpoint, also where `force=true` made it begin afresh; if it did begin."""
        begun = _manifest(self.directory) != self.before
        settings = {**self.settings, "force": self.settings["force"] and not begun}
        return replace(job, payload=payload(settings, self.choices, [*self.words, *self.options]))


def _manifest(directory: Path | None) -> bytes | None:
    """run.json as it is; None where there is none."""
    try:
        return (directory / MANIFEST).read_bytes() if directory else None
    except FileNotFoundError:
        return None


def name_cells(cells: Sequence[Cell]) -> None:
    """Each by those of its words that not all have; by all of them where that leaves nothing."""
    common = set[str].intersection(*(set(cell.words) for cell in cells)) if len(cells) > 1 else set[str]()
    for cell in cells:
        cell.name = " ".join(word for word in cell.words if word not in common) or " ".join(cell.words) or "ol2r run"
