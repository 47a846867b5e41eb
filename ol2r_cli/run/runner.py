"""Runs or resumes one experiment: plays its rounds, shows their progress on stderr, writes them to the run directory,
and returns the exit code."""

from __future__ import annotations

import logging
import pickle
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import torch
import yaml
from omegaconf._utils import get_omega_conf_dumper
from torch import Tensor

from ol2r_cli.columns import main_cutoff
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import names_of
from ol2r_cli.dataset.cache import with_absolute_paths
from ol2r_cli.dataset.prepare import large_features
from ol2r_cli.dataset.table import LARGE_FEATURE
from ol2r_cli.interfaces import Interaction
from ol2r_cli.metrics.evaluation import Evaluator, ScoresOverflow
from ol2r_cli.metrics.measurement import Measures, NonFiniteScores
from ol2r_cli.plugins import Render, RunKind
from ol2r_cli.run import (
    BAD_CONFIGURATION,
    CHECKPOINT,
    CONFIG,
    DONE,
    FAILED,
    LOCK,
    RANKER,
    SUMMARY,
)
from ol2r_cli.run.experiment import Experiment, Make
from ol2r_cli.run.lifecycle import Lifecycle
from ol2r_cli.run.own_code import explained, is_own
from ol2r_cli.run.printed import render, shows_unfairness
from ol2r_cli.run.progress import Progress, start_shown
from ol2r_cli.run.run import TRACE, Run
from ol2r_cli.run.store import (
    LOGGER,
    DirectoryLost,
    Manifest,
    RunDirectory,
    RunningElsewhere,
    restore_checkpoint,
    save_checkpoint,
)
from ol2r_cli.run.summary import summarise
from ol2r_cli.run.trace import Trace
from ol2r_cli.simulation import Simulation
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.text.formatting import one_line, printable
from ol2r_cli.text.program import as_called, if_there

QUEUE = 10  # evaluations that are scored together
# Evaluations that are scored together where rounds are played together: the 50 of a default run and that of the
# untrained ranker. Scoring fewer at a time would take longer than the rounds.
SNAPSHOTS = 51

_log = logging.getLogger(LOGGER)


class _Dumper(get_omega_conf_dumper()):  # type: ignore[misc]
    """The dumper of `OmegaConf.to_yaml`. It writes plain containers as well, and quickly, which `to_yaml` does not."""

    def ignore_aliases(self, _: object) -> bool:
        """Return whether to write a value anew that was written before: no file of a run has aliases."""
        return True


def as_yaml(settings: Mapping[str, Any]) -> str:
    """Return the text of config.yaml. An entry that several runs of this process share is made once."""
    return "".join(_entry_as_yaml(pickle.dumps({name: value})) for name, value in settings.items())


@lru_cache(maxsize=256)
def _entry_as_yaml(pickled: bytes) -> str:
    return yaml.dump(pickle.loads(pickled), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def run_experiment(
    settings: Mapping[str, Any],
    choices: Mapping[str, str],
    overrides: Sequence[str],
    *,
    kind: RunKind,
    render: Render | None,
    id: str = "",
    code: Mapping[str, str] | None = None,
    make: Make = build,
) -> int:
    """Run a composition (its `settings` and `choices`) unless it is finished; returns the exit code of `ol2r run`.

    overrides: the words that were typed, for the command in run.json that runs it again.
    render: gives what is printed of a finished run; None: nothing is printed, nor is progress.
    id: the run's id, if it is known already; nothing is run if code was changed since.
    code: the hashes of the user's code, where only another process knows its source.
    make: as of `Experiment`.

    A bad configuration or bad data are one line on stderr, and nothing is written. Never raises, except after a second
    Ctrl-C.
    """
    try:
        with torch.inference_mode(), start_shown(render is not None):
            experiment = kind.experiment(settings, choices, make, code)
            runner = prepare_run(experiment, overrides, kind, id, render)
            if runner is None:
                return DONE
            with runner.directory:
                return runner.run()
    except Exception as error:  # an error in the program must not end a sweep
        return explain_error(error, settings, kind)


def prepare_run(
    experiment: Any, overrides: Sequence[str], kind: RunKind, id: str, render: Render | None = None
) -> Lifecycle | None:
    """Return what runs an `experiment` of a kind; None where it is finished, after printing it with `render`.

    The other arguments are those of `run_experiment`. Raises whatever is wrong with the configuration or the data.
    """
    if id not in ("", experiment.id):
        raise ValueError("code or data were changed after the sweep was checked: type its command again")
    stored: Run | None = experiment.stored()
    if stored is not None and stored.state == "finished":
        _clean_up(stored, experiment.directory)
        if render:
            print(render(stored, True))
        return None
    if stored is not None and stored.state == "damaged":
        print(f"starts afresh: {printable(stored.error or '')}", file=sys.stderr)
    # With force=true the command would start over instead of resuming the run.
    words = [word for word in overrides if word.lstrip("+").partition("=")[0] != "force"]
    runner: Lifecycle = kind.runner(experiment, words, render=render)
    return runner


def _clean_up(stored: Run, directory: RunDirectory) -> None:
    """Remove what a process left that was killed between finishing a run and cleaning up, or could not remove."""
    if any((directory / name).exists() for name in (CHECKPOINT, LOCK)):
        with suppress(RunningElsewhere, OSError), directory:
            directory.clean_up(bool(stored.settings.get("keep_checkpoint")))


def explain_error(error: Exception, settings: Mapping[str, Any], kind: RunKind) -> int:
    """Print why a run could not begin, and return its exit code."""
    if isinstance(error, BrokenPipeError):  # the reader of the summary has closed the pipe; the summary is on disk
        return DONE
    if isinstance(error, DirectoryLost):
        print(f"ol2r {kind.name}: {error}", file=sys.stderr)
        return FAILED
    if isinstance(error, ValueError):
        print(f"ol2r {kind.name}: {as_called(explained(error))}", file=sys.stderr)
        return BAD_CONFIGURATION
    if isinstance(error, OSError):
        folders = f"output_dir ({settings['output_dir']}), data_dir and cache_dir must be folders that can be used"
        where = f": {error.filename}" if error.filename else ""
        what = explained(error) if is_own(error) else f"{folders}: {error.strerror or error}{where}"
        print(f"ol2r {kind.name}: {what}", file=sys.stderr)
        return BAD_CONFIGURATION
    traceback.print_exception(error)
    if is_own(error):
        print(f"ol2r {kind.name}: {explained(error)}", file=sys.stderr)
    return FAILED


class Runner(Lifecycle):
    """Plays the remaining rounds of an experiment and keeps its run directory up to date.

    `run` plays the run alone. The parts of it are `start`, then `record` after every `rounds_now` rounds that the
    simulation has played, and `finish`; `attempt` does a part.
    """

    kind_name = "run"
    progress: Progress

    def __init__(self, experiment: Experiment, words: Sequence[str], render: Render | None = render):
        super().__init__(experiment.settings, experiment.directory, words, render)
        self.experiment = experiment
        self.simulation = experiment.simulation()
        self.evaluators = experiment.evaluators() if self.simulation.ranker.generalises else []
        parts = experiment.parts if self.evaluators else []
        self.of_parts = [part.evaluate(self, prepared) for part, prepared in parts if part.evaluate is not None]
        self.trace = Trace(self.directory, experiment.seeds, experiment.columns(), experiment.tables)
        self.queue: dict[int, Tensor] = {}  # round -> deployed [B P], not evaluated yet
        self.queue_length = queue_length(self.simulation)

    def _interrupted(self) -> tuple[str, str]:
        return f"after round {int(self.simulation.round)}", "goes on from there"

    def _resume(self) -> int:
        state = restore_checkpoint(self.directory, self.experiment.id)
        if state is None:
            return 0
        try:
            self.simulation.load_state_dict(state["simulation"])
        except RuntimeError as error:  # names and shapes of all buffers are in it
            reason = one_line(error)[:200]
            raise ValueError(
                f"{self.directory / CHECKPOINT} does not fit this version of ol2r or of a role ({reason} ..): "
                "type force=true to start afresh"
            ) from None
        self.queue = {t: deployed.to(self.experiment.device.torch) for t, deployed in state["queue"].items()}
        return int(state["simulation"]["round"])

    def _manifest(self, first: int) -> Manifest:
        experiment, exposure = self.experiment, self.simulation.context.exposure
        placed = {"dataset": with_absolute_paths(self.settings["dataset"])}  # to be found from other folders
        self.directory.write_text(CONFIG, as_yaml({**self.settings, **placed}))
        return Manifest(
            self.directory,
            id=experiment.id,
            choices=experiment.recorded_choices(),
            fingerprint=experiment.dataset.fingerprint,
            code=experiment.code or None,
            inputs=experiment.inputs or None,
            **{part.setting: part.manifest(prepared) for part, prepared in experiment.parts if part.manifest},
            seeds=experiment.seeds,
            exposure=None if exposure is None else exposure.recorded(),
            rounds=self.settings["rounds"],
            round=first,
            device=experiment.device.label,
            threads=experiment.device.threads,
            packages=[package for role in experiment.roles.values() for package in role.packages],
            command=self.command,
            typed=names_of(self.words) or None,
            note=self.settings["note"],
            columns=experiment.columns().declared() or None,
            began=experiment.began,
            own_time=self.time.read,
            explain=self._explain,
        )

    def _introduce(self, first: int) -> None:
        rounds, choices = self.settings["rounds"], self.experiment.choices
        _log.info("%s: from round %d to %d", self.command, first + 1, rounds)
        if reason := self.experiment.reason_of_device:
            _log.info("%s", reason)
            if self.render:
                print(reason, file=sys.stderr)
        for line in [*self.manifest.warnings, *self.experiment.warnings()]:
            _log.warning("%s", line)
            print(f"warning: {line}", file=sys.stderr)
        title = " · ".join(choices[group] for group in ("ranker", "click", "dataset"))
        unfairness = shows_unfairness(choices, names_of(self.words))
        progress = Progress(title, rounds, first, unfairness, quiet=self.render is None)
        self.progress = self._open.enter_context(progress)
        self.saved = time.monotonic()
        if first and self.render:
            print(f"goes on from round {first:,} of {rounds:,}, where it was saved", file=sys.stderr)
        if not first and self.evaluators:
            self.queue[0] = self.simulation.ranker.deploy()

    def _play(self) -> None:
        rounds = self.rounds_now()
        while rounds:
            self.record(self.simulation.advance(rounds))
            rounds = self.rounds_now()
        self.finish()

    def rounds_now(self) -> int:
        """Return how many rounds may be played before `record` is called; 0 if none is left."""
        return self.simulation.rounds_until(lambda t: self.experiment.is_evaluated(t) or self._is_saved(t))

    def record(self, interaction: Interaction | None) -> None:
        """Measure, keep a snapshot, show progress and save, where this is due after the last round that was played.

        `interaction` is what happened in it, if it was played alone. KeyboardInterrupt, after a checkpoint, if the run
        is to stop.
        """
        t = int(self.simulation.round)
        if interaction is not None:
            for part, prepared in self.experiment.parts:
                if part.record is not None:
                    part.record(self, prepared, t, interaction)
        if self.simulation.measurement.full():
            self.progress.measures = self._measure()
        if self.evaluators and (self.experiment.is_evaluated(t) or t == self.settings["rounds"]):
            self._keep_snapshot(t)
        self.manifest.progress(t)
        self.progress.update(t)
        is_due = time.monotonic() - self.saved > self.settings["checkpoint_every"] > 0
        if self.stop or is_due or self._is_saved(t):
            self.save()
            self.saved = time.monotonic()
            if self.stop:
                raise KeyboardInterrupt

    def _is_saved(self, t: int) -> bool:
        """Return whether there is a checkpoint after this round, whenever that is."""
        every = self.settings["checkpoint_rounds"]
        return bool(every and t % every == 0)

    def _keep_snapshot(self, t: int) -> None:
        """Keep what the ranker deploys after round t, and evaluate all that are kept if they are many."""
        is_last = t == self.settings["rounds"]
        self.queue[t] = self.simulation.ranker.deploy()
        if len(self.queue) >= self.queue_length and not is_last:
            self.progress.evaluated(t, self._evaluate())

    def finish(self) -> None:
        """Write what a run has when it ends, after the last round: what parts add, the tables with
        the last evaluations, each in one file, `ranker.pt`, `summary.json`, with keep_checkpoint=true the checkpoint,
        and at last `run.json`, which says that the run is finished: `Manifest` writes it when it is closed."""
        if self.queue:
            self.progress.evaluated(self.settings["rounds"], self._evaluate())
        self._measure()
        for part, prepared in self.experiment.parts:
            if part.finish is not None:
                part.finish(self, prepared)
        self.trace.finish()
        self._check_rows()
        self._write_ranker()
        self.directory.write_json(SUMMARY, summarise(self._written()))
        if self.settings["keep_checkpoint"]:
            self.save()
        _log.info("finished")
        self._close()

    def _measure(self) -> Measures:
        """Measure the rounds since the last call, and record the measures."""
        try:
            first, measures = self.simulation.measurement.measures()
        except NonFiniteScores as error:
            raise FloatingPointError(self.diverged("scores", f"in round {error.round}", error.replicas)) from None
        if measures:
            self.trace.record(first, measures)
        return measures

    def _evaluate(self) -> dict[str, float]:
        """Evaluate the queue; returns the last NDCG of each split, averaged over replicas, such as {"test NDCG@10"}."""
        rounds, deployed = list(self.queue), torch.stack(list(self.queue.values()))
        self.check_parameters(rounds, deployed)
        measured = {name: values for evaluate in self.of_parts for name, values in evaluate(deployed).items()}
        last = {}
        for evaluator in self.evaluators:
            columns = self._evaluated(evaluator, deployed, rounds)
            self.trace.record_evaluation(rounds, evaluator.name, columns | measured)
            cutoff = main_cutoff(columns)
            if f"ndcg_{cutoff}" in columns:
                last[f"{evaluator.name} NDCG@{cutoff}"] = float(columns[f"ndcg_{cutoff}"][-1].mean())
        self.queue.clear()
        return last

    def _evaluated(
        self, evaluator: Evaluator, deployed: Float[Tensor, "E B P"], rounds: Sequence[int]
    ) -> dict[str, Float[Tensor, "E B"]]:
        """Return what an evaluator returns of these snapshots; FloatingPointError if their scores are out of range."""
        try:
            return evaluator(self.simulation.ranker, deployed, rounds)
        except ScoresOverflow as error:
            self._measure()  # which names a round in which a score was not finite
            if len(rounds) > 1:  # one after the other, so that the first of the rounds is named
                for round, snapshot in zip(rounds, deployed, strict=True):
                    self._evaluated(evaluator, snapshot[None], [round])
            when = f"in single precision on {evaluator.name} queries after round {rounds[0]}"
            raise FloatingPointError(self.diverged("scores", when, error.replicas)) from None

    def check_parameters(self, rounds: Sequence[int], deployed: Float[Tensor, "E B P"]) -> None:
        """Raise FloatingPointError if a parameter of a snapshot after one of `rounds` is NaN or infinite."""
        bad = ~deployed.isfinite().all(2)
        if bad.any():
            self._measure()  # which names the round exactly if a score was bad as well
            row = int(bad.any(1).nonzero()[0])
            replicas = bad[row].nonzero().flatten().tolist()
            raise FloatingPointError(self.diverged("parameters", f"after round {rounds[row]}", replicas))

    def diverged(self, what: str, when: str, replicas: Sequence[int]) -> str:
        """Return why the run fails, which replicas are concerned, and the likely setting."""
        seeds, name = self.experiment.seeds, self.experiment.choices["ranker"]
        bad = [seeds[replica] for replica in replicas]
        which = f" with seed {', '.join(map(str, bad))}" if len(bad) < len(seeds) else ""
        return f"the {what} of ranker={name}{which} are not finite {when}: {self._likely_setting()}"

    def _likely_setting(self) -> str:
        """Return what to type where numbers are out of range."""
        settings, name = self.settings["ranker"], self.experiment.choices["ranker"]
        if large_features(self.experiment.dataset.features.numpy()):
            if self.settings["dataset"].get("normalise") == "none":
                return "dataset.normalise must be query_minmax, query_zscore or global_zscore, got none"
            return f"the features of dataset={self.experiment.choices['dataset']} must be below {LARGE_FEATURE:g}"
        cls = type(self.simulation.ranker)
        if not cls.__module__.startswith("ol2r_cli."):
            return f"look at {cls.__module__}.{cls.__name__}{if_there(f', or type ol2r check ranker={name}')}"
        for setting, direction in (("learning_rate", "smaller"), ("l2", "larger")):
            if setting in settings:
                return f"ranker.{setting} must be {direction}, got {settings[setting]}"
        return f"see `ol2r list ranker {name}`"

    def _explain(self, error: Exception) -> str:
        if isinstance(error, torch.linalg.LinAlgError):
            return f"a matrix is singular in round {int(self.simulation.round) + 1}: {self._likely_setting()}"
        return super()._explain(error)

    def save(self) -> None:
        """Write the tables and then the checkpoint, which must never be ahead of the tables.

        Before, check that ol2r was not edited since the run began: a checkpoint is of one version.
        """
        self.check()
        self._measure()
        self.trace.flush()
        state = {"simulation": dict(self.simulation.state_dict()), "queue": dict(self.queue)}
        save_checkpoint(self.directory, state, self.experiment.id)
        self.manifest.saved(int(self.simulation.round))

    def _written(self) -> Run:
        """Return the run as far as it is written."""
        return Run(self.directory.path, self.manifest.content, files=self.directory.files)

    def _check_rows(self) -> None:
        """Raise DirectoryLost unless the trace on disk has every round of every seed."""
        expected = self.settings["rounds"] * len(self.experiment.seeds)
        rows = len(self._written().table(TRACE, ["seed"]))
        if rows != expected:
            raise DirectoryLost(f"{TRACE.file} has {rows:,} rows, and {expected:,} were written: run it again")

    def _write_ranker(self) -> None:
        """Write what the ranker deploys after the last round, with what is needed to build it."""
        deployed = self.simulation.ranker.deploy()
        self.check_parameters([self.settings["rounds"]], deployed[None])
        content = {
            "deployed": deployed,
            "seeds": self.experiment.seeds,
            "ranker": self.settings["ranker"],
            "features": self.simulation.context.features,
        }
        self.directory.write_torch(RANKER, content)


def queue_length(simulation: Simulation) -> int:
    """Return how many evaluations are scored together."""
    return QUEUE if simulation.together is None else max(QUEUE, SNAPSHOTS // simulation.context.replicas)
