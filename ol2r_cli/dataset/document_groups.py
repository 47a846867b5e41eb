"""Document groups for fairness: by a threshold on a feature, or one number per document from a file.

The thresholds of the published experiments are on per-query min-max features: MSLR in-link number (feature 128) at 0
and PageRank (130) at 0.12, Yahoo feature 471 at 0 and feature 9 at 0.92. Group 0 is their A, group 1 their B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ol2r_cli.config.instantiate import check_settings
from ol2r_cli.config.ranges import Count
from ol2r_cli.dataset.cache import expand
from ol2r_cli.dataset.table import setting
from ol2r_cli.tensor.shapes import Float, Int

LARGEST_GROUP = 127  # groups are stored as int8


@dataclass(frozen=True)
class GroupThreshold:
    """Group 1 where a feature is at most `threshold`, else group 0.

    `feature` is its id, from 1. `on`: compare values before (`raw`) or after normalisation. `zeroed`: rankers see 0
    in place of the feature, so that they cannot learn the group from it.
    """

    feature: Count
    threshold: float
    on: Literal["raw", "normalised"] = "normalised"
    zeroed: bool = True

    def divide(self, values: Float[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
        """The group of each document, int8, from its value of the feature."""
        return (values <= self.threshold).astype(np.int8)


@dataclass(frozen=True)
class GroupFile:
    """Groups from a file with one integer per line, in the order of the documents of train, validation and test."""

    file: Path

    def read(self, documents: int) -> Int[np.ndarray, "N"]:
        """The groups, int8, N = `documents`.

        Raises ValueError when the file is missing, when a line is no group number, and when the number of lines is
        not `documents`.
        """
        if not self.file.is_file():
            raise ValueError(f"{setting('group.file')} must be a file, got {self.file}")
        lines = self.file.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if not line.strip().isdecimal() or int(line) > LARGEST_GROUP:
                expected = f"a whole number from 0 to {LARGEST_GROUP}"
                raise ValueError(f"{self.file}:{number}: found {line[:40]!r}, expected {expected}")
        if len(lines) != documents:
            raise ValueError(
                f"{setting('group.file')} must have one line per document ({documents}), got {len(lines)} lines"
            )
        return np.array(lines, dtype="U").astype(np.int8)


def group_rule(settings: Mapping[str, Any] | None) -> GroupThreshold | GroupFile | None:
    """The rule of the setting `group`: null, {feature, threshold, on, zeroed} or {file}; ValueError for others."""
    if settings is None:
        return None
    if set(settings) == {"file"}:
        return GroupFile(expand(str(settings["file"])))
    if {"feature", "threshold"} <= set(settings) <= {"feature", "threshold", "on", "zeroed"}:
        check_settings(GroupThreshold, settings, setting("group"))
        return GroupThreshold(**settings)
    raise ValueError(
        f"{setting('group')} must be null, {{file: FILE}} or {{feature: ID, threshold: X, on: raw|normalised, "
        f"zeroed: true|false}}, got {settings!r}"
    )
