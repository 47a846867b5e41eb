"""Loops on a CUDA GPU: all words of CUDA, by numba-cuda (extra `gpu`). A replica is a block, a lane a thread of it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import torch
from numba import types

from ol2r_cli.loops import dense, lanes, workspace
from ol2r_cli.loops.arguments import as_arrays, device_of
from ol2r_cli.loops.workspace import TOO_SMALL, USED, Workspace

if not hasattr(np, "row_stack"):  # numba-cuda 0.30 asks for it, and numpy 2.5 has only its other name
    vars(np)["row_stack"] = np.vstack
config: Any = numba.config
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # a single replica is a block alone
cuda: Any = import_module("numba.cuda")
driver: Any = import_module("numba.cuda.cudadrv.driver")
gpu_dense: Any = import_module("ol2r_cli.plugins.gpu.gpu_dense")
boolean, float64, int64 = (getattr(types, name) for name in ("boolean", "float64", "int64"))

THREADS = 32
_WARPS = 32  # most in a block
_H100 = SimpleNamespace(compute_capability=(9, 0))
SHARED = 48 * 1024  # bytes of fast memory that every block may have on every GPU; more if its kernel is permitted to
_OF_BLOCK = 1024  # bytes that CUDA takes of it for every block


@cuda.jit(device=True)
def _lane():
    return int64(cuda.threadIdx.x)


@cuda.jit(device=True)
def _lanes():
    return int64(cuda.blockDim.x)


@cuda.jit(device=True)
def _barrier():
    cuda.syncthreads()


def _over_warp(take_both: Any) -> Any:
    """Return what combines the values of the 32 threads of a warp, so that each of them has the result."""

    @cuda.jit(device=True)
    def over_warp(value):
        for offset in (16, 8, 4, 2, 1):
            value = take_both(value, cuda.shfl_xor_sync(0xFFFFFFFF, value, offset))
        return value

    return over_warp


def _over_block(take_both: Any) -> Any:
    """Return what combines the values of all threads of a block: in each warp, then over warps in the workspace."""
    over_warp = _over_warp(take_both)

    @cuda.jit(device=True)
    def over_block(value, space):
        value = over_warp(value)
        before = _mark(space)
        parts = _take(space, _WARPS)
        if cuda.threadIdx.x % 32 == 0:
            parts[cuda.threadIdx.x // 32] = value
        cuda.syncthreads()
        result = parts[0]
        for warp in range(1, (cuda.blockDim.x + 31) // 32):
            result = take_both(result, parts[warp])
        cuda.syncthreads()
        _release(space, before)
        return result

    return over_block


@cuda.jit(device=True)
def _plus(one, other):
    return one + other


@cuda.jit(device=True)
def _larger(one, other):
    return max(one, other)


_FORMS: dict[Any, Any] = {lanes.lane: _lane, lanes.lanes: _lanes, lanes.barrier: _barrier}


def device_form(loop: Any) -> Any:
    """Return a loop as numba-cuda compiles it."""
    return lanes.rebound(loop, _FORMS, _as_device_function)


def _as_device_function(loop: Any, function: Any) -> Any:
    inline = {name: value for name, value in loop.options.items() if name == "inline"}
    return cuda.jit(device=True, **inline)(function)


_mark, _release, _take = device_form(workspace.mark), device_form(workspace.release), device_form(workspace.take)
_FORMS |= {lanes.lane_sum: _over_block(_plus), lanes.lane_max: _over_block(_larger)}
_OF_PRODUCTS = "times", "times_transposed", "few_times", "add_products", "difference", "keep_difference"
_FORMS |= {getattr(dense, name): getattr(gpu_dense, name) for name in _OF_PRODUCTS}
_WITH_TILES = {dense.times, dense.times_transposed, dense.add_products}


@cache
def kernel_function(loop: Any) -> Any:
    """Return the kernel, not compiled, in which every block plays a loop for its replica."""
    play, tiles = device_form(loop), _size_of_tiles(loop)

    def kernel(is_fast, memories, too_small, arguments):
        b = int64(cuda.blockIdx.x)
        state = cuda.local.array(2, int64)
        state[USED], state[TOO_SMALL] = 0, 0
        memory, shared = memories[b], cuda.shared.array(0, float64)
        if is_fast:
            memory = shared[tiles:]
        play(b, Workspace(memory, state, shared[:tiles]), *arguments)
        if state[TOO_SMALL]:
            too_small[0] = 1

    return kernel


@cache
def _size_of_tiles(loop: Any) -> int:
    """Return how many numbers of fast memory the products of matrices of a loop take: 0 without such."""
    used: dict[Any, Any] = {}
    lanes.rebound(loop, used, lambda loop, function: loop)
    return gpu_dense.TILES if used.keys() & _WITH_TILES else 0


@cache
def _kernel(loop: Any) -> Any:
    options = {"max_registers": gpu_dense.REGISTERS} if _size_of_tiles(loop) else {}
    return cuda.jit(**options)(kernel_function(loop))


def launch(loop: Any, replicas: int, room: int, arguments: Any) -> None:
    """Call a loop for every replica, each in a block of its own; the tensors in the arguments are on one GPU.

    The workspace is fast memory of the block, where there is room in it.
    """
    device = device_of(arguments)
    tiles = _size_of_tiles(loop)
    is_fast = 8 * (tiles + room) <= most_fast_memory(device, replicas)
    shared = tiles + (room if is_fast else 0)
    memories = torch.empty(replicas, 0 if is_fast else room, dtype=torch.float64, device=device)
    too_small = torch.zeros(1, dtype=torch.int64, device=device)
    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    with torch.cuda.device(device):
        kernel = _kernel(loop)[replicas, gpu_dense.THREADS if tiles else THREADS, stream, 8 * shared]
        if 8 * shared > SHARED:
            kernel.pre_launch_callbacks[:] = [_permit_fast_memory]
        kernel(is_fast, *as_arrays((memories, too_small, arguments), cuda.as_cuda_array))
    if int(too_small):
        raise RuntimeError(f"{loop!r} needs a larger workspace than {room}")


def most_fast_memory(device: torch.device | None, replicas: int) -> int:
    """Return how many bytes of fast memory a block may take.

    A multiprocessor has 228 KB of it on an H100, and what one block takes the others do not have. Up to `SHARED`, at
    least four of them have it. More is worth it only while all replicas are played at once: one that waits for another
    to end loses more than by slower memory, which the cache of the multiprocessor has, too, while lists are short.
    """
    has = torch.cuda.get_device_properties(device)
    blocks = -(-replicas // has.multi_processor_count)
    of_one = int(getattr(has, "shared_memory_per_multiprocessor", 0)) // blocks - _OF_BLOCK
    return max(SHARED, min(int(getattr(has, "shared_memory_per_block_optin", 0)), of_one))


def _permit_fast_memory(kernel: Any, configuration: Any) -> None:
    """Permit a kernel more fast memory than `SHARED`, before it is launched: CUDA asks for this."""
    function, most = kernel._codelibrary.get_cufunc(), configuration.sharedmem
    attribute = driver.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.driver.cuKernelSetAttribute(attribute, most, function.handle, function.device.id)


def ptx(loop: Any, arguments: Any) -> str:
    """Return the machine code of a loop for an H100, as text; this needs no GPU. Arguments are tensors on a CPU."""
    dispatcher: Any = import_module("numba.cuda.dispatcher")
    asked, dispatcher.get_current_device = dispatcher.get_current_device, lambda: _H100
    try:
        kernel, capability = kernel_function(loop), _H100.compute_capability
        code, _ = cuda.compile(kernel, signature(arguments), device=False, cc=capability, abi="numba")
    finally:
        dispatcher.get_current_device = asked
    return str(code)


def signature(arguments: Any) -> Any:
    """Return the types for which the kernel of a loop is compiled, given arguments with tensors on a CPU."""
    from numba import typeof

    given = types.Tuple([typeof(as_arrays(each, lambda tensor: tensor.numpy())) for each in arguments])
    return types.void(boolean, types.Array(float64, 2, "C"), types.Array(int64, 1, "C"), given)
