"""Columns of `trace.parquet` and `evaluation.parquet`: their types, how runs are summarised, how reports show them.

`TRACE_COLUMNS` and `EVALUATION_COLUMNS` are the columns that every run has, null where a measure is not taken. A
measure that needs others declares them itself, and `run.json` records them. torch is not imported, because reports read
this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

CUTOFF = 10  # of measures of the top of a list, where no other is set; names of columns of `ndcg` have no number then
CUTOFFS = (1, 3, 5, CUTOFF)  # of NDCG in the offline evaluation of `ndcg`
BLOCK_RANKS = (1, 5, CUTOFF)  # ranks whose block size is traced
SPLITS = ("test", "validation")

# What summary.json has of a column of the trace, for each seed: its mean over all rounds, and as `<name>_last_tenth`
# over the last tenth of them; its sum; its last value; the absolute value of the last one; its mean over the last tenth
# of the rounds, under its own name; or nothing.
Summary = Literal["mean", "sum", "last", "size", "last_tenth", "none"]
TYPES = ("Float32", "Float64", "Int8", "Int16", "Int32", "Int64", "Boolean")


@dataclass(frozen=True)
class Column:
    """A column that a measure writes.

    name: small letters, digits and _. label: in tables; the name in words if empty. type: a polars type of `TYPES`.
    summary: what summary.json has of it, see `Summary`; of an evaluation always the last value. higher_is_better: None
    where neither direction is better, as for clicks. digits: shown behind the decimal point. axis: in figures; the
    label if empty. ValueError for a bad name, and for a type or a summary that does not exist.
    """

    name: str
    label: str = ""
    type: str = "Float32"
    summary: Summary = "mean"
    higher_is_better: bool | None = None
    digits: int = 4
    axis: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"the name of a column must be of small letters, digits and _, got {self.name!r}")
        if not f"{self.label}{self.axis}".isprintable():
            raise ValueError(f"the label of column {self.name} must be of printable characters, got {self.label!r}")
        if not (isinstance(self.label, str) and isinstance(self.axis, str) and self.digits in range(20)):
            raise ValueError(f"column {self.name} must have text as label and axis, and 0 to 19 digits")
        for what, allowed in (("type", TYPES), ("summary", get_args(Summary))):
            value = getattr(self, what)
            if value not in allowed:
                raise ValueError(f"the {what} of column {self.name} must be one of {', '.join(allowed)}, got {value!r}")

    @property
    def heading(self) -> str:
        """Return its label, or its name in words."""
        return self.label or self.name.replace("_", " ")


def ndcg_columns(cutoff: int) -> tuple[Column, Column, Column]:
    """Return the columns of NDCG of the shown list, of its sum over rounds t times discount^(t - 1), and of NDCG of the
    offline evaluation."""
    name, label = ("", "") if cutoff == CUTOFF else (f"_{cutoff}", f"@{cutoff}")
    return (
        Column(f"online_ndcg{name}", f"online NDCG{label}", "Float32", "mean", True, 4, f"mean online NDCG@{cutoff}"),
        Column(f"cumulative_ndcg{name}", f"cumulative NDCG{label}", "Float64", "last", True, 2),
        Column(f"ndcg_{cutoff}", f"NDCG@{cutoff}", higher_is_better=True),
    )


def weighed_rounds(discount: float, rounds: int, share: float = 0.95) -> int:
    """Return how many of the first rounds have this share of the weight of a sum over `rounds`, round t times
    discount^(t - 1)."""
    if discount == 1:
        return math.ceil(share * rounds)
    weight = share * (1 - discount**rounds)  # in units of 1 / (1 - discount)
    return min(rounds, math.ceil(math.log1p(-weight) / math.log(discount)))


def main_cutoff(names: Iterable[str]) -> int:
    """Return the cutoff of the NDCG that stands for a run, by the names of its measures, columns or metrics.

    It is 10 where NDCG@10 is among them, otherwise the largest; 10 where there is none.
    """
    pattern = r"(?:test_|validation_|online_|cumulative_)?ndcg(?:[_@](\d+))?"
    matches = (re.fullmatch(pattern, name) for name in names)
    cutoffs = {int(match[1] or CUTOFF) for match in matches if match}
    return CUTOFF if CUTOFF in cutoffs else max(cutoffs, default=CUTOFF)


_TRACE = (
    Column("query", type="Int64", summary="none"),  # number within the training split
    *ndcg_columns(CUTOFF)[:2],
    # Pairs of the proposed order against the ideal one, ties free.
    Column("regret", "regret", "Int64", "sum", False, 2, "misordered pairs"),
    Column("clicks", "clicks", "Int16", "sum", None, 2),
    Column("pairs", "pairs", "Int16", "sum", None, 2),  # preferences; null for rankers that do not learn from pairs
    Column("blocks", "blocks", "Int32", "last_tenth", None, 2, "number of blocks"),
    *(
        Column(f"block_size_{rank}", "", "Int32", "last_tenth", None, 2, f"size of the block at rank {rank}")
        for rank in BLOCK_RANKS
    ),
    # Share of certain pairs among the first ten places.
    Column("certain_top10", "certain top10", "Float32", "last_tenth", None, 4, "share of certain pairs in the top 10"),
    Column("unfairness", "unfairness", "Float64", "size", False, 3, "cumulative unfairness"),  # signed, cumulative
    Column("exposure_0", type="Float32", summary="none"),  # of group 0 in this round's list
    Column("exposure_1", type="Float32", summary="none"),
    # Certain pairs broken among the shown.
    Column("violations", "violations", "Int16", "sum", False, 2, "reversed certain pairs"),
)
# Of runs in which users have several intents: the number of the user's, from 1.
INTENT = Column("user_intent", "intent of the user", "Int16", "none")
_EVALUATION = (
    *(ndcg_columns(cutoff)[2] for cutoff in CUTOFFS),
    Column("cosine", "cosine", higher_is_better=True, axis="cosine to offline RankNet"),  # of parameters
)
TRACE_COLUMNS: Mapping[str, Column] = {column.name: column for column in _TRACE}
EVALUATION_COLUMNS: Mapping[str, Column] = {column.name: column for column in _EVALUATION}


@dataclass(frozen=True)
class RunColumns:
    """The columns of a run's tables beside their keys, by name: first those of every run, then declared ones."""

    trace: Mapping[str, Column] = field(default_factory=lambda: TRACE_COLUMNS)
    evaluation: Mapping[str, Column] = field(default_factory=lambda: EVALUATION_COLUMNS)

    @property
    def additional(self) -> RunColumns:
        """Return only the columns that not every run has."""
        tables = (self.trace, TRACE_COLUMNS), (self.evaluation, EVALUATION_COLUMNS)
        return RunColumns(*({name: of[name] for name in of if name not in shared} for of, shared in tables))

    def declared(self) -> dict[str, list[dict[str, Any]]]:
        """Return the columns that not every run has, for run.json; empty if there are none."""
        tables = vars(self.additional).items()
        return {name: [asdict(column) for column in table.values()] for name, table in tables if table}

    @staticmethod
    def of(manifest: Mapping[str, Any]) -> RunColumns:
        """Return the columns of the run with this run.json. What is not a column of this version of ol2r is left
        out."""
        tables: dict[str, dict[str, Column]] = {"trace": {**TRACE_COLUMNS}, "evaluation": {**EVALUATION_COLUMNS}}
        for name, table in tables.items():
            declared = (manifest.get("columns") or {}).get(name)
            for content in declared if isinstance(declared, list) else ():
                with suppress(TypeError, ValueError):  # another version of ol2r wrote the file
                    table[content["name"]] = Column(**content)
        return RunColumns(**tables)


def metrics_of(columns: Iterable[RunColumns]) -> dict[str, Column]:
    """Return all metrics of summary.json of runs with these columns, by name, each as the column that describes it."""
    metrics: list[Column] = []
    for run_columns in columns:
        for column in run_columns.trace.values():
            metrics += _metrics_of_trace(column)
        for column in run_columns.evaluation.values():
            metrics += _metrics_of_evaluation(column)
    metrics.append(Column("best_round", digits=2, axis="round of best validation NDCG"))
    return {metric.name: metric for metric in metrics}


def _metrics_of_trace(column: Column) -> list[Column]:
    """Return the metrics of a column of the trace. The name of an absolute value has the bars of one."""
    metrics = [column] if column.summary not in ("none", "size") else []
    if column.summary == "size":
        metrics.append(replace(column, label=f"|{column.heading}|", axis=f"|{column.axis or column.heading}|"))
    if column.summary == "mean":
        axis = f"{(column.axis or column.heading).removeprefix('mean ')}, last tenth"
        label = f"{column.heading} last tenth"
        metrics.append(replace(column, name=f"{column.name}_last_tenth", label=label, axis=axis))
    return metrics


def _metrics_of_evaluation(column: Column) -> list[Column]:
    """Return the metrics of a column of the evaluation: before the first round, in the end, and of NDCG in between."""
    if column.name == "cosine":  # which is the same for all splits
        return [column]
    metrics = []
    for split in SPLITS:
        name, label = f"{split}_{column.name}", f"{split} {column.heading}"
        axis = f"{split} {column.axis or column.heading}"
        metrics.append(replace(column, name=name, label=label, axis=axis))
        metrics.append(
            replace(column, name=f"{name}_untrained", label=f"{label}, untrained", axis=f"{axis}, untrained")
        )
    if column.name.startswith("ndcg_"):
        label = f"test {column.heading}, best round"
        metrics.append(replace(column, name=f"test_{column.name}_best", label=label, axis=f"{label} by validation"))
    return metrics
