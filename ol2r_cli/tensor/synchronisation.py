"""Which tensors can be read without waiting for a GPU."""

from __future__ import annotations

from torch import Tensor


def is_host_readable(tensor: Tensor) -> bool:
    """Return whether reading values of this tensor is free.

    A GPU computes asynchronously: reading a value waits until everything before it has been computed. Where this is
    False, no branch, shape or loop of a round may depend on a value.
    """
    return tensor.is_cpu
