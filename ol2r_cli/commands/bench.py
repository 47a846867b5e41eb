"""`ol2r bench`: rounds per second on generated data: 136 features, 120 documents a query, one thread, 2,000 test
queries evaluated every 100 rounds. The last column compares with the first row.

example: ol2r bench pairrank random --replicas 1 10 --rounds 5000 click=navigational
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from ol2r_cli.cli import argument, command
from ol2r_cli.config.catalogue import add_config_dir, as_options
from ol2r_cli.formatting import show
from ol2r_cli.loops import clock
from ol2r_cli.run.store import peak_memory_gb

# One fold of MSLR-WEB10K has 6,000 / 2,000 / 2,000 queries of 120 documents. The number of training queries does not
# change the speed of learning.
DATASET = "dataset.queries={train: 1000, validation: 0, test: 2000}"
WINDOW = 100  # rounds, up to a round, over which its speed is averaged
# Rounds that are played before, on little data, so that loops are compiled and libraries loaded.
WARM_UP, LITTLE = 64, "dataset.queries={train: 20, validation: 0, test: 20}"


@dataclass
class Benchmark:
    """The seconds of one benchmark; `at` maps a round to the seconds of a round just before it."""

    label: str
    replicas: int
    rounds: int
    learning: float
    evaluation: float
    processor: float  # CPU seconds of learning and evaluation
    at: dict[int, float]
    memory: float | None  # peak resident size of the process so far, GB

    @property
    def speed(self) -> float:
        """Replica-rounds per second, evaluation included."""
        return self.rounds * self.replicas / (self.learning + self.evaluation)


@command(
    argument("words", nargs="*", metavar="RANKER | KEY=VALUE", help="rankers (pairrank), overrides for all"),
    argument("--rounds", type=int, default=5000, help="T (5000)"),
    argument("--replicas", type=int, nargs="+", default=[1, 10], help="how many at once (1 10)"),
    add_config_dir,
)
def main(given: argparse.Namespace) -> None:
    """Measure each ranker at each number of replicas and print a table."""
    overrides = [word for word in given.words if "=" in word]
    for word in overrides:
        name, _, value = word.partition("=")
        if name in ("rounds", "replicas"):
            raise ValueError(f"{name} must be an option: type --{name} {value}")
    rows: list[Benchmark] = []
    for ranker in [word for word in given.words if "=" not in word] or ["pairrank"]:
        for replicas in given.replicas:
            rows.append(measure(ranker, replicas, given.rounds, overrides, as_options(given.config_dir)))
            print(f"{ranker}, {replicas} replicas: {rows[-1].speed:,.0f} replica-rounds/s", flush=True)
    headings = (
        *("ranker", "replicas", "replica-rounds/s", "learning s", "evaluation s", "CPU s", "ms at 500", "at the end"),
        *("peak GB", "ratio"),
    )
    lines = []
    for row in rows:
        seconds = [f"{value:.2f}" for value in (row.learning, row.evaluation, row.processor)]
        at = [f"{row.at[t] * 1e3:.2f}" if t in row.at else "" for t in (500, row.rounds)]
        rest = [f"{row.memory:.2f}" if row.memory else "", f"{row.speed / rows[0].speed:.2f}"]
        lines.append([row.label, f"{row.replicas}", f"{row.speed:,.0f}", *seconds, *at, *rest])
    show(lines, headings, numbers=True)


def measure(
    ranker: str, replicas: int, rounds: int, overrides: Sequence[str], folders: Sequence[str] = ()
) -> Benchmark:
    """Play all rounds of one ranker and evaluate as `ol2r run` does, after a warm-up, but write nothing.

    `folders` are the words that name folders with own choices. ValueError for bad settings.
    """
    sizes = [f"ranker={ranker}", f"replicas={replicas}", DATASET, *overrides, *folders]
    _timed(replicas, min(rounds, WARM_UP), [*sizes, LITTLE])
    timed = _timed(replicas, rounds, sizes)
    timed.label = " ".join([ranker, *overrides])
    return timed


def _timed(replicas: int, rounds: int, words: Sequence[str]) -> Benchmark:
    import torch

    from ol2r_cli.config.composer import compose
    from ol2r_cli.run.experiment import Experiment
    from ol2r_cli.run.runner import queue_length

    composition = compose([*words, f"rounds={rounds}"])
    with torch.inference_mode():
        experiment = Experiment(composition.config, composition.choices)
        simulation, evaluators = experiment.simulation(), experiment.evaluators()
        start, processor = clock.read()
        marks, evaluation, queue = [start], 0.0, [simulation.ranker.deploy()]
        for t, _ in simulation.play_until(experiment.is_evaluated):
            if simulation.measurement.full():
                simulation.measurement.measures()
            marks.extend([clock.read()[0] - evaluation] * (t + 1 - len(marks)))
            if experiment.is_evaluated(t):
                queue.append(simulation.ranker.deploy())
            if len(queue) == queue_length(simulation) or t == rounds:
                before = clock.read()[0]
                for evaluator in evaluators:
                    evaluator(simulation.ranker, torch.stack(queue))
                evaluation += clock.read()[0] - before
                queue.clear()
        processor = clock.read()[1] - processor
    windows = {t: (marks[t] - marks[t - WINDOW]) / WINDOW for t in (500, rounds) if WINDOW <= t <= rounds}
    return Benchmark("", replicas, rounds, marks[-1] - start, evaluation, processor, windows, peak_memory_gb())
