"""Modules that are imported when they are first used, so that commands which do not need them start fast.

`pl` and `torch` are polars and torch. Another module is declared where it is used:

    if TYPE_CHECKING:
        from ol2r_cli.run import recomputed
    else:
        recomputed = lazy("ol2r_cli.run.recomputed")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    import torch

__all__ = ["lazy", "pl", "torch"]


class LazyModule:
    """Stands for a module; the first look at one of its names imports it."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


lazy = LazyModule
if not TYPE_CHECKING:
    pl, torch = lazy("polars"), lazy("torch")
