"""`ol2r benchmark claims [PAPER]`: what papers claim about rankers, and whether the published results show it.

docs/benchmark/claims.yaml has the claims, and in its first lines the rule by which a verdict is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ol2r_cli.lazy import pl
from ol2r_cli.plugins.benchmark import results
from ol2r_cli.plugins.benchmark.differences import Difference, for_metric, mean_difference, spread
from ol2r_cli.plugins.benchmark.results import Row, Tables, published, published_dir, tables_of
from ol2r_cli.plugins.benchmark.tables import outdated
from ol2r_cli.report.estimates import Values
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.run import DONE
from ol2r_cli.text.formatting import must_be_one_of, plus_minus, wrapped
from ol2r_cli.text.program import as_called
from ol2r_cli.text.table import show

HOLDS, FAILS, UNDECIDED, UNKNOWN = "holds", "fails", "undecided", "not published"
MEANING = (
    "A difference is a mean over users and data ± half its 95 % interval, which contains model selection. For test "
    "NDCG@10 the spread of validation NDCG@10 stands in. Data agree where their own mean is as the claim has it."
)
_LEAST_UNFAIRNESS = 1e-3  # below it, unfairness is taken as equal


@dataclass(frozen=True)
class Claim:
    """A claim of a paper: each of `rows` minus each of `against` is as expected.

    expect: higher, lower, much higher, much lower or equivalent; much and equivalent are by the bound of the metric.
    note: what was measured beside it, which decides nothing.
    """

    id: str
    paper: str
    section: str
    says: str
    page: str
    metric: str
    rows: list[str]
    against: list[str]
    expect: str
    datasets: list[str]
    users: list[str]
    bound: float
    conditions: str = ""
    note: str = ""


class Pair(NamedTuple):
    """One row minus another: the mean difference over data, half its 95 % interval, and the verdict.

    by_dataset: the differences of which it is the mean.
    agree: how many of them are where the claim has them, by their own mean.
    depends_on_data: whether one interval is wholly where the claim has it, and another wholly elsewhere.
    """

    row: str
    against: str
    mean: float
    half_width: float
    verdict: str
    by_dataset: Sequence[Difference]
    agree: int
    depends_on_data: bool


@cache
def claims_file() -> dict[str, Any]:
    """Return what claims.yaml has: bound, users, pages, papers, claims and not_measured."""
    return dict(yaml.safe_load((published_dir() / "claims.yaml").read_text(encoding="utf-8")))


def read_claims(paper: str = "") -> tuple[list[Claim], list[dict[str, str]]]:
    """Return the claims of a paper, by default of all, and those that no page decides; ValueError for another paper.

    A claim that no page decides has the paper, the section, its words (`says`) and the reason.
    """
    content = claims_file()
    names = {name.lower(): name for name in content["papers"]}
    if paper and paper.lower() not in names:
        raise ValueError(must_be_one_of("PAPER", [*names.values()], paper))
    wanted = [names[paper.lower()]] if paper else names.values()
    claims = []
    for fields in content["claims"]:
        if fields["paper"] in wanted:
            usual = {
                "datasets": content["pages"][fields["page"]]["datasets"],
                "users": content["users"],
                "bound": content["bound"].get(fields["metric"], 0),
            }
            claims.append(Claim(**{**usual, **fields}))
    return claims, [fields for fields in content["not_measured"] if fields["paper"] in wanted]


def _page(name: str) -> Tables:
    """Return the published tables of a page, which are read once from each folder."""
    return _tables(name, results.published_dir())


@cache
def _tables(name: str, folder: Path) -> Tables:
    return tables_of(published(name))


def judged(claim: Claim) -> list[Pair]:
    """Return the pairs of rows that a claim compares; empty where the page lacks a row or a unit."""
    pairs = []
    for row, against in product(claim.rows, claim.against):
        differences = [_difference(claim, dataset, row, against) for dataset in claim.datasets]
        known = [difference for difference in differences if difference is not None]
        if len(known) < len(differences):
            return []
        pairs.append(pair_of(row, against, known, claim.expect, claim.bound))
    return pairs


def pair_of(row: str, against: str, by_dataset: Sequence[Difference], expect: str, bound: float) -> Pair:
    """Return the verdict on the mean of differences, one for each dataset (protocol.md, Five sets of data, rules 1-5).

    It is that of the interval of the mean, but undecided where the interval of one dataset decides the opposite, and
    where it would hold without more than half of the datasets.
    """
    mean = sum(difference.mean for difference in by_dataset) / len(by_dataset)
    half_width = sum(difference.half_width**2 for difference in by_dataset) ** 0.5 / len(by_dataset)
    of_mean = verdict_of_interval(mean, half_width, expect, bound)
    own = {verdict_of_interval(each.mean, each.half_width, expect, bound) for each in by_dataset}
    agree = sum(verdict_of_interval(each.mean, 0, expect, bound) == HOLDS for each in by_dataset)
    is_contradicted = {HOLDS: FAILS, FAILS: HOLDS}.get(of_mean) in own
    too_few_agree = of_mean == HOLDS and agree <= len(by_dataset) / 2
    found = UNDECIDED if is_contradicted or too_few_agree else of_mean
    return Pair(row, against, mean, half_width, found, by_dataset, agree, {HOLDS, FAILS} <= own)


def _difference(claim: Claim, dataset: str, row: str, against: str) -> Difference | None:
    """Return the difference of two rows on a dataset, the mean over users; None where a row or units are missing."""
    by_unit: dict[tuple[object, int], list[float]] = {}
    spreads: list[float] = []
    for user in claim.users:
        rows = for_metric(_page(claim.page).get((dataset, user), ()), claim.metric)
        if row not in rows or against not in rows:
            return None
        values = _values(rows[row], claim.metric)
        values_against = _values(rows[against], claim.metric)
        for unit in values.keys() & values_against.keys():
            by_unit.setdefault(unit, []).append(values[unit] - values_against[unit])
        spreads += [_spread(rows[name], claim.metric) / len(claim.users) for name in (row, against)]
    return mean_difference({unit: sum(values) / len(values) for unit, values in by_unit.items()}, *spreads)


def _values(row: Row, metric: str) -> Values:
    values = row.group.values(metric)
    if metric != "unfairness":
        return values
    return {unit: log2(max(abs(value), _LEAST_UNFAIRNESS)) for unit, value in values.items()}


def _spread(row: Row, metric: str) -> float:
    """Return what the choice of settings adds to the standard error of `_values`."""
    if metric == "unfairness" and row.choices is not None:
        powers = pl.col(metric).abs().clip(_LEAST_UNFAIRNESS).log(2)
        row = replace(row, choices=row.choices.with_columns(powers))
    return spread(row, metric)


def verdict_of_interval(mean: float, half_width: float, expect: str, bound: float) -> str:
    """Return whether an interval is as expected: higher, lower, much higher, much lower or equivalent.

    The ends of the interval belong to it: an end that is the bound is within it for equivalent, and not beyond it for
    much.
    """
    if expect == "equivalent":
        holds = abs(mean) + half_width <= bound
        fails = abs(mean) - half_width > bound
    else:
        due = bound if expect.startswith("much") else 0
        expected = -mean if expect.endswith("lower") else mean
        holds = expected - half_width > due
        fails = expected + half_width < due
    if holds:
        return HOLDS
    return FAILS if fails else UNDECIDED


def verdict(pairs: Sequence[Pair]) -> str:
    """Return the verdict of a claim: it fails if one of its pairs fails, and holds if all of them hold."""
    verdicts = {pair.verdict for pair in pairs}
    return next((decisive for decisive in (FAILS, UNDECIDED, HOLDS) if decisive in verdicts), UNKNOWN)


def show_claims(paper: str = "") -> int:
    """Print the verdict of each claim; of a paper's also its words, and the differences that decide; return DONE."""
    claims, not_measured = read_claims(paper)
    pairs_of_claims = [(claim, judged(claim)) for claim in claims]
    if paper:
        for claim, pairs in pairs_of_claims:
            _show_claim(claim, pairs)
        for fields in not_measured:
            print(f"not measured  {fields['paper']}, {fields['section']}")
            _print_indented(fields["says"], fields["reason"])
            print()
        print(wrapped(MEANING))
    else:
        show([(claim.id, verdict(pairs), expected(claim)) for claim, pairs in pairs_of_claims])
        print()
        print(wrapped(as_called("words, users and differences: type ol2r benchmark claims PAPER, such as PairRank")))
    for page in dict.fromkeys(claim.page for claim in claims):
        warning = outdated(chain(*_page(page).values()))
        if warning:
            print(f"page {page}: {warning}")
    counts = Counter(verdict(pairs) for _, pairs in pairs_of_claims)
    total = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
    print(wrapped(f"{total or 'no claim is measured'}; the rule: first lines of {published_dir() / 'claims.yaml'}"))
    return DONE


def _show_claim(claim: Claim, pairs: Sequence[Pair]) -> None:
    print(f"{claim.id}  {verdict(pairs).upper()}  {claim.paper}, {claim.section}")
    measured_on = f"page {claim.page}: {', '.join(claim.datasets)}; {', '.join(claim.users)} users"
    _print_indented(claim.says, f"{expected(claim)}; {measured_on}", claim.conditions)
    for pair in pairs:
        difference = plus_minus(pair.mean, pair.half_width, digits(claim.metric), "+")
        _print_indented(f"{difference}  {pair.row} - {pair.against}: {told(pair)}")
    _print_indented(claim.note)
    print()


def told(pair: Pair) -> str:
    """Return the verdict of a pair, on how many of several datasets its mean agrees, and whether it depends on them."""
    agree = f"{pair.agree} of {len(pair.by_dataset)} agree" if len(pair.by_dataset) > 1 else ""
    return ", ".join(filter(None, [pair.verdict, agree, "depends on the data" if pair.depends_on_data else ""]))


def _print_indented(*texts: str) -> None:
    for text in filter(None, texts):
        print(wrapped(f"    {text}", 4))


def unit_of(claim: Claim) -> str:
    """Return in which unit the differences of a claim are."""
    return "powers of two of unfairness" if claim.metric == "unfairness" else heading(claim.metric)


def expected(claim: Claim) -> str:
    """Return what would be measured if the claim held, with the bound."""
    unit = unit_of(claim)
    if claim.expect == "equivalent":
        direction = f"equivalent, within {claim.bound:g}, to"
    elif claim.expect.startswith("much"):
        direction = f"more than {claim.bound:g} {claim.expect.removeprefix('much ')} than"
    else:
        direction = f"{claim.expect} than"
    return f"{unit}: {'; '.join(claim.rows)} {direction} {'; '.join(claim.against)}"
