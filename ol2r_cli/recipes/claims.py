"""`ol2r benchmark claims [PAPER]`: what papers claim about rankers, and whether the published results show it.

docs/benchmark/claims.yaml has the claims, and in its first lines the rule by which a verdict is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from math import log2
from typing import Any, NamedTuple

import yaml

from ol2r_cli.formatting import must_be_one_of, plus_minus, wrapped
from ol2r_cli.lazy import pl
from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.program import as_called
from ol2r_cli.recipes.choices import with_choice
from ol2r_cli.recipes.pages import Entry, for_metric, outdated, tables_of
from ol2r_cli.recipes.results import published, published_choices, published_dir
from ol2r_cli.report.estimates import of_values
from ol2r_cli.report.measures import digits, heading
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
    names = {each.lower(): each for each in content["papers"]}
    if paper and paper.lower() not in names:
        raise ValueError(must_be_one_of("PAPER", [*names.values()], paper))
    of_paper = {
        part: [claim for claim in content[part] if not paper or claim["paper"] == names[paper.lower()]]
        for part in ("claims", "not_measured")
    }
    return {**content, **of_paper}


@cache
def _page(name: str) -> dict[tuple[str, str], list[Entry]]:
    return tables_of(published(name), published_choices(name))


def judged(claim: Mapping[str, Any], content: Mapping[str, Any]) -> list[Pair]:
    """Return the pairs of rows that a claim compares; empty where the page lacks a row or a unit."""
    metric, users = claim["metric"], claim.get("users", content["users"])
    datasets, bound, pairs = _datasets(claim, content), content["bound"].get(claim["metric"], 0), []
    for row in claim["rows"]:
        for against in claim["against"]:
            parts = []
            for dataset in datasets:
                units: dict[tuple[Any, int], list[float]] = {}
                spread = 0.0
                for user in users:
                    rows = for_metric(_page(claim["page"]).get((dataset, user), ()), metric)
                    if not rows.keys() >= {row, against}:
                        return []
                    own, other = (_values(rows[name], metric) for name in (row, against))
                    for unit in own.keys() & other.keys():
                        units.setdefault(unit, []).append(own[unit] - other[unit])
                    spread += sum((_spread(rows[name], metric) / len(users)) ** 2 for name in (row, against))
                estimate = of_values({unit: sum(each) / len(each) for unit, each in units.items()})
                if estimate is None or estimate.half_width is None or estimate.units < LEAST_UNITS:
                    return []
                parts.append((estimate.mean, with_choice(estimate.half_width, spread**0.5)))
            mean = sum(each for each, _ in parts) / len(parts)
            half_width = sum(each**2 for _, each in parts) ** 0.5 / len(parts)
            pairs.append(
                Pair(row, against, mean, half_width, verdict_of_pair(mean, half_width, claim["expect"], bound))
            )
    return pairs


def _datasets(claim: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    return list(claim.get("datasets", content["pages"][claim["page"]]["datasets"]))


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
        return HOLDS if max(-low, high) <= bound else FAILS if low > bound or high < -bound else UNDECIDED
    if expect.endswith("lower"):
        low, high = -high, -low
    due = bound if expect.startswith("much") else 0
    return HOLDS if low > due else FAILS if high < due else UNDECIDED


def verdict(pairs: Sequence[Pair]) -> str:
    """Return that of a claim: it holds if all of its pairs hold, and fails if one fails."""
    verdicts = {pair.verdict for pair in pairs}
    return UNKNOWN if not pairs else FAILS if FAILS in verdicts else HOLDS if verdicts == {HOLDS} else UNDECIDED


def show_claims(paper: str = "") -> None:
    """Print the verdict of each claim; of a paper's claims also its words, and the differences that decide."""
    content = read_claims(paper)
    of_claims = [(claim, judged(claim, content)) for claim in content["claims"]]
    if paper:
        for claim, pairs in of_claims:
            _show_claim(claim, pairs, content)
        for claim in content["not_measured"]:
            print(f"not measured  {claim['paper']}, {claim['section']}")
            _print_indented(claim["says"])
            _print_indented(claim["reason"])
            print()
        meaning = "a mean over users and data ± half its 95 % interval, the choice of settings included"
        stand_in = "For test NDCG@10 the spread of validation NDCG@10 over choices stands in"
        print(wrapped(f"A difference is {meaning}. {stand_in}."))
    else:
        show([(claim["id"], verdict(pairs), _expected(claim, content)) for claim, pairs in of_claims])
        print()
        print(wrapped(as_called("words, users and differences: type ol2r benchmark claims PAPER, such as PairRank")))
    for page in dict.fromkeys(claim["page"] for claim in content["claims"]):
        if warning := outdated(_page(page)):
            print(f"page {page}: {warning}")
    counts = Counter(verdict(pairs) for _, pairs in of_claims)
    total = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
    print(wrapped(f"{total or 'no claim is measured'}; the rule: first lines of {published_dir() / 'claims.yaml'}"))


def _show_claim(claim: Mapping[str, Any], pairs: Sequence[Pair], content: Mapping[str, Any]) -> None:
    print(f"{claim['id']}  {verdict(pairs).upper()}  {claim['paper']}, {claim['section']}")
    _print_indented(claim["says"])
    data = " and ".join(_datasets(claim, content))
    users = claim.get("users", content["users"])
    _print_indented(f"{_expected(claim, content)}; page {claim['page']}: {data}, {', '.join(users)} users")
    if "conditions" in claim:
        _print_indented(claim["conditions"])
    for pair in pairs:
        difference = plus_minus(pair.mean, pair.half_width, digits(claim["metric"]), "+")
        print(f"    {difference}  {pair.row} - {pair.against}: {pair.verdict}")
    print()


def _print_indented(text: str) -> None:
    print(wrapped(f"    {text}", 4))


def _expected(claim: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Return what would be measured if the claim held, with the bound."""
    metric, expect = claim["metric"], claim["expect"]
    unit = "powers of two of unfairness" if metric == "unfairness" else heading(metric)
    bound, direction = f"{content['bound'].get(metric, 0):g}", f"{expect.removeprefix('much ')} than"
    if expect == "level":
        direction = f"within {bound} of"
    elif expect.startswith("much"):
        direction = f"more than {bound} {direction}"
    return f"{unit}: {'; '.join(claim['rows'])} {direction} {'; '.join(claim['against'])}"
