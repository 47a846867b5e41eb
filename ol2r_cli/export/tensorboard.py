"""Finished runs for TensorBoard: an event file each, below a log folder. Needs the extra `tensorboard`."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ol2r_cli.export.tracked import Tracked

MARK = ".ol2r"  # at the end of the names of our event files


def write(runs: Iterable[Tracked], out: Path) -> list[str]:
    """Curves, settings and summary of each run to `<out>/<its name>`, in place of what was written there before."""
    from torch.utils.tensorboard.writer import FileWriter

    lines = []
    for run in runs:
        folder, partial = out / run.name, out / run.name / ".partial"
        shutil.rmtree(partial, ignore_errors=True)  # of an export that was killed
        writer = FileWriter(str(partial), filename_suffix=MARK)
        try:
            _describe(writer, run)
            for name, curve in run.curves.items():
                _draw(writer, run, name, curve)
        finally:
            writer.close()
        before = list(folder.glob(f"events.*{MARK}"))
        for file in partial.iterdir():
            file.replace(folder / file.name)
        partial.rmdir()
        for file in before:
            file.unlink(missing_ok=True)
        lines.append(f"{'replaced' if before else 'written'}: {folder}")
    return lines


def _describe(writer: Any, run: Tracked) -> None:
    """The row of the table of runs (HPARAMS) and the settings as a text."""
    from torch.utils.tensorboard.summary import hparams, scalar, text

    plain = {name: _plain(value) for name, value in run.settings.items() if value is not None}
    at = run.ended.timestamp()
    for summary in hparams(plain, {f"summary/{name}": value for name, value in run.summary.items()}):
        writer.add_summary(summary, 0, at)
    for name, value in run.summary.items():
        writer.add_summary(scalar(f"summary/{name}", value), 0, at)
    for title, values in {"run": run.facts, "settings": run.settings}.items():
        rows = [f"| {name} | `{value}` |" for name, value in values.items()]
        writer.add_summary(text(title, "\n".join(["| | |", "|---|---|", *rows])), 0, at)


def _draw(writer: Any, run: Tracked, name: str, curve: list[tuple[int, float]]) -> None:
    """The clock of a point is that of a run at an even pace."""
    from torch.utils.tensorboard.summary import scalar

    start, last = run.started.timestamp(), curve[-1][0] or 1
    pace = (run.ended.timestamp() - start) / last
    for round, value in curve:
        writer.add_summary(scalar(name, value), round, start + round * pace)


def _plain(value: Any) -> bool | float | str:
    return value if isinstance(value, bool | int | float | str) else str(value)
