"""A figure that a notebook shows by itself."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Picture:
    """`figure` is matplotlib's, to change what one likes; `save` writes it as png, svg or pdf, by the ending."""

    def __init__(self, figure: Figure):
        self.figure = figure

    def save(self, path: str | Path) -> Path:
        """ValueError for another ending and a file that cannot be written."""
        from ol2r_cli.report.figures import save

        save(self.figure, path)
        return Path(path)

    def _repr_png_(self) -> bytes:
        with TemporaryDirectory() as folder:
            return self.save(Path(folder) / "figure.png").read_bytes()
