"""The test of truth of `ol2r advise`: do 95 % intervals of the gain contain the gain in the world that made the log?

    python scripts/forecasts.py play OUT [--part I/N]      the logs, forecasts and true gains: a file for each log
    python scripts/forecasts.py write OUT                  docs/explanation/forecasts.csv, and the page of the results

The plan below is fixed: four kinds of users, three sizes, three shares of pages with changed ranks, with and without
features, and `LOGS` logs of each. Claim: where users pass the check, the interval contains the true gain in 90 to 99 %
of the logs. `play` leaves out logs whose file is there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.files import write_text
from ol2r_cli.plugins.advise import advise, evidence, shop, worlds
from ol2r_cli.plugins.advise.forecast import Forecast
from ol2r_cli.plugins.advise.pages import SimulatedUser
from ol2r_cli.plugins.advise.shop import PLACES, USERS, Shop
from ol2r_cli.plugins.click_logs.click_log import ClickLog

SIZES = (2_000, 20_000, 200_000)
SWAPS = (1.0, 0.1, 0.01)  # shares of pages on which neighbouring documents change places by chance
LOGS, FIRST_SEED = 3, 5800
HORIZONS = (1_000, 10_000)
WORLDS = 24
QUERIES = {False: (150, 10), True: (100, 20)}  # queries and their documents, without and with features
PAGE = Path("docs/explanation/forecasts.md")
CLAIM = (0.9, 0.99)


class Case(NamedTuple):
    """A log of the plan."""

    user: str
    features: bool
    pages: int
    swaps: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.user}-{'features' if self.features else 'queries'}-{self.pages}-{self.swaps}-{self.seed}"


def cases() -> Iterator[Case]:
    plan = product(range(LOGS), USERS, (False, True), SIZES, SWAPS)
    for number, (_, user, features, size, swaps) in enumerate(plan):
        yield Case(user, features, size, swaps, FIRST_SEED + number)


def log_of(made: Shop, case: Case, random: np.random.Generator) -> ClickLog:
    """Return the pages of a shop as a log; documents are called by their number q D + d."""
    order, click = shop.pages(made, case.pages, case.swaps, case.seed, random)
    shown, row = np.unique(order, return_inverse=True)
    queries, number = np.unique(shown // made.grades.shape[1], return_inverse=True)
    empty = np.zeros((2, len(shown), PLACES))
    log = ClickLog(number, *empty, (row.reshape(order.shape), click), list(map(str, queries)), list(map(str, shown)))
    return log.split(1.0)[0]  # with its counts


def known_of(log: ClickLog, made: Shop) -> tuple[evidence.Evidence, np.ndarray, np.ndarray]:
    """Return what the log says, and of its documents the true grades, and of its queries the true shares."""
    documents = made.grades.shape[1]
    known = evidence.evidence_of(log) if made.features is None else evidence.evidence_with(log, _dataset(made))
    queries = np.array(known.documents.query_ids, int)
    rows = (documents * queries[:, None] + np.arange(documents)).ravel()
    if made.features is None:
        rows = np.array(log.document_ids, int)[known.rows]
    return known, made.grades.ravel()[rows], made.shares[queries] / made.shares[queries].sum()


def _dataset(made: Shop) -> Dataset:
    assert made.features is not None
    queries, documents, features = made.features.shape
    return Dataset(
        name="shop",
        fingerprint="shop",
        features=torch.from_numpy(made.features.reshape(-1, features).astype(np.float32)),
        labels=torch.zeros(queries * documents, dtype=torch.int8),
        offsets=torch.arange(0, queries * documents + 1, documents),
        query_ids=list(map(str, range(queries))),
        grades=2,
        splits={"train": torch.arange(queries)},
    )


def played(case: Case, folder: Path) -> dict[str, Any]:
    """Return a forecast beside the truth, or why there is no forecast."""
    began, random = time.process_time(), np.random.default_rng(case.seed)
    made = shop.shop(*QUERIES[case.features], case.features, case.user, random)
    log = log_of(made, case, random)
    known, grades, shares = known_of(log, made)
    kinds = worlds.choose(log)
    row: dict[str, Any] = {**case._asdict(), "kinds": " ".join(kinds), "clicks": float(log.clicks.sum() / case.pages)}
    reasons, _ = advise.reasons_against(known, kinds)
    row["no_forecast"] = reasons[0] if reasons else ""
    if not reasons:
        found, learner = advise.advised(known, kinds, HORIZONS[-1], WORLDS, ["launcher.jobs=1"], folder / "worlds")
        row |= _of_forecast(found, log, case) | _of_truth(known, grades, shares, made.user, learner, folder / "truth")
    return row | {"cpu_seconds": time.process_time() - began}


def _of_forecast(found: Forecast, log: ClickLog, case: Case) -> dict[str, Any]:
    values = {f"gain_{pages}": estimate for pages, estimate in found.gain.items()} | {"ceiling": found.ceiling}
    row = {f"{name}_{part}": number for name, of in values.items() for part, number in of._asdict().items()}
    assert log.pages is not None
    of_page = log.pages[1].sum(1)
    # An A/B test that spends the pages of the log: half of them each, 1.96 sqrt(4 variance / pages).
    return row | {"verdict": found.verdict, "ab_half_width": 1.96 * float(np.sqrt(4 * of_page.var() / case.pages))}


def _of_truth(
    known: evidence.Evidence,
    grades: np.ndarray,
    shares: np.ndarray,
    user: SimulatedUser,
    learner: Sequence[str],
    folder: Path,
) -> dict[str, Any]:
    """Return the mean gain of the learner in the world that made the log, and of the best order."""
    documents, pages = known.documents._replace(shares=shares), HORIZONS[-1]
    runs = shop.true_runs(folder, documents, grades, user, known.places, pages, [*learner, "launcher.jobs=1"])
    row = {"true_ceiling": runs[0].ceiling - runs[0].production, "true_production": runs[0].production}
    for pages in HORIZONS:
        gains = [float(run.gain[:pages].mean()) for run in runs]
        row |= {
            f"true_gain_{pages}": float(np.mean(gains)),
            f"true_error_{pages}": float(np.std(gains, ddof=1) / len(gains) ** 0.5),
        }
    return row


def play_all(out: Path, part: str) -> None:
    """Play the logs of a part of the plan; a log whose file is there is left out."""
    mine, parts = map(int, part.split("/"))
    out.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases()):
        file = out / f"{case.name}.json"
        if number % parts != mine - 1 or file.exists():
            continue
        folder = Path(tempfile.mkdtemp(prefix="forecast-"))
        try:
            row = played(case, folder)
        finally:
            shutil.rmtree(folder)
        write_text(file, json.dumps(row))
        print(f"{number + 1}/{len(list(cases()))} {case.name}: {row.get('verdict', row['no_forecast'])}", flush=True)


def write(out: Path) -> None:
    """Write the rows of all logs as csv, and the page."""
    rows = [json.loads((out / f"{case.name}.json").read_text()) for case in cases()]
    table = pl.DataFrame(rows, infer_schema_length=None)
    table.write_csv(PAGE.with_suffix(".csv"), float_precision=6)
    write_text(PAGE, page(table))
    print(f"written: {PAGE}")


def page(table: pl.DataFrame) -> str:
    """Return the page of the results."""
    for name in (*(f"gain_{pages}" for pages in HORIZONS), "ceiling"):
        low, high, true = pl.col(f"{name}_low"), pl.col(f"{name}_high"), pl.col(f"true_{name}")
        table = table.with_columns(((low <= true) & (true <= high)).alias(f"right_{name}"))
    told, last = table.filter(pl.col("no_forecast") == ""), HORIZONS[-1]
    fitted = told.filter(pl.col("user") != "trust")
    shares, of_all = {}, []
    for name, forecasts in {"all": told, "known": fitted}.items():
        right = [float(forecasts.select(pl.col(f"right_gain_{pages}").mean()).item()) for pages in HORIZONS]
        of_all = of_all or right
        each = zip(right, HORIZONS, strict=True)
        shares[name] = " and ".join(f"{share:.1%} after {pages:,} pages" for share, pages in each)
    holds = all(CLAIM[0] <= share <= CLAIM[1] for share in of_all)
    bias, true = fitted.select(
        (pl.col(f"gain_{last}_mean") - pl.col(f"true_gain_{last}")).mean(),
        pl.col(f"true_gain_{last}").mean().alias("true"),
    ).row(0)
    verdicts = fitted.filter(pl.col("verdict") != "undecided")
    sign = verdicts.select(((pl.col("verdict") == "gain") == (pl.col(f"true_gain_{last}") > 0)).mean()).item()
    return TEXT.format(
        logs=len(table),
        least=f"{CLAIM[0]:.0%}",
        most=f"{CLAIM[1]:.0%}",
        holds="holds" if holds else "does not hold",
        shares=shares["all"],
        known=shares["known"],
        all=len(told),
        forecasts=len(fitted),
        others=len(told) - len(fitted),
        silent=len(table.filter((pl.col("user") == "trust") & (pl.col("no_forecast") != ""))),
        trust=len(table.filter(pl.col("user") == "trust")),
        queries=max(queries for queries, _ in QUERIES.values()),
        last=f"{last:,}",
        bias=f"{bias:+.4f}",
        true=f"{true:.4f}",
        verdicts=len(verdicts),
        sign=f"{sign:.1%}",
        users="\n".join(f"| {name} | {what} |" for name, what in USERS.items()),
        by_size=_by(table, told, "user", "pages"),
        by_swaps=_by(table, told, "swaps"),
        by_features=_by(table, told, "features"),
        reasons=_reasons(table),
        failures="\n".join(_failures(told)),
        worlds=WORLDS,
        seed=FIRST_SEED,
    )


TEXT = """\
<!-- generated by python scripts/forecasts.py write: do not edit -->

# Are forecasts right?

*Of the plug-in [advise](architecture.md#plug-ins): without it, the rest works.*

This page has the test of truth of [`ol2r advise`](../how-to/click_logs.md#would-online-learning-pay),
for those who want to know how far its intervals can be trusted.

**Claim**, fixed with the plan of {logs} logs before the first of them was made: where fitted users
pass the check, the 95 % interval contains the true gain in {least} to {most} of the logs.
**It {holds}**: {shares}.
These are all {all} forecasts. Of the {forecasts} for the kinds of users that are fitted it is {known};
{others} are for users with trust bias, who have no forecast in {silent} of {trust} logs.
The mean forecast after {last} pages is {bias} clicks a page away from the truth, which is {true} on average.
Of {verdicts} verdicts, gain or loss, {sign} have the sign of the truth.
What it does not cover: more than {queries} queries, users of other kinds, and learners but
`pbm_thompson` and PDGD.

A shop makes each log, and the same learner is played in the shop for the truth.
On a share of the pages neighbouring documents of the production order change places by chance.

| users | who they are |
|---|---|
{users}

## By users and size

Of all logs, those with a forecast; of these, how many intervals contain the truth: of the gain after
1,000 and 10,000 pages, and of the best order.
Half of the interval after {last} pages stands beside half of that of an A/B test which spends as
many pages as the log has: a forecast spends none.

{by_size}

## By changed ranks

{by_swaps}

## By query, and by features

{by_features}

## Where there is no forecast

| users | logs | reason |
|---|---|---|
{reasons}

## What failed

Intervals without the truth, in clicks a page.

| users | features | pages | changed | kinds fitted | after | interval | truth |
|---|---|---|---|---|---|---|---|
{failures}

All rows are in [forecasts.csv](forecasts.csv), with {worlds} worlds each and seeds from {seed}.
The plan is in `scripts/forecasts.py`, which plays it again: `python scripts/forecasts.py play OUT`.
"""


def _by(table: pl.DataFrame, told: pl.DataFrame, *by: str) -> str:
    """Return a table of coverage and width."""
    last = HORIZONS[-1]
    rights = [f"right_gain_{pages}" for pages in HORIZONS] + ["right_ceiling"]
    of_told = told.group_by(by).agg(
        pl.len().alias("forecasts"),
        *(pl.col(name).sum() for name in rights),
        pl.col(f"true_gain_{last}").mean().alias("true gain"),
        pl.col(f"gain_{last}_mean").mean().alias("forecast"),
        ((pl.col(f"gain_{last}_high") - pl.col(f"gain_{last}_low")).mean() / 2).alias("half width"),
        pl.col("ab_half_width").mean().alias("of an A/B test"),
    )
    rows = table.group_by(by).agg(pl.len().alias("logs")).join(of_told, on=by, how="left").sort(by)
    names = {"swaps": "changed"} | dict(
        zip(rights, [f"right, {pages:,}" for pages in HORIZONS] + ["right, best order"], strict=True)
    )
    lines = [f"| {' | '.join(names.get(name, name) for name in rows.columns)} |", "|" + "---|" * len(rows.columns)]
    return "\n".join([*lines, *(f"| {' | '.join(map(_cell, row))} |" for row in rows.iter_rows())])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else f"{value:.4g}" if value in SWAPS else f"{value:.4f}"


def _reasons(table: pl.DataFrame) -> str:
    without_numbers = pl.col("no_forecast").str.replace_all(r"\d[\d.,% ]*", ".. ").str.split(": ").list.first()
    counted = table.filter(pl.col("no_forecast") != "").group_by("user", without_numbers).len()
    rows = counted.sort("user", "len", descending=[False, True]).iter_rows()
    return "\n".join(f"| {user} | {number} | {reason} |" for user, reason, number in rows)


def _failures(told: pl.DataFrame) -> Iterator[str]:
    for row in told.sort("user", "features", "pages", "swaps").iter_rows(named=True):
        log = [row[name] for name in ("user", "features", "pages", "swaps", "kinds")]
        for pages in HORIZONS:
            if not row[f"right_gain_{pages}"]:
                interval = f"{row[f'gain_{pages}_low']:.4f} to {row[f'gain_{pages}_high']:.4f}"
                yield f"| {' | '.join(map(_cell, [*log, pages, interval, row[f'true_gain_{pages}']]))} |"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["play", "write"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", default="1/1", metavar="I/N", help="of the plan, so that N processes share it")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    if given.action == "play":
        play_all(given.out, given.part)
    else:
        write(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
