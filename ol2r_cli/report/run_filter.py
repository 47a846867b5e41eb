"""Words of `ol2r run` that choose among runs: `dataset=mq2008 click=per,inf ranker.l2=0.1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ol2r_cli.config.overrides import as_typed, translate
from ol2r_cli.formatting import nearest
from ol2r_cli.report.finished_run import FOLD, FinishedRun, added_settings, code_settings
from ol2r_cli.run.run import Run


class RunFilter:
    """Runs with one of the values of every word. `check` is called after all runs."""

    def __init__(self, words: Sequence[str]):
        self.wanted: dict[str, list[str]] = {}
        if words:
            from ol2r_cli.config.composer import expand  # imports Hydra

            for name, _, value in (each.partition("=") for word in translate(words) for each in expand(word)):
                self.wanted.setdefault(name, []).append(value)
        if (preset := self.wanted.get("experiment")) is not None:
            shows = f"what `ol2r list experiment {preset[0]}` shows of it"
            raise ValueError(f"experiment must be left out, a run does not record its preset: type {shows}")
        self._known: dict[str, dict[str, Any]] = {}  # the values that runs have, by name and as typed
        self._chosen = False

    def run(self, run: FinishedRun) -> bool:
        """Whether a finished run is chosen."""
        own = {FOLD: run.fold, "seed": run.seeds[0], "replicas": len(run.seeds)}
        return self._matches({**run.settings, **own, **run.choices})

    def state(self, run: Run) -> bool:
        """Whether a run on disk is chosen, as far as its files can be read."""
        if not self.wanted or not run.manifest:
            return True
        choices, settings = {"intent": "none"} | dict(run.choices), {}
        with suppress(OSError, ValueError):
            settings = run.flat_settings
        return self._matches({**added_settings(choices), **settings, **code_settings(run.manifest), **choices})

    def _matches(self, values: Mapping[str, Any]) -> bool:
        for name, value in values.items():
            self._known.setdefault(name, {})[as_typed(value)] = value
        wanted = self.wanted.items()
        chosen = all(name in values and any(is_typed(values[name], each) for each in typed) for name, typed in wanted)
        self._chosen |= chosen
        return chosen

    def check(self) -> None:
        """ValueError for a word that no run has, with the values that there are, and where no run has all of them."""
        for name, wanted in self.wanted.items() if self._known else ():
            if name not in self._known:
                raise ValueError(f"no run has a setting or group {name!r}{nearest(name, self._known)}")
            values = self._known[name]
            for typed in wanted:
                if not any(is_typed(value, typed) for value in values.values()):
                    raise ValueError(f"{name} must be one of {', '.join(values)}, got {typed}")
        if self._known and not self._chosen:
            words = " and ".join(f"{name}={','.join(wanted)}" for name, wanted in self.wanted.items())
            raise ValueError(f"no run has {words} together")


def is_typed(value: Any, typed: str) -> bool:
    """Whether a setting has the value that was typed; numbers may be written differently."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(ValueError):
            return float(typed) == value
        return False
    return typed in (as_typed(value), value)
