"""What a fault campaign counts."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

_EVERY = 30.0  # seconds between two lines of progress


@dataclass
class Tally:
    """The outcomes of one campaign. Every case ends in exactly one of the three columns.

    survived: the results are those of an undisturbed run, or the input was accepted and read correctly. refused: the
    command ended with a message that says what to type, a truthful exit code and a truthful state on disk. wrong: one
    line per case of anything else, with what reproduces it.
    """

    name: str
    survived: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    _shown: float = field(default_factory=time.monotonic)

    @property
    def tried(self) -> int:
        """The number of cases."""
        return self.survived + self.refused + len(self.wrong)

    def add(self, case: str, problem: str, refused: bool = False) -> None:
        """Count a case. `problem` is what is wrong with it, empty if nothing is."""
        if problem:
            self.wrong.append(f"{case}: {problem}")
            print(f"{self.name}: wrong: {self.wrong[-1]}", file=sys.stderr, flush=True)
        elif refused:
            self.refused += 1
        else:
            self.survived += 1
        if time.monotonic() - self._shown > _EVERY:
            self._shown = time.monotonic()
            print(f"{self.name}: {self.tried:,} tried, {len(self.wrong):,} wrong", file=sys.stderr, flush=True)

    def row(self) -> str:
        """A row of the markdown table."""
        return f"| {self.name} | {self.tried:,} | {self.survived:,} | {self.refused:,} | {len(self.wrong):,} |"
