"""A ranker of a user in two files outside the repository, which tests run, edit and run again."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

from ol2r_cli import cli
from ol2r_cli.run.run import Run, find_runs
from tests.moments import stop_at
from tests.worlds import TINY

RANKER = '''\
"""Moves by every misplaced pair."""

from ol2r_cli.config.ranges import Positive
from ol2r_cli.interfaces import Interaction
from ol2r_cli.learning.model import Model
from ol2r_cli.learning.preferences import Pairs
from ol2r_cli.ranker.model_ranker import GradientRanker
from ol2r_cli.tensor.streams import Random


class Mine(GradientRanker):
    """`pairs` selects how clicks become preferences."""

    def __init__(self, model: Model, learning_rate: Positive, pairs: Pairs):
        super().__init__(model, learning_rate, decay=1.0)
        self.pairs = pairs

    def learn(self, interaction: Interaction, random: Random) -> None:
        from steps import size

        weights = size(self.margins(interaction), interaction.preferences.valid)  # of each pair
        self.move(self.pair_gradient(interaction, weights), (weights != 0).any(1))
'''
STEPS = '''\
"""The size of a step."""


def size(margins, valid):
    """Minus 1 is a mistake."""
    return -(valid & (margins <= 0)).to(margins.dtype)
'''
FIXED = STEPS.replace("return -(", "return (")
CHOICE = """\
# Every misplaced pair.
defaults:
  - model: linear
  - override /exploration@_global_.exploration: none

_target_: mine.Mine
learning_rate: 0.1  # above 0
pairs: matching
"""
RANKER_WORDS = ["--config-dir=choices", "ranker=mine"]
WORDS = [*RANKER_WORDS, *TINY, "click=perfect", "rounds=40", "evaluate_every=20"]


class OwnRanker:
    """The files of the ranker, in the working folder, and runs of it in this process."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.write("choices/ranker/mine.yaml", CHOICE)
        self.write("mine.py", RANKER)
        self.write("steps.py", STEPS)

    def write(self, name: str, content: str):
        """Write or edit a file; the next run is that of a new process, as far as the ranker is concerned."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(content)
        self.forget()

    def forget(self):
        """Make the next import of the ranker the first: also of what was edited within a second."""
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        for module in "mine", "steps":
            sys.modules.pop(module, None)
        importlib.invalidate_caches()

    def run(self, *words: str, expected: int = 0):
        """`ol2r run` with the ranker."""
        assert cli.main(["run", *WORDS, *words]) == expected

    def interrupt(self, monkeypatch, *words: str, round: int = 25) -> Run:
        """`ol2r run` until a signal comes after a round; returns the state of the run."""
        before = set(find_runs("outputs"))
        with monkeypatch.context() as patch:
            stop_at(patch, round)
            self.run(*words, expected=130)
        (path,) = set(find_runs("outputs")) - before
        return self.state(path)

    @staticmethod
    def state(path: Path) -> Run:
        """The state of a run, which must exist."""
        state = Run.read(path)
        assert state is not None
        return state

    def runs(self) -> list[Run]:
        """All runs, those first that were started first."""
        return sorted(map(self.state, find_runs("outputs")), key=lambda run: (run.path / "config.yaml").stat().st_mtime)
