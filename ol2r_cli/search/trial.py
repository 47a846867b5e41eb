"""One trial: the run directory that `ol2r run` of the same words has, begun, gone on with, or found finished."""

from __future__ import annotations

import io
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.compose import check, compose
from ol2r_cli.results.directory import RunDirectory, RunningElsewhere
from ol2r_cli.results.manifest import read_manifest

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from ol2r_cli.watched import Watch

DONE, FAILED, INTERRUPTED = 0, 1, 130  # as of `ol2r run`
_PATIENCE = 2.0  # seconds between looks at a run that another process is busy with


@dataclass(frozen=True)
class Played:
    """How a trial's run ended: exit code, directory, the reason of a failure, whether it had been finished before."""

    code: int
    path: Path
    reason: str = ""
    before: bool = False


def configured(words: Sequence[str]) -> tuple[DictConfig, dict[str, str]]:
    """The configuration and the choices of `ol2r run` with these words; ValueError, of one line, when they are none."""
    from omegaconf import OmegaConf, open_dict

    config = compose(list(words))
    choices = {str(group): name for group, name in config.choices.items() if name is not None}
    OmegaConf.set_readonly(config, False)
    with open_dict(config):
        del config["choices"]  # it would count as a setting, and make another run of it
    check(config, choices)
    return config, choices


def play(words: Sequence[str], watch: Watch | None = None, stop: Sequence[int] = ()) -> Played:
    """See the run of these words to its end, or to where `watch` (see `watched`) ends it.

    What the run prints is not shown. `stop` fills with signals that come while the run is prepared; then it does not
    begin (KeyboardInterrupt). A run that another process is busy with is waited for. ValueError when the words
    are no experiment.
    """
    import torch

    from ol2r_cli.experiment import Experiment
    from ol2r_cli.sitting import Sitting

    with torch.inference_mode(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        while True:
            experiment = Experiment(*configured(words))
            path = experiment.directory.path
            if experiment.finished():
                return Played(DONE, path, before=True)
            sitting = Sitting(experiment, f"ol2r run {shlex.join(words)}", watch)
            try:
                with experiment.directory:
                    if stop:
                        raise KeyboardInterrupt
                    code = sitting.run()
            except RunningElsewhere:
                if stop:
                    raise KeyboardInterrupt from None
                time.sleep(_PATIENCE)
                continue
            reason = (read_manifest(path) or {}).get("error") if code == FAILED else None
            return Played(code, path, reason or "")


def metrics(path: Path) -> Mapping[str, Mapping[str, float]]:
    """Those of a finished run's summary.json."""
    return RunDirectory(path).read_json("summary.json")["metrics"]
