"""What is looked at in rounds that were played, how runs are compared, and the causes a difference speaks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.contracts.law import Broken
from ol2r_cli.contracts.small_world import seen
from ol2r_cli.contracts.subject import Played, Subject
from ol2r_cli.interfaces import Interaction

ROUNDING = (
    "ties from rounding: scores that are equal but for the last digits are ordered by them, and a product of another "
    "shape rounds differently. Order with `sortable` (exploration/order.py), or add up row by row as LinearRanker does"
)
PADDING = (
    "padding is read: a shorter query repeats its first document up to the length of the longest. Use candidates.mask "
    "before every sum, mean, maximum or norm over documents"
)
NUMBER_OF_DRAWS = (
    "draws whose number or order depends on the length of the list: number i must belong to document i, as in "
    "random.uniform(D), and not to the i-th place from the end or to one of D draws"
)
REPLICAS_MEET = "replicas meet: a mean, a norm or an index over the axis B, which is the first of every tensor"
UNSAVED = "state that is not in a buffer: allocate it in `setup` with register_buffer, and change it in `learn`"
MODULE_RANDOM = (
    "random numbers that are not from the argument `random`: torch.rand, numpy.random, the module random, or the order "
    "of a set"
)
SHARED = "state that two objects share: an attribute of the class, a global variable or a mutable default"
DIVISION = "a division by a number of documents, clicks or pairs, or by a spread, that is 0 here"
LABELS = "labels reach the role: by the dataset, a file or a global variable, without `needs_labels = True`"
PADDING_SORTED = "padding is sorted like documents: give it the lowest score, with masked_fill(~mask, LEAST)"
HIDDEN = "clicks on padding: end in `& shown`"
TWICE = "a document is placed twice: indices of a sort are used as places, or the other way round"

_ROUNDING = 1e-5  # relative size of a difference that is taken for one of rounding

Fault = tuple[int, str] | None  # the replica, and what is wrong


def score_fault(one: Interaction) -> Fault:
    """A score of a document that is not finite, or of padding that is NaN or above all."""
    values, mask = one.prediction.scores, one.candidates.mask[:, None]
    bad = (mask & ~values.isfinite()) | values.isnan() | (values == torch.inf)
    if not bad.any():
        return None
    replica, _, document = bad.nonzero()[0].tolist()
    what = f"document {document}" if mask[replica, 0, document] else "padding"
    return replica, f"the score of {what} is {float(values[replica, :, document][bad[replica, :, document]][0])}"


def order_fault(one: Interaction) -> Fault:
    """An order in which a document is absent."""
    for name, places in _orders(one):
        wrong = places.sort(1).values != torch.arange(places.shape[1])
        if wrong.any():
            replica = int(wrong.any(1).nonzero()[0])
            return replica, f"the order that is {name} has a document twice: {_places(places[replica])}"
    return None


def padding_fault(one: Interaction) -> Fault:
    """An order with padding before a document."""
    mask = one.candidates.mask
    for name, places in _orders(one):
        wrong = mask.gather(1, places) != mask
        if wrong.any():
            replica = int(wrong.any(1).nonzero()[0])
            real = int(mask[replica].sum())
            what = f"the query has documents 0 to {real - 1}, and the order that is {name} begins with"
            return replica, f"{what} {_places(places[replica, :real])}: {real} and above are padding"
    return None


def click_fault(one: Interaction) -> Fault:
    """A click on a place that shows nothing."""
    hidden = one.clicks & ~one.shown
    if not hidden.any():
        return None
    replica, place = hidden.nonzero()[0].tolist()
    return replica, f"a click is on place {place + 1}, and {int(one.shown[replica].sum())} documents are shown"


def _orders(one: Interaction) -> tuple[tuple[str, Tensor], ...]:
    return ("proposed", one.proposal.order), ("served", one.order)


def _places(documents: Tensor) -> str:
    return " ".join(map(str, documents.tolist()))


_FAULTS = ((score_fault, DIVISION), (order_fault, TWICE), (padding_fault, PADDING_SORTED), (click_fault, HIDDEN))


def check_rounds(played: Played, only: Callable[[Interaction], Fault] | None = None, where: str = "") -> None:
    """Broken at the first round that has the fault, by default any of them. The input begins with `where`."""
    for index, one in enumerate(played.rounds):
        for find, cause in _FAULTS:
            if only in (find, None) and (fault := find(one)):
                replica, what = fault
                raise Broken(where + played.place(index, replica), what, () if only else (cause,))


def check_same(
    found: Mapping[str, Any], expected: Mapping[str, Any], what: str, input: str, causes: tuple[str, ...] = ()
) -> None:
    """Broken unless two mappings, such as states, are equal to the last bit, with NaN in the same places."""
    ones, others = dict(_numbers(found)), dict(_numbers(expected))
    if missing := ones.keys() ^ others.keys():
        raise Broken(input, f"{what} {min(missing)} is in only one of both runs", causes)
    for name, other in others.items():
        one = ones[name]
        if one.shape != other.shape:
            raise Broken(input, f"{what} {name} is {list(one.shape)}, and {list(other.shape)} undisturbed", causes)
        differs = (one != other) & ~(one.isnan() & other.isnan())
        if differs.any():
            values = f"{float(one[differs][0])}, and {float(other[differs][0])}"
            raise Broken(input, f"{what} {name} has a number that is {values} undisturbed", causes)


def _numbers(values: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors and numbers in mappings and lists, in float64, with their names."""
    if isinstance(values, Mapping | list | tuple):
        for key, value in values.items() if isinstance(values, Mapping) else enumerate(values):
            yield from _numbers(value, f"{name}.{key}".lstrip("."))
    elif isinstance(values, Tensor | bool | int | float):
        yield name, torch.as_tensor(values).double()


def compare(
    found: Played,
    expected: Played,
    named: tuple[str, str],
    causes: tuple[str, ...],
    subject: Subject,
    replicas: tuple[int, int] | None = None,
) -> None:
    """Broken at the first round in which two runs show other documents, or get other clicks.

    `replicas` are the replicas to compare; None for all. The causes are `causes`, or, if there are none, those that the
    difference speaks for.
    """
    pairs = [replicas] if replicas else [(replica, replica) for replica in range(len(found.seeds))]
    for index, (one, other) in enumerate(zip(found.rounds, expected.rounds, strict=True)):
        for first, second in pairs:
            left, right = seen([one], first)[0][0], seen([other], second)[0][0]
            if left == right:
                continue
            what = _difference(_slots(one, first), _slots(other, second), named)
            told, speaks_for = _scores_apart(one, other, first, second)
            if left[1] == right[1]:
                speaks_for = (NUMBER_OF_DRAWS, REPLICAS_MEET)
            elsewhere = (MODULE_RANDOM,) if subject.draws_elsewhere else ()
            chosen = dict.fromkeys((*elsewhere, *(causes or speaks_for)))
            raise Broken(found.place(index, first), f"{what}; {told}", tuple(chosen))


def _slots(one: Interaction, replica: int) -> tuple[str, str]:
    """The documents shown to a replica, by their number in the list, and the places that were clicked."""
    shown = one.shown[replica]
    clicked = (one.clicks[replica] & shown).nonzero().flatten() + 1
    return _places(one.ranking[replica][shown]), _places(clicked) or "none"


def _difference(one: Sequence[str], other: Sequence[str], named: tuple[str, str]) -> str:
    if one[0] != other[0]:
        return f"documents {one[0]} are shown {named[0]}, and {other[0]} {named[1]}"
    if one[1] != other[1]:
        return f"documents {one[0]} are shown, with clicks on place {one[1]} {named[0]}, and {other[1]} {named[1]}"
    return f"another query is served {named[0]} than {named[1]}"


def _scores_apart(one: Interaction, other: Interaction, first: int, second: int) -> tuple[str, tuple[str, ...]]:
    """How the scores of a replica differ in one round, and the causes that this speaks for."""
    length = int(one.candidates.mask[first].sum())
    left, right = one.prediction.scores[first, :, :length], other.prediction.scores[second, :, :length]
    if left.shape != right.shape:
        return f"there are {len(left)} members, and {len(right)}", (REPLICAS_MEET,)
    apart = (left - right).abs()
    if not apart.any():
        return "the scores are equal", (NUMBER_OF_DRAWS, PADDING, REPLICAS_MEET)
    size = float(apart.max() / right.abs().max().clamp(min=1e-300))
    if size < _ROUNDING:
        return f"the scores differ by {size:.0e} of the largest", (ROUNDING,)
    document = int(apart.amax(0).argmax())
    values = f"{float(left[:, document].mean()):.6g} and {float(right[:, document].mean()):.6g}"
    return f"the score of document {document} is {values}", (PADDING, REPLICAS_MEET, NUMBER_OF_DRAWS)
