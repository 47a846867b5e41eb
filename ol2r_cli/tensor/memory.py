"""The memory of the machine, and a check of what is allocated before a run begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container
_MAKERS = {"zeros", "ones", "empty", "full"}  # functions of torch, and methods, as `new_zeros`


class NotEnoughMemory(ValueError):
    """Data or a simulation need more memory than there is now."""


def available_memory(device: torch.device) -> int:
    """Return the bytes of memory that this process may have at most, or the free bytes of the GPU."""
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
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        same: Callable[[], torch.Tensor] | None = None  # makes a tensor of this size without memory
        empty = partial(torch.empty, device="meta")  # other functions would import torch's compiler, for a second
        if name == "repeat":
            times = args[1:] if isinstance(args[1], int) else args[1]
            same = partial(empty, (args[0].nbytes, *times), dtype=torch.uint8)
        elif name == "eye":
            same = partial(empty, (args[0], args[min(1, len(args) - 1)]), dtype=kwargs.get("dtype"))
        elif name == "arange":
            same = partial(empty, int(args[min(1, len(args) - 1)]), dtype=kwargs.get("dtype", torch.int64))
        elif name.removeprefix("new_") in _MAKERS and "out" not in kwargs:
            same = partial(func, *args, **{**kwargs, "device": "meta"})
        if same is not None:
            try:
                self.allocated += same().nbytes
            except RuntimeError:  # its size has more than 64 bits
                self.allocated += 1 << 63
            self.check(self.allocated)
        return func(*args, **kwargs)

    def check(self, size: int) -> None:
        """Raise MemoryError if so many bytes exceed the limit."""
        if size > self.limit:
            raise MemoryError(f"{size / 2**30:,.1f} GiB of {self.limit / 2**30:,.1f}")
