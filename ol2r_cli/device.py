"""Where tensors live and how precise they are."""

from __future__ import annotations

import ctypes
import sys

import torch

DTYPES = {"auto": None, "float64": torch.float64, "float32": torch.float32}


class Device:
    """The place and precision of a run.

    `name` is auto (a GPU when there is one), cpu, cuda or cuda:1 ..; `dtype` is float64, float32 or auto, which leaves
    it to the ranker (float64, because widths of linear rankers cancel in float32; float32 for networks); `threads` >= 1
    is for tensor operations on the CPU.
    """

    dtype: torch.dtype | None  # None: what the ranker needs

    def __init__(self, name: str, dtype: str, threads: int):
        if dtype not in DTYPES:
            raise ValueError(f"device.dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        if not (isinstance(threads, int) and threads >= 1):
            raise ValueError(f"device.threads must be 1 or more, got {threads!r}")
        self.dtype, self.threads = DTYPES[dtype], threads
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self.torch = torch.device(name)
        except RuntimeError:
            raise ValueError(f"device.name must be auto, cpu, cuda or cuda:N, got {name!r}") from None
        if self.torch.type == "cuda" and not torch.cuda.is_available():
            raise ValueError("device=cuda needs a CUDA GPU and a torch built for it, none was found: use device=cpu")

    @property
    def label(self) -> str:
        """For the manifest: the processor's kind, and its name where there is one."""
        return f"{self.torch} ({torch.cuda.get_device_name(self.torch)})" if self.torch.type == "cuda" else "cpu"

    def prepare(self) -> None:
        """Set the number of threads of this process, and let it keep the memory it frees."""
        torch.set_num_threads(self.threads)
        _keep_memory()


def _keep_memory() -> None:
    """Tell glibc not to hand freed blocks back to the system.

    Every round needs D^2 matrices of the same sizes: with lists of 400 documents, having each page mapped anew took a
    quarter of the time.
    """
    trim_threshold, mmap_threshold = -1, -3  # of mallopt(3)
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(trim_threshold, 2**30)
        libc.mallopt(mmap_threshold, 2**25)  # 32 MB, the most it takes
