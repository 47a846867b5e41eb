"""Lanes: a replica is played by one lane on a CPU, and by the threads of a block on a GPU.

A loop over documents, features or pairs is `for d in range(lane(), documents, lanes())`: each lane takes its share.
What has an order, such as the places of a list, is for lane 0. `barrier()` waits for all lanes; a function that has
written ends with it, so that what it has written is there for all. All lanes call the same functions in the same order.

On a CPU these calls are constants, and leave nothing in the machine code. `rebound` gives loops other bodies of them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from ol2r_cli.loops.compile import constant, is_loop, part_of_caller


@constant(0)
def lane():
    """Return the number of this lane, from 0."""
    return 0


@constant(1)
def lanes():
    """Return the number of lanes."""
    return 1


@constant(None)
def barrier():
    """Wait until all lanes are here."""


@part_of_caller
def dealt(row, columns):
    """Return the first column of a row that is for this lane, where the cells of a matrix are dealt to lanes in turn:
    `for column in range(dealt(row, columns), columns, lanes())`."""
    return (lane() - row * columns) % lanes()


@part_of_caller
def lane_sum(value, space):
    """Return the sum of what all lanes give as `value`, the same for all of them."""
    return value


@part_of_caller
def lane_max(value, space):
    """Return the largest of what all lanes give as `value`."""
    return value


_OF_MANY_LANES: dict[Any, Any] = {}


def of_many_lanes(loop: Any) -> Callable[[Any], Any]:
    """Return a decorator: the loop that it decorates takes the place of this one where there are many lanes."""

    def decorate(other: Any) -> Any:
        _OF_MANY_LANES[loop] = other
        return other

    return decorate


def rebound(loop: Any, forms: dict[Any, Any], make: Callable[[Any, Callable[..., Any]], Any]) -> Any:
    """Return a loop in another form, in which it calls the other forms of all loops that it calls.

    `make` makes the form of a loop from a function with the same code; `forms` has those that are there, by loop, such
    as `lane`, and receives the others.
    """
    if loop not in forms and loop in _OF_MANY_LANES:
        forms[loop] = rebound(_OF_MANY_LANES[loop], forms, make)
    if loop not in forms:
        function = loop.function
        used = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
        names = {name: rebound(value, forms, make) for name, value in used.items() if is_loop(value)}
        cells = None
        if function.__closure__ is not None:
            values = [cell.cell_contents for cell in function.__closure__]
            cells = tuple(CellType(rebound(value, forms, make) if is_loop(value) else value) for value in values)
        code = function.__code__
        copied = FunctionType(code, {**function.__globals__, **names}, function.__name__, closure=cells)
        copied.__qualname__, copied.__module__ = function.__qualname__, function.__module__
        forms[loop] = make(loop, copied)
    return forms[loop]
