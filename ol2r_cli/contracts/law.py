"""What a law is, and what is reported when a choice is held to it."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ol2r_cli.formatting import plural

KEPT, BROKEN, LEFT_OUT = "✓", "✗", "–"
_WIDTH = 110  # characters of a line of a violation


class Broken(Exception):
    """Raised by a law that is broken: on which input, and what differs there."""

    def __init__(self, input: str, difference: str):
        super().__init__(f"{difference} ({input})")
        self.input, self.difference = input, difference


class Stopped(Broken):
    """Raised where a law cannot be checked to its end; others that need the same stop there, too."""


class NotApplicable(Exception):
    """Raised by a law that says nothing about a choice; the message says why."""


class Law:
    """A law, made of a function: its name is the function's, with blanks, and its statement the docstring.

    Calling it with a subject returns nothing if the subject keeps the law, and raises `Broken` or `NotApplicable`, or
    what the code of the subject raises.
    """

    def __init__(self, function: Callable[[Any], None]):
        self.function, self.name = function, function.__name__.replace("_", " ")
        self.statement = " ".join((function.__doc__ or "").split())

    def __call__(self, subject: Any) -> None:
        self.function(subject)


@dataclass(frozen=True)
class Violation:
    """A broken law: its name, the input (seed, round, labels), and what differs there.

    The law is `raises` where the code of the choice raised an exception; `traceback` has its traceback.
    """

    law: str
    input: str
    difference: str
    traceback: str = field(default="", repr=False)

    def __str__(self) -> str:
        return "\n".join([f"{BROKEN} {self.law}", _wrapped("on: ", self.input), _wrapped("what: ", self.difference)])


def _wrapped(label: str, text: str) -> str:
    width = min(_WIDTH, shutil.get_terminal_size((_WIDTH, 1)).columns)
    return textwrap.fill(text, width, initial_indent=f"  {label:>7}", subsequent_indent=" " * 9, break_on_hyphens=False)


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What came of holding choices to the laws. `repr` and `str` are the text that `ol2r check` prints.

    subject: the overrides that were checked. passed: names of the laws that are kept. violations: those that are
    broken, one for each place. left_out: names of the laws that say nothing here, or could not be checked, with the
    reason. notes: what is no violation and worth knowing. warnings: what is likely to be a mistake, and breaks no law.
    """

    subject: str
    passed: tuple[str, ...]
    violations: tuple[Violation, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether no law is broken."""
        return not self.violations

    def explanations(self) -> str:
        """Return the violations, the warnings, the notes and the last line."""
        notes = [*(f"warning: {warning}" for warning in self.warnings), *(f"note: {note}" for note in self.notes)]
        broken = f"{len(self.violations)} broken" if self.violations else "none broken"
        last = f"{self.subject}: {plural(len(self.passed), 'law')} kept, {broken}"
        if self.left_out:
            last += f", {len(self.left_out)} not checked"
        return "\n".join([*(f"{violation}\n" for violation in self.violations), *notes, last])

    def __str__(self) -> str:
        kept = [f"{KEPT} {name}" for name in self.passed]
        left_out = [f"{LEFT_OUT} {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([*kept, *left_out, *([""] if kept or left_out else []), self.explanations()])

    __repr__ = __str__
