"""Document groups for fairness: group 1 where a feature is at most a threshold, or one number per document from a file.

The thresholds of the published experiments are on per-query min-max features: MSLR in-link number (128) at 0 and
PageRank (130) at 0.12, Yahoo feature 471 at 0 and feature 9 at 0.92. Group 0 is their A, group 1 their B.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ol2r_cli.shapes import Float, Int

LARGEST_GROUP = 127  # groups are kept as int8


@dataclass(frozen=True)
class Threshold:
    """Group 1 where `feature` (its id, from 1) <= `threshold`, before or after normalisation."""

    feature: int
    threshold: int | float
    on: str = "normalised"  # or raw
    zeroed: bool = True  # the ranking features then have 0 there, so that the group is not learned from it

    def __post_init__(self) -> None:
        if self.on not in ("raw", "normalised"):
            raise ValueError(f"dataset.group.on must be 'raw' or 'normalised', got {self.on!r}")
        if isinstance(self.feature, bool) or not isinstance(self.feature, int) or self.feature < 1:
            raise ValueError(f"dataset.group.feature must be a feature id from 1, got {self.feature!r}")
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float):
            raise ValueError(f"dataset.group.threshold must be a number, got {self.threshold!r}")
        if not isinstance(self.zeroed, bool):
            raise ValueError(f"dataset.group.zeroed must be true or false, got {self.zeroed!r}")

    def divide(self, values: Float[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
        """The group of each document, from its value of the feature."""
        return (values <= self.threshold).astype(np.int8)


@dataclass(frozen=True)
class Listed:
    """One integer a line, in the order of the documents of train, validation and test file."""

    file: Path

    def read(self, documents: int) -> Int[np.ndarray, "N"]:
        """The groups; raises ValueError when a line is no group number or the number of lines is not `documents`."""
        if not self.file.is_file():
            raise ValueError(f"dataset.group.file must be a file, got {self.file}")
        lines = self.file.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if not line.strip().isdecimal() or int(line) > LARGEST_GROUP:
                expected = f"a whole number from 0 to {LARGEST_GROUP}"
                raise ValueError(f"{self.file}:{number}: found {line[:40]!r}, expected {expected}")
        if len(lines) != documents:
            raise ValueError(
                f"dataset.group.file must have one line per document ({documents}), got {len(lines)} lines"
            )
        return np.array(lines, dtype="U").astype(np.int8)


def group_rule(setting: Mapping[str, Any] | None) -> Threshold | Listed | None:
    """The rule a setting describes: null, {feature, threshold, on, zeroed} or {file}."""
    if setting is None:
        return None
    keys = set(setting) if isinstance(setting, Mapping) else set()
    if keys == {"file"}:
        return Listed(Path(os.path.expandvars(str(setting["file"]))).expanduser())
    if keys >= {"feature", "threshold"} and keys <= {"feature", "threshold", "on", "zeroed"}:
        return Threshold(**{str(key): value for key, value in setting.items()})
    raise ValueError(
        "dataset.group must be null, {file: FILE} or {feature: ID, threshold: X, on: raw|normalised, "
        f"zeroed: true|false}}, got {setting!r}"
    )
