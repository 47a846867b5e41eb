"""`ol2r bench`: rounds per second on generated data of the size of MSLR-WEB10K, evaluation included."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.formatting import show
from ol2r_cli.loops.clock import clock
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE

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


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r bench`."""
    options = argparse.ArgumentParser(
        prog="ol2r bench",
        description="Rounds per second on generated data: 136 features, 120 documents a query, one thread, 2,000 test "
        "queries evaluated every 100 rounds. The last column compares with the first row.",
        epilog="example: ol2r bench pairrank random --replicas 1 10 --rounds 5000 click=navigational",
    )
    options.add_argument("words", nargs="*", metavar="RANKER | KEY=VALUE", help="rankers (pairrank), overrides for all")
    options.add_argument("--rounds", type=int, default=5000, help="T (5000)")
    options.add_argument("--replicas", type=int, nargs="+", default=[1, 10], help="how many at once (1 10)")
    add_config_dir(options)
    return options


def main(arguments: list[str]) -> int:
    """Measures each ranker at each number of replicas and prints a table; exit code 0, or 2 for bad settings."""
    options = parser().parse_intermixed_args(arguments)
    overrides = [word for word in options.words if "=" in word]
    for word in overrides:
        name, _, value = word.partition("=")
        if name in ("rounds", "replicas"):
            print(f"ol2r bench: {name} must be an option: type --{name} {value}", file=sys.stderr)
            return BAD_CONFIGURATION
    rankers = [word for word in options.words if "=" not in word] or ["pairrank"]
    folders = as_options(options.config_dir)
    rows: list[Benchmark] = []
    for ranker in rankers:
        for replicas in options.replicas:
            try:
                rows.append(measure(ranker, replicas, options.rounds, overrides, folders))
            except ValueError as error:
                print(f"ol2r bench: {error}", file=sys.stderr)
                return BAD_CONFIGURATION
            print(f"{ranker}, {replicas} replicas: {rows[-1].speed:,.0f} replica-rounds/s", flush=True)
    _report(rows)
    return DONE


def measure(
    ranker: str, replicas: int, rounds: int, overrides: Sequence[str], folders: Sequence[str] = ()
) -> Benchmark:
    """Play all rounds of one ranker and evaluate as `ol2r run` does, after a warm-up, but write nothing.

    `folders` are the words that name folders with own choices. ValueError for bad settings.
    """
    sizes = [f"ranker={ranker}", f"replicas={replicas}", DATASET, *overrides, *folders]
    _timed(ranker, replicas, min(rounds, WARM_UP), [*sizes, LITTLE], overrides)
    return _timed(ranker, replicas, rounds, sizes, overrides)


def _timed(ranker: str, replicas: int, rounds: int, words: Sequence[str], overrides: Sequence[str]) -> Benchmark:
    import torch

    from ol2r_cli.config.composer import compose
    from ol2r_cli.run.experiment import Experiment
    from ol2r_cli.run.runner import queue_length
    from ol2r_cli.run.store import peak_memory_gb

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
    label = " ".join([ranker, *overrides])
    windows = {t: (marks[t] - marks[t - WINDOW]) / WINDOW for t in (500, rounds) if WINDOW <= t <= rounds}
    return Benchmark(label, replicas, rounds, marks[-1] - start, evaluation, processor, windows, peak_memory_gb())


def _report(rows: list[Benchmark]) -> None:
    headings = (
        "ranker", "replicas", "replica-rounds/s", "learning s", "evaluation s", "CPU s", "ms at 500", "at the end",
        "peak GB", "ratio",
    )  # fmt: skip
    lines = []
    for row in rows:
        early, late = row.at.get(500), row.at.get(row.rounds)
        lines.append(
            (row.label, f"{row.replicas}", f"{row.speed:,.0f}", f"{row.learning:.2f}", f"{row.evaluation:.2f}",
             f"{row.processor:.2f}", f"{early * 1e3:.2f}" if early else "", f"{late * 1e3:.2f}" if late else "",
             f"{row.memory:.2f}" if row.memory else "", f"{row.speed / rows[0].speed:.2f}")
        )  # fmt: skip
    show(lines, headings, numbers=True)
