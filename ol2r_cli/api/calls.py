"""What one does with a single experiment from Python, and with what is on disk."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.api.finished import Run
from ol2r_cli.api.picture import Picture
from ol2r_cli.api.trouble import RunFailed
from ol2r_cli.api.words import words

if TYPE_CHECKING:
    import polars as pl
    from omegaconf import DictConfig

    from ol2r_cli.experiment import Experiment

Place = Run | str | PathLike[str]


def compose(*settings: Any, **more: Any) -> DictConfig:
    """The configuration that `ol2r run` would get, with the name of every choice in `choices`; nothing is run.

    Settings are given as everywhere here: "ranker=pdgd", rounds=500, {"ranker.learning_rate": 0.1}, and lists of these.
    ValueError, in the words of the command line, for what is no setting or choice.
    """
    from ol2r_cli import compose as composing

    return composing.compose(words(*settings, **more))


def experiment(*settings: Any, **more: Any) -> Experiment:
    """An experiment, all settings checked and the dataset loaded, to be looked into rather than run.

    `experiment.simulation().play()` gives one round after the other; make one simulation of an experiment. Sets the
    number of threads of this process to `device.threads`. ValueError for a bad setting.
    """
    from ol2r_cli.compose import check_grid, own_folders
    from ol2r_cli.experiment import Experiment
    from ol2r_cli.sweep.compositions import Composer, split_launcher

    given = words(*settings, **more)
    job, _ = split_launcher(own_folders(given)[0])
    composed = Composer.alone(given)(job)
    check_grid(composed.grid, composed.choices.get("experiment"), job, "use its settings one by one, with sweep()")
    return Experiment(composed.config, composed.choices)


def run(*settings: Any, progress: bool = False, **more: Any) -> Run:
    """Do a run, or find it where it has been done before: the run that `ol2r run` does with these settings.

    With `progress` it says how far it is, and ends with the summary. ValueError for a bad setting, `RunFailed` when the
    run itself ends with an error. Interrupted, it keeps what it has done; the same call goes on from there.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        with torch.inference_mode():
            made = experiment(*settings, **more)
            if not made.finished():
                command = f"ol2r run {shlex.join(words(*settings, **more))}".strip()
                _play(made, command, progress)
            return Run(made.directory.path)
    finally:
        torch.set_num_threads(threads)


def _play(made: Experiment, command: str, progress: bool) -> None:
    from ol2r_cli.results.manifest import read_manifest
    from ol2r_cli.sitting import Sitting

    sitting = Sitting(made, command)
    with made.directory, contextlib.nullcontext() if progress else _silence():
        code = sitting.run()
    if code == 130:
        raise KeyboardInterrupt("the same call goes on from here")
    if code:
        path = made.directory.path
        error = (read_manifest(path) or {}).get("error")
        raise RunFailed(f"{error} (the traceback is in {path / 'log.txt'})", (path,))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What a run prints is for who started it from a command line."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def load(*places: Place, **options: Any) -> pl.DataFrame:
    """All finished runs below some folders (default: outputs) as one frame, with a row per run and seed.

    Options as `ol2r_cli.report.load` has them, such as table="evaluation" for a row per evaluated round.
    """
    from ol2r_cli.report import load as loading

    return loading(*_paths(places), **options)


def draw(kind: str, *places: Place, **options: Any) -> Picture:
    """A figure of one of the kinds of `ol2r report --figure` over runs, and all finished runs below folders (default:
    outputs). Runs that differ in nothing but seed and fold are one group.

    ValueError, which names what there is, for an unknown kind or option, and where no run has what the figure shows.
    """
    from ol2r_cli.report.collect import collect
    from ol2r_cli.report.figures import draw as drawing
    from ol2r_cli.report.groups import groups
    from ol2r_cli.report.labels import Labels

    paths = _paths(places) or [Path("outputs")]
    found = collect(paths)
    if not found.runs:
        raise ValueError(f"there are no finished runs below {' or '.join(map(str, paths))}")
    rows = groups(found.runs)
    return Picture(drawing(kind, rows, Labels(rows), **options))


def _paths(places: tuple[Place, ...]) -> list[Path]:
    return [place.path if isinstance(place, Run) else Path(place) for place in places]
