"""What `ol2r doctor` reports about one thing it looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `problem`: what is amiss and what to type; `needed`: `ol2r run` cannot do without it."""

    topic: str
    name: str
    value: str
    problem: str = ""
    needed: bool = False
