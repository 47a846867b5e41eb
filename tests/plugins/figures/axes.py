"""What is drawn on the axes of a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.report.runs import drawn


def band(axes: Any) -> tuple[list[float], list[float]]:
    """Lower and upper edge of the only band, by x."""
    (own,) = axes.collections
    edges: dict[float, list[float]] = {}
    for x, y in own.get_paths()[0].vertices:
        edges.setdefault(float(x), []).append(float(y))
    return [min(edges[x]) for x in sorted(edges)], [max(edges[x]) for x in sorted(edges)]


def panel(root: Path, kind: str, **options: Any) -> Any:
    """The only panel of a figure."""
    (axes,) = drawn(root, kind, **options).axes
    return axes
