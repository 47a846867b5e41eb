"""How much the protocol decides: choices, arrows and verdicts again with numpy and scipy, of drawn values."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import stats

from ol2r_cli.plugins.benchmark.results import published_dir
from scripts import protocol

GRIDS = {
    "PairRank": [f"ranker.l2={l2} exploration.alpha={alpha}" for l2, alpha in product((0.01, 0.1), (0.1, 1))],
    "SGD RankNet": ["ranker.learning_rate=0.001", "ranker.learning_rate=0.01", "ranker.learning_rate=0.1"],
    "PDGD": ["ranker.learning_rate=0.1", "ranker.learning_rate=1", "ranker.learning_rate=3"],
    "DBGD": ["ranker.learning_rate=0.01", "ranker.learning_rate=0.1", "ranker.learning_rate=1"],
    "MGD": ["ranker.learning_rate=0.01", "ranker.learning_rate=0.1", "ranker.learning_rate=1"],
    "random lists": [""],
}
UNSTABLE = {"ranker.learning_rate=1", "ranker.learning_rate=3"}  # of PDGD alone in the recipe, where they have marks
METRICS = {"offline": "test_ndcg_10", "online": "cumulative_ndcg"}
AIMS = {"offline": "validation_ndcg_10", "online": "cumulative_ndcg"}
OPTIONS = [{}, {"by_fold": True}, {"seeds": 4}, {"seeds": 8}, {"rounds": 1_000}, {"relevant_only": True}]
NORMAL = stats.t.ppf(0.975, 10**6)


@pytest.fixture(scope="module")
def runs() -> pl.DataFrame:
    """Values of cells with effects of their own, folds and seeds."""
    random, rows = np.random.default_rng(5), []
    relevant = {fold: (0.6 + 0.03 * fold, 0.8 - 0.02 * fold) for fold in protocol.FOLDS}
    for rounds, (row, grid), click in product((5_000, 1_000), GRIDS.items(), protocol.USERS):
        of_row = random.normal() * 0.01
        for settings in grid:
            effect = of_row + random.normal() * 0.004
            for fold, seed in product(protocol.FOLDS, [*range(4), *range(1000, 1008)]):
                of_fold = 0.02 * math.sin(fold)
                noise = random.normal(size=3) * 0.006
                rows.append({
                    "rounds": rounds,
                    "use": "choosing" if seed >= 1000 else "reported",
                    "competitor": row,
                    "click": click,
                    "settings": settings,
                    "fold": fold,
                    "seed": seed,
                    "validation_ndcg_10": 0.5 + effect + of_fold + noise[0],
                    "test_ndcg_10": 0.48 + effect + of_fold + noise[1],
                    "cumulative_ndcg": 850 + 2000 * (effect * random.choice([0.5, 1]) + of_fold + noise[2]),
                    "validation_relevant": relevant[fold][0],
                    "test_relevant": relevant[fold][1],
                })  # fmt: skip
    return pl.DataFrame(rows).sample(fraction=1, shuffle=True, seed=3).sort("competitor", "click", maintain_order=True)


def array(runs: pl.DataFrame, row: str, click: str, use: str, seeds: int, metric: str) -> dict[str, np.ndarray]:
    """Values [folds, seeds] by settings, in the order in which these occur."""
    first = 1000 if use == "choosing" else 0
    of_row = runs.filter(competitor=row, click=click, use=use)
    found = {}
    for settings in of_row["settings"].unique(maintain_order=True):
        values = {(f, s): v for f, s, v in of_row.filter(settings=settings).select("fold", "seed", metric).iter_rows()}
        found[settings] = np.array([[values[f, first + s] for s in range(seeds)] for f in protocol.FOLDS])
    return found


def half(values: np.ndarray) -> float:
    return stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5


def chosen(cells: dict[str, np.ndarray], is_unstable: bool) -> str:
    """The best settings; those that do not repeat only if the best other one is clearly worse."""
    best = max(cells, key=lambda settings: cells[settings].mean())
    stable = [settings for settings in cells if settings not in UNSTABLE]
    if not is_unstable or best in stable:
        return best
    other = max(stable, key=lambda settings: cells[settings].mean())
    apart = cells[best] - cells[other]
    units = apart.mean(1) if len(apart) > 1 else apart[0]
    if len(units) < 3:
        return best
    return best if units.mean() > half(units) else other


def spread(aims: dict[str, np.ndarray], values: dict[str, np.ndarray], is_unstable: bool = False) -> float:
    """The standard deviation of what drawn folds and seeds choose."""
    if len(aims) < 2:
        return 0.0
    order = sorted(aims)
    aim, value = (np.stack([of[settings] for settings in order]) for of in (aims, values))
    random = np.random.default_rng(20_260_001)
    folds, seeds = aim.shape[1:]
    of_folds = random.multinomial(folds, [1 / folds] * folds, 2000)
    of_seeds = random.multinomial(seeds, [1 / seeds] * seeds, 2000)
    sums = np.einsum("df,ds,cfs->dc", of_folds, of_seeds, aim)
    best = sums.argmax(1)
    for draw in np.flatnonzero(np.isin(np.array(order)[best], list(UNSTABLE))) if is_unstable else ():
        drawn = {s: np.repeat(np.repeat(each, of_folds[draw], 0), of_seeds[draw], 1) for s, each in aims.items()}
        best[draw] = order.index(chosen(drawn, True))
    return float(value.mean((1, 2))[best].std())


def again(runs: pl.DataFrame, rounds=5_000, seeds=2, by_fold=False, relevant_only=False):
    """Values [folds, seeds] and spreads by row, user and metric."""
    runs = runs.filter(rounds=rounds)
    values, spreads = {}, {}
    scale = {}
    for split in ("validation", "test"):
        by = dict(runs.select("fold", f"{split}_relevant").unique().iter_rows())
        scale[split] = np.array([[1 / by[fold] if relevant_only else 1.0] for fold in protocol.FOLDS])
    for row, click, (aim, metric) in product(GRIDS, protocol.USERS, METRICS.items()):
        of_aim = scale["validation"] if aim == "offline" else 1.0
        of_value = scale["test"] if aim == "offline" else 1.0
        aims = {key: of_aim * each for key, each in array(runs, row, click, "choosing", seeds, AIMS[aim]).items()}
        reported = {key: of_value * each for key, each in array(runs, row, click, "reported", 4, metric).items()}
        # Of queries that choose, validation stands in for test.
        if by_fold:
            parts = [{key: each[f : f + 1] for key, each in aims.items()} for f in range(len(protocol.FOLDS))]
            picked = [chosen(part, row == "PDGD") for part in parts]
            values[row, click, metric] = np.stack([reported[key][f] for f, key in enumerate(picked)])
            spreads[row, click, metric] = math.hypot(*(spread(part, part) for part in parts)) / len(parts)
        else:
            values[row, click, metric] = reported[chosen(aims, row == "PDGD")]
            spreads[row, click, metric] = spread(aims, aims, row == "PDGD")
    return values, spreads


def difference(values, spreads, own, other) -> tuple[float, float]:
    """The mean of paired differences, and half its interval with both choices."""
    units = (values[own] - values[other]).mean(1)
    choice = NORMAL * math.hypot(spreads[own], spreads[other])
    return units.mean(), math.hypot(half(units), choice)


@pytest.fixture(params=OPTIONS, ids=str)
def both(runs, request):
    """What a protocol reports, and the values and spreads by hand."""
    return protocol.outcome(runs, **request.param), *again(runs, **request.param)


def test_values_are_those_of_the_settings_that_are_chosen(both):
    found, values, spreads = both
    assert {key: sorted(of_key.values()) for key, of_key in found.values.items()} == {
        key: pytest.approx(sorted(of_key.ravel())) for key, of_key in values.items()
    }
    assert found.spreads == pytest.approx(spreads)


def test_arrows_are_holms(both):
    found, values, spreads = both
    expected = {}
    for click, metric in product(protocol.USERS, METRICS.values()):
        tests = {}
        for row in GRIDS.keys() - {"PDGD"}:
            mean, wide = difference(values, spreads, (row, click, metric), ("PDGD", click, metric))
            tests[row] = mean, 2 * stats.t.sf(abs(mean) / (wide / stats.t.ppf(0.975, 4)), 4)
        highest = 0.0
        for place, (row, (mean, p)) in enumerate(sorted(tests.items(), key=lambda item: item[1][1])):
            highest = max(highest, (len(tests) - place) * p)
            expected[row, click, metric] = "" if highest >= 0.05 else "↑" if mean > 0 else "↓"
    assert protocol.arrows(found) == expected
    assert any(expected.values())


CONTENT = yaml.safe_load((published_dir() / "claims.yaml").read_text())


def verdict_by_hand(claim, row, against, values, spreads) -> str:
    users, metric, bound = claim.get("users", CONTENT["users"]), claim["metric"], CONTENT["bound"][claim["metric"]]
    units = np.mean([(values[row, user, metric] - values[against, user, metric]).mean(1) for user in users], 0)
    of_choice = math.hypot(*(spreads[name, user, metric] for name in (row, against) for user in users))
    wide = math.hypot(half(units), NORMAL * of_choice / len(users))
    low, high = units.mean() - wide, units.mean() + wide
    if claim["expect"] == "equivalent":
        holds, fails = max(-low, high) <= bound, max(low, -high) > bound
    else:
        low, high = (low, high) if "higher" in claim["expect"] else (-high, -low)
        due = bound if "much" in claim["expect"] else 0
        holds, fails = low > due, high < due
    return "holds" if holds else "fails" if fails else "undecided"


def test_verdicts_are_those_of_the_intervals(both):
    found, values, spreads = both
    told = protocol.verdicts(found)
    claims = [claim for claim in CONTENT["claims"] if claim["id"] in told]
    assert len(claims) == len(told) >= 5
    for claim in claims:
        pairs = product(claim["rows"], claim["against"])
        verdicts = {verdict_by_hand(claim, *pair, values, spreads) for pair in pairs}
        expected = next(each for each in ("fails", "undecided", "holds") if each in verdicts)
        assert told[claim["id"]] == expected, claim["id"]


def test_what_changes_is_counted():
    base = protocol.Findings(
        {("a", "u", "test_ndcg_10"): "↑", ("b", "u", "test_ndcg_10"): "", ("c", "u", "cumulative_ndcg"): "↓"},
        {"x-1": "holds", "x-2": "fails"},
    )
    other = protocol.Findings(
        {("a", "u", "test_ndcg_10"): "", ("b", "u", "test_ndcg_10"): "↓", ("c", "u", "cumulative_ndcg"): "↑"},
        {"x-1": "undecided", "x-2": "fails"},
    )
    found = protocol.changed(base, other)
    assert found.arrows == {"test_ndcg_10": (1, 1, 1, 0), "cumulative_ndcg": (1, 0, 0, 1)}
    assert found.verdicts == {"x-1": "undecided"}


def test_draws_have_as_many_cells_as_the_smallest_grid(runs):
    drawn = protocol.with_equal_cells(runs, np.random.default_rng(1))
    numbers = drawn.group_by("competitor", "click").agg(pl.col("settings").n_unique())
    assert set(numbers.filter(pl.col("competitor") != "random lists")["settings"]) == {3}
    whole = runs.group_by("competitor", "click", "settings").len()
    assert drawn.group_by("competitor", "click", "settings").len().join(whole, on=whole.columns, how="anti").is_empty()


def test_cells_are_those_that_were_published():
    cells = protocol.cells()
    assert len(cells) == len(set(cells))
    assert not {cell.competitor for cell in cells} & set(protocol.LEFT_OUT)
    choices = pl.read_parquet(published_dir() / "linear_choice.parquet").filter(table="MQ2008")
    published = set(choices.select("competitor", "click", "settings").iter_rows())
    mine = {(cell.competitor, cell.click, cell.settings) for cell in cells if cell.settings}
    assert mine == {each for each in published if each[0] not in protocol.LEFT_OUT}
