"""`ol2r benchmark claims [PAPER]`: what papers claim about rankers, and whether the published results show it.

docs/benchmark/claims.yaml has the claims, and in its first lines the rule by which a verdict is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import log2
from typing import Any, NamedTuple

import yaml

from ol2r_cli.formatting import must_be_one_of, plus_minus, wrapped
from ol2r_cli.lazy import pl
from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.program import as_called
from ol2r_cli.recipes.choice_spread import with_choice
from ol2r_cli.recipes.entries import Entry, for_metric, tables_of
from ol2r_cli.recipes.pages import outdated
from ol2r_cli.recipes.results import published, published_choices, published_dir
from ol2r_cli.report.estimates import of_values
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.run import DONE
from ol2r_cli.text_table import show

HOLDS, FAILS, UNDECIDED, UNKNOWN = "holds", "fails", "undecided", "not published"
_LEAST_UNFAIRNESS = 1e-3  # below it, unfairness is taken as equal


class Pair(NamedTuple):
    """One row minus another: the mean difference, half its 95 % interval, and the verdict."""

    row: str
    against: str
    mean: float
    half_width: float
    verdict: str


def read_claims(paper: str = "") -> dict[str, Any]:
    """Return the content of claims.yaml, its claims those of a paper if one is named; ValueError for an unknown one."""
    content = yaml.safe_load((published_dir() / "claims.yaml").read_text(encoding="utf-8"))
    if not paper:
        return content
    names = {name.lower(): name for name in content["papers"]}
    if paper.lower() not in names:
        raise ValueError(must_be_one_of("PAPER", [*names.values()], paper))
    for part in ("claims", "not_measured"):
        content[part] = [claim for claim in content[part] if claim["paper"] == names[paper.lower()]]
    return content


@cache
def _page(name: str) -> dict[tuple[str, str], list[Entry]]:
    return tables_of(published(name), published_choices(name))


def judged(claim: Mapping[str, Any], content: Mapping[str, Any]) -> list[Pair]:
    """Return the pairs of rows that a claim compares; empty where the page lacks a row or a unit."""
    bound = content["bound"].get(claim["metric"], 0)
    pairs = []
    for row, against in product(claim["rows"], claim["against"]):
        of_datasets = [_difference(claim, content, dataset, row, against) for dataset in _datasets(claim, content)]
        known = [difference for difference in of_datasets if difference is not None]
        if len(known) < len(of_datasets):
            return []
        mean = sum(difference.mean for difference in known) / len(known)
        half_width = sum(difference.half_width**2 for difference in known) ** 0.5 / len(known)
        pairs.append(Pair(row, against, mean, half_width, verdict_of_pair(mean, half_width, claim["expect"], bound)))
    return pairs


class _Difference(NamedTuple):
    mean: float
    half_width: float


def _difference(
    claim: Mapping[str, Any], content: Mapping[str, Any], dataset: str, row: str, against: str
) -> _Difference | None:
    """Return the difference of two rows on a dataset, the mean over users; None where a row or units are missing."""
    metric = claim["metric"]
    users = _users(claim, content)
    by_unit: dict[tuple[Any, int], list[float]] = {}
    variance_of_choice = 0.0
    for user in users:
        rows = for_metric(_page(claim["page"]).get((dataset, user), ()), metric)
        if row not in rows or against not in rows:
            return None
        values = _values(rows[row], metric)
        values_against = _values(rows[against], metric)
        for unit in values.keys() & values_against.keys():
            by_unit.setdefault(unit, []).append(values[unit] - values_against[unit])
        for name in (row, against):
            variance_of_choice += (_spread(rows[name], metric) / len(users)) ** 2
    estimate = of_values({unit: sum(values) / len(values) for unit, values in by_unit.items()})
    if estimate is None or estimate.half_width is None or estimate.units < LEAST_UNITS:
        return None
    return _Difference(estimate.mean, with_choice(estimate.half_width, variance_of_choice**0.5))


def _datasets(claim: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    return list(claim.get("datasets", content["pages"][claim["page"]]["datasets"]))


def _users(claim: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    return list(claim.get("users", content["users"]))


def _values(row: Entry, metric: str) -> dict[tuple[Any, int], float]:
    values = row.group.values(metric)
    if metric != "unfairness":
        return values
    return {unit: log2(max(abs(value), _LEAST_UNFAIRNESS)) for unit, value in values.items()}


def _spread(row: Entry, metric: str) -> float:
    """Return what the choice of settings adds to the standard error of `_values`."""
    if metric == "unfairness" and row.choices is not None:
        powers = pl.col(metric).abs().clip(_LEAST_UNFAIRNESS).log(2)
        row = row._replace(choices=row.choices.with_columns(powers))
    return row.spread(metric)


def verdict_of_pair(mean: float, half_width: float, expect: str, bound: float) -> str:
    """Return whether a difference is as expected: higher, lower, much higher, much lower or level.

    The ends of the interval belong to it: an end that is the bound is within it for level, and not beyond it for much.
    """
    low, high = mean - half_width, mean + half_width
    if expect == "level":
        holds = max(-low, high) <= bound
        fails = low > bound or high < -bound
    else:
        if expect.endswith("lower"):
            low, high = -high, -low
        due = bound if expect.startswith("much") else 0
        holds = low > due
        fails = high < due
    if holds:
        return HOLDS
    return FAILS if fails else UNDECIDED


def verdict(pairs: Sequence[Pair]) -> str:
    """Return that of a claim: it holds if all of its pairs hold, and fails if one fails."""
    if not pairs:
        return UNKNOWN
    verdicts = {pair.verdict for pair in pairs}
    if FAILS in verdicts:
        return FAILS
    return HOLDS if verdicts == {HOLDS} else UNDECIDED


def show_claims(paper: str = "") -> int:
    """Print the verdict of each claim; of a paper's also its words, and the differences that decide; return DONE."""
    content = read_claims(paper)
    pairs_of_claims = [(claim, judged(claim, content)) for claim in content["claims"]]
    if paper:
        for claim, pairs in pairs_of_claims:
            _show_claim(claim, pairs, content)
        for claim in content["not_measured"]:
            _show_not_measured(claim)
        meaning = "a mean over users and data ± half its 95 % interval, the choice of settings included"
        stand_in = "For test NDCG@10 the spread of validation NDCG@10 over choices stands in"
        print(wrapped(f"A difference is {meaning}. {stand_in}."))
    else:
        show([(claim["id"], verdict(pairs), _expected(claim, content)) for claim, pairs in pairs_of_claims])
        print()
        print(wrapped(as_called("words, users and differences: type ol2r benchmark claims PAPER, such as PairRank")))
    for page in dict.fromkeys(claim["page"] for claim in content["claims"]):
        warning = outdated(_page(page))
        if warning:
            print(f"page {page}: {warning}")
    counts = Counter(verdict(pairs) for _, pairs in pairs_of_claims)
    total = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
    print(wrapped(f"{total or 'no claim is measured'}; the rule: first lines of {published_dir() / 'claims.yaml'}"))
    return DONE


def _show_claim(claim: Mapping[str, Any], pairs: Sequence[Pair], content: Mapping[str, Any]) -> None:
    print(f"{claim['id']}  {verdict(pairs).upper()}  {claim['paper']}, {claim['section']}")
    _print_indented(claim["says"])
    data = " and ".join(_datasets(claim, content))
    users = _users(claim, content)
    _print_indented(f"{_expected(claim, content)}; page {claim['page']}: {data}, {', '.join(users)} users")
    if "conditions" in claim:
        _print_indented(claim["conditions"])
    for pair in pairs:
        difference = plus_minus(pair.mean, pair.half_width, digits(claim["metric"]), "+")
        print(f"    {difference}  {pair.row} - {pair.against}: {pair.verdict}")
    print()


def _show_not_measured(claim: Mapping[str, Any]) -> None:
    print(f"not measured  {claim['paper']}, {claim['section']}")
    _print_indented(claim["says"])
    _print_indented(claim["reason"])
    print()


def _print_indented(text: str) -> None:
    print(wrapped(f"    {text}", 4))


def _expected(claim: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Return what would be measured if the claim held, with the bound."""
    metric, expect = claim["metric"], claim["expect"]
    unit = "powers of two of unfairness" if metric == "unfairness" else heading(metric)
    bound = f"{content['bound'].get(metric, 0):g}"
    if expect == "level":
        direction = f"within {bound} of"
    elif expect.startswith("much"):
        direction = f"more than {bound} {expect.removeprefix('much ')} than"
    else:
        direction = f"{expect} than"
    return f"{unit}: {'; '.join(claim['rows'])} {direction} {'; '.join(claim['against'])}"
