"""One sitting of a run: take it up where it stopped, play rounds, bring them to disk, stop when told to.

Traces are written first and the checkpoint second; on resuming, rows beyond the checkpoint are dropped and produced
again, so that the files of an interrupted run end up equal to those of an undisturbed one.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from ol2r_cli.evaluation import CUTOFFS
from ol2r_cli.measurement import Measures, sizes_at_every_rank
from ol2r_cli.progress import Progress
from ol2r_cli.results import checkpoint
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.log import LOGGER, log_file
from ol2r_cli.results.manifest import Manifest
from ol2r_cli.results.summary import render, summarise
from ol2r_cli.results.trace import Trace
from ol2r_cli.shapes import Float
from ol2r_cli.signals import stop_signals
from ol2r_cli.watched import Watch, Watched

if TYPE_CHECKING:
    from ol2r_cli.experiment import Experiment
    from ol2r_cli.interfaces import Interaction

QUEUE = 10  # evaluations scored together

_log = logging.getLogger(LOGGER)


class Sitting:
    """Everything is built on construction, before a file is touched; `run` must be called holding the directory."""

    def __init__(self, experiment: Experiment, command: str, watch: Watch | None = None):
        self.settings, self.experiment, self.command = experiment.settings, experiment, command
        self.directory: RunDirectory = experiment.directory
        self.simulation = experiment.simulation()
        self.evaluators = experiment.evaluators() if self.simulation.ranker.generalises else []
        self.offline = experiment.offline_weights(self.simulation) if self.evaluators else None
        self.trace = Trace(self.directory, experiment.seeds)
        self.queue: dict[int, torch.Tensor] = {}  # round -> deployed [B P]
        self.watched = Watched(watch, self.evaluators)

    def run(self) -> int:
        """Play the remaining rounds and return the exit code."""
        if self.settings["force"]:
            self.directory.clear()
        done = self._resume()
        with log_file(self.directory), stop_signals() as stop:
            try:
                with self._manifest(done) as manifest:
                    self._play(manifest, stop)
            except KeyboardInterrupt:
                reached = int(self.simulation.round)
                same = "the same command" + (" without force=true" if self.settings["force"] else "")
                _log.info("interrupted after round %d of %d: %s goes on", reached, self.settings["rounds"], same)
                print(f"interrupted after round {reached}: {same} goes on from there", file=sys.stderr)
                return 130
            except Exception as error:
                _log.error("%s", traceback.format_exc())
                print(f"ol2r run: failed: {type(error).__name__}: {error}", file=sys.stderr)
                print(f"the traceback is in {self.directory / 'log.txt'}", file=sys.stderr)
                return 1
        if not self.settings["keep_checkpoint"]:
            checkpoint.remove(self.directory)  # only now: without it, a run killed before `finished` would start afresh
        print(
            render(self.directory.read_json("summary.json"), self.directory.read_json("run.json"), self.directory.path)
        )
        return 0

    def _manifest(self, done: int) -> Manifest:
        experiment, exposure = self.experiment, self.simulation.sizes.exposure
        self.directory.write_text("config.yaml", OmegaConf.to_yaml(OmegaConf.create(self.settings)))
        return Manifest(
            self.directory,
            id=experiment.id,
            choices=experiment.told_choices(),
            fingerprint=experiment.dataset.fingerprint,
            seeds=experiment.seeds,
            exposure=None if exposure is None else {"position": exposure.position.tolist(), "beta": exposure.beta},
            rounds=self.settings["rounds"],
            round=done,
            device=experiment.device.label,
            threads=experiment.device.threads,
            command=self.command,
        )

    def _resume(self) -> int:
        """Load the checkpoint if there is one; returns the last round done."""
        state = checkpoint.load(self.directory, self.experiment.id)
        if state is None:
            self.directory.clear()
            state = self.experiment.extend(self.command)
        if state is None:
            return 0
        self.simulation.load_state_dict(state["simulation"])
        self.queue = {t: deployed.to(self.experiment.device.torch) for t, deployed in state["queue"].items()}
        done = int(self.simulation.round)
        self.trace.truncate(done)
        return done

    def _play(self, manifest: Manifest, stop: list[int]) -> None:
        rounds, saved = self.settings["rounds"], time.monotonic()
        if not int(self.simulation.round) and self.evaluators:
            self._enqueue(0)
            self._evaluate()
        if self.watched.earlier(self.directory, self.simulation.ranker, self.queue):
            raise KeyboardInterrupt
        _log.info("%s: from round %d to %d", self.command, int(self.simulation.round) + 1, rounds)
        with Progress(self.experiment, int(self.simulation.round)) as progress:
            for t, interaction in self.simulation.play():
                self._record_details(t, interaction)
                if self.simulation.measurement.full():
                    progress.measured(self._measure())
                if self.evaluators and (t % self.settings["evaluate_every"] == 0 or t == rounds):
                    self._enqueue(t)
                    if t < rounds and self.watched(t, self.simulation.ranker, self.queue[t]):
                        stop.append(0)
                    if len(self.queue) >= QUEUE and t < rounds:
                        progress.evaluated(t, self._evaluate())
                manifest.progress(t)
                progress.update(t)
                if stop or self._due(t, saved):
                    self._save()
                    saved = time.monotonic()
                    if stop:
                        raise KeyboardInterrupt
            waiting = self._waiting()
            if self.queue:
                progress.evaluated(rounds, self._evaluate())
        self._finish(waiting)

    def _measure(self) -> Measures:
        """Measure and record the rounds noted since the last time."""
        first, measures = self.simulation.measurement.measures()
        if measures:
            self.trace.record(first, measures)
        return measures

    def _due(self, t: int, saved: float) -> bool:
        """Whether a checkpoint is due after round `t`."""
        every = self.settings["checkpoint_rounds"]
        return (every and t % every == 0) or time.monotonic() - saved > self.settings["checkpoint_every"] > 0

    def _record_details(self, t: int, interaction: Interaction) -> None:
        if t in self.settings["block_rounds"]:
            sizes = sizes_at_every_rank(interaction)
            if sizes is not None:
                self.trace.record_blocks(t, sizes)
        if self.settings["save_interactions"]:
            self.trace.record_interaction(t, interaction)

    def _enqueue(self, t: int) -> None:
        self.queue[t] = self.simulation.ranker.deploy()

    def _evaluate(self) -> dict[str, float]:
        """Score all that waits; returns the last NDCG@10 of each split, averaged over replicas."""
        rounds, deployed = list(self.queue), torch.stack(list(self.queue.values()))
        cosine = {} if self.offline is None else {"cosine": _cosine(deployed, self.offline)}
        last = {}
        for evaluator in self.evaluators:
            ndcg = evaluator(self.simulation.ranker, deployed)
            columns = {f"ndcg_{cutoff}": ndcg[:, :, i] for i, cutoff in enumerate(CUTOFFS)}
            self.trace.record_evaluation(rounds, evaluator.name, columns | cosine)
            last[evaluator.name] = float(ndcg[-1, :, -1].mean())
        self.queue.clear()
        return last

    def _waiting(self) -> dict[int, torch.Tensor]:
        """What would wait to be evaluated after these rounds in a longer run: they are scored together, ten by ten."""
        regular = {t: deployed for t, deployed in self.queue.items() if t % self.settings["evaluate_every"] == 0}
        return regular if len(regular) < QUEUE else {}

    def _save(self) -> None:
        """Traces first, checkpoint second."""
        self._measure()
        self.trace.flush()
        state = {"simulation": dict(self.simulation.state_dict()), "queue": dict(self.queue)}
        checkpoint.save(self.directory, state, self.experiment.id)

    def _finish(self, waiting: dict[int, torch.Tensor]) -> None:
        self._measure()
        self.trace.flush()
        ranker: dict[str, Any] = {
            "deployed": self.simulation.ranker.deploy(),
            "seeds": self.experiment.seeds,
            "ranker": self.settings["ranker"],
            "features": self.simulation.sizes.features,
        }
        self.directory.write_torch("ranker.pt", ranker)
        self.directory.write_json("summary.json", summarise(self.directory))
        if self.settings["keep_checkpoint"]:
            self.queue = waiting
            self._save()
        _log.info("finished")


def _cosine(deployed: Float[Tensor, "E B F"], offline: Float[Tensor, "F"]) -> Float[Tensor, "E B"]:
    """Cosine of the angle between the weights of snapshots and the offline ranker's; NaN where either is zero."""
    deployed, offline = deployed.double(), offline.double()
    return ((deployed @ offline) / (deployed.norm(dim=2) * offline.norm())).clamp(-1, 1)
