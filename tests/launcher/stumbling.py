"""Rankers of a user that fail, or take their time, on request."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ol2r_cli.interfaces import Interaction
from ol2r_cli.ranker.model_ranker import RandomRanker
from ol2r_cli.ranker.pairrank import PairwiseRanker
from ol2r_cli.tensor.streams import Random

SLOW = """
# PairRank with its defaults, slow while a file exists.
defaults:
  - override /exploration@_global_.exploration: confidence

_target_: tests.launcher.stumbling.Slow
stone: {stone}  # a file
"""

CHOICE = """
# Fails in its fifth round while a file exists.
_target_: tests.launcher.stumbling.Stumbling
how: {how}  # none | raise | kill
stone: {stone}  # a file
"""


class Stumbling(RandomRanker):
    """Ranks at random; in its fifth round it fails as `how` says (none, raise, kill) while the file `stone` exists."""

    def __init__(self, how: str, stone: str):
        super().__init__()
        if how not in ("none", "raise", "kill"):
            raise ValueError(f"ranker.how must be none, raise or kill, got {how!r}")
        self.how, self.stone, self.rounds = how, Path(stone), 0

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Learns nothing, and fails in round 5."""
        self.rounds += 1
        if self.rounds == 5 and self.stone.exists():
            if self.how == "raise":
                raise RuntimeError("stumbled over a stone")
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)


class Slow(PairwiseRanker):
    """PairRank, of which a round takes at least a tenth of a second while the file `stone` exists."""

    def __init__(self, stone: str):
        super().__init__(0.01, "mean", "matching", "newton", window=None, discount=1.0)
        self.stone = Path(stone)

    def learn(self, interaction: Interaction, random: Random) -> None:
        """Learns as PairRank does."""
        if self.stone.exists():
            time.sleep(0.1)
        super().learn(interaction, random)


def own_configs(folder: Path, stone: Path, how: str = "none") -> Path:
    """A folder for --config-dir with `ranker=stumbling` and `ranker=slow`."""
    (folder / "ranker").mkdir(parents=True)
    (folder / "ranker" / "slow.yaml").write_text(SLOW.format(stone=stone).lstrip())
    (folder / "ranker" / "stumbling.yaml").write_text(CHOICE.format(stone=stone, how=how).lstrip())
    return folder
