"""Documents of another file, with the features that the rankers of a run see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.parse import open_text, parse
from ol2r_cli.dataset.prepare import ParsedTable, fit_transformation
from ol2r_cli.dataset.table import Dataset, DatasetSource, setting
from ol2r_cli.tensor.shapes import Int


def inference_data(file: Path, source: DatasetSource, features: int, fingerprint: str) -> Dataset:
    """Return the queries of a file, in its order, as the test split of a table; grades may be anything.

    `source` is the dataset of the run, `features` the number of features that its rankers see, and `fingerprint` that
    of its content. Features are read and transformed as those of the dataset; for a generated dataset they are taken
    as they are. Raises ValueError when the file is no LETOR text, when it does not have the features of the dataset,
    and when the transformation needs the training data but they are not found or have changed.
    """
    if not file.is_file():
        problem = "is a folder" if file.is_dir() else "does not exist"
        raise ValueError(f"FILE must be a file in LETOR form, got {file}, which {problem}")
    letor = source if isinstance(source, Letor) else None
    training = _training_data(letor, fingerprint) if letor else None
    width = training[0].features.shape[1] if training else features
    documents = parse(file, None, *((letor.overflow, letor.missing) if letor else ()))
    present = documents.features.shape[1]
    if present > width or (present < width and not _is_sparse(file, present)):
        raise ValueError(f"FILE must have {width} features, as the data of the run, got {file}, which has {present}")
    values = np.pad(documents.features, ((0, 0), (0, width - present)))  # a sparse file may leave out the last ones
    labels, offsets, queries = documents.labels, documents.offsets, documents.query_ids
    if letor:
        alone = ParsedTable("", values, labels, offsets, queries, np.array([0, 0, len(queries)]), present)
        fitted_on, train = training or (alone, np.arange(0))
        transform, _ = fit_transformation(fitted_on, train, letor.normalise, letor.zeroed, letor.drop_constant)
        values = np.concatenate(list(transform(values, offsets)))
    return Dataset(
        name=file.name,
        fingerprint="",
        features=torch.from_numpy(values),
        labels=torch.from_numpy(labels),
        offsets=torch.from_numpy(offsets),
        query_ids=queries,
        grades=int(labels.max()) + 1,
        splits={"test": torch.arange(len(queries))},
    )


def _training_data(source: Letor, fingerprint: str) -> tuple[ParsedTable, Int[np.ndarray, "q"]] | None:
    """Return table and training queries of the dataset; None when the transformation does not depend on them."""
    if source.normalise == "global_zscore":
        reason = f"{setting('normalise')}=global_zscore"
    elif source.drop_constant:
        reason = f"{setting('drop_constant')}=true"
    else:
        return None
    try:
        location = source.locate()
    except ValueError:
        folder = source.path or source.data_dir
        raise ValueError(
            f"{reason} needs the training data of the run, which are no longer in {folder}: type --data FOLDER"
        ) from None
    dataset = source.load()
    if dataset.fingerprint != fingerprint:
        raise ValueError(f"--data must be the data of the run, got {location.root}, which has other data")
    return source.parse(location), dataset.splits["train"].numpy()


def _is_sparse(file: Path, largest: int) -> bool:
    """Return whether a line has fewer features than the largest id; each line has one more colon, in its qid."""
    with open_text(file) as lines:
        contents = (line.split(b"#", 1)[0] for line in lines)
        return any(content.count(b":") <= largest for content in contents if content.strip())
