"""Which runs words choose, `dataset=mq2008 click=per,inf`, and which are left out below a folder of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.config.overrides import as_typed, translate
from ol2r_cli.lazy import lazy
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import nearest

if TYPE_CHECKING:
    from ol2r_cli.config import grammar
else:
    grammar = lazy("ol2r_cli.config.grammar")

PARTS_OF_OUTPUTS = ("reproduce", "benchmark", "search", "advise")  # folders of output_dir with their runs


class RunFilter:
    """Runs with one of the values of every word. `check` is called after all runs."""

    def __init__(self, words: Sequence[str]):
        self.wanted: dict[str, list[str]] = {}
        for word in translate(words) if words else ():
            for override in grammar.expand(word):
                name, _, value = override.partition("=")
                self.wanted.setdefault(name, []).append(value)
        self._known: dict[str, dict[str, Any]] = {}  # the values that runs have, by name and as typed
        self._chosen = False

    def run(self, run: Run, others: Mapping[str, Any] | None = None) -> bool:
        """Return whether a run on disk is chosen, as far as its files can be read. others: values in place of its
        own."""
        if not self.wanted or not run.manifest:
            return True
        settings: Mapping[str, Any] = {}
        with suppress(OSError, ValueError):
            settings = run.flat_settings
        choices = {"intent": "none"} | dict(run.choices)
        return self.has({**settings, **run.code_settings, **choices, **(others or {})})

    def has(self, values: Mapping[str, Any]) -> bool:
        """Return whether a run with these settings and choices is chosen."""
        for name, value in values.items():
            self._known.setdefault(name, {})[as_typed(value)] = value
        chosen = all(
            name in values and any(is_typed(values[name], typed) for typed in wanted)
            for name, wanted in self.wanted.items()
        )
        self._chosen |= chosen
        return chosen

    def check(self) -> None:
        """Raise ValueError for a word that no run has, with the values there are, and where no run has all of them."""
        if not self._known:
            return
        for name, wanted in self.wanted.items():
            if name not in self._known:
                raise ValueError(f"no run has a setting or group {name!r}{nearest(name, self._known)}")
            values = self._known[name]
            for typed in wanted:
                if not any(is_typed(value, typed) for value in values.values()):
                    raise ValueError(f"{name} must be one of {', '.join(values)}, got {typed}")
        if not self._chosen:
            words = " and ".join(f"{name}={','.join(wanted)}" for name, wanted in self.wanted.items())
            raise ValueError(f"no run has {words} together")


def is_typed(value: Any, typed: str) -> bool:
    """Return whether a setting has the value that was typed; numbers may be written differently."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(ValueError):
            return float(typed) == value
        return False
    return typed in (as_typed(value), value)


def part_of_outputs(path: Path, folder: Path) -> Path | None:
    """Return the folder of `PARTS_OF_OUTPUTS` below `folder` that a run is in; None for a run elsewhere."""
    inner = path.relative_to(folder).parts[:-2]
    for place, name in enumerate(inner, 1):
        if name in PARTS_OF_OUTPUTS:
            return folder.joinpath(*inner[:place])
    return None
