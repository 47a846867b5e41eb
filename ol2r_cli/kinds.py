"""Kinds of runs, and the words by which everything else treats a run, whatever it does.

A package of ol2r with a module `kind` adds a kind: `run/kind.py` has that of `ol2r run`, the experiment. Its name is
that of the package, of its command (`commands/NAME.py`) and of its root configuration (`configs/NAME.yaml`). Sweeps,
reports, recipes and checks of finished runs ask the kind of a run, so that none of them names another than the
experiment, and the package of another can be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

Render = Callable[[Any, bool], str]  # the text for a finished `Run`; true: it was finished before
_FIRST = "run"  # the experiment


@dataclass(frozen=True, kw_only=True)
class RunKind:
    """A kind of run: its words, and functions that import what they need when they are called.

    name: see above. about: what its command does, as `ol2r --help` says it. data, ranker: the groups of the
    configuration that choose its data and what learns from them; tables and figures call them `dataset` and `ranker`.
    fold: the setting that distinguishes runs on other parts of the same data. stand_in: the choice of `data` that
    generates them, in place of data that are not there. plays_rounds: whether runs have `rounds`, which can be played
    together with those of others, also on a GPU. settings: the class of the settings that are in no group.

    experiment: makes of settings, choices, a function that builds the object of a group, and hashes of own code what is
    run; it has settings, id, directory, `needs_gpu`, `stored` and `setup_error` as `Experiment`. runner: makes of that
    and the command the `Lifecycle` that runs it. render: the text that is printed for a finished run. differences:
    yields what is wrong with a finished `Run` whose files are intact; notes may be added to its second argument.

    units: the `Units` that the values of a metric are of; None: seeds. datasets, rankers: the names of choices of
    `data` and `ranker` in figures. styles: the `Style` of the latter.
    """

    name: str
    about: str
    data: str
    ranker: str
    fold: str
    stand_in: str
    plays_rounds: bool
    settings: str
    experiment: Callable[..., Any]
    runner: Callable[..., Any]
    render: Render
    differences: Callable[[Any, list[str]], Iterator[str]]
    units: Callable[[], Any] | None = None
    datasets: Mapping[str, str] = field(default_factory=dict)
    rankers: Mapping[str, str] = field(default_factory=dict)
    styles: Callable[[], Mapping[str, Any]] = dict

    def as_shown(self, setting: str) -> str:
        """Return what tables call a setting of this kind, of which `data` and `ranker` may have other names."""
        return _renamed(setting, {self.data: "dataset", self.ranker: "ranker"})

    def as_typed(self, setting: str) -> str:
        """Return how a setting is typed that tables call so."""
        return _renamed(setting, {"dataset": self.data, "ranker": self.ranker})


def _renamed(setting: str, names: Mapping[str, str]) -> str:
    group, dot, rest = setting.partition(".")
    return f"{names.get(group, group)}{dot}{rest}"


@cache
def run_kinds() -> dict[str, RunKind]:
    """Return all kinds of runs by name, the experiment first."""
    packages = {path.parent.name for path in Path(__file__).parent.glob("*/kind.py")}
    names = [_FIRST, *sorted(packages - {_FIRST})]
    return {name: import_module(f"ol2r_cli.{name}.kind").KIND for name in names}


def other_kinds() -> list[RunKind]:
    """Return all kinds but the experiment."""
    return [kind for kind in run_kinds().values() if kind.name != _FIRST]


def kind_of(choices: Mapping[str, str]) -> RunKind:
    """Return the kind of a run with these recorded choices.

    Every run records a dataset, a click model and a ranker, by which tables are ordered. Another kind than the
    experiment is known by its own group of data, which it records beside them.
    """
    return next((kind for kind in other_kinds() if kind.data in choices), run_kinds()[_FIRST])
