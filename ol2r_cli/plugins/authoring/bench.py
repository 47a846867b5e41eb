"""`ol2r bench`: rounds per second on one thread, with generated data of the size of MSLR-WEB10K.
The last column compares with the first row.

example: ol2r bench pairrank random --replicas 1 10 --rounds 5000 click=navigational
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from ol2r_cli.commands.command import Listed, argument, command
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.loops import clock
from ol2r_cli.run.store import peak_memory_gb
from ol2r_cli.text.formatting import number
from ol2r_cli.text.table import show

# One fold of MSLR-WEB10K has 6,000 / 2,000 / 2,000 queries of 120 documents. The number of training queries does not
# change the speed of learning.
DATASET = "dataset.queries={train: 1000, validation: 0, test: 2000}"
WINDOW = 100  # rounds
# Rounds that are played before, on little data, so that loops are compiled and libraries loaded.
WARM_UP, LITTLE = 64, "dataset.queries={train: 20, validation: 0, test: 20}"


@dataclass(frozen=True)
class Benchmark:
    """The seconds of one benchmark."""

    label: str
    replicas: int
    rounds: int
    learning: float
    evaluation: float
    processor: float  # CPU seconds of learning and evaluation
    late: float  # seconds of a round near the end, on average over the last `WINDOW` rounds
    memory: float | None  # peak resident size of the process so far, GB

    @property
    def speed(self) -> float:
        """Return replica-rounds per second, evaluation included."""
        return self.rounds * self.replicas / (self.learning + self.evaluation)


@command(
    argument("words", nargs="*", metavar="RANKER | KEY=VALUE", help="rankers (pairrank), overrides for all"),
    argument("--rounds", type=int, default=5000, help="rounds of each run (5000)"),
    argument("--replicas", type=int, nargs="+", action=Listed, default=[1, 10], help="replicas at once (1 10)"),
    add_config_dir,
)
def main(given: argparse.Namespace) -> None:
    """Measure each ranker at each number of replicas and print a table."""
    overrides = [word for word in given.words if "=" in word]
    for name, value in (word.split("=", 1) for word in overrides):
        if name in ("rounds", "replicas"):
            raise ValueError(f"{name} must be an option: type --{name} {value}")
    rows: list[Benchmark] = []
    for ranker in [word for word in given.words if "=" not in word] or ["pairrank"]:
        for replicas in given.replicas:
            rows.append(measure(ranker, replicas, given.rounds, overrides, as_options(given.config_dir)))
            print(f"{ranker}, {replicas} replicas: {rows[-1].speed:,.0f} replica-rounds/s", flush=True)
    lines = [
        [row.label, f"{row.replicas}", f"{row.speed:,.0f}"]
        + [f"{value:.2f}" for value in (row.learning, row.evaluation, row.processor, 1e3 * row.late)]
        + [number(row.memory, 2), f"{row.speed / rows[0].speed:.2f}"]
        for row in rows
    ]
    times = "learning s", "evaluation s", "CPU s", "ms at the end"
    show(lines, ("ranker", "replicas", "replica-rounds/s", *times, "peak GB", "ratio"), numbers=True)


def measure(
    ranker: str, replicas: int, rounds: int, overrides: Sequence[str], folders: Sequence[str] = ()
) -> Benchmark:
    """Play all rounds of one ranker and evaluate as `ol2r run` does, after a warm-up, but write nothing.

    `folders` are the words that name folders with own choices. ValueError for bad settings.
    """
    words = [f"ranker={ranker}", f"replicas={replicas}", DATASET, *overrides, *folders]
    _timed([*words, LITTLE, f"rounds={min(rounds, WARM_UP)}"])
    seconds = _timed([*words, f"rounds={rounds}"])
    return Benchmark(" ".join([ranker, *overrides]), replicas, rounds, *seconds, peak_memory_gb())


def _timed(words: Sequence[str]) -> tuple[float, float, float, float]:
    """Return the seconds of learning, of evaluation, of the processor and of a late round of a run."""
    import torch

    from ol2r_cli.config import composer
    from ol2r_cli.run import runner

    composition = composer.compose(words)
    rounds, evaluation, queue = composition.config.rounds, 0.0, []
    with torch.inference_mode():
        experiment = runner.Experiment(composition.settings, composition.choices)
        simulation, evaluators = experiment.simulation(), experiment.evaluators()
        queue.append(simulation.ranker.deploy())
        start, processor = clock.read()
        window = 0, start  # the round before the last `WINDOW`, and when it ended
        for t, _ in simulation.play_until(experiment.is_evaluated):
            if simulation.measurement.full():
                simulation.measurement.measures()
            learnt = clock.read()[0] - evaluation
            if t <= rounds - WINDOW:
                window = t, learnt
            if experiment.is_evaluated(t):
                queue.append(simulation.ranker.deploy())
            if len(queue) == runner.queue_length(simulation) or t == rounds:
                before = clock.read()[0]
                for evaluator in evaluators:
                    evaluator(simulation.ranker, torch.stack(queue))
                evaluation += clock.read()[0] - before
                queue.clear()
        processor = clock.read()[1] - processor
    return learnt - start, evaluation, processor, (learnt - window[1]) / (rounds - window[0])
