"""The document table: features of all splits, labels, and which rows belong to which query; and how it is served."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from ol2r_cli.interfaces import Candidates, Oracle, Rows
from ol2r_cli.tensor.memory import NotEnoughMemory
from ol2r_cli.tensor.shapes import Bool, Float, Int

SPLITS = ("train", "validation", "test")
LARGEST_INT8 = 127  # labels and groups are stored as int8
LARGEST_GRADE = 62  # the largest of which the gain, 2^grade - 1, is within 64 bits, here and in tools that read it
LARGE_FEATURE = 1e18  # products of two such numbers are close to the end of single precision, 3.4e38


@runtime_checkable
class DatasetSource(Protocol):
    """What a choice of the configuration group `dataset` builds."""

    def load(self) -> Dataset:
        """Return the table. Raises ValueError when the data are not what they should be."""
        ...


def loaded(source: DatasetSource) -> Any:
    """Return the table of a source; NotEnoughMemory, which is a ValueError, where it does not fit into memory.

    A class of a user may return something else than a `Dataset`, which `ol2r check` says.
    """
    try:
        return source.load()
    except MemoryError as error:
        more = "give this process more, or take fewer documents"
        raise NotEnoughMemory(f"the data need more memory than there is ({error or 'out of memory'}): {more}") from None


@dataclass(frozen=True)
class Intents:
    """What the documents of a dataset are worth to users with different intents."""

    labels: Int[Tensor, "I N"]  # int8, 0 .. grades - 1
    grades: int
    attraction: Float[Tensor, "I N"] | None = None


@dataclass(frozen=True)
class Dataset:
    """All splits of one fold in one table, so that a document is the same row number everywhere.

    `features` is float32 and usually a memory map; query q owns rows offsets[q] .. offsets[q + 1].
    """

    name: str
    fingerprint: str  # sha256 over everything that decides the numbers: files or generator settings, normalisation
    features: Float[Tensor, "N F"]
    labels: Int[Tensor, "N"]  # int8, 0 .. grades - 1
    offsets: Int[Tensor, "Q1"]
    query_ids: list[str]
    grades: int
    splits: dict[str, Int[Tensor, "_"]]  # train, validation, test -> query numbers
    group: Int[Tensor, "N"] | None = None
    warnings: tuple[str, ...] = ()  # what a reader of results should know, a line each
    intents: Intents | None = None
    files: tuple[Path, ...] = ()  # LETOR files, whose lines are the rows
    attraction: Float[Tensor, "N"] | None = None  # float64, P(click | examined) of each document; None: by grade
    popularity: Float[Tensor, "_"] | None = None  # float64, shares in which training queries are asked; None: all alike
    _served: dict[object, Split] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        grades = max(self.grades, 0 if self.intents is None else self.intents.grades)
        if grades > LARGEST_GRADE + 1:
            most = f"at most {LARGEST_GRADE + 1} grades, 0 to {LARGEST_GRADE}, as gains are 2^grade - 1"
            raise ValueError(f"dataset {self.name} must have {most}, got {grades}")

    def split(
        self,
        name: str,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
        by_intent: bool = False,
    ) -> Split:
        """Return the queries of one split, served in `dtype` on `device`; ValueError when it has no query.

        With `by_intent`, they have the labels of each intent. Runs of one process share it, so that a GPU has the
        documents once.
        """
        if name not in self.splits or not len(self.splits[name]):
            present = ", ".join(split for split, queries in self.splits.items() if len(queries))
            raise ValueError(f"dataset {self.name} has no {name} split (it has: {present})")
        how = name, torch.device(device), dtype, by_intent
        if how not in self._served:
            popularity = self.popularity if name == "train" else None
            self._served[how] = Split(self, self.splits[name].to(device), dtype, by_intent, popularity)
        return self._served[how]

    def judged_by(self, intent: int | None) -> Dataset:
        """Return the same with the labels of one intent, from 1, or for None as it is; ValueError without such one."""
        if intent is None:
            return self
        if self.intents is None or not 1 <= intent <= len(self.intents.labels):
            most = 0 if self.intents is None else len(self.intents.labels)
            raise ValueError(f"an intent must be one of the {most} intents of dataset {self.name}, got {intent}")
        attraction = None if self.intents.attraction is None else self.intents.attraction[intent - 1]
        labels = self.intents.labels[intent - 1]
        return replace(self, labels=labels, grades=self.intents.grades, attraction=attraction)

    def oracle(self) -> Oracle:
        """Return what rankers that declare `needs_labels` receive."""

        def of(split: str) -> Oracle:
            start, end = self.offsets[self.splits[split]], self.offsets[self.splits[split] + 1]
            return Oracle(self.labels, start, end - start, self.fingerprint, self.group)

        return replace(of("train"), validation=of("validation") if len(self.splits.get("validation", ())) else None)


class TableCandidates(Candidates):
    """Candidates whose features a function gathers from the table when they are first read.

    With other features, as from `dataclasses.replace`, `rows` is None, since loops would read those of the table.
    """

    __slots__ = ("_features",)
    _features: Tensor | Callable[[], Tensor]

    def __init__(
        self,
        query: Int[Tensor, "B"],
        document: Int[Tensor, "B D"],
        features: Float[Tensor, "B D F"] | Callable[[], Tensor],
        mask: Bool[Tensor, "B D"],
        group: Int[Tensor, "B D"] | None = None,
        rows: Rows | None = None,
    ):
        given = query, document, features, mask, group, None if isinstance(features, Tensor) else rows
        for name, value in zip(("query", "document", "_features", "mask", "group", "rows"), given, strict=True):
            object.__setattr__(self, name, value)

    @property
    def features(self) -> Float[Tensor, "B D F"]:
        """Return the features of every candidate."""
        if not isinstance(self._features, Tensor):
            object.__setattr__(self, "_features", self._features())
        return self._features  # type: ignore[return-value]


class Split:
    """Serves the queries of one split, padded to the longest of the batch.

    `upto` has for each query the share of rounds in which it or an earlier one is asked; it is empty where all queries
    are asked alike.
    """

    upto: Float[Tensor, "_"]

    def __init__(
        self,
        dataset: Dataset,
        queries: Int[Tensor, "Q"],
        dtype: torch.dtype,
        by_intent: bool,
        popularity: Float[Tensor, "Q"] | None = None,
    ):
        device = queries.device
        shares = torch.empty(0, dtype=torch.float64) if popularity is None else popularity
        self.upto = shares.cumsum(0).to(device)
        self.features, self.dtype = dataset.features.to(device), dtype
        labels, attraction = dataset.labels[None], dataset.attraction
        if by_intent and dataset.intents is not None:
            labels, attraction = dataset.intents.labels, dataset.intents.attraction
        self.intents = len(labels)
        self.labels = labels.to(device).flatten()  # [I N]: those of document d for intent i are at i N + d
        self.attraction = None if attraction is None else (attraction.to(device).flatten(), self.labels.long())
        self.group = None if dataset.group is None else dataset.group.to(device)
        offsets = dataset.offsets.to(device)
        self.start = offsets[queries]
        self.length = offsets[queries + 1] - self.start
        self.longest = int(self.length.max())
        self.slots = torch.arange(self.longest, device=device)
        self.groups = torch.empty(0, dtype=torch.int8, device=device) if self.group is None else self.group
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` has returned for the first who asked with this key: what runs of one process share."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def __len__(self) -> int:
        return len(self.start)

    def asked(self, chance: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
        """Return the query that is asked in a round, by a random number between 0 and 1 for each replica."""
        if not len(self.upto):
            return (chance * len(self)).long()
        return torch.searchsorted(self.upto, chance.contiguous(), right=True).clamp(max=len(self) - 1)

    def judged(self) -> tuple[Int[Tensor, "N"], Int[Tensor, "N"]]:
        """Query (its number within the split) and label of every document of the split.

        With I intents each document is there I times: query q of the Q queries has the number i Q + q for intent i.
        """
        query = torch.arange(len(self), device=self.start.device).repeat_interleave(self.length)
        first = self.length.cumsum(0) - self.length
        row = torch.arange(len(query), device=query.device) + (self.start - first)[query]
        intent = torch.arange(self.intents, device=query.device)[:, None]
        return (query + intent * len(self)).flatten(), self.labels[row + intent * len(self.features)].flatten().long()

    def serve(
        self, query: Int[Tensor, "B"], longest: int | None = None, intent: Int[Tensor, "B"] | None = None
    ) -> tuple[Candidates, Int[Tensor, "B D"]]:
        """Return candidates and labels of `query`, which are numbers within this split. Labels of padding are 0.

        `longest` is D, the number of documents of the longest of these queries; None reads it from the device.
        `intent` is that by which each replica's user judges, from 0; None is the first.
        """
        start, length = self.start.index_select(0, query), self.length.index_select(0, query)
        slots = self.slots[: int(length.max()) if longest is None else longest]
        mask = slots < length[:, None]
        document = start[:, None] + slots * mask
        group = None if self.group is None else self.group[document]
        labels = self.labels[self.of_intent(document, intent)]
        rows = Rows(self.features, start, length)
        candidates = TableCandidates(query, document, lambda: self._gathered(document), mask, group, rows)
        return candidates, labels.long() * mask

    def of_intent(self, document: Int[Tensor, "B D"], intent: Int[Tensor, "B"] | None) -> Int[Tensor, "B D"]:
        """Return where `labels` and `attraction` have these documents for the intent of each replica's user."""
        return document if intent is None else document + (intent * len(self.features))[:, None]

    def _gathered(self, document: Int[Tensor, "B D"]) -> Float[Tensor, "B D F"]:
        return self.features.index_select(0, document.flatten()).to(self.dtype).unflatten(0, document.shape)
