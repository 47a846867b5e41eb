"""`ol2r bench`: how many rounds a second, on generated data of the size of MSLR-WEB10K, evaluation included."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from ol2r_cli.commands.columns import show

# One fold of MSLR-WEB10K has 6,000 / 2,000 / 2,000 queries of 120 documents; learning never notices how many more
# training queries there are.
DATASET = "dataset.queries={train: 1000, validation: 0, test: 2000}"
WINDOW = 100  # rounds over which the speed at a round is taken


@dataclass
class Figures:
    """Seconds of one benchmark; `at` maps a round to the seconds a round took around it."""

    label: str
    replicas: int
    rounds: int
    learning: float
    evaluation: float
    processor: float  # CPU seconds of learning and evaluation
    at: dict[int, float]
    memory: float  # peak resident size of the process, GB: of everything up to here

    @property
    def speed(self) -> float:
        """Replica-rounds a second, evaluation included."""
        return self.rounds * self.replicas / (self.learning + self.evaluation)


def main(arguments: list[str]) -> int:
    """Measure each ranker at each number of replicas and print a table."""
    parser = argparse.ArgumentParser(
        prog="ol2r bench",
        description="Rounds per second on generated data: 136 features, 120 documents a query, one thread, 2,000 test "
        "queries evaluated every 100 rounds. The last column compares with the first row.",
        epilog="example: ol2r bench pairrank random --replicas 1 10 --rounds 5000 click=navigational",
    )
    parser.add_argument("words", nargs="*", metavar="RANKER | KEY=VALUE", help="rankers (pairrank), overrides for all")
    parser.add_argument("--rounds", type=int, default=5000, help="T (5000)")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 10], help="how many at once (1 10)")
    given = parser.parse_intermixed_args(arguments)
    overrides = [word for word in given.words if "=" in word]
    rankers = [word for word in given.words if "=" not in word] or ["pairrank"]
    rows: list[Figures] = []
    for ranker in rankers:
        for replicas in given.replicas:
            rows.append(measure(ranker, replicas, given.rounds, overrides))
            print(f"{ranker}, {replicas} replicas: {rows[-1].speed:,.0f} replica-rounds/s", flush=True)
    _report(rows)
    return 0


def measure(ranker: str, replicas: int, rounds: int, overrides: list[str]) -> Figures:
    """Play all rounds of one ranker, evaluating as `ol2r run` does, but writing nothing."""
    import torch

    from ol2r_cli.compose import compose
    from ol2r_cli.experiment import Experiment
    from ol2r_cli.sitting import QUEUE

    config = compose([f"ranker={ranker}", f"replicas={replicas}", f"rounds={rounds}", DATASET, *overrides])
    choices = config.choices
    with torch.inference_mode():
        experiment = Experiment(config, choices)
        simulation, evaluators = experiment.simulation(), experiment.evaluators()
        start, processor = time.perf_counter(), time.process_time()
        marks, evaluation, queue = [start], 0.0, [simulation.ranker.deploy()]
        for t, _ in simulation.play():
            if simulation.measurement.full():
                simulation.measurement.measures()
            marks.append(time.perf_counter() - evaluation)
            if t % config.evaluate_every == 0:
                queue.append(simulation.ranker.deploy())
            if len(queue) == QUEUE or t == rounds:
                before = time.perf_counter()
                for evaluator in evaluators:
                    evaluator(simulation.ranker, torch.stack(queue))
                evaluation += time.perf_counter() - before
                queue.clear()
        processor = time.process_time() - processor
    label = " ".join([ranker, *overrides])
    windows = {t: (marks[t] - marks[t - WINDOW]) / WINDOW for t in (500, rounds) if WINDOW <= t <= rounds}
    return Figures(label, replicas, rounds, marks[-1] - start, evaluation, processor, windows, _peak_memory())


def _peak_memory() -> float:
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _report(rows: list[Figures]) -> None:
    headings = (
        "ranker",
        "replicas",
        "replica-rounds/s",
        "learning s",
        "evaluation s",
        "CPU s",
        "ms at 500",
        "at the end",
        "peak GB",
        "ratio",
    )
    lines = []
    for row in rows:
        early, late = row.at.get(500), row.at.get(row.rounds)
        lines.append(
            (row.label, f"{row.replicas}", f"{row.speed:,.0f}", f"{row.learning:.2f}", f"{row.evaluation:.2f}",
             f"{row.processor:.2f}", f"{early * 1e3:.2f}" if early else "", f"{late * 1e3:.2f}" if late else "",
             f"{row.memory:.2f}", f"{row.speed / rows[0].speed:.2f}")
        )  # fmt: skip
    show(lines, headings)
