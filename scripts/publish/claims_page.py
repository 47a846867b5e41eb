"""The page of all claims: the words of each paper, what would be measured if they held, and what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ol2r_cli.plugins.benchmark.claims import (
    FAILS,
    HOLDS,
    MEANING,
    UNDECIDED,
    Claim,
    Pair,
    claims_file,
    expected,
    judged,
    read_claims,
    told,
    unit_of,
    verdict,
)
from ol2r_cli.report.measures import digits
from ol2r_cli.text.formatting import plus_minus
from ol2r_cli.text.table import TextTable, markdown
from scripts.publish.pages import GENERATED

_TOP = f"""# Claims of the papers

What papers claim about online rankers, and whether the published results show it: for readers of the papers, and for
authors who compare with them.
[Findings](findings.md) has what follows, in ten sentences.
`ol2r benchmark claims PAPER` prints the same on a terminal.

## How to read the verdicts

- {MEANING}
- **holds**: the interval of every mean difference is where the claim has it, no data have their own wholly
  elsewhere, and more than half of the data agree. **fails**: the interval of one mean is wholly elsewhere, and no data
  have their own where the claim has it. **undecided**: anything else. [claims.yaml](claims.yaml) has
  the rule in its first lines.
- **depends on the data**: one interval is wholly where the claim has it, that of other data wholly elsewhere.
- **much** asks for more than a bound, and **equivalent** for an interval within it: .005 of test NDCG@10, 9.2 of
  cumulative NDCG, and a factor of two of unfairness.
- A difference of d powers of two of unfairness is a factor of 2^d.
- A claim is about perfect, navigational and informational users where it names no others.
- All data have the same weight in a mean, whose interval speaks for these data. Two folds of ClueWeb09 are too few for
  an interval.
- Claims, rows and bounds were fixed before the pages that decide were made, except olranknet-7 to -9.
  The rule over several data is newer: it was written before OHSUMED and MQ2007_part were played, after the others.
- A note says what was measured beside a claim. It decides nothing."""


def claims_page() -> str:
    """Return the page of all claims as markdown."""
    claims, not_measured = read_claims()
    pairs = {claim.id: judged(claim) for claim in claims}
    papers = claims_file()["papers"]
    of_papers = {paper: [claim for claim in claims if claim.paper == paper] for paper in papers}
    measured = {paper: of_paper for paper, of_paper in of_papers.items() if of_paper}
    paragraphs = [
        GENERATED,
        _TOP,
        "## Verdicts",
        "How many claims of each paper hold.",
        _counts(measured, pairs),
        _differences_from_papers(),
    ]
    for paper, of_paper in measured.items():
        about = papers[paper]
        title = f"[{about['title']}]({about['url']})" if "url" in about else about["title"]
        paragraphs += [f"## {paper}", f"{title}.\nIts conditions: {about['conditions']}."]
        for claim in of_paper:
            paragraphs += _section(claim, pairs[claim.id])
    lines = [
        f"- {fields['paper']}, {fields['section']}: {fields['says']}\n  {fields['reason']}." for fields in not_measured
    ]
    paragraphs += ["## Not measured", "Claims that no page decides, and why.", "\n".join(lines)]
    return "\n\n".join(paragraphs) + "\n"


def _counts(claims: Mapping[str, Sequence[Claim]], pairs: Mapping[str, Sequence[Pair]]) -> str:
    """Return a table of how many claims of each paper hold."""
    lines = []
    for paper, of_paper in claims.items():
        count = Counter(verdict(pairs[claim.id]) for claim in of_paper)
        lines.append([paper, *(str(count[name] or "") for name in (HOLDS, FAILS, UNDECIDED))])
    return markdown(TextTable.of(["paper"], [HOLDS, FAILS, UNDECIDED], lines))


def _differences_from_papers() -> str:
    """Return in what each page differs from the papers."""
    lines = ["What differs from the papers on all of a page:", ""]
    for page, about in claims_file()["pages"].items():
        lines.append(f"- [{page}]({page}.md): {about['differs']}.")
    return "\n".join(lines)


def _section(claim: Claim, pairs: Sequence[Pair]) -> list[str]:
    """Return the heading of a claim, its words, what is expected, and its differences."""
    users = "" if claim.users == claims_file()["users"] else f", {' and '.join(claim.users)} users"
    where = f"[{claim.page}]({claim.page}.md), {', '.join(claim.datasets)}{users}"
    section = f"section {claim.section}" if claim.section[:1].isdigit() else claim.section
    paragraphs = [
        f"### {claim.id}",
        f"**{verdict(pairs)}**. Expected of {expected(claim)}.\nMeasured on {where}.",
        f"> {claim.says} ({section})",
    ]
    paragraphs += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in filter(None, [claim.conditions])]
    if pairs:
        paragraphs += [f"Differences of {unit_of(claim)}:", markdown(_differences(claim, pairs))]
    return [*paragraphs, f"Note: {claim.note}"] if claim.note else paragraphs


def _differences(claim: Claim, pairs: Sequence[Pair]) -> TextTable:
    """Return a row for each pair: its mean difference, those of the datasets, and the verdict."""
    several = len(claim.datasets) > 1
    lines = []
    for pair in pairs:
        shown = [(pair.mean, pair.half_width)]
        if several:
            shown += [(each.mean, each.half_width) for each in pair.by_dataset]
        values = [plus_minus(mean, half_width, digits(claim.metric), "+") for mean, half_width in shown]
        lines.append([f"{pair.row} - {pair.against}", told(pair), *values])
    columns = ["mean", *claim.datasets] if several else claim.datasets
    return TextTable.of(["difference", "verdict"], columns, lines)
