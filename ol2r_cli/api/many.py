"""Many runs from Python."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from ol2r_cli.api.finished import Run
from ol2r_cli.api.trouble import RunFailed
from ol2r_cli.api.words import words


def grid(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination: {"ranker": ["pairrank", "pdgd"], "seed": range(3)} is six jobs, the last name varies fastest.

    ValueError for text in place of a list of values, which would be taken letter by letter.
    """
    for name, given in values.items():
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(f"{name} must be a list of values, got {given!r}")
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def sweep(
    jobs: Iterable[Any], *, launcher: Any = (), progress: bool = False, keep_going: bool = False, **more: Any
) -> list[Run]:
    """Do many runs, several at a time in processes of their own; each job is what `run` takes: text, mapping or list.

    `more` are settings of all of them; `launcher` says where they run: {"launcher.jobs": 4}, "launcher=slurm". All are
    checked before the first: ValueError when one is bad. Finished runs are not run again. `RunFailed` when some have
    failed, once all others are done; with `keep_going` those that are bad or fail are left out, with a warning.
    """
    from ol2r_cli.sweep.entry import sweep as engine

    lists = [words(job, **more) for job in jobs]
    terminal = sys.stderr if progress else None
    result = engine(lists, words(launcher), keep_going=keep_going, terminal=terminal)
    if result.code == 130:
        raise KeyboardInterrupt("the same call goes on from here")
    if result.failed:
        told = "\n".join(f"{cell.name}: {cell.reason}" for cell in result.failed)
        if not keep_going:
            paths = tuple(cell.directory for cell in result.failed if cell.directory is not None)
            raise RunFailed(f"{len(result.failed)} of {len(result.cells)} runs failed:\n{told}", paths)
        warnings.warn(f"left out:\n{told}", stacklevel=2)
    return [Run(cell.directory) for cell in result.cells if cell.well and cell.directory is not None]
