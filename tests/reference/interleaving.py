"""Interleaved and multileaved lists, and what clicks on them are worth to each of the N members.

Team draft: Radlinski, Kurup, Joachims (CIKM 2008); for N members Schuth et al., Multileaved Comparisons for Fast
Online Evaluation (CIKM 2014). A common prefix earns nobody credit: Chapelle et al., Large-Scale Validation and Analysis
of Interleaved Search Evaluation (TOIS 2012). Probabilistic: Hofmann, Whiteson, de Rijke, A Probabilistic Method for
Inferring Preferences from Clicks (CIKM 2011); for N members Schuth et al., Probabilistic Multileave for Online
Retrieval Evaluation (SIGIR 2015).

`rankings` has a full list of the same documents for each member, best first.
"""

from __future__ import annotations

from collections.abc import Sequence

Author = int | None  # the member that placed a document; None: all of them, in the common prefix


def common_prefix(rankings: Sequence[Sequence[int]]) -> int:
    """How many documents from the top all members have in the same places."""
    places = 0
    while places < len(rankings[0]) and len({ranking[places] for ranking in rankings}) == 1:
        places += 1
    return places


def team_draft(rankings: Sequence[Sequence[int]], turns: Sequence[int], length: int) -> tuple[list[int], list[Author]]:
    """The list and the author of each of its places, at most `length` and no more than there are documents.

    First the common prefix; from then on turn after turn, beginning with turns[0], a member places its best document
    that is not yet in the list.
    """
    prefix = common_prefix(rankings)
    shown: list[int] = []
    authors: list[Author] = []
    while len(shown) < min(length, len(rankings[0])):
        place = len(shown)
        author = None if place < prefix else turns[place - prefix]
        ranking = rankings[0 if author is None else author]
        shown.append(next(document for document in ranking if document not in shown))
        authors.append(author)
    return shown, authors


def credit_team_draft(authors: Sequence[Author], clicks: Sequence[bool], members: int) -> list[int]:
    """The clicks on what a member placed, for each member."""
    return [
        sum(1 for author, clicked in zip(authors, clicks, strict=True) if clicked and author == member)
        for member in range(members)
    ]


def choice(ranking: Sequence[int], placed: Sequence[int], tau: float) -> dict[int, float]:
    """What a member puts next: document -> probability, in the order of its ranking.

    A softmax over ranks: proportional to 1 / rank^tau, where rank is that in the full ranking, from 1, whatever has
    been placed; over the documents that are not yet placed.
    """
    shares = {document: 1 / rank**tau for rank, document in enumerate(ranking, start=1) if document not in placed}
    total = sum(shares.values())
    return {document: share / total for document, share in shares.items()}


def probabilistic(
    rankings: Sequence[Sequence[int]], members: Sequence[int], uniforms: Sequence[float], length: int, tau: float = 3
) -> list[int]:
    """The list, at most `length` long: member members[p] draws the document of place p.

    By inverse distribution function: with uniforms[p] in [0, 1), the first document, in the order of that member's
    ranking, at which the probabilities add up to more.
    """
    shown: list[int] = []
    while len(shown) < min(length, len(rankings[0])):
        place, reached = len(shown), 0.0
        for document, share in choice(rankings[members[place]], shown, tau).items():
            reached += share
            chosen = document  # so that it is the last one where rounding leaves the sum below the uniform
            if reached > uniforms[place]:
                break
        shown.append(chosen)
    return shown


def credit_probabilistic(
    rankings: Sequence[Sequence[int]], shown: Sequence[int], clicks: Sequence[bool], tau: float = 3
) -> list[float]:
    """The credit a member may expect, given the list alone: each click is shared by those who could have placed it.

    A priori every member is equally likely to fill a place, independently of all other places, so the share is
    P_member(document) / (sum of P over the members), with the softmaxes over what was not placed above.
    """
    credit = [0.0] * len(rankings)
    for place, clicked in enumerate(clicks):
        if clicked:
            chances = [choice(ranking, shown[:place], tau)[shown[place]] for ranking in rankings]
            for member, chance in enumerate(chances):
                credit[member] += chance / sum(chances)
    return credit
