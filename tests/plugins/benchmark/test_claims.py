"""Claims of papers: every verdict again from the raw values, without the code of the report."""

from __future__ import annotations

import math
from itertools import product

import polars as pl
import pytest
import yaml
from scipy import stats

from ol2r_cli.plugins.benchmark import claims, results
from ol2r_cli.plugins.benchmark.benchmark import main
from ol2r_cli.plugins.benchmark.differences import Difference, spread_of_choice
from ol2r_cli.plugins.benchmark.results import published_dir
from tests.plugins.benchmark.small import published_in

CONTENT = yaml.safe_load((published_dir() / "claims.yaml").read_text())


def of_row(page: str, dataset: str, user: str, row: str, metric: str) -> dict[tuple[int | None, int], float]:
    """The values of a row by fold and seed, from the rows of the file alone."""
    aim = "offline" if metric.startswith("test_") else "online"
    values = pl.read_parquet(published_dir() / f"{page}.parquet").filter(click=user)
    named = pl.col("about").str.contains(f'"table": "{dataset}", "competitor": "{row}"', literal=True)
    names = pl.col("rows").list
    found = values.filter(named & (names.contains(f"{row}, {aim}") | names.contains(row)))
    return {(fold, seed): value for fold, seed, value in found.select("fold", "seed", metric).iter_rows()}


def spread(page: str, dataset: str, user: str, row: str, metric: str) -> float:
    choices = results.published_choices(page)
    assert choices is not None
    if metric == "unfairness":
        powers = [math.log2(max(abs(value), 0.001)) for value in choices[metric]]
        choices = choices.with_columns(pl.Series(metric, powers))
    unstable = [f"ranker.learning_rate={rate}" for rate in (1, 3, 9, 10)] if row == "PDGD" else []
    return spread_of_choice(choices.filter(table=dataset, click=user, competitor=row), metric, unstable)


def by_hand(claim: dict, row: str, against: str) -> list[tuple[float, float]]:
    """Mean difference and half the interval of one pair of rows on each dataset; none where a row is not published."""
    page, metric = claim["page"], claim["metric"]
    parts = []
    for dataset in claim.get("datasets", CONTENT["pages"][page]["datasets"]):
        differences: dict[tuple[int | None, int], list[float]] = {}
        variance, users = 0.0, claim.get("users", CONTENT["users"])
        for user in users:
            own, other = (of_row(page, dataset, user, name, metric) for name in (row, against))
            if not own or not other:
                return []
            if metric == "unfairness":
                own, other = ({u: math.log2(max(abs(v), 0.001)) for u, v in of.items()} for of in (own, other))
            for unit in own:
                differences.setdefault(unit, []).append(own[unit] - other[unit])
            variance += sum(spread(page, dataset, user, name, metric) ** 2 for name in (row, against)) / len(users) ** 2
        frame = pl.DataFrame([(fold, sum(each) / len(each)) for (fold, _), each in differences.items()], orient="row")
        units = frame["column_1"] if frame["column_0"].null_count() else frame.group_by("column_0").mean()["column_1"]
        t = stats.t.ppf(0.975, len(units) - 1) * units.std() / len(units) ** 0.5
        parts.append((units.mean(), (t**2 + stats.norm.ppf(0.975) ** 2 * variance) ** 0.5))
    return parts


def place(mean: float, half_width: float, expect: str, bound: float) -> str:
    """Whether an interval is wholly where a claim has it, wholly elsewhere, or neither."""
    low, high = sorted([mean - half_width, mean + half_width])
    if expect == "equivalent":
        inside, outside = low >= -bound and high <= bound, low > bound or high < -bound
    else:
        sign, due = 1 if "higher" in expect else -1, bound if "much" in expect else 0
        inside, outside = min(sign * low, sign * high) > due, max(sign * low, sign * high) < due
    return "inside" if inside else "outside" if outside else "neither"


def by_rule(parts: list[tuple[float, float]], expect: str, bound: float) -> tuple[str, int, bool]:
    """The verdict of a pair by the rule of protocol.md, how many sets agree, and whether it depends on the data."""
    mean = sum(mean for mean, _ in parts) / len(parts)
    of_mean = place(mean, sum(half**2 for _, half in parts) ** 0.5 / len(parts), expect, bound)
    own = [place(*part, expect, bound) for part in parts]
    agree = [place(mean, 0, expect, bound) for mean, _ in parts].count("inside")
    verdict = "undecided"
    if of_mean == "inside" and "outside" not in own and 2 * agree > len(parts):
        verdict = "holds"
    if of_mean == "outside" and "inside" not in own:
        verdict = "fails"
    return verdict, agree, "inside" in own and "outside" in own


@pytest.mark.slow
def test_every_verdict_follows_from_the_raw_values():
    decided = 0
    read, _ = claims.read_claims()
    for claim, of_file in zip(CONTENT["claims"], read, strict=True):
        pairs = claims.judged(of_file)
        bound = CONTENT["bound"].get(claim["metric"], 0)
        verdicts = []
        for (row, against), pair in zip(product(claim["rows"], claim["against"]), pairs, strict=bool(pairs)):
            parts = by_hand(claim, row, against)
            assert [(each.mean, each.half_width) for each in pair.by_dataset] == [
                pytest.approx(part, rel=1e-5) for part in parts
            ], claim["id"]
            mean, variance = (sum(part) / len(parts) for part in zip(*((m, half**2) for m, half in parts), strict=True))
            assert (pair.mean, pair.half_width) == pytest.approx((mean, (variance / len(parts)) ** 0.5), rel=1e-5)
            expected = by_rule(parts, claim["expect"], bound)
            assert (pair.verdict, pair.agree, pair.depends_on_data) == expected, (claim["id"], row, against)
            verdicts.append(pair.verdict)
        expected = "fails" if "fails" in verdicts else "holds" if set(verdicts) == {"holds"} else "undecided"
        assert claims.verdict(pairs) == (expected if pairs else "not published"), claim["id"]
        decided += bool(pairs)
    assert decided >= 20


HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


@pytest.mark.parametrize(
    ("expect", "of_intervals"),
    [
        ("higher", {(0.125, 0.375): HOLDS, (0, 0.5): UNDECIDED, (-0.5, 0): UNDECIDED, (-0.375, -0.125): FAILS}),
        ("much higher", {(0.75, 1.25): HOLDS, (0.5, 1.5): UNDECIDED, (0, 0.5): UNDECIDED, (0.125, 0.375): FAILS}),
        (
            "equivalent",
            {
                **{(-0.5, 0.5): HOLDS, (0, 0.5): HOLDS, (-0.25, 0.75): UNDECIDED, (-1, 1): UNDECIDED},
                **{(0.5, 1.5): UNDECIDED, (0.75, 1.25): FAILS},
            },
        ),
    ],
)
def test_the_words_of_a_claim(expect, of_intervals):
    """With a bound of .5; an interval that ends at a bound is within it for equivalent, and not beyond it for much."""
    opposite = {"higher": "lower", "much higher": "much lower", "equivalent": "equivalent"}[expect]
    for (low, high), verdict in of_intervals.items():
        mean, half_width = (low + high) / 2, (high - low) / 2
        assert claims.verdict_of_interval(mean, half_width, expect, 0.5) == verdict, (low, high)
        assert claims.verdict_of_interval(-mean, half_width, opposite, 0.5) == verdict, (-high, -low)


# Each case: intervals of sets of data, the verdict on "higher", how many agree, whether it depends on the data.
@pytest.mark.parametrize(
    ("intervals", "told"),
    [
        ([(0.1, 0.3), (0.2, 0.4), (-0.1, 0.3)], (HOLDS, 3, False)),
        ([(0.1, 0.3), (0.8, 1.2), (-0.2, 0.1)], (HOLDS, 2, False)),
        ([(0.1, 0.3), (0.8, 1.2), (-0.2, -0.1)], (UNDECIDED, 2, True)),  # one is wholly below
        ([(0.8, 1.2), (-0.2, 0.1)], (UNDECIDED, 1, False)),  # half of two are no more than half
        ([(-0.3, -0.1), (-0.5, 0.1), (-0.1, 0.3)], (UNDECIDED, 1, False)),  # the mean may be 0
        ([(-0.3, -0.1), (-1.2, -0.8), (-0.1, 0.2)], (FAILS, 1, False)),
        ([(-0.3, -0.1), (-1.2, -0.8), (0.1, 0.2)], (UNDECIDED, 1, True)),  # one is wholly above
        ([(0.1, 0.3)], (HOLDS, 1, False)),
    ],
)
def test_sets_of_data_decide_together(intervals, told):
    by_dataset = [Difference((low + high) / 2, (high - low) / 2, 0.5, 4) for low, high in intervals]
    pair = claims.pair_of("a", "b", by_dataset, "higher", 0)
    assert (pair.verdict, pair.agree, pair.depends_on_data) == told
    opposite = [each._replace(mean=-each.mean) for each in by_dataset]
    assert claims.pair_of("b", "a", opposite, "lower", 0).verdict == told[0]


def test_claims_are_complete():
    ids = [claim["id"] for claim in CONTENT["claims"]]
    assert len(ids) == len(set(ids)) >= 40
    for claim in CONTENT["claims"]:
        assert claim["paper"] in CONTENT["papers"], claim["id"]
        assert claim["page"] in CONTENT["pages"], claim["id"]
        assert claim["expect"] in ("higher", "lower", "equivalent", "much higher", "much lower"), claim["id"]
        assert claim["metric"] in CONTENT["bound"], claim["id"]


def test_claims_of_a_paper_are_printed(capsys):
    assert main(["claims", "NSGD"]) == 0
    out = capsys.readouterr().out
    assert "nsgd-1  " in out
    assert "pairrank-1  " not in out
    assert main(["claims", "PairRnk"]) == 2
    assert "PAPER PairRnk: did you mean PairRank?" in capsys.readouterr().err
    assert main(["claims", "NSGD", "--run"]) == 2
    assert "no options: type ol2r benchmark claims" in capsys.readouterr().err


def test_another_folder_of_results_is_read_anew(tmp_path, monkeypatch):
    """What one folder lacks is not remembered for another."""
    claim = next(claim for claim in claims.read_claims()[0] if claim.page == "million")
    published_in(tmp_path, monkeypatch)
    assert not claims.judged(claim)
    monkeypatch.undo()
    assert claims.judged(claim)
