"""Loops on a CUDA GPU: all words of CUDA, by numba-cuda (extra `gpu`). A replica is a block, a lane a thread of it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numba import types

from ol2r_cli.loops import lanes
from ol2r_cli.loops.launch import as_arrays, device_of
from ol2r_cli.loops.workspace import TOO_SMALL, USED, Workspace

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 asks for it, and numpy 2.5 has only its other name
    vars(np)["row_stack"] = np.vstack
cuda: Any = import_module("numba.cuda")
boolean, float64, int64 = (getattr(types, name) for name in ("boolean", "float64", "int64"))

THREADS = 64
SHARED = 48 * 1024  # bytes of fast memory that every block may have on every GPU


@cuda.jit(device=True)
def _lane():
    return int64(cuda.threadIdx.x)


@cuda.jit(device=True)
def _lanes():
    return int64(cuda.blockDim.x)


@cuda.jit(device=True)
def _barrier():
    cuda.syncthreads()


_FORMS: dict[Any, Any] = {lanes.lane: _lane, lanes.lanes: _lanes, lanes.barrier: _barrier}


def device_form(loop: Any) -> Any:
    """Return a loop as numba-cuda compiles it."""
    return lanes.rebound(loop, _FORMS, _as_device_function)


def _as_device_function(loop: Any, function: Any) -> Any:
    inline = {name: value for name, value in loop.options.items() if name == "inline"}
    return cuda.jit(device=True, **inline)(function)


@cache
def kernel_function(loop: Any) -> Any:
    """Return the kernel, not compiled, in which every block plays a loop for its replica."""
    play = device_form(loop)

    def kernel(is_fast, memories, too_small, arguments):
        b = int64(cuda.blockIdx.x)
        state = cuda.local.array(2, int64)
        state[USED], state[TOO_SMALL] = 0, 0
        memory = memories[b]
        if is_fast:
            memory = cuda.shared.array(0, float64)
        play(b, Workspace(memory, state), *arguments)
        if state[TOO_SMALL]:
            too_small[0] = 1

    return kernel


@cache
def _kernel(loop: Any) -> Any:
    return cuda.jit(kernel_function(loop))


def launch(loop: Any, replicas: int, room: int, arguments: Any) -> None:
    """Call a loop for every replica, each in a block of its own; the tensors in the arguments are on one GPU.

    The workspace is fast memory of the block, where there is room in it.
    """
    device = device_of(arguments)
    size = 8 * room
    is_fast = size <= SHARED
    memories = torch.empty(replicas, 0 if is_fast else room, dtype=torch.float64, device=device)
    too_small = torch.zeros(1, dtype=torch.int64, device=device)
    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    with torch.cuda.device(device):
        kernel = _kernel(loop)[replicas, THREADS, stream, size if is_fast else 0]
        kernel(is_fast, *as_arrays((memories, too_small, arguments), cuda.as_cuda_array))
    if int(too_small):
        raise RuntimeError(f"{loop!r} needs a larger workspace than {room}")


def signature(arguments: Any) -> Any:
    """Return the types for which the kernel of a loop is compiled, given arguments with tensors on a CPU."""
    given = types.Tuple([_type_of(each) for each in arguments])
    return types.void(boolean, types.Array(float64, 2, "C"), types.Array(int64, 1, "C"), given)


def _type_of(value: Any) -> Any:
    from numba import typeof

    return typeof(as_arrays(value, lambda tensor: tensor.numpy()))
