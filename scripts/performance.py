"""Writes the table of docs/explanation/performance.md: what each kind of run costs, measured one after the other.

    make performance          # some ten minutes on one core

Each line is `ol2r bench` in a process of its own: generated data of the size of MSLR-WEB10K, one thread, evaluation
included, compilation not.
"""

from __future__ import annotations

import multiprocessing
from datetime import date
from pathlib import Path

import torch

from ol2r_cli.plugins.authoring.bench import Benchmark, measure
from ol2r_cli.plugins.benchmark.play import processor

PAGE = Path(__file__).parents[1] / "docs/explanation/performance.md"
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"
ROUNDS = {  # by the words of `ol2r bench`: T, with one replica and, a fifth as many, with ten
    **dict.fromkeys(["random", "pairrank", "pdgd", "dbgd", "mgd", "sgd_ranknet", "epsilon_greedy"], 5000),
    **dict.fromkeys(
        ["pepairrank", "nsgd", "toprank", "cascade_ucb1", "cascade_kl_ucb", "cascade_linucb", "cascade_lints"], 2000
    ),
    **dict.fromkeys(["coltr", "intervention_aware", "ips_regression"], 1000),
    "pairrank fairness=fairexp": 2000,
    "pairrank fairness=mcfair": 2000,
    "ips_regression fairness=fairco": 1000,
    "pairrank ranker.window=500": 1000,
    "dbgd ranker.projection=document_space": 1000,
    "pairrank measures=[ndcg,regret,blocks,unfairness]": 1000,
    "pdgd measures=[ndcg,regret,blocks,unfairness]": 2000,
    "olranknet": 500,
    "ollambdarank": 500,
    "p2neurrank": 300,
    "pdgd ranker/model=mlp": 500,
}


def speed(row: Benchmark) -> str:
    return f"{row.rounds * row.replicas / row.processor:,.0f}"


def measured(words: str, replicas: int, rounds: int) -> Benchmark:
    torch.set_num_threads(1)
    ranker, *overrides = words.split()
    return measure(ranker, replicas, rounds, overrides)


def main() -> None:
    """Measure every line and replace the table of the page."""
    lines = [
        "| `ol2r bench` | T | rounds per CPU second | ms a round at the end | peak GB | with ten: T | replica-rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for words, rounds in ROUNDS.items():
            one, ten = (pool.apply(measured, (words, each, rounds // (1 + each // 3))) for each in (1, 10))
            late, memory = f"{one.late * 1e3:.3g}", f"{one.memory:.2f}"
            cells = [f"`{words}`", f"{one.rounds:,}", speed(one), late, memory, f"{ten.rounds:,}", speed(ten)]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    machine = f"Measured on {date.today()}, one core of {processor()}, torch {torch.__version__}."
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text("\n".join([f"{before}{BEGIN}", machine, "", *lines, f"{END}{rest.split(END)[1]}"]))


if __name__ == "__main__":
    main()
