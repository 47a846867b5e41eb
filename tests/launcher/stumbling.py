"""A ranker of a user that fails on request, for sweeps in which a job fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ol2r_cli.interfaces import Interaction
from ol2r_cli.ranker.model_ranker import RandomRanker
from ol2r_cli.tensor.streams import Random

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


def own_configs(folder: Path, stone: Path, how: str = "none") -> Path:
    """A folder for --config-dir with `ranker=stumbling`."""
    (folder / "ranker").mkdir(parents=True)
    (folder / "ranker" / "stumbling.yaml").write_text(CHOICE.format(stone=stone, how=how).lstrip())
    return folder
