"""Documents of another file, as rankers that have learned from a data set see theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.parse import Documents, parse
from ol2r_cli.dataset.prepare import Parsed, preparation
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.dataset.text_file import open_text
from ol2r_cli.shapes import Float, Int


def unseen(file: Path, source: object, features: int, fingerprint: str) -> Dataset:
    """The queries of a file as the test split of a table, in the order of the file; grades may be anything.

    `source` is the data set, `features` are how many its rankers see, `fingerprint` is that of its content. Features
    are read, normalised and left out as the data set's own; those of one without files are taken as they are. Raises
    ValueError when the file is no LETOR text, when its features are not those of the data set, and when the training
    data are needed and are not found, or have changed.
    """
    if not file.is_file():
        raise ValueError(f"FILE must be a file in LETOR form, got {file}, which {_is(file)}")
    learned = isinstance(source, Letor) and _training(source, fingerprint)
    width = learned[0].features.shape[1] if learned else features
    documents = parse(file, None, source.overflow if isinstance(source, Letor) else "error")
    table = _fitted(documents, width, file)
    values = table.features
    if isinstance(source, Letor):
        whole, train = learned or (table, np.arange(0))
        prepare = preparation(whole, train, source.normalise, source.zeroed, source.drop_constant)
        values = np.concatenate(list(prepare(table.features, table.offsets)))
    return Dataset(
        name=file.name,
        fingerprint="",
        features=torch.from_numpy(values),
        labels=torch.from_numpy(table.labels),
        offsets=torch.from_numpy(table.offsets),
        query_ids=table.query_ids,
        grades=int(table.labels.max()) + 1,
        splits={"test": torch.arange(len(table.query_ids))},
    )


def _is(file: Path) -> str:
    return "is a folder" if file.is_dir() else "does not exist"


def _training(source: Letor, fingerprint: str) -> tuple[Parsed, Int[np.ndarray, "q"]] | None:
    """The table and the training queries of the data set, if what is done to features depends on them."""
    if source.normalise == "global_zscore":
        setting = "dataset.normalise=global_zscore"
    elif source.drop_constant:
        setting = "dataset.drop_constant=true"
    else:
        return None
    try:
        location = source.locate()
    except ValueError:
        place = source.path or source.data_dir
        raise ValueError(
            f"{setting} needs the training data of the run, which are no longer in {place}: type --data FOLDER"
        ) from None
    dataset = source.load()
    if dataset.fingerprint != fingerprint:
        raise ValueError(f"--data must be the data of the run, got {location.root}, where something else is")
    return source.parse(location), dataset.splits["train"].numpy()


def _fitted(documents: Documents, width: int, file: Path) -> Parsed:
    """As a table of so many features; the last ones may be missing where a file leaves out what is 0."""
    found = documents.features.shape[1]
    if found > width or (found < width and not _is_sparse(file, found)):
        raise ValueError(f"FILE must have {width} features, as the data of the run, got {file}, which has {found}")
    values: Float[np.ndarray, "N F"] = np.pad(documents.features, ((0, 0), (0, width - found)))
    counts = np.array([0, 0, len(documents.query_ids)])
    return Parsed("", values, documents.labels, documents.offsets, documents.query_ids, counts, found)


def _is_sparse(file: Path, largest: int) -> bool:
    """Whether some line has fewer features than the largest id; every line has one colon more, in its qid."""
    with open_text(file) as lines:
        texts = (line.split(b"#", 1)[0] for line in lines)
        return any(text.count(b":") <= largest for text in texts if text.strip())
