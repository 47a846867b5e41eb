"""How far what clicks say of lists is from the truth: the table of docs/explanation/tuning_without_labels.md.

    .venv/bin/python scripts/click_values.py dataset=synthetic
    .venv/bin/python scripts/click_values.py dataset=mq2008 dataset.fold=1 data_dir=FOLDER

Six learning rates of SGD RankNet are trained with two seeds, and each plays ten times 500 sessions. The truth is the
mean over these sessions of the DCG@10 of their lists with P(click | examined, grade) as gain, in the units of the top
rank. Ten times the value of each rate is estimated from the 500 sessions of all rates, once from all sessions.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch

from ol2r_cli.config.composer import Composer
from ol2r_cli.plugins.click_logs.click_values import attractions, values_of_seeds
from ol2r_cli.plugins.click_logs.validation_sessions import played_sessions
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.simulation import Simulation

USERS = ("perfect", "navigational", "informational", "baidu_position", "yandex_dcm", "user_browsing")
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
WORDS = ["ranker=sgd_ranknet", "rounds=2000", "replicas=2", "seed=1000", "measures=[ndcg]"]
BLOCKS, SESSIONS = 10, 500


class Values(NamedTuple):
    """Values of rates [blocks, rates]: the truth, what clicks say, and how many there are; and from all sessions."""

    true: np.ndarray
    estimated: np.ndarray
    raw: np.ndarray
    of_all: np.ndarray


def played(composer: Composer, words: list[str]) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    """Return the counts of each block of sessions, and the gain of each document that was shown."""
    composition = composer([*words, "validation_sessions=1"])
    experiment = Experiment(composition.settings, composition.choices)
    simulation = experiment.simulation()
    while int(simulation.round) < simulation.context.rounds:
        simulation.advance(simulation.rounds_until(lambda _: False))
        if simulation.measurement.full():
            simulation.measurement.measures()
    evaluator, deployed = experiment.evaluator_of_sessions(), simulation.ranker.deploy()
    firsts = range(0, BLOCKS * SESSIONS, SESSIONS)
    counts = [played_sessions(simulation, evaluator, deployed, SESSIONS, first=first) for first in firsts]
    return counts, _gains(simulation, experiment, pl.concat(counts))


def _gains(simulation: Simulation, experiment: Experiment, counts: pl.DataFrame) -> pl.DataFrame:
    """Return the documents that were shown, each with the probability of a click on it at the top rank."""
    user: Any = simulation.click
    of_top = user.propensities(torch.zeros(1, 1, dtype=torch.int64))[0, 0].item()
    by_grade = user.click_probability.numpy() * of_top
    shown = counts.select("query", "document").unique()
    labels = experiment.dataset.labels.numpy()[shown["document"].to_numpy()]
    return shown.with_columns(attraction=pl.Series(by_grade[labels]))


def mean_value(counts: pl.DataFrame, attraction: pl.DataFrame) -> float:
    """Return the mean value of the lists of some sessions over seeds."""
    return float(np.mean([value for _, value in values_of_seeds(counts, attraction)]))


def measured(words: list[str]) -> Values:
    """Return the values of all rates under a user."""
    composer = Composer()
    runs = [played(composer, [*WORDS, *words, f"ranker.learning_rate={rate}"]) for rate in RATES]
    every = attractions(pl.concat([pl.concat(counts) for counts, _ in runs]))
    true, estimated, raw, of_all = np.zeros((4, BLOCKS, len(RATES)))
    for block in range(BLOCKS):
        attraction = attractions(pl.concat([counts[block] for counts, _ in runs]))
        for rate, (counts, gains) in enumerate(runs):
            true[block, rate] = mean_value(counts[block], gains)
            estimated[block, rate] = mean_value(counts[block], attraction)
            of_all[block, rate] = mean_value(counts[block], every)
            raw[block, rate] = counts[block]["clicked"].sum() / (2 * SESSIONS)
    return Values(true, estimated, raw, of_all)


def line(user: str, values: Values) -> str:
    """Return the row of a user."""
    true, means = values.true.mean(), values.true.mean(0)
    error = values.estimated - values.true
    of_difference = error - error.mean(1, keepdims=True)
    correlations = [np.corrcoef(of.mean(0), means)[0, 1] for of in (values.estimated, values.raw)]
    cells = [
        f"{true:.3f}",
        f"{100 * error.mean() / true:+.1f} %",
        f"{100 * (values.of_all.mean() / true - 1):+.1f} %",
        f"{means.std(ddof=1):.4f}",
        f"{np.abs(of_difference.mean(0)).max():.4f}",
        f"{of_difference.std(0, ddof=1).mean():.4f}",
        *(f"{correlation:+.2f}" for correlation in correlations),
    ]
    return f"| `{user}` | {' | '.join(cells)} |"


def main(words: list[str]) -> None:
    """Print the table of a dataset."""
    headings = ["user", "true value", f"bias, {len(RATES) * 2 * SESSIONS:,} sessions"]
    headings += [f"bias, {BLOCKS * len(RATES) * 2 * SESSIONS:,}", "sd of rates", "largest bias of a rate"]
    headings += ["sd of a rate", "correlation", "correlation, raw clicks"]
    print(f"| {' | '.join(headings)} |\n|---{'|---:' * (len(headings) - 1)}|", flush=True)
    for user in USERS:
        with torch.inference_mode():
            print(line(user, measured([*words, f"click={user}"])), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
