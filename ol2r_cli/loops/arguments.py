"""What a loop is launched with: tensors, numbers, and tuples of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

_PLAIN = frozenset((int, float, np.ndarray))  # `isinstance` takes longer than all the rest


def as_arrays(value: Any, convert: Any) -> Any:
    """Return a value in which every tensor, also those in tuples, is what `convert` makes of it."""
    type_of_value = type(value)
    if type_of_value is Tensor:
        return convert(value)
    if type_of_value in _PLAIN:
        return value
    if isinstance(value, tuple):
        parts = [as_arrays(part, convert) for part in value]
        return (
            tuple(parts) if type_of_value is tuple else tuple.__new__(type_of_value, parts)
        )  # in a third of the time of a call
    return convert(value) if isinstance(value, Tensor) else value


def device_of(value: Any) -> torch.device | None:
    """Return the device of the first tensor; None without one."""
    if type(value) in _PLAIN:
        return None
    if isinstance(value, tuple):
        for part in value:
            if (device := device_of(part)) is not None:
                return device
        return None
    return value.device if isinstance(value, Tensor) else None
