"""A GPU that is none: tensors on the CPU that say they are elsewhere, and an error for whoever waits for their values.

Everything that makes CUDA wait, or copies between it and the host, either goes through one of the operations named here
or is a call that torch hands to a `TorchFunctionMode`. What is not seen: kernels that wait inside themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ol2r_cli.simulation import Simulation

COPIES = {"tolist", "numpy", "cpu", "cuda", "__array__", "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer"}
# Operations whose result has a size that depends on values, which are values, or which check an error code.
WAITING = {
    "_local_scalar_dense",
    "_linalg_check_errors",
    "_linalg_eigh",
    "_linalg_svd",
    "_unique2",
    "bincount",
    "cholesky_inverse",
    "equal",
    "linalg_lstsq",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
COUNTERS = ("round", "rounds", "due")  # buffers that are on the host whatever the device


class Waited(AssertionError):
    """The processor would have had to wait for the GPU, or something was copied from one to the other."""


class Elsewhere(TorchFunctionMode):
    """Every tensor says that it is on a GPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function == Tensor.is_cpu.__get__:
            return False
        return True if function == Tensor.is_cuda.__get__ else function(*args, **(kwargs or {}))


class NoCopies(TorchFunctionMode):
    """Nothing is copied to the host or from it."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in COPIES or _puts_a_number(function, args):
            raise Waited(function.__name__)
        return function(*args, **(kwargs or {}))


class NoWaiting(TorchDispatchMode):
    """No operation waits, but for values of these buffers, which are on the host."""

    def __init__(self, counters: set[int]):
        super().__init__()
        self.counters = counters

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, kwargs = function._schema.name.removeprefix("aten::"), kwargs or {}
        if (name in WAITING and args[0].data_ptr() not in self.counters) or _by_values(name, args, kwargs):
            raise Waited(str(function))
        return function(*args, **kwargs)


def _puts_a_number(function, args) -> bool:
    """Whether a number of Python's is put at indices that are tensors: it becomes a tensor on the host."""
    if function != Tensor.__setitem__ or isinstance(args[2], Tensor):
        return False
    return any(isinstance(index, Tensor) for index in (args[1] if isinstance(args[1], tuple) else (args[1],)))


def _by_values(name: str, args, kwargs) -> bool:
    """Whether the size of a result depends on a mask or on counts, or an index is a list of Python's."""
    if name in INDEXING:
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    return name == "lift_fresh" and args[0].dim() > 0


@contextmanager
def pretended_gpu(simulation: Simulation | None = None) -> Iterator[None]:
    """Tensors say they are on a GPU; with a simulation, which is then to play rounds, nobody waits for them."""
    if simulation is None:
        with Elsewhere():
            yield
        return
    counters = {b.data_ptr() for name, b in simulation.named_buffers() if name.rpartition(".")[2] in COUNTERS}
    # Without gradients, but not in inference mode, in which composite operations are not taken apart.
    with torch.no_grad(), NoWaiting(counters), Elsewhere(), NoCopies():
        yield
