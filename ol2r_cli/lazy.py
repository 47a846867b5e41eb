"""Modules that are imported when they are first used, so that commands which do not need them start fast.

if TYPE_CHECKING:
    import polars as pl
else:
    pl = lazy("polars")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module; the first look at one of its names imports it."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


lazy = LazyModule
