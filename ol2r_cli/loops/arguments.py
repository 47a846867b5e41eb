"""What a loop is launched with: tensors, numbers, and tuples of these."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def as_arrays(value: Any, convert: Any) -> Any:
    """Return a value in which every tensor, also those in tuples, is what `convert` makes of it."""
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, Tensor):
        return convert(value)
    if isinstance(value, tuple):
        parts = [as_arrays(part, convert) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def device_of(value: Any) -> torch.device | None:
    """Return the device of the first tensor; None without one."""
    if isinstance(value, Tensor):
        return value.device
    if isinstance(value, tuple):
        for part in value:
            if (device := device_of(part)) is not None:
                return device
    return None
