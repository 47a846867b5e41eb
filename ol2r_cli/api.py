"""ol2r from Python, in a script or a notebook. Nothing heavy is imported before it is needed.

See docs/how-to/python.md.

    from ol2r_cli import api as ol2r

    run = ol2r.run("ranker=pairrank", "click=navigational", rounds=500, replicas=3)
    run.summary["test_ndcg_10"]["mean"]

A bad setting is a ValueError with the message of the command line.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ol2r_cli import report
from ol2r_cli.config.catalogue import targets
from ol2r_cli.config.overrides import full_names, split_launcher, split_search_path
from ol2r_cli.lazy import lazy, pl, torch
from ol2r_cli.metrics.intervals import LEVEL, with_interval
from ol2r_cli.plugins.figures import drawing
from ol2r_cli.plugins.python.passed_classes import as_overrides
from ol2r_cli.report import comparison
from ol2r_cli.report.collection import chosen_runs
from ol2r_cli.report.document import Document
from ol2r_cli.report.measures import declare, described
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import group_runs
from ol2r_cli.report.shown_metrics import check_metrics, usual_metrics
from ol2r_cli.report.tasks import fixed_names
from ol2r_cli.run import INTERRUPTED
from ol2r_cli.run import run as run_reader
from ol2r_cli.run.own_code import trusted_targets
from ol2r_cli.text.formatting import plural, printable
from ol2r_cli.text.table import in_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ol2r_cli import device
    from ol2r_cli.config import composer
    from ol2r_cli.plugins.check import laws
    from ol2r_cli.run import recomputed, runner
    from ol2r_cli.sweep import sweeper
else:
    device, composer = lazy("ol2r_cli.device"), lazy("ol2r_cli.config.composer")
    laws, sweeper = lazy("ol2r_cli.plugins.check.laws"), lazy("ol2r_cli.sweep.sweeper")
    recomputed, runner = lazy("ol2r_cli.run.recomputed"), lazy("ol2r_cli.run.runner")

__all__ = [
    *("Run", "RunFailed", "RunFigure", "check", "compare", "compose", "draw", "experiment", "grid", "load"),
    *("run", "sweep"),
]


class RunFailed(Exception):
    """A run ended with an error, or several runs of a sweep did. The message has a line for each.

    `paths` are their directories, with the traceback in `log.txt`. The same call resumes from the last checkpoint.
    """

    def __init__(self, message: str, paths: tuple[Path, ...] = ()):
        super().__init__(message)
        self.paths = paths


class Run(run_reader.Run):
    """A finished run: its files, and besides how a notebook displays it, figures and its trained ranker.

    `run` is the path of its directory, or its id, which is searched for below `root`. Without `root`, that is
    output_dir of the project file, or outputs; FOLDER/ID names another folder. `config_dir` names folders with choices
    of one's own: the trained ranker may be of their classes. Files are read when they are first used;
    docs/reference/files.md describes them and their columns. ValueError where there is no finished run.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        root: str | os.PathLike[str] | None = None,
        config_dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    ):
        self._config_dirs = _folders(config_dir)
        self._own_targets: frozenset[str] = frozenset()  # classes that the caller named to start the run
        stored = self.read_finished(run_reader.find_run(str(run), root))
        super().__init__(stored.path, stored.manifest, stored.state)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{group}={self.choices[group]}" for group in ("ranker", "click", "dataset"))
        seeds = plural(len(self.seeds), "seed")
        return printable(f"<Run {self.id}: {chosen}, {self.rounds} rounds, {seeds}, in {self.path}>").replace("`", "'")

    def _repr_markdown_(self) -> str:
        """Return what a notebook displays: the run, and its metrics over seeds."""
        declare(self.columns)
        rows = [
            f"| {in_markdown(described(name).heading)} | {with_interval(values, described(name).digits)} |"
            for name, values in self.summary.items()
            if not name.endswith(("_untrained", "_last_tenth"))
        ]
        heading = f"mean over seeds ± half its {LEVEL:.0%} interval" if len(self.seeds) > 1 else "value"
        return "\n".join([f"`{self!r}`", "", f"| metric | {heading} |", "|---|---|", *rows])

    @cached_property
    def trained_ranker(self) -> recomputed.TrainedRanker:
        """The trained ranker of every seed; ValueError for a ranker that cannot score new queries."""
        return recomputed.TrainedRanker(self, self._own_targets | trusted_targets(self._config_dirs))

    def score(
        self,
        documents: str | os.PathLike[str] | NDArray[Any],
        seed: int | None = None,
        data: str | os.PathLike[str] | None = None,
        query: Collection[Any] | None = None,
    ) -> pl.Series:
        """Return the scores of all documents of a LETOR file, in the order of the file, as `ol2r score` writes them.

        In place of a file, `documents` may be an array of their features [N, F], as they stand in the data of the run,
        and `query` what query each is of, for which documents of a query follow each other; None: all are of one.
        `seed` selects the replica (None: the first). `data` is where the run's dataset is if it has moved.
        """
        with torch.inference_mode():
            ranker = self.trained_ranker
            replica = ranker.replica(seed, "seed")
            source = ranker.feature_source(None if data is None else Path(data))
            if isinstance(documents, str | os.PathLike):
                if query is not None:
                    raise ValueError("query goes with an array of features: leave it out with a file")
                table = source.of_file(Path(documents))
            else:
                table = source.of_array(documents, query)
            for line in table.warnings:
                warnings.warn(line, stacklevel=2)
            scores = ranker.scores(table, replica)
        return pl.Series("score", scores.numpy())

    def plot(self, kind: str = "learning_curve", **options: Any) -> RunFigure:
        """Return a figure of this run alone; see `draw`."""
        return draw(kind, self, **options)


class RunFigure:
    """A figure that a notebook displays. `figure` is the figure of matplotlib, which may be changed."""

    def __init__(self, figure: Figure):
        self.figure = figure

    def __repr__(self) -> str:
        width, height = self.figure.get_size_inches()
        return f"<RunFigure of {width:.1f} x {height:.1f} inches>"

    def save(self, path: str | Path) -> Path:
        """Write png, svg or pdf, by the ending; ValueError for another one and for a file that cannot be written."""
        drawing.save(self.figure, path)
        return Path(path)

    def _repr_png_(self) -> bytes:
        with TemporaryDirectory() as folder:
            return self.save(Path(folder) / "figure.png").read_bytes()


RunOrFolder = Run | str | os.PathLike[str]


def compose(*settings: Any, **more: Any) -> composer.Composition:
    """Return what `ol2r run` would run with these settings: `.config`, and the choice of each group, `.choices`.

    All functions here take settings in the same forms: "ranker=pdgd", rounds=500, {"ranker.learning_rate": 0.1}, and
    lists of these. ValueError for a setting or choice that does not exist.
    """
    overrides = as_overrides(*settings, **more)
    return composer.Composer(overrides)(overrides)


def experiment(*settings: Any, **more: Any) -> runner.Experiment:
    """Return an experiment with checked settings and its dataset loaded. Nothing is written.

    `experiment.simulation().play()` yields one round after the other. Make only one simulation of an experiment. From
    now on torch computes in this process as in runs: with `device.threads` threads, and with their default dtype,
    precision of matrix products, autocast and flush-to-zero. ValueError for a bad setting.
    """
    return _prepared(as_overrides(*settings, **more))[0]


def _prepared(overrides: Sequence[str]) -> tuple[runner.Experiment, list[str]]:
    """Return the experiment of these overrides, and the words of the command that runs it."""
    composition_of = composer.Composer(overrides)
    words = full_names(split_search_path(overrides)[0], composition_of.catalogue.choices)
    job, _ = split_launcher(words)
    composition = composition_of(job)
    composer.check_grid(composition, job, "use its settings one by one, with sweep()")
    prepared = runner.Experiment(composition.settings, composition.choices)
    return prepared, [*words, *composition_of.options]


def check(
    *settings: Any, config_dir: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (), **more: Any
) -> laws.CheckReport:
    """Make the property checks of `ol2r check` on the components that are named, such as "ranker=mine".

    `config_dir` names folders with components of one's own. The report has the `violations`, each with its input and
    difference, and the names of the checks that `passed`; printed, it is the text of the command. ValueError for a bad
    setting, and if no component is named that has checks.
    """
    folders = [f"--config-dir={folder}" for folder in _folders(config_dir)]
    return laws.check([*as_overrides(*settings, **more), *folders])


def run(*settings: Any, progress: bool = False, **more: Any) -> Run:
    """Return the run of `ol2r run` with these settings: run now, resumed, or loaded where it is finished.

    `progress` prints the progress and the summary. ValueError for a bad setting, `RunFailed` when the run ends with an
    error. An interrupted run keeps its rounds, and the same call resumes it.
    """
    with device.restored(), torch.inference_mode():
        prepared, words = _prepared(as_overrides(*settings, **more))
        path = prepared.directory.path
        if not prepared.finished():
            playing = runner.Runner(prepared, words)  # before the directory is made: it refuses bad settings
            with prepared.directory, contextlib.ExitStack() as printed:
                if not progress:  # discard what is for the command line
                    printed.enter_context(contextlib.redirect_stdout(io.StringIO()))
                    printed.enter_context(contextlib.redirect_stderr(io.StringIO()))
                code = playing.run()
            if code == INTERRUPTED:
                raise KeyboardInterrupt("the same call resumes the run")
            if code:
                error = (run_reader.read_manifest(path) or {}).get("error") or "its directory cannot be written"
                raise RunFailed(f"{error} (the traceback is in {path / 'log.txt'})", (path,))
        return _own_run(path, prepared.settings)


def _own_run(path: Path, settings: Mapping[str, Any]) -> Run:
    """Return a run of settings that the caller has composed, so that their classes are the caller's own words."""
    run = Run(path)
    run._own_targets = frozenset(target for _, target in targets(settings))
    return run


def load(*places: RunOrFolder, **options: Any) -> pl.DataFrame:
    """Return a frame with a row for each finished run and seed; `places` are those of `draw`.

    The options are those of `ol2r_cli.report.load`; table="evaluation" gives a row for each evaluated round.
    """
    return report.load(*_paths(places), **options)


def draw(kind: str, *places: RunOrFolder, names: Mapping[str, str] | None = None, **options: Any) -> RunFigure:
    """Return a figure over runs and all finished runs below folders; `kind` is that of `ol2r report --figure`.

    Without `places`, these are the runs below output_dir of the project file, or below outputs. Words among the places,
    such as "click=per,inf", choose among the runs. Runs that differ only in seed and fold are one row. `names` calls
    rows otherwise: {"pairrank": "ours"}. ValueError for an unknown kind or option, which lists those that there are,
    and where no run has the data that the figure shows.
    """
    rows = group_runs(chosen_runs(_paths(places)).runs)
    named = fixed_names(names or {}, rows, Labels(rows))
    labels = Labels(rows, named.of_rows, one_row_each=True, rankers=named.of_rankers)
    return RunFigure(drawing.draw(kind, rows, labels, **options))


def compare(
    *places: RunOrFolder,
    baseline: str | None = None,
    metrics: Sequence[str] = (),
    test: str = "t",
) -> Document:
    """Return a table of runs and of all finished runs below folders, with paired tests; a notebook displays it.

    Runs that differ only in seed and fold are one row. Each row is compared with the `baseline`, such as "pairrank",
    without one with every other row. `test` is t or permutation, corrected by Holm. `metrics` are the columns, without
    any the usual ones. `.frame()` is the table in full precision; `.text("latex")` and `.write(path, form)` give other
    forms. ValueError where there are no finished runs, and for a metric or baseline that none has.
    """
    collection = chosen_runs(_paths(places))
    groups = group_runs(collection.runs)
    labels = Labels(groups)
    metrics = check_metrics(metrics, groups, "metrics")
    shown = list(metrics) or usual_metrics(groups)
    groups = labels.ordered(groups, shown)
    compared = comparison.compare(groups, labels, shown, baseline, test) if len(groups) > 1 else None
    return Document(collection, groups, labels, shown, None, compared)


def _folders(named: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    folders = [named] if isinstance(named, str | os.PathLike) else named
    return [Path(os.path.expanduser(folder)) for folder in folders]


def _paths(places: tuple[RunOrFolder, ...]) -> list[str | os.PathLike[str]]:
    return [place.path if isinstance(place, Run) else place for place in places]


def grid(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination: {"ranker": ["pairrank", "pdgd"], "seed": range(3)} is six jobs, the last name varies
    fastest.

    ValueError for a value that is no list; text would be taken letter by letter.
    """
    for name, listed in values.items():
        if isinstance(listed, str) or not isinstance(listed, Iterable):
            raise ValueError(f"{name} must be a list of values, got {listed!r}")
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def sweep(
    jobs: Iterable[Any],
    *settings: Any,
    launcher: Any = (),
    progress: bool = False,
    keep_going: bool = False,
    **more: Any,
) -> list[Run]:
    """Return a run for each job, several at a time in processes of their own. A job has any form that `run` takes.

    `settings` and `more` are settings of all jobs; what a job says decides over `settings`. `launcher` says where they
    run: {"launcher.jobs": 4}, "launcher=slurm". All jobs are checked before the first one starts: ValueError when one
    is bad. Finished runs are not run again. `RunFailed` is raised after all others are done; with `keep_going`, bad and
    failed jobs are left out with a warning.
    """
    if isinstance(jobs, str | Mapping):
        raise ValueError(f"jobs must be a list of jobs, such as grid({{..}}), got {jobs!r}")
    lists = [as_overrides(*settings, job, **more) for job in jobs]
    terminal = sys.stderr if progress else None
    with device.restored():  # jobs are checked in this process
        result = sweeper.sweep(lists, as_overrides(launcher), keep_going=keep_going, terminal=terminal)
    if result.code == INTERRUPTED:
        raise KeyboardInterrupt("the same call resumes the sweep")
    if result.failed:
        reasons = "\n".join(f"{sweep_job.name}: {sweep_job.reason}" for sweep_job in result.failed)
        if not keep_going:
            paths = tuple(sweep_job.directory for sweep_job in result.failed if sweep_job.directory is not None)
            raise RunFailed(f"{len(result.failed)} of {len(result.sweep_jobs)} runs failed:\n{reasons}", paths)
        warnings.warn(f"left out:\n{reasons}", stacklevel=2)
    settings_of = {sweep_job.directory: sweep_job.settings for sweep_job in result.sweep_jobs}
    return [_own_run(path, settings_of[path]) for path in result.directories if path is not None]
