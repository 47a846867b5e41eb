"""Every number of docs/benchmark/clicks.md again, from the raw values with numpy and scipy."""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import polars as pl
from scipy import stats

from ol2r_cli.plugins.benchmark.results import published_dir

USERS = {"perfect", "navigational", "informational", "yandex_dcm", "baidu_position"}
COMPARED = (  # columns of the page: metric, aim that labels serve, aim that clicks serve
    ("test_ndcg_10", "offline", "clicks"),
    ("test_ndcg_10", "offline", "raw"),
    ("cumulative_ndcg", "online", "clicks"),
)
AIMS = {"offline": "validation_ndcg_10", "online": "cumulative_ndcg"}
AIMS |= {"clicks": "click_dcg_10", "raw": "clicks_a_session"}
UNITS = {"MQ2008": 5, "generated": 10}  # units of an interval


@cache
def rows() -> dict[tuple[str, str, str, str], pl.DataFrame]:
    """The values of each row, by table, click model, competitor and aim."""
    values = pl.read_parquet(published_dir() / "clicks.parquet").sample(fraction=1, shuffle=True, seed=1)
    named = [
        {"run": run, "table": row["table"], "competitor": row["competitor"], "aim": row["aim"], "words": row["words"]}
        for run, about in values.select("run", "about").unique("run").iter_rows()
        for row in json.loads(about)["rows"]
    ]
    joined = pl.from_dicts(named).join(values, on="run")
    return joined.partition_by("table", "click", "competitor", "aim", as_dict=True)


def costs_of_units(table: str, click: str, competitor: str, column: int) -> np.ndarray:
    """The cost of a row in each fold, or each seed of data without folds."""
    metric, labels, clicks = COMPARED[column]
    pair = (rows()[table, click, competitor, aim].select("fold", "seed", metric) for aim in (labels, clicks))
    first, second = pair
    joined = first.join(second, on=["fold", "seed"], nulls_equal=True)
    assert len(joined) == len(first) == len(second)
    unit = "fold" if table == "MQ2008" else "seed"
    differences = joined.select(unit, cost=pl.col(metric) - pl.col(f"{metric}_right"))
    return differences.group_by(unit).agg(pl.col("cost").mean()).sort(unit)["cost"].to_numpy()


def shown(values: np.ndarray, digits: int) -> str:
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():+.{digits}f} ± {half:.{digits}f}"


@cache
def choices() -> pl.DataFrame:
    return pl.read_parquet(published_dir() / "clicks_choice.parquet").sort("settings", "fold", "seed")


@cache
def spread_of_choices(keys: tuple[tuple[str, str, str], ...], column: int) -> float:
    """The standard deviation of the mean cost of rows (table, click, competitor), when both choices are made again.

    Drawn folds and seeds are the same in every row; validation NDCG@10 stands for test NDCG@10.
    """
    metric, *aims = COMPARED[column]
    means = []
    for table, click, competitor in keys:
        cells = choices().filter(table=table, click=click, competitor=competitor)
        folds, seeds = cells["fold"].n_unique(), cells["seed"].n_unique()
        random = np.random.default_rng(20_260_001)
        of_folds = random.multinomial(folds, [1 / folds] * folds, 2000)
        of_seeds = random.multinomial(seeds, [1 / seeds] * seeds, 2000)
        cube = {name: cells[name].to_numpy().reshape(-1, folds, seeds) for name in AIMS.values()}
        values = cube[metric.replace("test_", "validation_")].mean((1, 2))
        of_labels, of_clicks = (
            values[np.einsum("df,ds,cfs->dc", of_folds, of_seeds, cube[AIMS[aim]]).argmax(1)] for aim in aims
        )
        means.append(of_labels - of_clicks)
    return float(np.mean(means, axis=0).std())


def with_choices(values: np.ndarray, spread: float, digits: int) -> str:
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{shown(values, digits)} ({(half**2 + (stats.norm.ppf(0.975) * spread) ** 2) ** 0.5:.{digits}f})"


@cache
def page() -> str:
    return (published_dir() / "clicks.md").read_text(encoding="utf-8")


def lines_below(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its two first lines."""
    text = re.split(rf"^{re.escape(heading)}$", page(), flags=re.MULTILINE)[1]
    table = re.search(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table[0].splitlines()[2:]]


def same(printed: str, expected: str) -> bool:
    """Whether numbers are equal up to the last digit, which rounding of halves and signs of 0 may change."""
    pair = [[float(number) for number in re.findall(r"-?[\d.]+", text)] for text in (printed, expected)]
    if len(pair[0]) != len(pair[1]):
        return False
    digits = len(printed.split(" ")[0].partition(".")[2])
    return bool(np.allclose(*pair, atol=1.01 * 10.0**-digits, rtol=0))


def test_all_users_rows_and_choices_are_there():
    assert {click for _, click, _, _ in rows()} == USERS
    assert len({(table, competitor) for table, _, competitor, _ in rows()}) == 12
    assert len(rows()) == 12 * len(USERS) * len(AIMS)


def test_costs_of_rows_are_paired_differences():
    for table, units in UNITS.items():
        for click in USERS:
            for competitor, *_, clicks, raw, cumulative in lines_below(f"### {table}, {click}"):
                for column, printed in enumerate((clicks, raw, cumulative)):
                    values = costs_of_units(table, click, competitor, column)
                    assert len(values) == units
                    assert same(printed, shown(values, 1 if column == 2 else 4)), (table, click, competitor, column)


def test_costs_of_users_are_means_over_rows_and_decide_the_claim():
    keys = sorted({(table, competitor) for table, _, competitor, _ in rows()})
    found = {name: cells for name, *cells in lines_below("# Settings chosen from clicks")}
    upper_ends, means = [], []
    for column in range(3):
        digits = 1 if column == 2 else 4
        by_user = {u: np.array([costs_of_units(t, u, c, column).mean() for t, c in keys]) for u in sorted(USERS)}
        for user, values in by_user.items():
            spread = spread_of_choices(tuple((table, user, competitor) for table, competitor in keys), column)
            assert same(found[user][column], with_choices(values, spread, digits)), (user, column)
            if column == 0:
                half = stats.t.ppf(0.975, 11) * values.std(ddof=1) / 12**0.5
                means.append(values.mean())
                upper_ends.append(values.mean() + half)
        spread = spread_of_choices(tuple((t, u, c) for t, c in keys for u in sorted(USERS)), column)
        assert same(found["all"][column], with_choices(np.mean(list(by_user.values()), axis=0), spread, digits))
    verdict = "refuted" if max(means) >= 0.01 else "confirmed" if max(upper_ends) < 0.01 else "undecided"
    assert f"**It is {verdict}** for 5 users, 6 rankers and MQ2008 and generated," in page()


def costs_that_differ() -> dict[tuple[str, str, str], tuple[np.ndarray, float]]:
    """The costs by clicks of the rows with two cells, each with its p after Holm's correction for them."""
    keys = [key[:3] for key, values in rows().items() if key[3] == "offline"]
    other = [
        key for key in keys if list(rows()[*key, "offline"]["words"][0]) != list(rows()[*key, "clicks"]["words"][0])
    ]
    values = {key: costs_of_units(*key, 0) for key in other}
    p = {key: stats.ttest_1samp(of_row, 0).pvalue for key, of_row in values.items()}
    highest, corrected = 0.0, {}
    for place, key in enumerate(sorted(p, key=p.__getitem__)):
        highest = max(highest, (len(p) - place) * p[key])
        corrected[key] = values[key], highest
    return corrected


def test_rows_that_differ_are_counted_and_named():
    found = costs_that_differ()
    beyond = [key for key, (values, _) in found.items() if stats.ttest_1samp(values, 0).pvalue < 0.05]
    assert f"In {60 - len(found)} of 60 rows clicks choose the cell that labels choose." in page()
    assert (
        f"the interval of {len(beyond)} of the others excludes 0; after Holm's correction for {len(found)} rows"
        in page()
    )
    significant = {key: values for key, (values, p) in found.items() if p < 0.05}
    assert f"is significant in {len(significant)}: " in page()
    for (table, click, competitor), values in significant.items():
        assert f"{competitor} with `{click}` on {table}, {shown(values, 4)}" in page()


def test_sessions_of_a_choice_are_those_of_its_choosing_runs():
    counts = choices().group_by("table", "click", "competitor").len()["len"] * 500
    assert f"{counts.min():,} to {counts.max():,} sessions a choice" in page()


def test_chosen_cells_have_the_best_mean_of_their_choice():
    """Over folds and choosing seeds; a PDGD rate that does not repeat may give way to another one."""
    cells = choices().group_by("table", "click", "competitor", "settings").agg(pl.col(*AIMS.values()).mean())
    for (table, click, competitor, aim), values in rows().items():
        of_row = cells.filter(table=table, click=click, competitor=competitor)
        means = dict(of_row.select("settings", AIMS[aim]).iter_rows())
        best = max(means, key=means.__getitem__)
        (chosen,) = (settings for settings in means if set(settings.split()) <= set(values["words"][0]))
        is_unstable = competitor == "PDGD" and float(best.partition("=")[2]) >= 1
        assert is_unstable or means[chosen] >= means[best] - 1e-9, (table, click, competitor, aim)
