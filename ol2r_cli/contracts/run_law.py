"""The law of whole runs: what `ol2r run` writes, also after an interruption, by the real runner and to real files."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ol2r_cli.config.instantiate import build
from ol2r_cli.contracts.law import Broken, Stopped, law
from ol2r_cli.contracts.small_world import world
from ol2r_cli.contracts.subject import Subject
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction
from ol2r_cli.run.exit_status import DONE
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.runner import Runner

_INTERRUPTED_IN = 7  # the round; the last checkpoint is then two rounds old
_SETTINGS = {
    "rounds": 10,
    "replicas": 2,
    "seed": 3,
    "positions": 5,
    "evaluate_every": 4,
    "checkpoint_rounds": 5,
    "save_interactions": True,
    "block_rounds": [],
    "exposure": "reciprocal",
    "beta": 0.5,
    "force": False,
}


@dataclass(frozen=True)
class _Loaded:
    """A dataset that has been loaded."""

    table: Dataset

    def load(self) -> Dataset:
        return self.table


class _Interrupted(Runner):
    """A runner that is interrupted, as by Ctrl-C."""

    def _record_details(self, t: int, interaction: Interaction | None) -> None:
        super()._record_details(t, interaction)
        if t == _INTERRUPTED_IN:
            raise KeyboardInterrupt


@law(
    "state that is neither in a buffer nor follows from buffers",
    "a number that depends on the process: the time, an address, the order of a set",
)
def run_and_resume(subject: Subject) -> None:
    """A run writes its files, and one that is interrupted goes on from its checkpoint to the same files."""
    expected = files_of_run(subject, world(), "undisturbed")
    files_of_run(subject, world(), "interrupted", _Interrupted)
    found = files_of_run(subject, world(), "interrupted")
    for name, content in expected.items():
        if found.get(name) != content:
            words = f"a run of {_SETTINGS['rounds']} rounds with seeds 3 4, interrupted in round {_INTERRUPTED_IN}"
            raise Broken(words, f"{name} is not the file of an undisturbed run")


def files_of_run(
    subject: Subject,
    dataset: Dataset,
    folder: str,
    runner: type[Runner] = Runner,
    settings: Mapping[str, Any] = _SETTINGS,
) -> dict[str, bytes]:
    """The files with results, by name, of a run of the subject's choices on a dataset, or what there is if it resumes.

    Stopped if the run fails. ValueError for a bad setting.
    """
    config: DictConfig = subject.config.copy()
    OmegaConf.set_readonly(config, False)
    config.update({**settings, "output_dir": str(subject.folder / folder)})
    config.device.name = "cpu"
    made = {"dataset": _Loaded(dataset)}
    experiment = Experiment(config, subject.composition.choices, lambda node: made.get(str(node._key())) or build(node))
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed), experiment.directory:
        code = runner(experiment, "ol2r check").run()
    if runner is Runner and code != DONE:
        where = f"a run of {settings['rounds']} rounds on {dataset.name}"
        what = (printed.getvalue().strip() or f"exit code {code}").splitlines()[0]
        raise Stopped(
            where, what, ("`ol2r run` with these choices fails in the same way; its log.txt has the traceback",)
        )
    directory = experiment.directory.path
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".parquet", ".pt")} | {
        name: (directory / name).read_bytes() for name in ("summary.json",) if (directory / name).exists()
    }
