"""The device and the precision of a run."""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple

import torch
from threadpoolctl import ThreadpoolController

from ol2r_cli import loops
from ol2r_cli.config.ranges import Range
from ol2r_cli.interfaces import Ranker
from ol2r_cli.text.formatting import plural

Threads = Annotated[int, Range(1, 1024)]  # OpenMP ends the process if it cannot start them all
_DTYPES = {"auto": None, "float64": torch.float64, "float32": torch.float32}
_AUTOCAST = "cpu", "cuda"
MOST_REPLICAS = 100_000  # of a run
SINGLE_ROUNDS = "device: cpu, for rounds that are played one by one (or type device=cuda)"


class BreakEven(NamedTuple):
    """From where on a GPU plays a kind of ranker faster than one core of a CPU.

    A core plays as many rounds in a second as `replicas` of a GPU, each of which has a part of the GPU to itself, and
    so many `rounds` while loops are compiled for the GPU. One number would not do: by replicas alone, 14 replicas of
    PDGD over 5,000 rounds would take 27 times as long on the GPU that is chosen; by replicas times rounds, one of
    PairRank over a million would take 5 times as long.
    """

    replicas: int
    rounds: int

    def replicas_of(self, rounds: int, launches: int = 1) -> int:
        """Return the number of replicas from which on the GPU is faster in runs of so many rounds. They are played by
        so many launches, one after the other."""
        return self.replicas * launches + -(-self.rounds // rounds)


# By the tables of docs/explanation/performance.md, "On a GPU", from which tests/test_device.py derives them: of each
# kind the numbers of its last ranker.
NETWORKS = BreakEven(2, 0)
ONE_STEP = BreakEven(14, 1_820_000)
HISTORY = BreakEven(5, 120_000)


class Device:
    """Device and precision of a run.

    `name` is auto (a GPU if there is one; a run has what `automatic` takes), cpu, cuda or cuda:N. `dtype` auto leaves
    the precision to the ranker: float64 for linear rankers, because their confidence widths cancel in float32, and
    float32 for networks. `threads` is the number of threads of one tensor operation on the CPU.
    """

    group = "device"
    dtype: torch.dtype | None  # None: the ranker decides

    def __init__(self, name: str, dtype: Literal["auto", "float64", "float32"], threads: Threads):
        self.dtype, self.threads = _DTYPES[dtype], threads
        if name == "auto":
            name = "cuda" if has_gpu() else "cpu"
        try:
            self.torch = torch.device(name)
        except RuntimeError:
            raise ValueError(f"{self.group}.name must be auto, cpu, cuda or cuda:N, got {name!r}") from None
        if self.torch.type == "cuda":
            if not torch.cuda.is_available():
                raise ValueError(
                    "device=cuda needs a CUDA GPU and a torch built for it, none was found: use device=cpu"
                )
            if missing := loops.gpu_is_missing():
                raise ValueError(f"device=cuda compiles its loops, but {missing}: type pip install 'ol2r[gpu]'")

    @property
    def label(self) -> str:
        """The name of the device in the manifest: `cpu`, or the CUDA device and its model."""
        return f"{self.torch} ({torch.cuda.get_device_name(self.torch)})" if self.torch.type == "cuda" else "cpu"

    def prepare(self) -> None:
        """Set threads, default dtype and modes of arithmetic of this process; keep freed memory in the process.

        ValueError where other threads, which torch has started before, compute in another mode.
        """
        set_torch(self.threads)
        if not (torch.full((2**15 * self.threads,), sys.float_info.min, dtype=torch.float64) / 2).all():
            cause = "torch.set_flush_denormal(True), or a library linked with -Ofast"
            raise ValueError(f"{self.group}.threads must be 1 where threads take small numbers as zero ({cause})")
        if self.torch.type == "cpu":
            # The library that multiplies matrices in compiled loops gets one thread, torch has its own: a round's
            # matrices are small, and two threads took 3 to 75 times as long as one.
            import_module("scipy.linalg.cython_blas")  # numba calls this; only what is loaded can be limited
            ThreadpoolController().select(internal_api="openblas").limit(limits=1)
        libc = ctypes.CDLL(None)
        if sys.platform == "linux" and hasattr(libc, "mallopt"):
            # Every round allocates D^2 matrices of the same sizes. With lists of 400 documents, mapping their pages
            # anew took a quarter of the time.
            trim_threshold, mmap_threshold = -1, -3  # parameters of mallopt(3)
            libc.mallopt(trim_threshold, 2**30)
            libc.mallopt(mmap_threshold, 2**25)  # 32 MB, the largest value that glibc accepts


def has_gpu() -> bool:
    """Return whether there is a GPU, and what compiles loops for it."""
    return torch.cuda.is_available() and not loops.gpu_is_missing()


def break_even(ranker: Ranker, together: bool) -> BreakEven | None:
    """Return from where on a GPU plays a ranker faster than one core of a CPU.

    `together` is whether one launch plays many rounds. None for a linear ranker that plays single rounds: that was not
    measured. Networks of the user's own have no compiled loops, so that a GPU plays them from one replica on.
    """
    if ranker.dtype == torch.float32:
        parts = ranker, getattr(ranker, "model", ranker)
        own = any(not type(part).__module__.startswith("ol2r_cli.") for part in parts)
        return BreakEven(1, 0) if own else NETWORKS
    if not together:
        return None
    return ONE_STEP if ranker.one_step else HISTORY


def automatic(even: BreakEven | None, replicas: int, rounds: int) -> tuple[str, str]:
    """Return the name of the device that `device.name=auto` takes for a run, and a line that says why.

    `even` is the `break_even` of its ranker. The line is empty where there is no GPU.
    """
    if not torch.cuda.is_available():
        return "cpu", ""
    if missing := loops.gpu_is_missing():
        return "cpu", f"device: cpu, because {missing}, which compiles loops for a GPU (type pip install 'ol2r[gpu]')"
    if even is None:
        return "cpu", SINGLE_ROUNDS
    least = even.replicas_of(rounds)
    if replicas < least:
        few = f"below {least:,} replicas" if least <= MOST_REPLICAS else "in so few rounds"
        return "cpu", f"device: cpu, faster than a GPU {few} (or type device=cuda)"
    return "cuda", f"device: cuda, faster than a core from {plural(least, 'replica')} on (or type device=cpu)"


def set_torch(threads: int) -> None:
    """Set the state of torch that decides numbers, so that what other code of this process has set does not."""
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    torch.set_flush_denormal(False)
    for device in _AUTOCAST:
        torch.set_autocast_enabled(device, False)
    with warnings.catch_warnings(action="ignore"):  # it is deprecated in favour of fp32_precision
        torch.set_float32_matmul_precision("highest")  # without TF32


@contextmanager
def restored() -> Iterator[None]:
    """Restore in the end what `set_torch` sets, for the program that calls ol2r."""
    backends: Any = torch.backends
    undo: list[Callable[[], object]] = [
        partial(torch.set_num_threads, torch.get_num_threads()),
        partial(torch.set_default_dtype, torch.get_default_dtype()),
        partial(torch.set_flush_denormal, sys.float_info.min / 2 == 0),
        *(partial(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device)) for device in _AUTOCAST),
    ]
    with warnings.catch_warnings(action="ignore"), suppress(RuntimeError):  # where fp32_precision was set
        undo.append(partial(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()))
    undo.extend(
        partial(setattr, backend, "fp32_precision", backend.fp32_precision)
        for backend in (backends.cuda.matmul, backends.mkldnn.matmul)
    )
    try:
        yield
    finally:
        for restore in undo:
            restore()
