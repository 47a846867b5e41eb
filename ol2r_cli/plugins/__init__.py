"""What a plug-in may add to `ol2r`, and which plug-ins there are. The core names none of them.

The records are named tuples, made by keywords: ten dataclasses would take a tenth of the time of `ol2r --help`.

A plug-in of ol2r is a folder beside this file, whose `plugin.py` has `PLUGIN`; a plug-in of others is such a `Plugin`
that a package names by the entry point `ol2r.plugins`. A plug-in that is removed is not there, and one that cannot be
imported is left out: `ol2r doctor` says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ENTRY_POINTS = "ol2r.plugins"
_FIRST = "run"  # the experiment, the kind of run that the core has


class Command(NamedTuple):
    """A command of `ol2r`: its name, what it does in one line, and the module of its `main` (`commands/command.py`).

    A name of two words, `data fit-clicks`, is an action of a command that another plug-in or the core has. packages:
    those that the module imports and ol2r does not require, with the extra that brings them.
    """

    name: str
    about: str
    module: str
    packages: Mapping[str, str] = {}

    def main(self) -> Any:
        """Import the module, and return its `main`, which takes the words behind the name."""
        return import_module(self.module).main


Render = Callable[[Any, bool], str]  # the text for a finished `Run`; true: it was finished before


class RunKind(NamedTuple):
    """A kind of run: its words, and functions that import what they need when they are called.

    name: that of its command and of its root configuration (`configs/NAME.yaml`). about: what its command does, as
    `ol2r --help` says it. data, ranker: the groups of the configuration that choose its data and what learns from them;
    tables and figures call them `dataset` and `ranker`. fold: the setting that distinguishes runs on other parts of the
    same data. stand_in: the choice of `data` that generates them, in place of data that are not there. plays_rounds:
    whether runs have `rounds`, which can be played together with those of others, also on a GPU. settings: the class of
    the settings that are in no group.

    experiment: makes of settings, choices, a function that builds the object of a group, and hashes of own code what is
    run; it has settings, id, directory, `needs_gpu`, `stored` and `setup_error` as `Experiment`. runner: makes of that
    and typed words the `Lifecycle` that runs it. render: the text that is printed for a finished run. differences:
    yields what is wrong with a finished `Run` whose files are intact; notes may be added to its second argument.

    units: the `Units` that the values of a metric are of; None: seeds. datasets, rankers: the names of choices of
    `data` and `ranker` in figures. styles: the `Style` of the latter. references: a file of BibTeX for its choices.
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
    datasets: Mapping[str, str] = {}
    rankers: Mapping[str, str] = {}
    styles: Callable[[], Mapping[str, Any]] = dict
    references: Path | None = None

    def as_shown(self, setting: str) -> str:
        """Return what tables call a setting of this kind, of which `data` and `ranker` may have other names."""
        return _renamed(setting, {self.data: "dataset", self.ranker: "ranker"})

    def as_typed(self, setting: str) -> str:
        """Return how a setting is typed that tables call so."""
        return _renamed(setting, {"dataset": self.data, "ranker": self.ranker})


def _renamed(setting: str, names: Mapping[str, str]) -> str:
    group, dot, rest = setting.partition(".")
    return f"{names.get(group, group)}{dot}{rest}"


class RunPart(NamedTuple):
    """What a setting of a run adds to it; a run without it has none of this.

    line: of YAML, with the value of a run without it and a comment (`tally: false  # count documents`), which follows
    those of configs/run.yaml. files: that it writes, whose hashes the run records. table: returns the `Table` to which
    it adds rows in rounds, by `runner.trace` (`Trace.record_places`: a row for each place of a list).

    prepare: of an `Experiment` whose roles are made, before its data are loaded: returns what the others receive.
    check: of both, once data are loaded. These raise ValueError, with what to type. decisive: of what was prepared,
    what is hashed in place of the setting. manifest: of the same, what run.json has under the name of the setting.
    start: of the same, the context, the dataset and the seeds, the parameters from which replicas begin.

    The others receive the `Runner` and what was prepared. record: and the number of a round, from 1, and its
    `Interaction`, after each round; with it rounds are played one by one. evaluate: before the first round, returns
    what makes of deployed parameters [E B P] columns [E B] of the evaluation. finish: after the last round, writes its
    files. differences: of a finished `Run`, yields what is wrong with what it has written; what cannot be compared is
    added to a list of notes.
    """

    setting: str
    line: str
    prepare: Callable[[Any], Any]
    files: Sequence[str] = ()
    table: Callable[[], Any] | None = None
    check: Callable[[Any, Any], None] | None = None
    decisive: Callable[[Any], Any] | None = None
    manifest: Callable[[Any], Any] | None = None
    start: Callable[..., Any] | None = None
    record: Callable[[Any, Any, int, Any], None] | None = None
    evaluate: Callable[[Any, Any], Callable[[Any], Mapping[str, Any]]] | None = None
    finish: Callable[[Any, Any], None] | None = None
    differences: Callable[[Any, list[str]], Iterator[str]] | None = None


class Output(NamedTuple):
    """What `ol2r report` can write beside its own tables; functions import what they need when they are called.

    name: of the option that asks for it, or of its format. arguments: returns those of the command (`command.argument`)
    that it adds. endings: of files, with the names of their formats. needs_file: whether these are never printed.
    check: raises ValueError for arguments that do not go together. examples: lines of the help of `ol2r report`.

    What it does is one of: main, of the arguments, all, in place of a table. table, of groups, labels and arguments: a
    `TextTable` in place of that of groups. text, of a `Document` and the arguments: the content of a file.
    """

    name: str
    arguments: Callable[[], Sequence[Any]] = tuple
    endings: Mapping[str, str] = {}
    needs_file: bool = False
    check: Callable[[Any], None] | None = None
    main: Callable[[Any], None] | None = None
    table: Callable[..., Any] | None = None
    text: Callable[..., str] | None = None
    examples: str = ""


class Criterion(NamedTuple):
    """By what settings are chosen (`report/best_settings.py`).

    name: that of `--select`, which offers it where there is `about`. values: of cells, the values of each by (fold,
    seed), whose highest mean is the best; ValueError for runs that lack it. undecided: of cells, why it says nothing of
    which is better, or nothing. compared: of cells and the chosen one, what it says of each, the chosen one first.
    doubts: of the same and that, lines on what it does not tell. table: of these by chosen cell, and labels, a
    `TextTable`. note: the line below it. examples: lines of the help of `ol2r report`.
    """

    name: str
    values: Callable[..., Mapping[Any, Any]]
    about: str = ""
    undecided: Callable[..., str] | None = None
    compared: Callable[..., Sequence[Any]] | None = None
    doubts: Callable[..., Sequence[str]] | None = None
    table: Callable[..., Any] | None = None
    note: str = ""
    examples: str = ""


class Source(NamedTuple):
    """Files whose finished runs a report reads beside those of folders. ending: of such files, with its dot. runs: of a
    file, its `FinishedRun`s; ValueError for one that has none."""

    ending: str
    runs: Callable[[Path], Sequence[Any]]


class Launching(NamedTuple):
    """How loops are played on a GPU, and the rounds of several runs in one process. One plug-in has it.

    missing: why nothing can be compiled for a GPU here, or nothing. launch: of a loop, the number of replicas, the room
    of its workspace, and arguments with tensors of a GPU, plays it. try_loops: of a device, or None to compile alone,
    raises where a loop is not played as by a CPU.

    form: of the settings and the choices of a job, what it has in common with those that one process can play together;
    None: it is played alone. size: how many of the jobs that wait a worker plays together, by their number, the number
    of workers, and the seconds of such a job, None while unknown. size_on_gpu: the same by the replicas of a job.
    gpu_is_faster: whether a GPU plays jobs faster than cores do (`batches.gpu_is_faster`). play: jobs in this process
    (`batch.run_batch`), made of what a payload has by `job`.
    """

    missing: Callable[[], str]
    launch: Callable[..., None]
    try_loops: Callable[[Any], None]
    form: Callable[[Mapping[str, Any], Mapping[str, str]], str | None]
    size: Callable[[int, int, float | None], int]
    size_on_gpu: Callable[[int, int, int], int]
    gpu_is_faster: Callable[..., bool]
    job: Callable[..., Any]
    play: Callable[..., None]


class Plugin(NamedTuple):
    """What one plug-in adds. name: of its folder, or of the entry point.

    needs: other plug-ins without which it is left out. files: what belongs to it outside its folder, as patterns below
    the root of the repository, so that all of it can be deleted. meant: words that are no commands, with what to type.
    texts_of: of a class that is in no file, the hashes of its source by name, and what it uses of elsewhere. pickled:
    of the names of such classes in `__main__`, bytes from which `pickle` makes them in another process, by name.
    """

    name: str
    about: str
    needs: Sequence[str] = ()
    files: Sequence[str] = ()
    meant: Mapping[str, str] = {}
    commands: Sequence[Command] = ()
    run_kinds: Sequence[RunKind] = ()
    run_parts: Sequence[RunPart] = ()
    outputs: Sequence[Output] = ()
    criteria: Sequence[Criterion] = ()
    sources: Sequence[Source] = ()
    launching: Launching | None = None
    texts_of: Callable[[Any], tuple[set[tuple[str, str]], list[Any]]] | None = None
    pickled: Callable[[Sequence[str]], bytes] | None = None


class Installed(NamedTuple):
    """The plug-ins that can be used, by name, and why others cannot."""

    plugins: Mapping[str, Plugin]
    left_out: Mapping[str, str]


@cache
def installed() -> Installed:
    """Return all plug-ins, those of ol2r first."""
    plugins: dict[str, Plugin] = {}
    left_out: dict[str, str] = {}
    for name, load in _found():
        try:
            plugin = load()
            if not isinstance(plugin, Plugin):
                raise TypeError(f"it must name a Plugin, got {type(plugin).__name__}")
        except Exception as error:  # of others' code, which must not end a command that does not need it
            left_out[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            plugins.setdefault(name, plugin)
    while missing := {name: need for name, plugin in plugins.items() for need in plugin.needs if need not in plugins}:
        for name, need in missing.items():
            del plugins[name]
            left_out[name] = f"it needs the plug-in {need}"
    return Installed(plugins=plugins, left_out=left_out)


def _found() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of every plug-in, and a function that imports it."""
    here = os.path.dirname(__file__)
    for name in sorted(os.listdir(here)):
        if os.path.isfile(os.path.join(here, name, "plugin.py")):
            yield name, partial(_of_folder, name)
    for point in sorted(entry_points_of(ENTRY_POINTS)):
        yield point.name, point.load


def _of_folder(name: str) -> Any:
    return import_module(f"ol2r_cli.plugins.{name}.plugin").PLUGIN


def entry_points_of(group: str) -> Iterable[Any]:
    """Return the entry points of a group that installed packages have.

    Most have none. Importing `importlib.metadata` is a fifth of the time of `ol2r --help`.
    """
    if f"[{group}]" not in _texts_of_entry_points(tuple(sys.path)):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


@cache
def _texts_of_entry_points(folders: Sequence[str]) -> str:
    """Return the files `entry_points.txt` of all installed packages, one behind the other."""
    texts = []
    for folder in folders:
        try:
            installed_there = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
        except OSError:  # a zip file, or nothing
            continue
        for name in installed_there:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
                    texts.append(file.read())
            except OSError:
                continue
    return "\n".join(texts)


def plugins() -> list[Plugin]:
    """Return the plug-ins that can be used."""
    return list(installed().plugins.values())


def run_parts() -> list[RunPart]:
    """Return what settings add to a run."""
    return [part for plugin in plugins() for part in plugin.run_parts]


def added_files() -> list[str]:
    """Return the names of the files that plug-ins add to those of a run."""
    tables = [part.table().file for part in run_parts() if part.table is not None]
    return [*(name for part in run_parts() for name in part.files), *tables]


def added_lines() -> dict[str, str]:
    """Return the lines of YAML that plug-ins add to the settings of a run, by setting."""
    return {part.setting: part.line for part in run_parts()}


@cache
def launching() -> Launching | None:
    """Return what launches loops on a GPU and runs together; None where no plug-in does."""
    return next((plugin.launching for plugin in plugins() if plugin.launching), None)


@cache
def run_kinds() -> dict[str, RunKind]:
    """Return all kinds of runs by name, the experiment first."""
    first = import_module(f"ol2r_cli.{_FIRST}.kind").KIND
    return {kind.name: kind for kind in (first, *(kind for plugin in plugins() for kind in plugin.run_kinds))}


def other_kinds() -> list[RunKind]:
    """Return all kinds but the experiment."""
    return [kind for kind in run_kinds().values() if kind.name != _FIRST]


def kind_of(choices: Mapping[str, str]) -> RunKind:
    """Return the kind of a run with these recorded choices.

    Every run records a dataset, a click model and a ranker, by which tables are ordered. Another kind than the
    experiment is known by its own group of data, which it records beside them.
    """
    return next((kind for kind in other_kinds() if kind.data in choices), run_kinds()[_FIRST])
