"""Document groups for fairness: by thresholds on a feature, by its quantiles, or one number per document from a file.

The thresholds of the published experiments are on per-query min-max features: MSLR in-link number (feature 128) at 0
and PageRank (130) at 0.12, Yahoo feature 471 at 0 and feature 9 at 0.92. Group 0 is their A, group 1 their B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from ol2r_cli.config.ranges import Count, Range, check_settings
from ol2r_cli.dataset.cache import Cache, digest, expand
from ol2r_cli.dataset.parse import blocks
from ol2r_cli.dataset.prepare import ParsedTable, normaliser
from ol2r_cli.dataset.table import setting
from ol2r_cli.tensor.shapes import Float, Int

LARGEST_GROUP = 127  # groups are stored as int8


@dataclass(frozen=True)
class GroupThreshold:
    """Group 1 where a feature is at most `threshold`, else group 0.

    With a list of thresholds, the group is the number of those that the feature does not exceed: 0 above all of them.
    `feature` is its id, from 1. `on`: compare values before (`raw`) or after normalisation. `zeroed`: rankers see 0
    in place of the feature, so that they cannot learn the group from it.
    """

    feature: Count
    threshold: float | Sequence[float]
    on: Literal["raw", "normalised"] = "normalised"
    zeroed: bool = True

    def divide(self, values: Float[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
        """Return the group of each document, int8, from its value of the feature."""
        thresholds = self.threshold if isinstance(self.threshold, Sequence) else [self.threshold]
        return np.sum([values <= threshold for threshold in thresholds], axis=0).astype(np.int8)


@dataclass(frozen=True)
class GroupQuantiles:
    """`quantiles` groups of about equal size by the value of a feature; group 0 has the largest values.

    The thresholds between them are quantiles over the documents of the training split. `feature`, `on` and `zeroed` are
    those of `GroupThreshold`.
    """

    feature: Count
    quantiles: Annotated[int, Range(2, LARGEST_GROUP + 1)]
    on: Literal["raw", "normalised"] = "normalised"
    zeroed: bool = True

    def thresholds(self, values: Float[np.ndarray, "N"]) -> GroupThreshold:
        """Return the thresholds, given the values of n training documents; ValueError if a group would be empty.

        Threshold k = 1, 2, .. is the smallest value that at least the share 1 - k / quantiles of the documents do not
        exceed, computed in whole numbers, so that it does not depend on rounding.
        """
        ascending, parts = np.sort(values), self.quantiles
        ranks = [-(-len(values) * (parts - number) // parts) for number in range(1, parts)]  # from 1
        cuts = [float(ascending[rank - 1]) for rank in ranks]
        if len(set(cuts)) < len(cuts) or cuts[0] >= values.max():
            listed = ", ".join(f"{cut:.4g}" for cut in cuts)
            raise ValueError(
                f"{setting('group.quantiles')} must be less, or {setting('group.feature')} another, as feature "
                f"{self.feature} has too few values: its quantiles are {listed}, the largest is {values.max():.4g}"
            )
        return GroupThreshold(self.feature, cuts, self.on, self.zeroed)


GroupRule = GroupThreshold | GroupQuantiles | Path  # a file has one integer per line, in the order of the documents


def group_rule(settings: Mapping[str, Any] | None) -> GroupRule | None:
    """Return the rule of the setting `group`: null, {feature, threshold or quantiles, on, zeroed} or {file}.

    ValueError for others.
    """
    if settings is None:
        return None
    if set(settings) == {"file"}:
        return expand(str(settings["file"]))
    if {"feature", "threshold"} <= set(settings) <= {"feature", "threshold", "on", "zeroed"}:
        check_settings(GroupThreshold, settings, setting("group"))
        _check_thresholds(settings["threshold"])
        return GroupThreshold(**settings)
    if {"feature", "quantiles"} <= set(settings) <= {"feature", "quantiles", "on", "zeroed"}:
        check_settings(GroupQuantiles, settings, setting("group"))
        return GroupQuantiles(**settings)
    raise ValueError(
        f"{setting('group')} must be null, {{file: FILE}} or {{feature: ID, threshold: X, on: raw|normalised, "
        f"zeroed: true|false}}, with threshold: [X, Y, ..] or quantiles: GROUPS for more groups, and in quotes, as in "
        f"'{setting('group')}={{feature: 3, threshold: 0.5}}', got {settings!r}"
    )


def _check_thresholds(threshold: float | Sequence[float]) -> None:
    """Raise ValueError for a list of thresholds that are not different numbers, or too many."""
    if isinstance(threshold, Sequence) and not 1 <= len(set(threshold)) == len(threshold) <= LARGEST_GROUP:
        expected = f"a number, or a list of 1 to {LARGEST_GROUP} different numbers"
        raise ValueError(f"{setting('group.threshold')} must be {expected}, got {list(threshold)}")


def document_groups(
    cache: Cache, table: ParsedTable, train: Int[np.ndarray, "q"], method: str, rule: GroupRule | None
) -> Int[np.ndarray, "N"] | None:
    """Return the group of every document, int8; None without a rule. `method` is the normalisation of the features."""
    if rule is None or isinstance(rule, Path):
        return None if rule is None else _read(rule, len(table.labels))
    if rule.feature > table.features.shape[1]:
        name = setting("group.feature")
        raise ValueError(f"{name} must be at most {table.features.shape[1]}, got {rule.feature}")
    column = table.features[:, rule.feature - 1 : rule.feature]
    method = "none" if rule.on == "raw" else method
    depends = train.tolist() if method == "global_zscore" or isinstance(rule, GroupQuantiles) else None
    cuts: Any = {"quantiles": rule.quantiles} if isinstance(rule, GroupQuantiles) else rule.threshold
    identity = {"table": table.key, "train": depends, "method": method, "group": [rule.feature, cuts]}

    def build(folder: Path) -> None:
        training = table.rows_of(train)
        normalise = normaliser(method, column, table.offsets, training)
        parts = (normalise(column[rows].astype(np.float64), start)[:, 0] for rows, start in blocks(table.offsets))
        values = np.concatenate([part.astype(np.float32) for part in parts])
        by_threshold = rule.thresholds(values[training]) if isinstance(rule, GroupQuantiles) else rule
        np.save(folder / "group.npy", by_threshold.divide(values))

    return cache.open(digest(identity)[:24], build)["group"]


def _read(file: Path, documents: int) -> Int[np.ndarray, "N"]:
    """Return the groups in a file; ValueError without it, and unless each document has a line with a group number."""
    if not file.is_file():
        raise ValueError(f"{setting('group.file')} must be a file, got {file}")
    lines = file.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or int(line) > LARGEST_GROUP:
            expected = f"a whole number from 0 to {LARGEST_GROUP}"
            raise ValueError(f"{file}:{number}: found {line[:40]!r}, expected {expected}")
    if len(lines) != documents:
        raise ValueError(
            f"{setting('group.file')} must have one line per document ({documents}), got {len(lines)} lines"
        )
    return np.array(lines, dtype="U").astype(np.int8)
