"""Time and memory of a round by the length of the list: `python scripts/long_lists.py trace_blocks=false`.

Prints CPU ms a round, of the first five rounds (nothing is certain yet) and of the second half, and the peak MB beyond
what the process has before the first round. All lists have one length. One thread; a fresh process for each length.
"""

from __future__ import annotations

import argparse
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")  # Linux
QUERIES = 6
WORDS = ["device.threads=1", f"dataset.queries={{train: {3 * QUERIES}, validation: 0, test: 0}}"]


def measure(documents: int, rounds: int, overrides: list[str]) -> tuple[float, float, float]:
    """Play the rounds of one length; returns early and late ms a round, and MB."""
    import torch

    from ol2r_cli.config.composer import compose
    from ol2r_cli.config.instantiate import build
    from ol2r_cli.simulation import Simulation

    config = compose([*WORDS, f"dataset.documents={documents}", f"rounds={rounds}", *overrides]).config
    generated = build(config.dataset).load()
    build(config.device).prepare()  # from here on freed memory is kept
    dataset = replace(
        generated,
        offsets=torch.arange(QUERIES + 1) * documents,
        query_ids=generated.query_ids[:QUERIES],
        splits={"train": torch.arange(QUERIES)},
    )
    with torch.inference_mode():
        simulation = Simulation(
            dataset,
            **{role: build(config[role]) for role in ("click", "ranker", "exploration", "fairness")},
            seeds=torch.arange(config.replicas),
            rounds=rounds,
            positions=config.positions,
            measures={name: build(node) for name, node in config.measure.items()},
        )
        CLEAR.write_text("5")  # forget the peak
        before, marks = _peak(), [time.process_time()]
        for _ in simulation.play():
            marks.append(time.process_time())
            if simulation.measurement.full():
                simulation.measurement.measures()
    early, late = marks[5] - marks[0], marks[-1] - marks[rounds // 2]
    return early / 5 * 1e3, late / (rounds - rounds // 2) * 1e3, _peak() - before


def _peak() -> float:
    """Peak resident size, MB."""
    return int(re.findall(r"VmHWM:\s+(\d+)", STATUS.read_text())[0]) / 1024


def main() -> None:
    """Print a table with a row for each length."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("overrides", nargs="*", help="ranker=pepairrank, trace_blocks=false, ..")
    options.add_argument("--documents", type=int, nargs="+", default=[500, 1000, 2000, 5000, 10_000], help="lengths")
    options.add_argument("--rounds", type=int, default=300, help="at least 10 (300)")
    given = options.parse_intermixed_args()
    print("| documents | first rounds ms | later ms | MB |\n|---|---|---|---|")
    for documents in given.documents:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            early, late, memory = process.submit(measure, documents, given.rounds, given.overrides).result()
        print(f"| {documents:,} | {early:.1f} | {late:.1f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
