"""The memory of the machine, and a check of what is allocated before a run begins."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def available_memory(device: torch.device) -> int:
    """The bytes of memory that this process may have at most, or the free bytes of the GPU."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _GROUP_LIMITS:
        with suppress(OSError, ValueError):  # there is no such file, or it says `max`
            limits.append(int(Path(path).read_text()))
    return min(limits)


class MemoryLimit(TorchFunctionMode):
    """Context manager in which tensors of more than `limit` bytes in all cannot be made.

    Within it, MemoryError is raised before a tensor is allocated that would exceed the limit. Tensors that have been
    freed count as well, so the block should contain only what is kept, such as the set-up of a run.
    """

    def __init__(self, limit: int):
        super().__init__()
        self.limit, self.allocated = limit, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        size = _size(getattr(func, "__name__", ""), args, kwargs or {})
        if size:
            self.allocated += size
            self.check(self.allocated)
        return func(*args, **(kwargs or {}))

    def check(self, size: int) -> None:
        """MemoryError if so many bytes exceed the limit."""
        if size > self.limit:
            raise MemoryError(f"{size / 2**30:,.1f} GiB of {self.limit / 2**30:,.1f}")


def _size(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """The bytes of the tensor that a function of torch makes; 0 for a function that is not counted."""
    if "out" in kwargs:
        return 0
    if name == "repeat":
        return args[0].nbytes * math.prod(_numbers(args[1:]))
    if name in ("zeros", "ones", "empty", "full"):
        shape = _numbers(args[:1] if name == "full" else args) or _numbers((kwargs.get("size", ()),))
    elif name in ("new_zeros", "new_ones", "new_empty", "new_full"):
        shape = _numbers(args[1:2] if name == "new_full" else args[1:]) or _numbers((kwargs.get("size", ()),))
    elif name == "eye":
        shape = 2 * args[:1] if len(args) == 1 else args[:2]
    elif name == "arange":
        shape = (max(0, int(args[-1] if len(args) < 3 else args[1])),)
    else:
        return 0
    return math.prod(shape) * _itemsize(name, args, kwargs)


def _numbers(given: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape that is given as one tuple or as several numbers."""
    return tuple(given[0]) if given and not isinstance(given[0], int) else tuple(given)


def _itemsize(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    if isinstance(kwargs.get("dtype"), torch.dtype):
        return int(kwargs["dtype"].itemsize)
    if name.startswith("new_"):
        return int(args[0].itemsize)
    fill = args[1] if name == "full" and len(args) > 1 else 0.0
    whole = name == "arange" or (isinstance(fill, int) and not isinstance(fill, bool))
    return 1 if isinstance(fill, bool) else torch.int64.itemsize if whole else torch.get_default_dtype().itemsize
