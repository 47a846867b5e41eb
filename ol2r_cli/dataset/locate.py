"""Finds the files of a data set: below `path`, or below `data_dir` in one of its usual folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Location:
    """Where a data set lies: its folder and, for every split that it has, the file."""

    root: Path
    files: dict[str, Path]  # in the order train, validation, test


def expand(path: str | Path) -> Path:
    """`~` and environment variables replaced; relative paths are relative to the current directory."""
    return Path(os.path.expandvars(path)).expanduser()


def locate(roots: Sequence[Path], names: Mapping[str, Sequence[str]], fold: int) -> Location | None:
    """The files of one fold in the first root that has them, in its folder `Fold<fold>` or directly in the root.

    names: for each split the file names it may have; with .gz appended they are found as well. The training file
    decides the folder, so that files of different folds are never mixed.
    Raises ValueError for a fold that the found data set does not have.
    """
    for root in roots:
        folders = sorted(folder.name for folder in root.glob("Fold[0-9]*") if folder.is_dir())
        for folder in (root / f"Fold{fold}", root):
            files = {split: file for split in SPLITS if (file := _first(folder, names.get(split, ())))}
            if "train" not in files:
                continue
            if folder == root and fold != 1 and root.name != f"Fold{fold}":
                raise ValueError(f"dataset.fold must be 1, got {fold}: {root} has no folders Fold1, Fold2, ...")
            return Location(root, files)
        if folders:
            raise ValueError(f"dataset.fold must be one of the folders of {root} ({', '.join(folders)}), got {fold}")
    return None


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of the names that exists, plain before gzipped."""
    candidates = (folder / f"{name}{suffix}" for name in names for suffix in ("", ".gz"))
    return next((file for file in candidates if file.is_file()), None)
