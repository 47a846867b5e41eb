"""How much the protocol of the benchmark decides: the page `linear` on MQ2008, evaluated in other ways.

    python -m scripts.protocol play OUT [data_dir=FOLDER launcher.jobs=2 ..]   the runs, and protocol_runs.parquet
    python -m scripts.protocol write                                           protocol_effects.md, of this file

What is varied, and which rows, was fixed before the first run: docs/benchmark/protocol.md, five sets of data. Runs that
are finished are not run again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ol2r_cli.config.composer import compose
from ol2r_cli.config.grammar import expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.plugins.benchmark.claims import FAILS, HOLDS, UNDECIDED, read_claims, verdict_of_interval
from ol2r_cli.plugins.benchmark.differences import mean_difference, spread_of_choice
from ol2r_cli.plugins.benchmark.play import chosen_settings
from ol2r_cli.plugins.benchmark.recipe import AIMS, aim_of, by_name, load_recipe
from ol2r_cli.plugins.benchmark.results import published_choices, published_dir, unstable_settings
from ol2r_cli.report.collection import collect
from ol2r_cli.report.estimates import holm, of_values
from ol2r_cli.sweep.sweeper import sweep
from ol2r_cli.text.formatting import plus_minus
from ol2r_cli.text.table import TextTable, markdown

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
BASELINE = "PDGD"
REPORTED, CHOOSING = "reported", "choosing"
SEEDS = {REPORTED: "seed=0 replicas=10", CHOOSING: "seed=1000 replicas=2"}
MANY_SEEDS = "seed=1000 replicas=8"  # of choosing at T = 5,000
TITLES = {"test_ndcg_10": "test NDCG@10", "cumulative_ndcg": "cumulative NDCG"}
DRAWS, DRAW_SEED = 200, 20_261_129
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
        found += [Cell(name, USERS[0], words, " ".join(each)) for each in product(*map(expand, grid.split()))]
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


def relevant_shares(typed: Sequence[str]) -> pl.DataFrame:
    """Return for each fold the share of validation and of test queries that have a relevant document."""
    rows = []
    for fold in FOLDS:
        words = ["dataset=mq2008", f"dataset.fold={fold}", *(word for word in typed if word.startswith("data_dir"))]
        data = build(compose(words).config["dataset"]).load()
        row: dict[str, float] = {"fold": fold}
        for split in ("validation", "test"):
            labels = [data.labels[data.offsets[query] : data.offsets[query + 1]] for query in data.splits[split]]
            row[f"{split}_relevant"] = sum(bool((of_query > 0).any()) for of_query in labels) / len(labels)
        rows.append(row)
    return pl.DataFrame(rows)


def play(out: Path, typed: Sequence[str]) -> None:
    """Play all runs, and write their values."""
    rows: list[dict[str, object]] = []
    every = cells()
    rows += played(every, 5_000, SEEDS[REPORTED], out, typed)
    rows += played(every, 5_000, MANY_SEEDS, out, typed)
    for use in SEEDS:
        rows += played(skyline_cells(), 5_000, SEEDS[use], out, typed)
    for rounds in ROUNDS[1:]:
        choosing = list(played(every, rounds, SEEDS[CHOOSING], out, typed))
        frame = pl.DataFrame(choosing).drop("words")
        best = {chosen for aim in AIMS for chosen in choices(frame, aim).items()}
        reported = [cell for cell in every if ((cell.competitor, cell.click), cell.settings) in best]
        rows += [*choosing, *played(reported, rounds, SEEDS[REPORTED], out, typed)]
    frame = pl.DataFrame(rows).drop("words").with_columns(pl.col(*METRICS).cast(pl.Float32))  # a third of the file
    write_parquet(published_dir() / RUNS, frame.join(relevant_shares(typed), on="fold", maintain_order="left"))
    print(f"written: {published_dir() / RUNS}")


def choices(choosing: pl.DataFrame, aim: str, by_fold: bool = False) -> dict[tuple[str, str], str]:
    """Return the settings of each row under each user that these choosing runs choose for an aim.

    by_fold: they are of one fold, of which no rule asks whether another processor repeats them.
    """
    unstable, found = {} if by_fold else unstable_settings("linear"), {}
    for (competitor, click), of_row in choosing.group_by("competitor", "click", maintain_order=True):
        found[str(competitor), str(click)] = chosen_settings(of_row, aim, unstable.get(str(competitor), ()))
    return found


class Outcome(NamedTuple):
    """What a protocol reports: by row, user and metric the values by fold and seed, and what its choice adds to the
    standard error of their mean."""

    values: dict[tuple[str, str, str], dict[tuple[int, int], float]]
    spreads: dict[tuple[str, str, str], float]


def outcome(
    runs: pl.DataFrame, rounds: int = 5_000, seeds: int = 2, by_fold: bool = False, relevant_only: bool = False
) -> Outcome:
    """Return what a protocol reports.

    runs: those that may be chosen. seeds: how many choose. by_fold: settings of each fold by itself, by its own
    choosing runs. relevant_only: queries without a relevant document are left out of NDCG on validation and test
    queries; of the lists that were shown they add 0 in any case.
    """
    found, unstable = Outcome({}, {}), unstable_settings("linear")
    of_rounds = runs.filter(rounds=rounds)
    if relevant_only:
        of_rounds = of_rounds.with_columns(
            *(pl.col(f"{split}_ndcg_10") / pl.col(f"{split}_relevant") for split in ("validation", "test"))
        )
    choosing = of_rounds.filter((pl.col("use") == CHOOSING) & (pl.col("seed") < 1000 + seeds))
    reported = of_rounds.filter(use=REPORTED).partition_by("competitor", "click", "settings", as_dict=True)
    of_rows = choosing.partition_by("competitor", "click", as_dict=True)
    for metric in TITLES:
        aim = aim_of(metric)
        by_folds = {fold: choices(choosing.filter(fold=fold), aim, by_fold) for fold in FOLDS} if by_fold else {}
        for row, settings in choices(choosing, aim).items():
            key = (*row, metric)
            values = reported[(*row, settings)].select("fold", "seed", metric).rows()
            if by_fold:
                values = [
                    each
                    for fold, chosen in by_folds.items()
                    for each in reported[(*row, chosen[row])].filter(fold=fold).select("fold", "seed", metric).rows()
                ]
            found.values[key] = {(fold, seed): value for fold, seed, value in values}
            found.spreads[key] = (
                spread_by_fold(of_rows[row], metric)
                if by_fold
                else spread_of_choice(of_rows[row], metric, unstable.get(row[0], ()))
            )
    return found


def spread_by_fold(choosing: pl.DataFrame, metric: str) -> float:
    """Return what settings by fold add to the standard error of a mean: of each fold the seeds are drawn again."""
    parts = [spread_of_choice(part, metric) for part in choosing.partition_by("fold")]
    return sum(part**2 for part in parts) ** 0.5 / len(parts)


def arrows(found: Outcome) -> dict[tuple[str, str, str], str]:
    """Return the mark of each row, user and metric: ↑, ↓ or none, against PDGD, after Holm's correction."""
    marks = {}
    for user in USERS:
        for metric in ("test_ndcg_10", "cumulative_ndcg"):
            base = found.values[BASELINE, user, metric]
            apart = {}
            for row, click, of_metric in found.values:
                if click == user and of_metric == metric and row != BASELINE:
                    values = found.values[row, user, metric]
                    paired = by_fold_mean({unit: values[unit] - base[unit] for unit in base})
                    spreads = found.spreads[row, user, metric], found.spreads[BASELINE, user, metric]
                    apart[row] = mean_difference(paired, *spreads)
            known = {row: difference for row, difference in apart.items() if difference is not None}
            corrected = holm([difference.p for difference in known.values()])
            for (row, difference), p in zip(known.items(), corrected, strict=True):
                marks[row, user, metric] = difference._replace(p=p).arrow
    return marks


def by_fold_mean(values: Mapping[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """Return the mean of each fold over its seeds, which is a unit."""
    folds: dict[int, list[float]] = {}
    for (fold, _), value in values.items():
        folds.setdefault(fold, []).append(value)
    return {(fold, 0): sum(of_fold) / len(of_fold) for fold, of_fold in folds.items()}


def verdicts(found: Outcome) -> dict[str, str]:
    """Return the verdict of each claim of `linear` whose rows are all there, decided on MQ2008 alone."""
    rows = {row for row, *_ in found.values}
    decided = {}
    for claim in read_claims()[0]:
        if claim.page != "linear" or not {*claim.rows, *claim.against} <= rows or not {*claim.users} <= {*USERS}:
            continue
        told = []
        for row, against in product(claim.rows, claim.against):
            by_unit: dict[tuple[int, int], list[float]] = {}
            for user in claim.users:
                own, other = (found.values[name, user, claim.metric] for name in (row, against))
                for unit in own:
                    by_unit.setdefault(unit, []).append(own[unit] - other[unit])
            means = by_fold_mean({unit: sum(values) / len(values) for unit, values in by_unit.items()})
            spreads = [
                found.spreads[name, user, claim.metric] / len(claim.users)
                for user in claim.users
                for name in (row, against)
            ]
            difference = mean_difference(means, *spreads)
            assert difference is not None
            told.append(verdict_of_interval(difference.mean, difference.half_width, claim.expect, claim.bound))
        decided[claim.id] = next(verdict for verdict in (FAILS, UNDECIDED, HOLDS) if verdict in told)
    return decided


class Changed(NamedTuple):
    """How the arrows of a metric and the verdicts of claims differ from those of `linear`: arrows that there are, that
    come, go, and turn; claims whose verdict changes, with the new one."""

    arrows: dict[str, tuple[int, int, int, int]]
    verdicts: dict[str, str]


class Findings(NamedTuple):
    """The arrows and verdicts of a protocol."""

    marks: dict[tuple[str, str, str], str]
    verdicts: dict[str, str]


def findings(found: Outcome) -> Findings:
    """Return the arrows and verdicts of what a protocol reports."""
    return Findings(arrows(found), verdicts(found))


def changed(base: Findings, other: Findings) -> Changed:
    """Return how findings differ from those of `linear`."""
    counts = {}
    for metric in TITLES:
        pairs = [(mark, other.marks[key]) for key, mark in base.marks.items() if key[2] == metric]
        counts[metric] = (
            sum(bool(after) for _, after in pairs),
            sum(not before and bool(after) for before, after in pairs),
            sum(bool(before) and not after for before, after in pairs),
            sum(bool(before) and bool(after) and before != after for before, after in pairs),
        )
    return Changed(
        counts, {name: other.verdicts[name] for name in base.verdicts if other.verdicts[name] != base.verdicts[name]}
    )


def with_equal_cells(runs: pl.DataFrame, random: np.random.Generator) -> pl.DataFrame:
    """Return the runs of as many drawn cells of each row under each user as the smallest grid has."""
    of_rows = runs.select("competitor", "click", "settings").unique(maintain_order=True)
    grids = of_rows.partition_by("competitor", "click")
    least = min(len(grid) for grid in grids if len(grid) > 1)
    kept = pl.concat([grid[sorted(random.permutation(len(grid))[:least])] for grid in grids])
    return runs.join(kept, on=["competitor", "click", "settings"], how="semi", maintain_order="left")


def write() -> None:
    """Write the page."""
    runs = pl.read_parquet(published_dir() / RUNS)
    skylines, runs = (runs.filter(pl.col("competitor").is_in([*SKYLINES]) == wanted) for wanted in (True, False))
    base = findings(outcome(runs))
    sections: dict[str, dict[str, dict[str, Any]]] = {
        "Settings by fold": {
            "one for all folds": {},
            "one by fold": {"by_fold": True},
        },
        "Choosing seeds": {"two": {}, "four": {"seeds": 4}, "eight": {"seeds": 8}},
        "Rounds": {f"{rounds:,}": {"rounds": rounds} for rounds in ROUNDS},
        "Queries without a relevant document": {"count 0": {}, "are left out": {"relevant_only": True}},
    }
    lines: dict[str, list[tuple[str, Changed]]] = {
        title: [(name, changed(base, findings(outcome(runs, **options)))) for name, options in variants.items()]
        for title, variants in sections.items()
    }
    random = np.random.default_rng(DRAW_SEED)
    of_five = runs.filter(rounds=5_000)
    draws = [changed(base, findings(outcome(with_equal_cells(of_five, random)))) for _ in range(DRAWS)]
    write_text(published_dir() / PAGE, page(base, lines, draws, outcome(runs), skylines))
    print(f"written: {published_dir() / PAGE}")


def page(
    base: Findings,
    sections: Mapping[str, Sequence[tuple[str, Changed]]],
    draws: Sequence[Changed],
    reported: Outcome,
    skylines: pl.DataFrame,
) -> str:
    """Return the page as markdown."""
    rows = {row for row, *_ in reported.values}
    paragraphs = [TOP.format(rows=len(rows), claims=len(base.verdicts), draws=DRAWS, left_out=", ".join(LEFT_OUT))]
    for title, lines in sections.items():
        paragraphs += [f"## {title}", ABOUT[title], _table([(name, *_cells(each)) for name, each in lines])]
    numbers = [("all", *_cells(changed(base, base))), (f"equally many, mean of {DRAWS} draws", *_cells_of_draws(draws))]
    paragraphs += ["## Cells of a grid", ABOUT["Cells"], _table(numbers)]
    paragraphs += ["## What labels give", ABOUT["Skylines"], _skylines(reported, skylines)]
    return "\n\n".join(paragraphs) + "\n"


def _cells(each: Changed) -> list[str]:
    cells = []
    for metric in TITLES:
        there, come, go, turn = each.arrows[metric]
        cells += [str(there), f"{come} / {go} / {turn}"]
    told = ", ".join(f"{name} {verdict}" for name, verdict in each.verdicts.items())
    return [*cells, f"{len(each.verdicts)}: {told}" if told else "0"]


def _cells_of_draws(draws: Sequence[Changed]) -> list[str]:
    cells = []
    for metric in TITLES:
        there, come, go, turn = np.mean([each.arrows[metric] for each in draws], axis=0)
        cells += [f"{there:.1f}", f"{come:.1f} / {go:.1f} / {turn:.1f}"]
    numbers = [len(each.verdicts) for each in draws]
    return [*cells, f"{np.mean(numbers):.1f} ({min(numbers)} to {max(numbers)})"]


def _table(lines: Sequence[Sequence[str]]) -> str:
    columns = ["", *(f"{title}: {what}" for title in TITLES.values() for what in ("arrows", "come / go / turn"))]
    return markdown(TextTable.of(columns[:1], [*columns[1:], "verdicts that change"], list(lines)))


def _skylines(reported: Outcome, skylines: pl.DataFrame) -> str:
    """Return a table of rankers that learn from labels, as they are in `linear` and with settings that are chosen."""
    user, rows = USERS[0], ("RankNet on the true labels", BASELINE, "PairRank")
    lines = [(row, "as in linear", *_means([reported.values[row, user, metric] for metric in TITLES])) for row in rows]
    choosing = skylines.filter(use=CHOOSING)
    for aim in AIMS:
        for (row, click), settings in choices(choosing, aim).items():
            of_cell = skylines.filter(use=REPORTED, competitor=row, click=click, settings=settings)
            values = [
                {(fold, seed): value for fold, seed, value in of_cell.select("fold", "seed", metric).iter_rows()}
                for metric in TITLES
            ]
            lines.append((row, f"{aim}: {settings}", *_means(values)))
    return markdown(TextTable.of(["ranker, perfect clicks", "settings"], [*TITLES.values()], lines))


def _means(of_metrics: Sequence[Mapping[tuple[int, int], float]]) -> list[str]:
    cells = []
    for values, digits in zip(of_metrics, (4, 2), strict=True):
        estimate = of_values(by_fold_mean(values))
        assert estimate is not None
        cells.append(plus_minus(estimate.mean, estimate.half_width, digits))
    return cells


TOP = """\
<!-- generated by python -m scripts.protocol write: do not edit -->

# How much the protocol decides

This page has the results of [`linear`](linear.md) on MQ2008 as other protocols would have them.
It is for readers who ask whether a finding is one of rankers or of the protocol.
What is varied was [fixed](protocol.md#five-sets-of-data) before the first run.

{rows} rows and three users; left out are {left_out}.
A table counts the arrows of all rows and users against PDGD, and how many of them come, go or turn
when the protocol changes. So it does with the verdicts of the {claims} claims whose rows are here,
decided on MQ2008 alone.
The first line of a table is the protocol of `linear`.
Cumulative NDCG of more or fewer rounds has other values; its arrows can be compared."""

ABOUT = {
    "Settings by fold": "Settings are selected for all folds together, or for each fold from its own validation "
    "queries and seeds, as the papers do.",
    "Choosing seeds": "How many seeds select.",
    "Rounds": "T, each with its own model selection.",
    "Queries without a relevant document": "They count 0 in test NDCG@10, or are left out of it. In cumulative NDCG "
    "they add 0 in both cases.",
    "Cells": "All cells of a grid, or of each row as many as the smallest grid has, drawn again and again.",
    "Skylines": "RankNet on the true labels has its default penalty in `linear`. Here it is selected, and LambdaMART "
    "stands beside it, with leaves and rate selected and trees that end by validation.",
}


def main() -> None:
    match sys.argv[1:]:
        case ["play", out, *typed]:
            play(Path(out), typed)
        case ["write"]:
            write()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
