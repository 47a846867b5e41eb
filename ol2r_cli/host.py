"""Where a program may look at what it has computed."""

from __future__ import annotations

from torch import Tensor


def on_host(tensor: Tensor) -> bool:
    """Whether reading this tensor's values costs nothing.

    A GPU works behind the processor: whoever reads a value there waits until all that came before it has been computed.
    So where this is False no branch, shape or loop of a round may depend on a value.
    """
    return tensor.is_cpu
