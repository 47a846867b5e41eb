"""Which settings have to be named so that no two groups have the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def fewest(panels: Sequence[Sequence[Mapping[str, str]]]) -> list[str]:
    """One setting after the other, each the one that tells most of the groups apart that are still alike."""
    known = [*dict.fromkeys(name for several in panels for own in several for name in own)]
    told: list[str] = []

    def apart(names: Sequence[str]) -> int:
        return sum(len({tuple(own.get(name) for name in names) for own in several}) for several in panels)

    while known and apart(told) < apart([*told, *known]):
        best = max(known, key=lambda name: apart([*told, name]))  # of equals the first
        told.append(best)
        known.remove(best)
    order = [*dict.fromkeys(name for several in panels for own in several for name in own)]
    return sorted(told, key=order.index)
