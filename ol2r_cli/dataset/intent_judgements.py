"""Judgements of single intents, in the manner of TREC's diversity tasks, for the documents of LETOR files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ol2r_cli.config.ranges import check_settings
from ol2r_cli.dataset.parse import DataError, open_text
from ol2r_cli.dataset.table import Intents, setting

_COLUMNS = ["qid", "intent", "docid", "grade"]
_DOCUMENT = re.compile(rb"\bdocid\s*=\s*(\S+)")
_MOST_GRADES = 127  # labels are stored as int8


@dataclass(frozen=True)
class IntentFile:
    """A file of judgements: a line `qid intent docid grade` for each relevant document, separated by tabs.

    Intents are numbered from 1 in each query; what is not in the file has grade 0. `binary`: every grade above 0 counts
    as 1. A relative `file` is looked for in the folder of the dataset.
    """

    file: str
    binary: bool = True

    def within(self, root: Path) -> Path:
        """Return the path of the file; ValueError if there is none."""
        path = root / Path(self.file).expanduser()
        if not path.is_file():
            name = setting("intents")
            raise ValueError(f"{name}.file must be a file, got {path}: without judgements of intents type {name}=null")
        return path

    def read(self, path: Path, files: Iterable[Path], queries: Sequence[str], offsets: Sequence[int]) -> Intents:
        """Return the labels of every document by intent.

        `files` are those of the splits, whose comments name the documents (`# docid = NAME`), with these queries and
        their offsets in the table. DataError for a malformed line, and if no judgement is of a document of the files.
        """
        names = document_ids(files)
        query = np.repeat(np.arange(len(queries)), np.diff(offsets))
        if len(names) != len(query):
            raise DataError(f"{setting('intents')} needs a comment `# docid = NAME` behind every document of the data")
        row_of = {(queries[q], name): row for row, (q, name) in enumerate(zip(query.tolist(), names, strict=True))}
        judged = [(row_of[key], intent, grade) for key, intent, grade in _judgements(path) if key in row_of]
        if not judged:
            raise DataError(f"{path} must have judgements of documents of the data, found none")
        rows, intents, grades = np.array(judged).T
        if self.binary:
            grades = grades.clip(max=1)
        labels = np.zeros((intents.max(), len(names)), np.int8)
        labels[intents - 1, rows] = grades
        return Intents(torch.from_numpy(labels), max(2, int(grades.max()) + 1))


def intent_file(settings: Mapping[str, Any] | None) -> IntentFile | None:
    """Return the setting `intents` of files: null or {file, binary}; ValueError for others."""
    if settings is None:
        return None
    if not {"file"} <= set(settings) <= {"file", "binary"}:
        raise ValueError(f"{setting('intents')} must be null or {{file: FILE, binary: true|false}}, got {settings!r}")
    check_settings(IntentFile, settings, setting("intents"))
    return IntentFile(**settings)


def document_ids(files: Iterable[Path]) -> list[str]:
    """Return the names of the documents of LETOR files, in their order, where comments have them (`# docid = NAME`)."""
    names = []
    for file in files:
        with open_text(file) as lines:
            for line in lines:
                content, _, comment = line.partition(b"#")
                if content.strip() and (match := _DOCUMENT.search(comment)):
                    names.append(match[1].decode(errors="replace"))
    return names


def _judgements(path: Path) -> Iterable[tuple[tuple[str, str], int, int]]:
    """Query and document, intent and grade of every line."""
    lines = path.read_text().splitlines()
    if not lines or lines[0].split("\t") != _COLUMNS:
        raise DataError(f"{path}:1: found {lines[:1]}, expected the columns {', '.join(_COLUMNS)}, separated by tabs")
    for number, line in enumerate(lines[1:], 2):
        fields = line.split("\t")
        whole = len(fields) == len(_COLUMNS) and fields[1].isdecimal() and fields[3].isdecimal()
        if not whole or int(fields[1]) < 1 or int(fields[3]) >= _MOST_GRADES:
            raise DataError(f"{path}:{number}: found {line[:60]!r}, expected {', '.join(_COLUMNS)}, separated by tabs")
        yield (fields[0], fields[2]), int(fields[1]), int(fields[3])
