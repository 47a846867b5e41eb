"""Numbers in sentences about the published results again, from the raw values: a wrong number or another word fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import stats

from ol2r_cli.plugins.benchmark.claims import HOLDS, judged, read_claims, verdict, verdict_of_interval
from ol2r_cli.plugins.benchmark.recipe import PAPERS
from ol2r_cli.plugins.benchmark.results import published_dir
from tests.plugins.benchmark import test_published_clicks as clicks
from tests.plugins.benchmark.test_published_pages import (
    NORMAL,
    USERS,
    WITHOUT_CLICKS,
    by_unit,
    differences,
    half,
    paired_with,
    row_for,
    rows_of,
    spread,
    tables_in,
)

DOCS = published_dir().parent
THREE, REAL = USERS[:3], USERS[3:]
BOTH = ("MQ2008", "generated")
FOUR = ("MQ2008", "MQ2007_part", "OHSUMED", "generated")  # of claims about linear rankers
TEST, CUMULATIVE = "test_ndcg_10", "cumulative_ndcg"
OF_LABELS = "RankNet on the true labels"


def short(number: float, digits: int, sign: str = "") -> str:
    """`.011`: without the zero before the point."""
    return re.sub(r"\b0\.", ".", f"{number:{sign}.{digits}f}")


def with_half(pair: tuple[float, float], digits: int) -> str:
    return f"{short(pair[0], digits)} ± {short(pair[1], digits)}"


def value(page: str, table: str, user: str, name: str, metric: str) -> float:
    return float(by_unit(row_for(page, table, user, name, metric), metric).mean())


def names_of(page: str, table: str, user: str) -> list[str]:
    return sorted({key[2] for key in rows_of(page) if key[:2] == (table, user)})


def learners(page: str, table: str, user: str) -> list[str]:
    """The rows that learn from clicks."""
    rows = rows_of(page)
    return sorted({key[2] for key in rows if key[:2] == (table, user) and rows[key]["ranker"][0] not in WITHOUT_CLICKS})


def apart(page: str, tables: tuple[str, ...], users: tuple[str, ...], one: str, other: str, metric: str):
    """The difference of two rows, the mean over users and tables, and half its interval with the choices of both."""
    means, squares = [], []
    for table in tables:
        of_users, variance = [], 0.0
        for user in users:
            rows = [row_for(page, table, user, name, metric) for name in (one, other)]
            of_users.append(by_unit(rows[0], metric) - by_unit(rows[1], metric))
            spreads = [
                spread(page, (table, user, name), row, metric) for name, row in zip((one, other), rows, strict=True)
            ]
            variance += sum(of_row**2 for of_row in spreads) / len(users) ** 2
        units = np.mean(of_users, axis=0)
        means.append(units.mean())
        squares.append(half(units) ** 2 + NORMAL**2 * variance)
    return float(np.mean(means)), sum(squares) ** 0.5 / len(tables)


def corrected(page: str, table: str, user: str, metric: str, baseline: str) -> dict[str, tuple[float, float]]:
    """Differences from a baseline, each with Holm's p."""
    return differences(paired_with(page, table, user, names_of(page, table, user), metric, baseline))


@cache
def text_of(page: str) -> str:
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())


def finding_1() -> Iterator[str]:
    found = []
    for user in USERS:
        page = "linear" if user in THREE else "users"
        of_user = corrected(page, "MQ2008", user, TEST, "PDGD")
        found += [of_user[name] for name in learners(page, "MQ2008", user) if name in of_user]
    significant = [mean for mean, p in found if p < 0.05]
    assert max(significant) < 0
    no_learner_is_better_than_pdgd()
    yield "**No learner from clicks has significantly more test NDCG@10 than PDGD** in any [table](linear.md) of these"


def no_learner_is_better_than_pdgd() -> None:
    for table, user in product(FOUR, THREE):
        of_test = corrected("linear", table, user, TEST, "PDGD")
        better = {name for name, (mean, p) in of_test.items() if p < 0.05 and mean > 0}
        assert not better & set(learners("linear", table, user)), (table, user)


def finding_2() -> Iterator[str]:
    of = {table: apart("linear", (table,), THREE, "PairRank", "PDGD", CUMULATIVE) for table in FOUR}
    online, test = (apart("linear", FOUR, THREE, "PairRank", "PDGD", metric) for metric in (CUMULATIVE, TEST))
    tables = [corrected("linear", table, user, CUMULATIVE, "PDGD")["PairRank"] for table in FOUR for user in THREE]
    significant = [mean for mean, p in tables if p < 0.05]
    assert (len(significant), len(tables)) == (5, 12)
    assert min(significant) > 0
    yield (
        f"by {with_half(online, 1)} of cumulative NDCG ([pairrank-10](claims.md#pairrank-10)): "
        f"{with_half(of['generated'], 1)} on generated data, {with_half(of['MQ2007_part'], 1)} on MQ2007_part, "
        f"{with_half(of['OHSUMED'], 1)} on OHSUMED, {with_half(of['MQ2008'], 1)} on MQ2008. It is "
        "significant in five of twelve tables."
    )
    assert abs(test[0]) < test[1]
    yield f"On test queries the two do not differ significantly, by {with_half(test, 4)}"


def finding_3() -> Iterator[str]:
    mean, half_width = apart("users", ("MQ2008",), ("yandex_dcm",), "PairRank", "PDGD", CUMULATIVE)
    assert corrected("users", "MQ2008", "yandex_dcm", CUMULATIVE, "PDGD")["PairRank"][1] < 0.05
    for table in ("MQ2007_part", "OHSUMED"):
        assert corrected("users", table, "yandex_dcm", CUMULATIVE, "PDGD")["PairRank"][1] > 0.9
    yield (
        f"PairRank is {with_half((-mean, half_width), 0)} below PDGD on MQ2008 ([table](users.md#mq2008-yandex_dcm)), "
        "but not on MQ2007_part and OHSUMED."
    )


def finding_4() -> Iterator[str]:
    tests = {}
    for table in (*FOUR, "ClueWeb09"):
        for user in REAL:
            online = [value("users", table, user, name, CUMULATIVE) for name in learners("users", table, user)]
            assert sum(mean > value("users", table, user, "IPS regression", CUMULATIVE) for mean in online) <= 1
            tests[table, user] = [value("users", table, user, name, TEST) for name in ("IPS regression", "PairRank")]
    assert all(
        (of_ips < of_pairrank) == (table in (*BOTH, "MQ2007_part"))
        for (table, _), (of_ips, of_pairrank) in tests.items()
    )
    yield "it is first or second on all five data"
    yield "On test queries it is below PairRank, but not on OHSUMED and ClueWeb09 (not tested)."


def finding_5() -> Iterator[str]:
    cells, of_three = [], []
    for title, lines in tables_in((published_dir() / "users.md").read_text()):
        if ", by " in title:
            for row, line in enumerate(lines):
                for user in list(line)[row + 2 :]:
                    cells.append(line[user].endswith("*"))
                    of_three += [cells[-1]] if {user, line["user"]} <= set(THREE) else []
    assert np.mean(cells) > 0.5
    assert np.mean(of_three) > 0.5
    yield "Two users order the field differently in most comparisons, also among the three of the papers"


def finding_6() -> Iterator[str]:
    improved = {}
    for name in ("DBGD", "MGD", "NSGD"):
        of = {
            tables: apart("linear", tables, THREE, f"{name}, DSP", name, CUMULATIVE)
            for tables in (FOUR, *((table,) for table in FOUR))
        }
        improved[name] = {tables for tables, (mean, half_width) in of.items() if mean > half_width}
    everywhere = {FOUR, ("generated",)}
    assert all(everywhere <= of for of in improved.values())
    others = {name: {table for (table, *_) in of - everywhere} for name, of in improved.items()}
    assert others == {"DBGD": {"MQ2007_part"}, "MGD": {*FOUR} - {"generated"}, "NSGD": set()}
    projection = "improves all three ([dsp-4](claims.md#dsp-4) to [dsp-6](claims.md#dsp-6))"
    yield f"document space projection {projection}, but only MGD on each of the data."


def finding_7() -> Iterator[str]:
    of_labels = []
    for table in BOTH:
        for user in THREE:
            found = corrected("neural", table, user, TEST, "PairRank")
            assert not [
                n for n in learners("neural", table, user) if n in found and found[n][0] > 0 and found[n][1] < 0.05
            ]
            mean, p = found["network on the true labels"]
            of_labels += [table] if mean > 0 and p < 0.05 else []
    assert of_labels == ["generated"] * 3
    yield "no network that learns from clicks is significantly above linear PairRank**"
    yield "in any of the six tables of MQ2008 and generated data"
    yield "The network on the true labels is, in three."


def finding_8() -> Iterator[str]:
    def unfair(table: str, user: str, name: str) -> float:
        return float(row_for("fairness", table, user, name, "unfairness")["unfairness"].abs().mean())

    exp, co = "PairRank, FairExp .1", "IPS regression, FairCo .1"
    tables = [*BOTH, *(f"{table}, estimated" for table in BOTH)]
    costs = [
        100
        * (1 - value("fairness", table, user, exp, CUMULATIVE) / value("fairness", table, user, "PairRank", CUMULATIVE))
        for table in tables
        for user in THREE
    ]
    yield f"costs {min(costs):.0f} to {max(costs):.0f} % of cumulative NDCG"
    for user in THREE:
        ratio = unfair("MQ2008, estimated", user, co) / unfair("MQ2008, estimated", user, exp)
        assert 1 <= ratio < 1.02
    of_co = [unfair("MQ2008", user, co) for user in THREE]
    (of_exp,) = {short(unfair("MQ2008", user, exp), 2) for user in THREE} - {".28"}
    yield (
        "On MQ2008 FairCo with a gain of .1 ends as fair with estimated exposure; with 1 / rank it ends at "
        f"{min(of_co):.1f} to {max(of_co):.1f}, FairExp at {of_exp}."
    )


def finding_9() -> Iterator[str]:
    window, discount = (
        apart("drift", ("generated, reversed",), THREE, f"PairRank, {name}", "PairRank", CUMULATIVE)
        for name in ("window", "discount")
    )
    yield (
        f"on generated data with one reversal a window brings {with_half(window, 0)} of cumulative NDCG, and a "
        f"discount {with_half(discount, 0)}"
    )


def million() -> tuple[float, float]:
    """PDGD after a million rounds less RankNet on the true labels, which is in `linear`."""
    units, variance = [], 0.0
    for user in THREE:
        row = row_for("million", "MQ2008", user, "PDGD", TEST)
        units.append(by_unit(row, TEST) - by_unit(row_for("linear", "MQ2008", user, OF_LABELS, TEST), TEST))
        variance += spread("million", ("MQ2008", user, "PDGD"), row, TEST) ** 2 / 9
    mean = np.mean(units, axis=0)
    return float(mean.mean()), (half(mean) ** 2 + NORMAL**2 * variance) ** 0.5


def finding_10() -> Iterator[str]:
    mean, half_width = million()
    assert abs(mean) + half_width < 0.005
    over_dbgd = apart("million", ("MQ2008",), THREE, "PDGD", "DBGD", TEST)
    assert over_dbgd[0] > over_dbgd[1]
    yield "**After a million rounds on MQ2008 PDGD is equivalent to RankNet on the true labels**, within a margin of"
    yield f".005: it is {with_half((mean, half_width), 4)} above it, and above DBGD"


def count_of_verdicts() -> dict[str, int]:
    lines = dict(tables_in((published_dir() / "claims.md").read_text()))["Verdicts"]
    return {name: sum(int(line[name] or 0) for line in lines) for name in ("holds", "fails", "undecided")}


def index_in_five_lines() -> Iterator[str]:
    no_learner_is_better_than_pdgd()
    of = [
        with_half(apart("linear", tables, THREE, "PairRank", "PDGD", CUMULATIVE), 1)
        for tables in (FOUR, ("generated",), ("MQ2008",))
    ]
    yield (
        f"PairRank is {of[0]} of cumulative NDCG above PDGD on average over these data, {of[1]} on generated data and "
        f"{of[2]} on MQ2008."
    )
    mean, half_width = apart("users", ("MQ2008",), ("yandex_dcm",), "PairRank", "PDGD", CUMULATIVE)
    generated = with_half(apart("users", ("generated",), ("yandex_dcm",), "PairRank", "PDGD", CUMULATIVE), 0)
    below = f"{with_half((-mean, half_width), 0)} below PDGD on MQ2008"
    yield f"with those of Yandex PairRank is {below}, and {generated} above it on generated data."
    counts = count_of_verdicts()
    whole, holds, fails = sum(counts.values()), counts["holds"], counts["fails"]
    yield f"Of {whole} comparative claims of the papers {holds} hold and {fails} fail."
    told = r"from a difference of ([\d.]+) test NDCG@10 or ([\d.]+) cumulative"
    medians = re.search(told, text_of("benchmark/linear.md"))
    test, online = map(float, medians.groups())
    yield f"would have to differ by more than {test:.3f} test NDCG@10, or {online:.0f} of cumulative NDCG."


def verdicts() -> Iterator[str]:
    """Now, and on the data that decided before, by the mean alone and by the rule."""
    counts = count_of_verdicts()
    yield f"Of {sum(counts.values())} [claims](claims.md) of the papers {counts['holds']} hold."
    now, by_mean, by_rule = set(), set(), set()
    for claim in read_claims()[0]:
        now |= {claim.id} if verdict(judged(claim)) == HOLDS else set()
        before = [table for table in claim.datasets if table not in ("MQ2007_part", "OHSUMED")]
        pairs = judged(replace(claim, datasets=before))
        by_rule |= {claim.id} if verdict(pairs) == HOLDS else set()
        means = [verdict_of_interval(pair.mean, pair.half_width, claim.expect, claim.bound) for pair in pairs]
        by_mean |= {claim.id} if {*means} == {HOLDS} else set()
    assert now <= by_mean
    by_data = by_rule - now
    words = {4: "four", 7: "seven"}
    yield f"By means over MQ2008 and generated data {len(by_mean)} did: {words[len(by_mean - now - by_data)]} are"
    yield f"{words[len(by_data)]} by the new data."


def artifact() -> Iterator[str]:
    counts = count_of_verdicts()
    yield f"Verdicts on {sum(counts.values())} claims of 13 papers"
    yield "equal: {holds} hold, {fails} fail, {undecided} undecided".format(**counts)
    yield f"{counts['fails']} claims of papers fail here"


def real_users() -> Iterator[str]:
    def of_users(tables: tuple[str, ...], one: str, other: str, metric: str) -> list[tuple[float, float]]:
        users = (("linear", THREE), *(("users", (user,)) for user in REAL))
        found = {of[0]: apart(page, tables, of, one, other, metric) for page, of in users}
        return [found[user] for user in ("perfect", "yandex_dcm", "baidu_position")]

    for one, other, tables, data in (
        ("PairRank", "PDGD", ("MQ2008",), "MQ2008"),
        ("PairRank", "PDGD", ("MQ2007_part",), "MQ2007_part"),
        ("PairRank", "PDGD", ("OHSUMED",), "OHSUMED"),
        ("PairRank", "PDGD", ("generated",), "generated"),
        ("PairRank", "PairRank-Diag", BOTH, "mean of both"),
    ):
        cells = [with_half(pair, 0) for pair in of_users(tables, one, other, CUMULATIVE)]
        yield f"| {one} - {other} | {data} | {' | '.join(cells)} |"
    for other in ("PDGD", "PairRank"):
        three, *real = of_users(BOTH, "IPS regression", other, CUMULATIVE)
        cells = [with_half(three, 1), *(with_half(pair, 0) for pair in real)]
        yield f"| IPS regression - {other} | mean of both | {' | '.join(cells)} |"
    cells = [with_half(pair, 3) for pair in of_users(BOTH, "IPS regression", "PairRank", TEST)]
    yield f"| IPS regression - PairRank, test NDCG@10 | mean of both | {' | '.join(cells)} |"
    mq2008 = apart("linear", ("MQ2008",), THREE, "IPS regression", "PairRank", CUMULATIVE)
    yield f"With the three users on MQ2008 alone it is {with_half(mq2008, 1)} above PairRank."
    yield from validity_of_users()


def validity_of_users() -> Iterator[str]:
    title = "Validity of simulated users"
    agreements, correlations = (
        lines for of, lines in tables_in((published_dir() / "users.md").read_text()) if of == title
    )
    test, cumulative = (line for line in correlations if line["distance in"] == "last click")
    r = [line["r"].split()[0] for line in (test, cumulative)]
    yield f"the rank of the last click goes with agreement (r {r[0]} by test NDCG@10, {r[1]} by cumulative NDCG;"
    assert float(cumulative["MQ2008"]) > 0

    def shares(users: tuple[str, ...], name: str) -> list[float]:
        """Of the columns of the other users by this metric."""
        lines = (line for line in agreements if line["user"] in users)
        return [float(line[f"{other}, {name}"].split()[0]) for line in lines for other in REAL if other != line["user"]]

    (test, cumulative) = (sorted(shares(THREE, name)) for name in ("test NDCG@10", "cumulative NDCG"))
    yield f"order of a real one in {short(test[0], 2)} to {short(test[-1], 2)} of the pairs by test NDCG@10, and in "
    yield f"{short(cumulative[0], 2)} to {short(cumulative[-1], 2)} by cumulative NDCG."
    own = [
        float(line[f"{line['user']}, {name}"].split()[0])
        for line in agreements
        if line["user"] in REAL
        for name in ("test NDCG@10", "cumulative NDCG")
    ]
    yield f"A real user agrees with itself in {short(min(own), 2)} to {short(max(own), 2)}"
    both = [short(shares((REAL[0],), name)[0], 2) for name in ("test NDCG@10", "cumulative NDCG")]
    yield f"the two real ones with each other in {' and '.join(both)}:"


def forgetting() -> Iterator[str]:
    for table, title in (("reversed", "the first reversed"), ("unrelated", "nothing in common")):
        for metric, name, digits in ((CUMULATIVE, "cumulative NDCG", 0), (TEST, "test NDCG@10", 3)):
            of = [
                apart("drift", (f"generated, {table}",), THREE, f"PairRank, {what}", "PairRank", metric)
                for what in ("window", "discount")
            ]
            first = f"| {title} " if metric == CUMULATIVE else "| "
            yield f"{first}| {name} | {with_half(of[0], digits)} | {with_half(of[1], digits)} |"


def offline_is_not_online() -> Iterator[str]:
    def chosen(user: str, name: str, aim: str) -> tuple[dict[str, float], float]:
        row = rows_of("linear")["MQ2008", user, name, aim]
        of_roles = re.findall(r"((?:ranker|exploration)\.\w+)=([\d.]+)", row["words"][0])
        return {key: float(number) for key, number in of_roles}, by_unit(row, CUMULATIVE).mean()

    random_lists = {value("linear", "MQ2008", user, "random lists", CUMULATIVE) for user in THREE}
    yield f"random lists have {min(random_lists):.1f}"
    for user in ("navigational", "informational"):
        cells = []
        for aim in ("offline", "online"):
            settings, mean = chosen(user, "PairRank", aim)
            cells += [short(settings["exploration.alpha"], 2).rstrip("0"), f"{mean:.1f}"]
        yield f"| {user} | {' | '.join(cells)} |"
    perfect = [chosen("perfect", "PairRank", aim)[1] for aim in ("offline", "online")]
    yield f"With perfect clicks the two settings differ by {short(abs(perfect[0] - perfect[1]), 1)} of cumulative NDCG."
    noisy = {chosen(user, "epsilon-greedy", "offline")[0]["exploration.epsilon"] for user in THREE[1:]}
    assert noisy == {0.9}
    yield "Epsilon-greedy gets epsilon = .9 by validation with both noisy users. So with noisy clicks of MQ2008"
    (offline, at_offline), (online, at_online) = (chosen("perfect", "DBGD", aim) for aim in ("offline", "online"))
    yield (
        f"DBGD with perfect clicks has {at_offline:.0f} with {short(offline['ranker.learning_rate'], 3)}, selected by "
        f"validation, and {at_online:.0f} with {short(online['ranker.learning_rate'], 1)}, selected online."
    )


def other_lessons() -> Iterator[str]:
    runs = pl.read_parquet(published_dir() / "linear.parquet").explode("rows")
    pairs = runs.filter(pl.col("rows").is_in(["PairRank, offline", "PairRank, online"]))["pairs"]
    yield f".1 becomes {0.2 * pairs.min():,.0f} to {0.2 * pairs.max():,.0f} after 5,000 rounds of `linear`"
    row = row_for("linear", "MQ2008", "informational", "PDGD", TEST)
    within = row.group_by("fold").agg(pl.col(TEST).std())[TEST]
    low, high = within.min(), within.max()
    yield f"Within a fold of MQ2008 the standard deviation over seeds is {short(low, 3)} to {short(high, 3)}"
    three, ten = ([stats.t.ppf(0.975, n - 1) * sd / n**0.5 for sd in (low, high)] for n in (3, 10))
    yield (
        f"Three seeds then give ± {short(three[0], 2)} to ± {short(three[1], 2)}, as wide as rankers differ; ten give "
        f"± {short(ten[0], 3)} to ± {short(ten[1], 3)}."
    )
    below = [
        [
            value(page, "MQ2008", user, "PDGD", m) - value(page, "MQ2008", user, "random lists", m)
            for m in (TEST, CUMULATIVE)
        ]
        for page, users in (("linear", THREE), ("users", REAL))
        for user in users
    ]
    least = [min(of_user) for of_user in zip(*below, strict=True)]
    yield f"at least {short(np.floor(100 * least[0]) / 100, 2)} and {10 * np.floor(least[1] / 10):.0f} below PDGD"


def tuning_without_labels() -> Iterator[str]:
    found = clicks.costs_that_differ()
    assert len([key for key, (_, p) in found.items() if p < 0.05]) == 2
    p_with_choices = []
    for key, (values, _) in found.items():
        wide = (half(values) ** 2 + (NORMAL * clicks.spread_of_choices((key,), 0)) ** 2) ** 0.5
        t = stats.t.ppf(0.975, len(values) - 1) * abs(values.mean()) / wide
        p_with_choices.append(2 * stats.t.sf(t, len(values) - 1))
    assert len(found) * min(p_with_choices) > 0.05
    yield "2 of 60 costs are significant after Holm's correction; with both choices drawn again none is."
    lost, of_raw, average = [], [], []
    for (table, click, competitor, aim), values in clicks.rows().items():
        if aim == "raw":
            cells = clicks.choices().filter(table=table, click=click, competitor=competitor)
            means = dict(cells.group_by("settings").agg(pl.col("validation_ndcg_10").mean()).iter_rows())
            (chosen,) = (cell for cell in means if set(cell.split()) <= set(values["words"][0]))
            lost.append(max(means.values()) - np.mean(list(means.values())))
            if click == "informational":
                of_raw.append(max(means.values()) - means[chosen])
                average.append(lost[-1])
    yield f"an average cell of a grid has {short(np.mean(lost), 3)} less validation NDCG@10 than the best."
    yield (
        f"With `informational` users raw clicks lose {short(np.mean(of_raw), 3)} of it, and choose worse than an "
        f"average cell ({short(np.mean(average), 3)})."
    )
    keys = sorted({key[:3] for key in clicks.rows()})
    online, by_clicks, offline = (
        np.mean([clicks.rows()[*key, aim][CUMULATIVE].mean() for key in keys])
        for aim in ("online", "clicks", "offline")
    )
    yield (
        f"the one chosen by clicks loses {online - by_clicks:.1f} on average, and the one chosen by labels "
        f"{online - offline:.1f}."
    )


def findings_about_clicks() -> Iterator[str]:
    keys = sorted({(table, competitor) for table, _, competitor, _ in clicks.rows()})
    users = sorted(clicks.USERS)
    of = []
    for column in (0, 1):
        units = np.array([np.mean([clicks.costs_of_units(t, u, c, column).mean() for u in users]) for t, c in keys])
        of.append((units.mean(), half(units)))
    spread_of_all = clicks.spread_of_choices(tuple((t, u, c) for t, c in keys for u in users), 0)
    wide = (of[0][1] ** 2 + (NORMAL * spread_of_all) ** 2) ** 0.5
    counts = clicks.choices().group_by("table", "click", "competitor").len()["len"] * 500
    yield (
        f"costs no test NDCG@10 on average: {short(of[0][0], 4, '+')} ± {short(of[0][1], 4)}, with the selection ± "
        f"{short(wide, 4)}, by {counts.min():,} to {counts.max():,} sessions a choice."
    )
    yield f"Raw clicks cost {with_half(of[1], 3)}"


def reproduced() -> Iterator[str]:
    pairs = [
        [value("linear", table, "perfect", name, TEST) for name in ("PairRank", OF_LABELS)] for table in BOTH[::-1]
    ]
    texts = [" and ".join(short(mean, 3) for mean in pair) for pair in pairs]
    yield f"{texts[0]} on generated data, {texts[1]} on MQ2008 (benchmark, T = 5,000)"
    shuffled = apart("linear", FOUR, THREE, "PairRank", "PairRank_R", TEST)
    yield f"also after 5,000 rounds, {with_half(shuffled, 3)} (benchmark)"
    generated, mq2008 = (apart("linear", (t,), THREE, "SGD RankNet", "PDGD", TEST) for t in ("generated", "MQ2008"))
    yield (
        f"also after 5,000 rounds on generated data ({with_half(generated, 3)}); on MQ2008 it is "
        f"{with_half((-mq2008[0], mq2008[1]), 3)} below (benchmark)"
    )
    p = {user: corrected("linear", "MQ2008", user, CUMULATIVE, "PDGD")["PairRank"][1] for user in THREE}
    of_generated = corrected("linear", "generated", "informational", CUMULATIVE, "PDGD")["PairRank"][1]
    assert [user for user in THREE if p[user] >= 0.05] == ["navigational", "informational"]
    assert of_generated >= 0.05
    yield "after 5,000 PDGD is not significantly different from it with informational clicks, on MQ2008 neither with "
    epsilon = apart("linear", FOUR, THREE, "epsilon-greedy", "SGD RankNet", CUMULATIVE)
    yield f"it is not below SGD RankNet ({epsilon[0]:+.1f} ± {epsilon[1]:.1f}, benchmark)"
    of = [apart("linear", (table,), THREE, "SGD RankNet", "PDGD", CUMULATIVE) for table in BOTH[::-1]]
    texts = [f"{mean:+.1f} ± {half_width:.1f}" for mean, half_width in of]
    yield f"undecided after 5,000 rounds, {texts[0]} on generated data, {texts[1]} on MQ2008 (benchmark)"
    of_users = [apart("linear", ("generated",), (user,), "SGD RankNet", "PDGD", CUMULATIVE)[0] for user in THREE]
    yield "{:+.0f}, {:+.0f} and {:+.0f} at T = 5,000 on generated data (benchmark)".format(*of_users)
    networks = [
        apart("neural", BOTH, THREE, name, "PairRank", TEST) for name in ("olRankNet, alpha chosen", "olRankNet")
    ]
    yield (
        f"after 5,000 where its alpha is selected, too ({with_half(networks[0], 3)}; with alpha = .01 "
        f"{with_half(networks[1], 3)}, benchmark)"
    )
    of_dbgd = [apart("million", ("MQ2008",), (user,), "PDGD", "DBGD", TEST)[0] for user in THREE]
    yield (
        f"after a million on MQ2008 {short(min(of_dbgd), 3)} to {short(max(of_dbgd), 3)} above DBGD, "
        f"{with_half(apart('million', ('MQ2008',), THREE, 'PDGD', 'DBGD', TEST), 3)} on average (benchmark)"
    )


def diagonal() -> Iterator[str]:
    of = {
        table: [apart("linear", (table,), (user,), "PairRank-Diag", "PDGD", CUMULATIVE)[0] for user in THREE]
        for table in BOTH
    }
    yield "generated, 120 documents a query | {:.0f}, {:.0f} and {:.0f} |".format(*of["generated"])
    yield f"MQ2008, 19 documents | {min(of['MQ2008']):.0f} to {max(of['MQ2008']):.0f} |"


def notes() -> Iterator[str]:
    above = [value("neural", "generated", user, "network on the true labels", TEST) for user in THREE]
    above = [
        mean - value("neural", "generated", user, "PairRank", TEST) for mean, user in zip(above, THREE, strict=True)
    ]
    yield (
        "No network that learns from clicks is significantly above PairRank in any of the six tables; the one on the "
        f"true labels is, in the three of generated data, by {short(min(above), 3)} to {short(max(above), 3)}."
    )
    noisy, three = (apart("linear", FOUR, users, "COLTR", "PDGD", CUMULATIVE) for users in (THREE[1:], THREE))
    yield (
        f"Online COLTR is {-noisy[0]:.0f} ± {noisy[1]:.0f} below PDGD with these users, and {-three[0]:.0f} ± "
        f"{three[1]:.0f} with the three."
    )
    yield f"{with_half(million(), 4)} above RankNet on the true labels (.5035)"
    network = [apart("neural", BOTH, THREE, "PDGD, network", "PDGD", metric) for metric in (CUMULATIVE, TEST)]
    yield (
        f"PDGD with a network is {-network[0][0]:.0f} ± {network[0][1]:.0f} below linear PDGD online, and "
        f"{short(-network[1][0], 3)} ± {short(network[1][1], 3)} on test queries."
    )
    of_sum = apart("linear", FOUR, THREE, "PairRank, sum", "PairRank", CUMULATIVE)
    assert abs(of_sum[0]) < of_sum[1]
    yield f"is not significantly different from it ({of_sum[0]:+.1f} ± {of_sum[1]:.1f})."
    below = {table: -apart("linear", (table,), THREE, "PairRank-Diag", "PDGD", CUMULATIVE)[0] for table in FOUR}
    yield (
        f"PairRank-Diag is {below['MQ2008']:.0f} below PDGD online on MQ2008, {below['MQ2007_part']:.0f} on "
        f"MQ2007_part and {below['OHSUMED']:.0f} on OHSUMED, and {-below['generated']:.0f} above it on generated data."
    )
    projected = apart("linear", ("MQ2008",), THREE, "MGD, DSP", "MGD", CUMULATIVE)
    yield f"On MQ2008 alone only the {with_half(projected, 1)} of MGD"


FINDINGS = (
    finding_1,
    finding_2,
    finding_3,
    finding_4,
    finding_5,
    finding_6,
    finding_7,
    finding_8,
    finding_9,
    finding_10,
)
FINDINGS += (verdicts, offline_is_not_online, other_lessons, findings_about_clicks)
SENTENCES: list[tuple[str, Callable[[], Iterator[str]]]] = [
    *(("benchmark/findings.md", sentences) for sentences in FINDINGS),
    ("benchmark/README.md", index_in_five_lines),
    ("explanation/tuning_without_labels.md", tuning_without_labels),
    ("reference/reproduced.md", reproduced),
    ("explanation/reproduced.md", diagonal),
    ("benchmark/claims.yaml", notes),
    ("how-to/reproduce.md", artifact),
    ("algorithms/real_users.md", real_users),
    ("algorithms/forgetting.md", forgetting),
]


@pytest.mark.parametrize(("page", "sentences"), SENTENCES, ids=[sentences.__name__ for _, sentences in SENTENCES])
def test_sentences_are_those_of_the_raw_values(page, sentences):
    for sentence in sentences():
        assert sentence in text_of(page)


def test_findings_are_one_page():
    assert len((published_dir() / "findings.md").read_text().split()) <= 1300


def test_the_dissertation_has_its_title():
    """In the citation of recipes, on pages and in claims.yaml."""
    title = "Toward Reliable Decision-making in Information Systems"
    assert title in PAPERS["dissertation"][1]
    assert title in yaml.safe_load((published_dir() / "claims.yaml").read_text())["papers"]["dissertation"]["title"]
    for page in DOCS.glob("**/*.md"):
        for quoted in re.findall(r'dissertation, "([^"]*)"', " ".join(page.read_text().split())):
            assert quoted.rstrip(",.") == title, page
