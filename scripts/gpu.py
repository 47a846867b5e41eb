"""On a machine with a GPU: whether it plays the rounds of a CPU, and how many replica-rounds it plays in a second.

    python scripts/gpu.py reference FILE    # needs no GPU: the rounds of a CPU, some minutes on one core
    python scripts/gpu.py compare FILE      # the same rounds on the GPU; all cases are compiled at once
    python scripts/gpu.py speed             # both tables of docs/performance.md, in Markdown

The three need less than ten minutes of a GPU together. Runs are those of `ol2r bench`, with four replicas in the
comparison: generated data, 136 features, 120 documents a query on average.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.config.composer import compose
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.simulation import Simulation

DATASET = "dataset.queries={train: 1000, validation: 0, test: 2000}"
USERS = ("informational", "position_based", "user_browsing")
RANKERS = (
    *("pdgd", "sgd_ranknet", "epsilon_greedy", "dbgd", "mgd", "nsgd", "nsgd ranker.projection=document_space"),
    *("coltr", "intervention_aware", "pairrank", "pairrank exploration.shuffle=random", "pepairrank"),
)
CASES = [f"ranker={ranker} click={user}" for ranker in RANKERS for user in USERS]
ROUNDS, REPLICAS = 500, 4
COMPARED = ("query", "clicks", "pairs", "blocks", "certain_top10", "violations")  # columns of the rounds
SIZES = (1, 10, 100, 1000, 10_000)
LENGTHS = {  # T of the speeds, with 1,000 replicas
    **dict.fromkeys(["pdgd", "sgd_ranknet", "epsilon_greedy"], 2000),
    **dict.fromkeys(["dbgd", "mgd"], 1000),
    **dict.fromkeys(["pairrank", "pepairrank"], 600),
}


def experiment(words: str, replicas: int, rounds: int, device: str) -> Experiment:
    """The experiment of these words."""
    sizes = [f"replicas={replicas}", f"rounds={rounds}", f"device={device}", "seed=0", DATASET]
    composition = compose([*words.split(), *sizes])
    return Experiment(composition.settings, composition.choices)


def rounds_of(words: str, device: str) -> dict[str, Tensor]:
    """The columns [T, B] of all rounds, on the CPU, and theta."""
    torch.set_num_threads(1)
    with torch.inference_mode():
        running, parts = experiment(words, REPLICAS, ROUNDS, device).simulation(), list[dict[str, Tensor]]()
        for t, _ in running.play_until(lambda t: False):
            if running.measurement.full() or t == ROUNDS:
                measures = running.measurement.measures()[1]
                parts.append({name: measures[name].cpu() for name in COMPARED if name in measures})
        columns = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        return columns | {"theta": running.ranker.deploy().cpu()}


def parted(words: str, expected: dict[str, Tensor]) -> str:
    """A row of the table: the first round in which a column differs from that of a CPU, and the distance of theta."""
    began = time.monotonic()
    try:
        found = rounds_of(words, "cuda")
    except Exception as error:
        return f"| `{words}` | {type(error).__name__}: {str(error).splitlines()[0][:100]} | | |"
    others = torch.zeros(ROUNDS, dtype=torch.bool)
    for name, values in expected.items():
        if name != "theta":
            same = (found[name] == values) | (found[name].isnan() & values.isnan())
            others |= ~same.all(1)
    first = f"from round {int(others.int().argmax()) + 1}" if others.any() else "none"
    distance = float((found["theta"].double() - expected["theta"].double()).abs().max())
    return f"| `{words}` | {first} | {distance:.0e} | {time.monotonic() - began:.0f} |"


def reference(file: Path) -> None:
    """Write the rounds of a CPU."""
    torch.save({words: rounds_of(words, "cpu") for words in CASES}, file)


def compare(file: Path) -> None:
    """Print the rounds in which a GPU differs, case by case."""
    expected = torch.load(file)
    print(f"| case | rounds that differ, of {ROUNDS} | theta | s, with compilation |\n|---|---|---|---|")
    with multiprocessing.get_context("spawn").Pool() as pool:
        for row in pool.starmap(parted, expected.items(), chunksize=1):
            print(row, flush=True)


def speed() -> None:
    """Print replica-rounds per second, with and without evaluation every 100 rounds."""
    print("| ranker | " + " | ".join(f"{size:,}" for size in SIZES) + " |\n|---" + "|---" * len(SIZES) + "|")
    for ranker, most in LENGTHS.items():
        cells = [measured(ranker, replicas, rounds_with(replicas, most)) for replicas in SIZES]
        print(f"| `{ranker}` | " + " | ".join(cells) + " |", flush=True)


def rounds_with(replicas: int, most: int) -> int:
    """T: fewer rounds with very few or very many replicas, which take longest."""
    return {1: 200, 10: 200, 10_000: most // 10}.get(replicas, most)


def measured(ranker: str, replicas: int, rounds: int) -> str:
    """Two rates: learning alone, and with evaluation."""
    with torch.inference_mode():
        try:
            play_all(experiment(f"ranker={ranker}", min(replicas, 4), 2, "cuda").simulation(), [])  # compile
            made = experiment(f"ranker={ranker}", replicas, rounds, "cuda")
            rates = [rate(made.simulation(), evaluators) for evaluators in ([], made.evaluators())]
        except torch.OutOfMemoryError:
            return "no memory"
        finally:
            torch.cuda.empty_cache()
    return " / ".join(f"{value:,.0f}" for value in rates)


def rate(running: Simulation, evaluators: Sequence[Evaluator]) -> float:
    """Replica-rounds per second."""
    torch.cuda.synchronize()
    began = time.monotonic()
    play_all(running, evaluators)
    torch.cuda.synchronize()
    return running.context.rounds * running.context.replicas / (time.monotonic() - began)


def play_all(running: Simulation, evaluators: Sequence[Any]) -> None:
    """Play all rounds, and evaluate after every hundredth."""
    for t, _ in running.play_until(lambda t: bool(evaluators) and t % 100 == 0):
        if running.measurement.full():
            running.measurement.measures()
        if t % 100 == 0:
            for evaluator in evaluators:
                evaluator(running.ranker, running.ranker.deploy()[None])


def main() -> None:
    """Do what the first word says."""
    tasks: dict[str, Any] = {"reference": reference, "compare": compare, "speed": speed}
    task, *files = sys.argv[1:] or ["speed"]
    if task not in tasks:
        raise SystemExit(f"the first word must be one of {', '.join(tasks)}, got {task!r}")
    tasks[task](*(Path(file) for file in files))


if __name__ == "__main__":
    main()
