"""A small loop that shows whether a GPU plays loops as a CPU does, or where there is none, whether they compile."""

from __future__ import annotations

import torch

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lane_max, lane_sum, lanes
from ol2r_cli.loops.launch import launch
from ol2r_cli.plugins.gpu import gpu

_ROOM = 64  # numbers that the loop takes of its workspace


@compiled
def multiplies_by_sum_and_largest(b, space, numbers):
    """Multiply the numbers [B, n] of a replica by their sum and by the largest of them."""
    own = numbers[b]
    part, most = 0.0, own[0]
    for i in range(lane(), len(own), lanes()):
        part += own[i]
        most = max(most, own[i])
    factor = lane_sum(part, space) * lane_max(most, space)
    for i in range(lane(), len(own), lanes()):
        own[i] *= factor
    barrier()


def try_loops(device: torch.device | None) -> None:
    """Compile a loop for a GPU, and play it on `device`, if there is one.

    RuntimeError if its numbers are not those of the CPU, and whatever numba-cuda raises.
    """
    numbers = torch.arange(200, dtype=torch.float64).reshape(2, 100)
    if device is None:
        gpu.ptx(multiplies_by_sum_and_largest, (numbers,))
        return
    expected, found = numbers.clone(), numbers.to(device)
    for values in expected, found:
        launch(multiplies_by_sum_and_largest, len(values), _ROOM, values)
    if not torch.equal(found.cpu(), expected):
        raise RuntimeError(f"a loop writes other numbers on {device} than on the CPU")
