"""Every number of the published pages again, from the raw values with numpy and scipy, without the code of the report.

Rows of the files are read in random order: ids of runs and the order of files have no influence.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy import stats

from ol2r_cli.plugins.benchmark.results import published_dir

SEED, DRAWS = 20_260_001, 2000
COLUMNS = {
    "test NDCG@10": "test_ndcg_10",
    "cumulative NDCG": "cumulative_ndcg",
    "|unfairness|": "unfairness",
    "dynamic regret": "dynamic_regret",
}
LOWER_IS_BETTER = ("unfairness", "dynamic_regret")
WITHOUT_CLICKS = ("oracle", "random", "offline_ranknet", "offline_network")
USERS = ("perfect", "navigational", "informational", "yandex_dcm", "baidu_position")  # in the order of the draws
PAGES = ("linear", "drift", "fairness", "million", "neural", "users")
NORMAL = stats.t.ppf(0.975, 10**6)  # the pages take Student's t with a million degrees of freedom
Key = tuple[str, str, str, str]  # table, click, competitor, aim


@cache
def rows_of(page: str) -> dict[Key, pl.DataFrame]:
    """The values of each row, in random order."""
    values = pl.read_parquet(published_dir() / f"{page}.parquet").sample(fraction=1, shuffle=True, seed=1)
    shown = ("table", "competitor", "aim")
    named = [
        {"run": run, "words": " ".join(row["words"]), **{name: row[name] for name in shown}}
        for run, about in values.select("run", "about").unique("run").iter_rows()
        for row in json.loads(about)["rows"]
    ]
    joined = pl.from_dicts(named).join(values, on="run")
    return joined.partition_by("table", "click", "competitor", "aim", as_dict=True)


@cache
def others_elsewhere() -> set[str]:
    """The settings with which some seed had other numbers on another processor, as words with a blank between two."""
    tried = pl.read_parquet(published_dir() / "processors.parquet").filter("differs")
    return {" ".join(shlex.split(overrides)) for overrides in tried["overrides"]}


@cache
def choices_of(page: str) -> dict[tuple[str, str, str], pl.DataFrame]:
    choices = pl.read_parquet(published_dir() / f"{page}_choice.parquet").sample(fraction=1, shuffle=True, seed=2)
    return choices.partition_by("table", "click", "competitor", as_dict=True)


def row_for(page: str, table: str, click: str, competitor: str, metric: str) -> pl.DataFrame | None:
    """The row with settings chosen for the aim of a metric, or without a choice."""
    aim = "offline" if metric.startswith("test_") else "online"
    rows = rows_of(page)
    return rows.get((table, click, competitor, aim), rows.get((table, click, competitor, "")))


def by_unit(row: pl.DataFrame, metric: str) -> np.ndarray:
    """The mean of each fold where there are several, otherwise the value of each seed, in their order."""
    row = row.filter(pl.col(metric).is_not_null() & pl.col(metric).is_not_nan()).sort("fold", "seed")
    if row["fold"].n_unique() > 1:
        row = row.group_by("fold").agg(pl.col(metric).mean()).sort("fold")
    return row[metric].to_numpy()


def half(values: np.ndarray) -> float:
    return stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5


def spread(page: str, key: tuple[str, str, str], row: pl.DataFrame, metric: str) -> float:
    """The standard deviation over choices that are made again from drawn folds and seeds."""
    return spread_of_choices(page, key, metric) if row["aim"][0] else 0.0


@cache
def spread_of_choices(page: str, key: tuple[str, str, str], metric: str) -> float:
    runs = choices_of(page)[key].sort("settings", "fold", "seed")
    cells, folds, seeds = (runs[name].n_unique() for name in ("settings", "fold", "seed"))
    offline = metric.startswith("test_")
    aim, value = ("validation_ndcg_10",) * 2 if offline else ("cumulative_ndcg", metric)
    aims, values = (runs[name].to_numpy().reshape(cells, folds, seeds) for name in (aim, value))
    random = np.random.default_rng(SEED)
    of_folds = random.multinomial(folds, [1 / folds] * folds, DRAWS)
    of_seeds = random.multinomial(seeds, [1 / seeds] * seeds, DRAWS)
    sums = np.einsum("df,ds,cfs->dc", of_folds, of_seeds, aims)
    names = runs["settings"].unique(maintain_order=True).to_list()
    rates = [float(re.search(r"learning_rate=(\S+)", name)[1]) if key[2] == "PDGD" else 0.0 for name in names]
    chosen = sums.argmax(1)
    for draw in np.flatnonzero(np.array(rates)[chosen] >= 1):
        other = np.where(np.array(rates) < 1, sums[draw], -np.inf).argmax()
        units = np.repeat(aims[chosen[draw]] - aims[other], of_folds[draw], axis=0)
        units = np.repeat(units, of_seeds[draw], axis=1)
        units = units.mean(1) if folds > 1 else units[0]
        if units.mean() <= (half(units) if len(units) > 1 else 0):
            chosen[draw] = other
    return float(values.mean((1, 2))[chosen].std())


class Paired(NamedTuple):
    """The runs of a row that is compared with the baseline, the mean of paired differences, its standard error, and the
    degrees of freedom of Student's t."""

    runs: frozenset[str]
    mean: float
    error: float
    degrees: int

    def p(self, mean: float) -> float:
        """The p of a mean with this error."""
        return 2 * stats.t.sf(abs(mean) / self.error if self.error else np.inf, self.degrees)


def paired_with(page: str, table: str, click: str, names: list[str], metric: str, baseline: str) -> dict[str, Paired]:
    """The rows that can be compared with the baseline."""
    rows = {name: row for name in names if (row := row_for(page, table, click, name, metric)) is not None}
    if (base := rows.get(baseline)) is None:
        return {}
    paired = {}
    runs = {name: frozenset(row["run"]) for name, row in rows.items()}
    base_units = by_unit(base, metric)
    for name, row in rows.items():
        units = by_unit(row, metric)
        if runs[name] == runs[baseline] or len(units) != len(base_units) or len(units) < 3:
            continue
        apart = units - base_units
        spreads = [spread(page, (table, click, of), rows[of], metric) for of in (name, baseline)]
        wide = (half(apart) ** 2 + (NORMAL**2) * sum(each**2 for each in spreads)) ** 0.5
        degrees = len(units) - 1
        paired[name] = Paired(runs[name], apart.mean(), wide / stats.t.ppf(0.975, degrees), degrees)
    return paired


def differences(paired: dict[str, Paired]) -> dict[str, tuple[float, float]]:
    """The mean of paired differences and the p of Student's t, corrected by Holm over rows with different runs."""
    p_of = {row.runs: row.p(row.mean) for row in paired.values()}
    highest, corrected = 0.0, {}
    for place, (of_runs, p) in enumerate(sorted(p_of.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (len(p_of) - place) * p))
        corrected[of_runs] = highest
    return {name: (row.mean, corrected[row.runs]) for name, row in paired.items()}


def smallest_differences(paired: dict[str, Paired]) -> dict[str, float]:
    """From which difference on each row without an arrow would have one, by trying: the other rows keep their p."""
    found = differences(paired)
    p_of = {row.runs: row.p(row.mean) for row in paired.values()}

    def is_marked(row: Paired, mean: float) -> bool:
        own_p = row.p(mean)
        ordered = sorted([own_p, *(p for runs, p in p_of.items() if runs != row.runs)])
        passed = [p * (len(ordered) - place) < 0.05 for place, p in enumerate(ordered)]
        return all(passed[: ordered.index(own_p) + 1])

    smallest = {}
    for name, row in paired.items():
        if found[name][1] >= 0.05:
            low, high = 0.0, 1e3 * row.error
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (low, middle) if is_marked(row, middle) else (middle, high)
            smallest[name] = high
    return smallest


def tables_in(text: str) -> list[tuple[str, list[dict[str, str]]]]:
    """The markdown tables of a page, each with the heading above it and its lines by column."""
    found: list[tuple[str, list[dict[str, str]]]] = []
    title, head = "", None
    for line in text.splitlines():
        cells = None
        if line.startswith("|"):
            cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line[1:-1])]
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif cells and head is None:
            head = cells
            found.append((title, []))
        elif cells and not set(line) <= set("| -:"):
            found[-1][1].append(dict(zip(head, cells, strict=True)))
        head = head if cells else None
    return found


def is_printed(printed: str, value: float) -> bool:
    """Whether a printed number is this value, rounded."""
    decimals = len(printed.partition(".")[2])
    return abs(float(printed) - value) <= 0.5 * 10**-decimals + 1e-9 * abs(value)


CELL = re.compile(
    r"(?P<mean>-?[\d.]+)(?: ± (?P<half>[\d.]+))?(?: \((?P<wide>[\d.]+)\))?(?P<unstable> ‡)?"
    r"(?: (?P<arrow>[↑↓])| \[(?P<smallest>[\d.]+)\])?"
)


VALIDITY = "Validity of simulated users"


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_raw_values(page):
    """Means, both intervals, arrows, marks and order; and every value of every setting."""
    tables = tables_in((published_dir() / f"{page}.md").read_text())
    tables = [
        (title, lines) for title, lines in tables if title not in ("Overview", VALIDITY) and "user" not in lines[0]
    ]
    assert len(tables) == 2 * len({key[:2] for key in rows_of(page)})
    for title, lines in tables:
        table, _, click = title.rpartition(", ")
        if "selection" in lines[0]:
            check_settings(page, table, click, lines)
        else:
            check_main(page, table, click, lines)


def check_main(page: str, table: str, click: str, lines: list[dict[str, str]]) -> None:
    (baseline,) = (line["ranker"].partition(" (baseline)")[0] for line in lines if "(baseline)" in line["ranker"])
    names = [re.sub(r"( \(baseline\))?( †)?$", "", line["ranker"]) for line in lines]
    assert {key[2] for key in rows_of(page) if key[:2] == (table, click)} == set(names)
    metrics = {COLUMNS[re.sub(r" \(\w+\)$", "", name)]: name for name in lines[0] if name != "ranker"}
    for metric, column in metrics.items():
        check_column(page, table, click, {name: line[column] for name, line in zip(names, lines, strict=True)}, metric)
        paired = paired_with(page, table, click, names, metric, baseline)
        cells = {name: CELL.fullmatch(line[column]) for name, line in zip(names, lines, strict=True) if line[column]}
        found, smallest = differences(paired), smallest_differences(paired)
        arrows = {name: "↑" if mean > 0 else "↓" for name, (mean, p) in found.items() if p < 0.05}
        assert {name: cell["arrow"] for name, cell in cells.items() if cell["arrow"]} == arrows, (page, table, click)
        printed = {name: cell["smallest"] for name, cell in cells.items() if cell["smallest"]}
        assert printed.keys() == smallest.keys(), (page, table, click, metric)
        assert all(is_printed(text, smallest[name]) for name, text in printed.items()), (page, table, click, metric)
    for name, line in zip(names, lines, strict=True):
        rows = [row_for(page, table, click, name, metric) for metric in metrics]
        chosen = {row["words"][0] for row in rows if row is not None}
        assert line["ranker"].endswith(" †") == (len(chosen) > 1), (page, table, click, name)
    metric = next(iter(metrics))
    means = [by_unit(row_for(page, table, click, name, metric), metric).mean() for name in names]
    assert means == sorted(means, reverse=metric not in LOWER_IS_BETTER), "the best row is first"


def check_column(page: str, table: str, click: str, cells: dict[str, str], metric: str) -> None:
    """Means, both intervals, and the mark of rows that another processor does not repeat."""
    for name, text in cells.items():
        where = page, table, click, name, metric, text
        row = row_for(page, table, click, name, metric)
        if row is None or not len(units := by_unit(row, metric)):
            assert text == "", where
            continue
        cell = CELL.fullmatch(text)
        of_choice = spread(page, (table, click, name), row, metric)
        wide = (half(units) ** 2 + (NORMAL * of_choice) ** 2) ** 0.5
        assert is_printed(cell["mean"], units.mean()), where
        assert is_printed(cell["half"], half(units)), where
        assert is_printed(cell["wide"], wide) if cell["wide"] else of_choice < 1e-9, where
        assert bool(cell["unstable"]) == (row["words"][0] in others_elsewhere()), where


def check_settings(page: str, table: str, click: str, lines: list[dict[str, str]]) -> None:
    found = set()
    for line in lines:
        aims = {"both": ("offline", "online")}.get(line["selection"], (line["selection"],))
        for aim in aims:
            row = rows_of(page)[table, click, line["ranker"], aim]
            found.add((line["ranker"], aim))
            for column, metric in COLUMNS.items():
                if not line.get(column):
                    continue
                cell, units = CELL.fullmatch(line[column]), by_unit(row, metric)
                assert is_printed(cell["mean"], units.mean()), (page, table, click, line["ranker"], aim, metric)
                assert is_printed(cell["half"], half(units)), (page, table, click, line["ranker"], aim, metric)
    assert found == {key[2:] for key in rows_of(page) if key[:2] == (table, click)}


@pytest.mark.parametrize("page", PAGES)
def test_overviews_are_those_of_the_raw_values(page):
    """Mean ranks with intervals, which contain them, and the means of two metrics."""
    text = (published_dir() / f"{page}.md").read_text()
    lines = dict(tables_in(text))["Overview"]
    columns = [column for column in lines[0] if column not in ("ranker", "mean rank")]
    names = re.search(r"A column has (.*) / (.*)\.\n", text)
    metric, second = (COLUMNS[name] for name in names.groups())
    random, drawn = np.random.default_rng(SEED), {}
    ranks: dict[str, list[tuple[float, np.ndarray]]] = {}
    for column in columns:
        table, _, click = column.rpartition(", ")
        of_table = {line["ranker"]: row_for(page, table, click, line["ranker"], metric) for line in lines}
        units = {name: by_unit(row, metric) for name, row in of_table.items() if row is not None}
        matrix = np.array(list(units.values())) * (-1 if metric in LOWER_IS_BETTER else 1)
        count = matrix.shape[1]
        if table not in drawn:
            drawn[table] = random.multinomial(count, [1 / count] * count, DRAWS)
        means = np.vstack([np.ones(count), drawn[table]])[:, None, :] * matrix
        means = np.round(means.sum(2), 9)
        places = 1 + (means[:, None, :] > means[:, :, None]).sum(2)
        for name, place in zip(units, places.T, strict=True):
            ranks.setdefault(name, []).append((place[0], place[1:]))
        for line in lines:
            check_pair(page, table, click, line["ranker"], line[column], (metric, second))
    for line in lines:
        mean, low, high = re.fullmatch(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", line["mean rank"]).groups()
        of_name = ranks[line["ranker"]]
        interval = np.quantile(np.mean([draws for _, draws in of_name], axis=0), [0.025, 0.975])
        assert is_printed(mean, np.mean([place for place, _ in of_name])), (page, line)
        assert is_printed(low, interval[0]), (page, line)
        assert is_printed(high, interval[1]), (page, line)
        assert float(low) <= float(mean) <= float(high), (page, line)


def check_pair(page: str, table: str, click: str, name: str, cell: str, metrics: tuple[str, str]) -> None:
    rows = [row_for(page, table, click, name, metric) for metric in metrics]
    printed = cell.removesuffix(" †").split(" / ")
    for row, metric, number in zip(rows, metrics, printed, strict=True):
        assert is_printed(number, by_unit(row, metric).mean()), (page, table, click, name)
    assert cell.endswith(" †") == (rows[0]["words"][0] != rows[1]["words"][0]), (page, table, click, name)


DATA = sorted({table for table, *_ in rows_of("users")})  # that the page of users has


@pytest.mark.parametrize("table", DATA)
def test_kendalls_tau_is_that_of_the_raw_values(table):
    for title, lines in tables_in((published_dir() / "users.md").read_text()):
        if title.startswith(f"{table}, by "):
            metric = COLUMNS[re.search(", by (.*), ", title)[1]]
            check_matrix(table, metric, lines)


def test_validity_is_that_of_the_matrices_and_raw_clicks():
    """The mean over data of (1 + tau) / 2, and of clicks a page over the rows that the matrices compare."""
    tables = tables_in((published_dir() / "users.md").read_text())
    found = {title: {line["user"]: line for line in lines} for title, lines in tables if ", by " in title}
    agreements = next(lines for title, lines in tables if title == VALIDITY)
    for line, (other, metric) in product(agreements, product(USERS[3:], ("test NDCG@10", "cumulative NDCG"))):
        matrices = [matrix for title, matrix in found.items() if f", by {metric}, " in title]
        taus = [float(matrix[line["user"]][other].split()[0]) for matrix in matrices]
        assert len(taus) == len(DATA)
        assert float(line[f"{other}, {metric}"].split()[0]) == pytest.approx((1 + np.mean(taus)) / 2, abs=0.0076)
    for line in agreements:
        page = "linear" if line["user"] in USERS[:3] else "users"
        clicks = []
        for table, metric in product(DATA, ("test_ndcg_10", "cumulative_ndcg")):
            names = {key[2] for key, row in rows_of("users").items() if row["ranker"][0] not in WITHOUT_CLICKS}
            rows = [row_for(page, table, line["user"], name, metric) for name in sorted(names)]
            clicks.append(np.mean([row["clicks"].mean() / 5000 for row in rows]))
        assert is_printed(line["clicks a page"], np.mean(clicks)), line["user"]


def check_matrix(table: str, metric: str, lines: list[dict[str, str]]) -> None:
    pages = {user: "linear" if user in USERS[:3] else "users" for user in USERS}
    names = sorted(
        key[2]
        for key, row in rows_of("users").items()
        if key[:2] == (table, USERS[-1]) and key[3] != "offline" and row["ranker"][0] not in WITHOUT_CLICKS
    )
    values = {user: [row_for(page, table, user, name, metric) for name in names] for user, page in pages.items()}
    folds, seeds = (values["perfect"][0][name].n_unique() for name in ("fold", "seed"))
    random = np.random.default_rng(SEED)
    of_folds = random.multinomial(folds, [1 / folds] * folds, DRAWS)
    pairs = np.array(list(combinations(range(len(names)), 2))).T
    signs = {}
    for user, rows in values.items():
        cube = np.array([row.sort("fold", "seed")[metric].to_numpy() for row in rows])
        of_seeds = random.multinomial(seeds, [1 / seeds] * seeds, (2, DRAWS))
        weights = [np.ones((1, folds * seeds))]
        weights += [(of_folds[:, :, None] * drawn[:, None, :]).reshape(DRAWS, -1) for drawn in of_seeds]
        means = [weight @ cube.T for weight in weights]
        signs[user] = [np.sign(np.round(mean[:, pairs[0]] - mean[:, pairs[1]], 9)) for mean in means]
    again = {user: (one * two).mean(1) for user, (_, one, two) in signs.items()}
    for line in lines:
        for user, cell in list(line.items())[1:]:
            a, b = sorted((line["user"], user), key=USERS.index)
            drawn = again[a] if a == b else (signs[a][1] * signs[b][2]).mean(1)
            tau = drawn.mean() if a == b else (signs[a][0] * signs[b][0]).mean()
            value, low, high, star = re.fullmatch(r"(-?[\d.]+) \((-?[\d.]+) to (-?[\d.]+)\)(\*?)", cell).groups()
            for printed, computed in zip((value, low, high), (tau, *np.quantile(drawn, [0.025, 0.975])), strict=True):
                assert is_printed(printed, computed), (table, metric, a, b)
            assert bool(star) == (np.mean(drawn < np.minimum(again[a], again[b])) >= 0.95), (table, metric, a, b)


@pytest.mark.parametrize("page", PAGES)
def test_the_index_has_data_rows_and_cpu_hours_of_a_page(page):
    """Each run is counted once, and each choice, which two aims share."""
    runs, choices = {}, {}
    values = pl.read_parquet(published_dir() / f"{page}.parquet")
    for run, cpu, about in values.select("run", "cpu_seconds", "about").unique("run").iter_rows():
        runs[run] = cpu
        for row in json.loads(about)["rows"]:
            click = values.filter(run=run)["click"][0]
            choices[row["table"], click, row["competitor"]] = row["choice_seconds"]
    ((_, lines),) = tables_in((published_dir() / "README.md").read_text())
    (line,) = [line for line in lines if line["page"].endswith(f"({page}.md)")]
    assert is_printed(line["CPU hours"], (sum(runs.values()) + sum(choices.values())) / 3600)
    assert set(line["data"].split("; ")) == {table for table, *_ in choices}
    assert int(line["rows"]) == len({competitor for *_, competitor in choices})


@pytest.mark.parametrize("page", PAGES)
def test_figures_name_data_and_users_as_the_tables_do(page):
    """Panels have the users of the tables below, in their order."""
    for section in (published_dir() / f"{page}.md").read_text().split("\n## ")[1:]:
        title = section.partition("\n")[0]
        if figure := re.search(r"!\[.*\]\((.*)\)", section):
            users = [user.replace("_", " ") for user in re.findall(rf"### {title}, (\w+)", section)]
            data = "generated data" if title.startswith("generated") else title.partition(",")[0]
            text = (published_dir() / figure[1]).read_text()
            assert re.findall(rf">{data}, ([^<]*)</text>", text) == users, figure[1]
