"""Whether loops can be compiled for a GPU here."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec


@cache
def gpu_is_missing() -> str:
    """Return why loops cannot be compiled for a GPU, such as `numba-cuda is not installed`; empty if they can."""
    if find_spec("numba_cuda") is None:  # numba itself has an old form of it, which is no longer kept up
        return "numba-cuda is not installed"
    try:
        import_module("ol2r_cli.plugins.gpu.gpu")
    except Exception as error:
        return f"numba-cuda cannot be imported ({(str(error).splitlines() or [type(error).__name__])[0]})"
    return ""
