"""How the cost of a round of a neural ranker grows with width m, documents V, replicas B, members N and rounds T.

    python scripts/neural_growth.py [--rounds 300]

CPU milliseconds a round on one thread, learning without evaluation, and the ratio to the diagonal olRankNet (m = 100,
V = 120, B = 1), which is measured again before every line, because the speed of a shared machine drifts.
"""

from __future__ import annotations

import argparse

from ol2r_cli.commands.bench import measure

PLAIN = ["dataset.queries={train: 1000, validation: 0, test: 1}", "trace_blocks=false", "device.threads=1"]
FULL = ["exploration.covariance=full", "exploration.precision=float32", "exploration.alpha=0.002", "click=perfect"]
LINES: list[tuple[str, str, int, float, list[str]]] = [  # what, ranker, replicas, times as many rounds, overrides
    *((f"m = {m}", "olranknet", 1, 1, [f"ranker.model.width={m}"]) for m in (16, 50, 200, 400)),
    *((f"V = {v}", "olranknet", 1, 1, [f"dataset.documents={v}"]) for v in (30, 60, 240)),
    *((f"B = {b}", "olranknet", b, 1, []) for b in (2, 5, 10)),
    *((f"p2neurrank, N = {n}", "p2neurrank", 1, 1, [f"ranker.members={n}"]) for n in (1, 2, 5, 10)),
    *((f"T = {t} x", "olranknet", 1, t, []) for t in (4, 16)),
    *((f"full, m = {m}", "olranknet", 1, 1, [*FULL, f"ranker.model.width={m}"]) for m in (16, 100)),
    ("full, T = 4 x", "olranknet", 1, 4, FULL),
]


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    cost("olranknet", 1, rounds, [])  # not counted: imports, the data
    print(f"{'':20}{'CPU ms a round':>15}{'ratio':>8}")
    for what, ranker, replicas, times, overrides in LINES:
        base = cost("olranknet", 1, rounds, [])
        own = cost(ranker, replicas, int(rounds * times), overrides)
        print(f"{what:20}{own:15.1f}{own / base:8.2f}", flush=True)


def cost(ranker: str, replicas: int, rounds: int, overrides: list[str]) -> float:
    """CPU milliseconds a round, all replicas together."""
    members = ["exploration=none"] if "ranker.members=1" in overrides else []
    figures = measure(ranker, replicas, rounds, [*PLAIN, f"evaluate_every={rounds}", *overrides, *members])
    return 1e3 * figures.processor / rounds


if __name__ == "__main__":
    main()
