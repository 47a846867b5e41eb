"""How much the protocol of the benchmark decides: the page `linear` on MQ2008, evaluated in other ways.

    python -m scripts.protocol play OUT [data_dir=FOLDER launcher.jobs=2 ..]   the runs, and protocol_runs.parquet
    python -m scripts.protocol write                                           protocol_effects.md, of this file

What is varied, and which rows, was fixed before the first run: docs/benchmark/protocol.md, five sets of data. Runs that
are finished are not run again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from ol2r_cli.files import write_parquet
from ol2r_cli.plugins.benchmark.recipe import AIMS, by_name, load_recipe
from ol2r_cli.plugins.benchmark.results import published_choices, published_dir
from ol2r_cli.report.collection import collect
from ol2r_cli.sweep.sweeper import sweep

RUNS, PAGE = "protocol_runs.parquet", "protocol_effects.md"
DATA, FOLDS = "MQ2008", (1, 2, 3, 4, 5)
USERS = ("perfect", "navigational", "informational")
# More than half of the time of `linear`; left out before any result was known.
LEFT_OUT = ("PePairRank", "PePairRank, sum", "intervention-aware", "COLTR", "CascadeLinUCB")
SKYLINES = {  # by RankNet and LambdaMART on the true labels, whose settings `linear` does not choose
    "RankNet on the true labels, tuned": (
        "ranker=offline_ranknet",
        "ranker.l2=0.00001,0.0001,0.001,0.01,0.1",
    ),
    "LambdaMART on the true labels": (
        "ranker=offline_lambdamart ranker.trees=500 ranker.patience=20",
        "ranker.leaves=4,8,16 ranker.learning_rate=0.03,0.1",
    ),
}
ROUNDS = (5_000, 1_000, 20_000)
REPORTED, CHOOSING = "reported", "choosing"
SEEDS = {REPORTED: "seed=0 replicas=10", CHOOSING: "seed=1000 replicas=2"}
MANY_SEEDS = "seed=1000 replicas=8"  # of choosing at T = 5,000
METRICS = ("validation_ndcg_10", "test_ndcg_10", "cumulative_ndcg")


class Cell(NamedTuple):
    """A setting of a row under a user."""

    competitor: str
    click: str
    words: str
    settings: str


def cells() -> list[Cell]:
    """Return all cells of the published grids, and one of each row without a grid."""
    recipe = load_recipe("benchmark", "linear")
    choices = published_choices("linear")
    assert choices is not None
    grids: dict[tuple[str, str], list[str]] = {}
    of_data = choices.filter(table=DATA).select("competitor", "click", "settings").unique(maintain_order=True)
    for competitor, click, settings in of_data.iter_rows():
        grids.setdefault((competitor, click), []).append(settings)
    found = []
    for click in USERS:
        for name, competitor in recipe.competitors.items():
            if name not in LEFT_OUT:
                grid = grids.get((name, click), [""])
                found += [Cell(name, click, competitor.words, settings) for settings in grid]
    return found


def skyline_cells() -> list[Cell]:
    """Return the cells of rankers that learn from labels: no user changes them."""
    found = []
    for name, (words, grid) in SKYLINES.items():
        values = [override.partition("=") for override in grid.split()]
        settings = [""]
        for setting, _, numbers in values:
            settings = [f"{one} {setting}={number}".strip() for one in settings for number in numbers.split(",")]
        found += [Cell(name, USERS[0], words, each) for each in settings]
    return found


def words_of(cell: Cell, fold: int, rounds: int, seeds: str) -> list[str]:
    """Return the words of the run of a cell."""
    typed = (
        f"dataset=mq2008 dataset.fold={fold} click={cell.click} measures=[ndcg,unfairness] rounds={rounds} {seeds} "
        f"evaluate_every={rounds} evaluate_rounds=even evaluate_on=[validation,test]"
    )
    return [*by_name(typed, cell.words, cell.settings).values()]


def played(
    wanted: Sequence[Cell], rounds: int, seeds: str, out: Path, typed: Sequence[str]
) -> Iterator[dict[str, object]]:
    """Play cells on all folds, or find their finished runs; yield the values of each seed."""
    jobs = [(cell, fold) for cell in wanted for fold in FOLDS]
    print(f"T = {rounds:,}, {seeds}: {len(jobs):,} runs", file=sys.stderr, flush=True)
    launcher = [word for word in typed if word.startswith("launcher")]
    others = [f"output_dir={out}", *(word for word in typed if word not in launcher)]
    result = sweep(
        [[*words_of(cell, fold, rounds, seeds), *others] for cell, fold in jobs], launcher, terminal=sys.stderr
    )
    if result.code:
        sys.exit(result.code)
    paths = [path for path in result.directories if path is not None]
    runs = {run.path: run for run in collect(list(dict.fromkeys(paths))).runs}
    for (cell, fold), path in zip(jobs, result.directories, strict=True):
        assert path is not None
        for seed, values in runs[path].values.items():
            yield {
                "rounds": rounds,
                "use": CHOOSING if seed >= 1000 else REPORTED,
                **cell._asdict(),
                "fold": fold,
                "seed": seed,
                **{metric: values[metric] for metric in METRICS},
            }


def chosen(rows: Iterable[Mapping[str, object]]) -> set[tuple[str, str, str]]:
    """Return competitor, user and settings of the cells that choosing runs choose for each aim; of equal ones the first
    is taken."""
    frame = pl.DataFrame(list(rows)).filter(use=CHOOSING)
    means = frame.group_by("competitor", "click", "settings", maintain_order=True).agg(
        pl.col(metric).mean() for metric in AIMS.values()
    )
    best = set()
    for metric in AIMS.values():
        for (competitor, click), of_row in means.group_by("competitor", "click", maintain_order=True):
            best.add((str(competitor), str(click), str(of_row["settings"][int(of_row[metric].arg_max())])))
    return best


def play(out: Path, typed: Sequence[str]) -> None:
    """Play all runs, and write their values."""
    rows: list[dict[str, object]] = []
    every = cells()
    rows += played(every, 5_000, SEEDS[REPORTED], out, typed)
    rows += played(every, 5_000, MANY_SEEDS, out, typed)
    for use in SEEDS:
        rows += played(skyline_cells(), 5_000, SEEDS[use], out, typed)
        rows += played(every, 1_000, SEEDS[use], out, typed)
    long = list(played(every, 20_000, SEEDS[CHOOSING], out, typed))
    best = chosen(long)
    rows += long
    reported = [cell for cell in every if (cell.competitor, cell.click, cell.settings) in best]
    rows += played(reported, 20_000, SEEDS[REPORTED], out, typed)
    write_parquet(published_dir() / RUNS, pl.DataFrame(rows).drop("words"))
    print(f"written: {published_dir() / RUNS}")


def main() -> None:
    match sys.argv[1:]:
        case ["play", out, *typed]:
            play(Path(out), typed)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
