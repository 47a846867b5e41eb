"""What click logs say of users: position bias by intervention harvesting, or by PBM and DCM.

A document that was shown at two places for the same query separates its attraction from the examination of the places.
Harvesting: Agarwal et al., "Estimating position bias without intrusive interventions" (WSDM 2019). PBM: Craswell et al.
(WSDM 2008). DCM: Guo, Liu and Wang, "Efficient multiple-click models" (WSDM 2009), by EM.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, combinations, pairwise

import numpy as np
from scipy.sparse.csgraph import connected_components

from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.text.formatting import plural

LEAST, BELOW_ONE = 1e-300, 1 - 1e-9
CONVERGED, STEPS = 1e-4, 5000  # a fit ends when ten steps change the log-likelihood of the log by less
MOST_ERROR = 0.1  # of the logarithm of examination, without a warning
MOST_PAGES = 200_000  # of the queries that are held out in turn: each fit is made eleven times
GROUPS = 20  # of documents, by which errors of harvesting are estimated
LEAST_IMPRESSIONS = 20  # of a clicked document, without a warning: errors of fitted logarithms are about a twentieth
_log = logging.getLogger(__name__)


def adjacent_chain(log: ClickLog) -> Float[np.ndarray, "K"]:
    """Return the examination of places, the largest is 1, by harvesting from neighbouring places.

    It is the product of the ratios of clicks at neighbouring places. ValueError as of `_clicked_at_both`.
    """
    return _harvested(_clicked_at_both(log, _neighbours(log)), "adjacent")


def all_pairs(log: ClickLog) -> Float[np.ndarray, "K"]:
    """Return the examination of places, the largest is 1, by harvesting from all pairs of places.

    It is that of largest likelihood, which is the likelihood of `pbm` with a document for each pair of places.
    ValueError as of `_clicked_at_both`.
    """
    return _harvested(_clicked_at_both(log, _pairs(log)), "all-pairs")


def _neighbours(log: ClickLog) -> list[tuple[int, int]]:
    return list(pairwise(range(log.impressions.shape[1])))


def _pairs(log: ClickLog) -> list[tuple[int, int]]:
    return list(combinations(range(log.impressions.shape[1]), 2))


def _harvested(both: ClickLog, fit: str) -> Float[np.ndarray, "K"]:
    """Return examination by the clicks at both of each two places, a row a pair; not finite where there are none."""
    if fit == "all-pairs":
        return np.where(both.clicks.any(0), pbm(both)[0], np.nan)
    row = np.arange(len(both.clicks))
    with np.errstate(divide="ignore", invalid="ignore"):
        chain = np.append(1.0, np.cumprod(both.clicks[row, row + 1] / both.clicks[row, row]))
        return chain / chain.max()


def _shown_at_both(log: ClickLog, pairs: Sequence[tuple[int, int]]) -> ClickLog:
    """Return impressions and clicks, at each of two places, of the documents that were shown at both: a row a pair.

    Each document counts as often as it was shown at the place where it was shown less: Agarwal et al. count all
    documents alike.
    """
    places = log.impressions.shape[1]
    rate = log.clicks / np.maximum(log.impressions, 1)
    shown, clicks = np.zeros((2, len(pairs), places))
    for row, (j, k) in enumerate(pairs):
        weight = np.minimum(log.impressions[:, j], log.impressions[:, k])
        shown[row, [j, k]] = weight.sum()
        clicks[row, [j, k]] = weight @ rate[:, [j, k]]
    return ClickLog(np.arange(len(pairs)), shown, clicks)


def _clicked_at_both(log: ClickLog, pairs: Sequence[tuple[int, int]]) -> ClickLog:
    """Return `_shown_at_both`; ValueError if documents of two neighbouring places have no click at one of them."""
    both = _shown_at_both(log, pairs)
    for (j, k), clicks in zip(pairs, both.clicks, strict=True):
        if k == j + 1 and not clicks[[j, k]].all():
            shown = f"documents that were shown at both of places {j + 1} and {k + 1}"
            raise ValueError(f"{shown} must have clicks at each of these, got none")
    return both


Examined = Float[np.ndarray, "D K"]  # by document and place
Fitted = tuple[Float[np.ndarray, "K"], Float[np.ndarray, "D"], float]  # by place, attraction, log-likelihood of the log


def pbm(log: ClickLog, examination: Float[np.ndarray, "K"] | None = None) -> Fitted:
    """Return examination, the largest is 1, and attraction of largest likelihood; with `examination` only the latter.

    EM would need thousands of steps for what Newton's do in a hundred. Documents that were never clicked have
    attraction 0, which costs no likelihood, so that they say nothing of examination. Documents with the same numbers
    have the same attraction, and are one that counts as often as they are.
    """
    clicked = log.clicks.sum(1) > 0
    shown, clicks = log.impressions[clicked], log.clicks[clicked]
    first, row, times = different(shown, clicks)
    shown, clicks = shown[first], clicks[first]
    missed = shown - clicks
    theta = 1 / np.arange(1.0, shown.shape[1] + 1) if examination is None else examination
    attraction = np.full(len(shown), 0.5)

    def likelihood(theta: Float[np.ndarray, "K"], attraction: Float[np.ndarray, "D"]) -> float:
        chance = np.clip(attraction[:, None] * theta, LEAST, BELOW_ONE)
        return float(times @ (clicks * np.log(chance) + missed * np.log1p(-chance)).sum(1))

    reached = -np.inf
    for step in range(STEPS):
        if step % 10 == 0:
            before, reached = reached, likelihood(theta, attraction)
            if abs(reached - before) < CONVERGED:
                break
        # The log-likelihood is concave in log(attraction) and log(theta): their steps in turn, at most half way to 1.
        chance = np.clip(attraction[:, None] * theta, LEAST, BELOW_ONE)
        slope, curvature = (clicks - shown * chance) / (1 - chance), missed * chance / (1 - chance) ** 2
        if examination is None and step % 10 == 9:
            ahead = _both_moved(theta, attraction, slope, curvature, times)
            if likelihood(*ahead) > likelihood(theta, attraction):
                theta, attraction = ahead
                continue
        if examination is not None or step % 2:
            ascent = slope.sum(1) / np.maximum(curvature.sum(1), LEAST)
            attraction = np.minimum(attraction * np.exp(ascent.clip(-1, 1)), (1 + attraction) / 2)
        else:
            ascent = times @ slope / np.maximum(times @ curvature, LEAST)
            theta = np.minimum(theta * np.exp(ascent.clip(-1, 1)), (1 + theta) / 2)
    attraction_of_all = np.zeros(len(clicked))
    attraction_of_all[clicked] = attraction[row] * theta.max()
    return theta / theta.max(), attraction_of_all, reached


def _both_moved(
    theta: Float[np.ndarray, "K"],
    attraction: Float[np.ndarray, "D"],
    slope: Float[np.ndarray, "D K"],
    curvature: Float[np.ndarray, "D K"],
    times: Float[np.ndarray, "D"],
) -> tuple[Float[np.ndarray, "K"], Float[np.ndarray, "D"]]:
    """Return examination and attraction after Newton's step of both, in their logarithms.

    Attraction is eliminated (Schur complement), but of documents that would pass 1, which stay.
    """
    width, of_document = np.maximum(curvature.sum(1), LEAST), slope.sum(1)
    is_free = attraction * np.exp((of_document / width).clip(-1, 1)) < 1
    weight = times * is_free / width
    information = np.diag(times @ curvature) - curvature.T @ (weight[:, None] * curvature)
    gradient = times @ slope - curvature.T @ (weight * of_document)
    move = np.linalg.lstsq(information, gradient, rcond=1e-10)[0].clip(-1, 1)
    of_documents = np.where(is_free, (of_document - curvature @ move) / width, 0).clip(-1, 1)
    moved = theta * np.exp(move)
    scale = max(1.0, float(moved.max()))
    return moved / scale, np.minimum(attraction * np.exp(of_documents) * scale, (1 + attraction) / 2)


def different(
    *counts: Float[np.ndarray, "D K"],
) -> tuple[Int[np.ndarray, "U"], Int[np.ndarray, "D"], Float[np.ndarray, "U"]]:
    """Return a row of each of those that are equal, the number of each row among these, and how many are equal to it.

    Rows are told apart by sums with random factors of their bits, as in `_tails`.
    """
    rng, key = np.random.default_rng(0), np.zeros(len(counts[0]), np.uint64)
    for column in chain.from_iterable(table.T for table in counts):
        bits = np.ascontiguousarray(column).view(np.uint64)
        key += (bits ^ bits >> np.uint64(32)) * rng.integers(2**63, dtype=np.uint64)
    _, first, row, times = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    return first, row, times.astype(np.float64)


def dcm(
    log: ClickLog,
    continuation: Float[np.ndarray, "K"] | None = None,
    start: tuple[Float[np.ndarray, "K"], Float[np.ndarray, "D"]] | None = None,
) -> Fitted:
    """Return the probability of reading on after a click, and attraction, by EM; with `continuation` only the latter.

    Whether the places below the last click were read is hidden. Pages say nothing of the last place: it gets 0. `start`
    has a continuation and attractions from which to go on. EM is accelerated by extrapolation from two steps, where
    that reaches more (SQUAREM: Varadhan and Roland, "Simple and globally convergent methods for accelerating the
    convergence of any EM algorithm", Scandinavian Journal of Statistics 2008).
    """
    em, places = _em_of_dcm(log, continuation is None), log.clicks.shape[1]
    goes_on = np.full(places, 0.5) if continuation is None else continuation
    attraction = np.where(log.clicks.sum(1) > 0, 0.5, 0.0)
    if start is not None:
        goes_on, attraction = goes_on if continuation is not None else start[0], start[1]
    point, reached = np.append(goes_on, attraction), -np.inf
    for _ in range(STEPS):
        likelihood, first = em(point)
        before, reached = reached, likelihood
        if abs(reached - before) < CONVERGED:
            break
        of_first, second = em(first)
        move = first - point
        turn = second - first - move
        length = max(1.0, float(np.linalg.norm(move) / max(float(np.linalg.norm(turn)), LEAST)))
        ahead = np.clip(point + 2 * length * move + length**2 * turn, 0, BELOW_ONE)
        of_ahead, third = em(ahead)
        point = third if of_ahead >= of_first else second
    return np.append(point[: places - 1], 0.0), point[places:], reached


def _em_of_dcm(
    log: ClickLog, fits_continuation: bool
) -> Callable[[Float[np.ndarray, "X"]], tuple[float, Float[np.ndarray, "X"]]]:
    """Return a step of EM: from continuation and attraction to the log-likelihood there, and to the next ones.

    Of pages only the documents below the last click are hidden; all others are sums over pages. Pages that hide the
    same documents below the same place are one `tail`, and count as often as they are.
    """
    assert log.pages is not None
    document, click = log.pages
    places, documents = click.shape[1], len(log.query)
    place, there, clicked = np.arange(places, dtype=np.int16), document >= 0, click.any(1)
    last = np.where(clicked, places - 1 - click[:, ::-1].argmax(1), places).astype(np.int16)
    below = there & (place > last[:, None])
    read = np.bincount(document[there & ~below], minlength=documents)
    clicks_at, clicks_of = log.clicks.sum(0), log.clicks.sum(1)
    ended = np.bincount(last[clicked], minlength=places)
    tail, count = _tails(document, below, last)
    hidden, stop = below[tail], last[tail]
    hidden_documents, length = document[tail][hidden], hidden.sum(1)
    first = np.append(0, np.cumsum(length)[:-1])
    settled = ended - np.bincount(stop, count, places)  # last clicks with nothing below

    def step(point: Float[np.ndarray, "X"]) -> tuple[float, Float[np.ndarray, "X"]]:
        goes_on, attraction = point[:places], point[places:]
        passed, on = np.log1p(-attraction), goes_on[stop]
        silent = on * np.exp(np.add.reduceat(passed[hidden_documents], first)) if len(stop) else on  # read, no click
        leaves = np.maximum(1 - on + silent, LEAST)  # P(no click below)
        likelihood = clicks_of @ np.log(np.maximum(attraction, LEAST)) + (read - clicks_of) @ passed
        likelihood += (clicks_at - ended) @ np.log(np.maximum(goes_on, LEAST)) + count @ np.log(leaves)
        read_below = count * silent / leaves  # expected pages of a tail whose documents were read, without a click
        total = read + np.bincount(hidden_documents, np.repeat(read_below, length), documents)
        attraction = np.minimum(clicks_of / np.maximum(total, LEAST), BELOW_ONE)
        if fits_continuation:
            read_on = np.bincount(stop, read_below, places) + settled * goes_on
            goes_on = (clicks_at - ended + read_on) / np.maximum(clicks_at, 1)
        return float(likelihood), np.append(goes_on, attraction)

    return step


def _tails(
    document: Int[np.ndarray, "P K"], below: Bool[np.ndarray, "P K"], last: Int[np.ndarray, "P"]
) -> tuple[Int[np.ndarray, "T"], Int[np.ndarray, "T"]]:
    """Return one page of those with the same last click and the same documents below it, and how many these are.

    Pages are told apart by the sum of random numbers of their documents (Zobrist, "A new hashing method with
    application for game playing", 1970): two of a million agree by chance with probability 1e-7.
    """
    pages = np.flatnonzero(below.any(1))
    number = np.random.default_rng(0).integers(2**63, size=document.max() + 1)
    sums = np.where(below[pages], number[document[pages]], 0).sum(1) + last[pages]
    _, first, count = np.unique(sums, return_index=True, return_counts=True)
    return pages[first], count


FITS: dict[str, Callable[[ClickLog], Float[np.ndarray, "K"]]] = {
    "adjacent": adjacent_chain,
    "all-pairs": all_pairs,
    "pbm": lambda log: pbm(log)[0],
    "dcm": lambda log: dcm(log)[0],
}


def some_queries(log: ClickLog, least: int) -> ClickLog:
    """Return the log of queries that are drawn until they have `MOST_PAGES` pages, of `least` queries or more.

    Documents keep all of their impressions, on which the errors of attraction depend. Counts are all kept: they are
    fitted fast.
    """
    if log.pages is None or len(log.pages[0]) <= MOST_PAGES:
        return log
    pages = np.bincount(log.query_of_pages())
    drawn = np.random.default_rng(0).permutation(len(pages))
    chosen = np.zeros(len(pages), np.bool_)
    chosen[drawn[: max(least, int(np.searchsorted(np.cumsum(pages[drawn]), MOST_PAGES)) + 1)]] = True
    number = np.cumsum(chosen) - 1
    return replace(log.of(chosen[log.query]), query=number[log.query[chosen[log.query]]], query_ids=())


def held_out(log: ClickLog, folds: int) -> dict[str, float]:
    """Return the log-likelihood of an impression for each fit, in the queries of each fold by a fit to all others.

    Attraction is fitted to the held-out queries themselves, because queries do not share documents. no bias examines
    every place, 1 / rank is fixed, and saturated is the click rate of each document at each place, which no position
    bias can exceed. Where a fold cannot be harvested it is NaN.
    """
    ranks = np.arange(1.0, log.impressions.shape[1] + 1)
    fits = {"no bias": lambda _: ranks**0, "1 / rank": lambda _: 1 / ranks, **FITS}
    of_all = np.ones(len(ranks)), np.zeros(len(log.query))
    if log.pages is None:
        del fits["dcm"]
    else:
        of_all = dcm(log)[:2]  # a fold is fitted in a few steps from there
    total = dict.fromkeys(fits, 0.0)
    for fold in range(folds):
        _log.info("fold %d of %d", fold + 1, folds)
        out = log.query % folds == fold
        rest, test = log.of(~out), log.of(out)
        for name, fit in fits.items():
            try:
                if name == "dcm":
                    goes_on = dcm(rest, start=(of_all[0], of_all[1][~out]))[0]
                    total[name] += dcm(test, goes_on, (goes_on, of_all[1][out]))[2]
                else:
                    total[name] += pbm(test, fit(rest))[2]
            except ValueError:
                total[name] = np.nan
    clicked = log.clicks.sum(1) > 0  # others have rate 0, and cost nothing
    shown, clicks = log.impressions[clicked], log.clicks[clicked]
    rate = np.clip(clicks / np.maximum(shown, 1), LEAST, BELOW_ONE)
    total["saturated"] = (clicks * np.log(rate) + (shown - clicks) * np.log1p(-rate)).sum()
    return {name: value / log.impressions.sum() for name, value in total.items()}


def estimated(log: ClickLog, fit: str) -> Float[np.ndarray, "K"]:
    """Return the examination of places, or for dcm the continuation; ValueError where the log has too few clicks."""
    silent = ~log.clicks[:, :-1].any(0)
    if fit == "dcm" and silent.any():
        raise ValueError(f"--fit dcm needs clicks at all places but the last, got none at place {silent.argmax() + 1}")
    try:
        return FITS[fit](log)
    except ValueError as error:
        raise ValueError(f"{error}, which harvesting needs: type --fit pbm") from None


def standard_errors(log: ClickLog, examination: Float[np.ndarray, "K"]) -> Float[np.ndarray, "K"]:
    """Return the standard errors of the logarithms of examination, relative to the place that is examined most.

    They are those of rare clicks, where attraction need not be known: of the clicks of a document, each place has a
    share in proportion to its impressions and examination, and their Fisher information is that of multinomials.
    Infinite where no chain of documents, each shown at two places, leads to the place that is examined most.
    """
    between = _clicks_between(log, examination)
    information, most = np.diag(between.sum(1)) - between, int(examination.argmax())
    others = np.flatnonzero(_joined(between, most) & (np.arange(len(between)) != most))
    errors = np.full(len(examination), np.inf)
    errors[others] = np.sqrt(np.diag(np.linalg.inv(information[np.ix_(others, others)])))
    errors[most] = 0
    return errors


def harvesting_errors(log: ClickLog, fit: str, examination: Float[np.ndarray, "K"]) -> Float[np.ndarray, "K"]:
    """Return the standard errors of the logarithms of examination by `adjacent` or `all-pairs`, relative to the place
    that is examined most.

    Harvesting does not use all that clicks say, as `standard_errors` do: a jackknife leaves out one of `GROUPS` groups
    of documents, which are drawn, in turn (Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 11).
    Infinite where a place cannot be compared without one of the groups.
    """
    pairs = (_neighbours if fit == "adjacent" else _pairs)(log)
    clicked = np.random.default_rng(0).permutation(np.flatnonzero(log.clicks.any(1)))  # neighbours have ranks in turn
    groups, most = min(GROUPS, len(clicked)), int(examination.argmax())
    counts = []
    for group in range(groups):
        rows = clicked[group::groups]
        both = _shown_at_both(ClickLog(log.query[rows], log.impressions[rows], log.clicks[rows]), pairs)
        counts.append((both.impressions, both.clicks))
    logarithms = np.full((groups, len(examination)), np.nan)
    for group in range(groups if groups > 1 else 0):
        shown, clicks = np.sum(counts[:group] + counts[group + 1 :], axis=0)
        harvested = _harvested(ClickLog(np.arange(len(pairs)), shown, clicks), fit)
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms[group] = np.log(harvested / harvested[most])
    known = np.isfinite(logarithms).all(0)
    errors = np.full(len(examination), np.inf)
    errors[known] = np.sqrt((groups - 1) * logarithms[:, known].var(0))
    errors[most] = 0
    return errors


def joined_places(log: ClickLog, examination: Float[np.ndarray, "K"], place: int) -> Bool[np.ndarray, "K"]:
    """Return which places a chain of clicked documents, each shown at two places, joins to a place, and this place.

    Of others clicks say nothing: their examination and the attraction of documents there cannot be told apart.
    """
    return _joined(_clicks_between(log, examination), place)


def _clicks_between(log: ClickLog, examination: Float[np.ndarray, "K"]) -> Float[np.ndarray, "K K"]:
    """Return the expected clicks on documents that were shown at both of two places, by which these are compared."""
    share = log.impressions * examination
    share = share / np.maximum(share.sum(1, keepdims=True), LEAST)
    between = share.T @ (log.clicks.sum(1, keepdims=True) * share)
    np.fill_diagonal(between, 0)
    return between


def _joined(between: Float[np.ndarray, "K K"], place: int) -> Bool[np.ndarray, "K"]:
    chains = connected_components(between > 0, directed=False)[1]
    return chains == chains[place]


def impressions_of_clicked(log: ClickLog) -> float:
    """Return the harmonic mean over clicks of how often a document was shown.

    Where attraction is fitted to each document, with m impressions, logarithms have an error of the order of 1 / m that
    more documents do not reduce (Neyman and Scott, "Consistent estimates based on partially consistent observations",
    Econometrica 1948). So m is averaged over clicks as 1 / m is.
    """
    clicks = log.clicks.sum(1)
    return float(clicks.sum() / (clicks / np.maximum(log.impressions.sum(1), LEAST)).sum())


def doubts(log: ClickLog, fit: str, values: Float[np.ndarray, "K"]) -> list[str]:
    """Return a line for all that the log is too small to tell of a fit with these values, with what it would need."""
    of_places = ""
    if fit == "adjacent" or fit == "all-pairs":
        of_places = _doubtful_places(harvesting_errors(log, fit, values))
    elif fit == "pbm":
        of_places = _doubtful_places(standard_errors(log, values))
    return [line for line in (of_places, _doubtful_attraction(log)) if line]


def _doubtful_places(errors: Float[np.ndarray, "K"]) -> str:
    """Return a line for places whose examination has a large standard error of its logarithm; empty without any."""
    large = np.flatnonzero(errors > MOST_ERROR)
    if not large.size:
        return ""
    told = [f"{100 * errors[k]:.0f} %" if np.isfinite(errors[k]) else "unknown" for k in large]
    places = ", ".join(f"{k + 1} ({error})" for k, error in zip(large, told, strict=True))
    above = (
        f"examination has a standard error above {100 * MOST_ERROR:.0f} % at {plural(large.size, 'place')}: {places}"
    )
    needed = "more clicks on documents that were shown there and at other places; four times as many halve an error"
    return f"{above}; needed are {needed}"


def _doubtful_attraction(log: ClickLog) -> str:
    """Return a line if documents have too few impressions for an attraction of their own; empty if they have enough."""
    average = impressions_of_clicked(log)
    if average >= LEAST_IMPRESSIONS:
        return ""
    told = f"clicked documents have {average:.1f} impressions (harmonic mean over clicks)"
    doubtful = "pbm, dcm, attraction by grade and held-out log-likelihoods are unreliable"
    return f"{told}: {doubtful}; needed are {LEAST_IMPRESSIONS} impressions or more, or --fit all-pairs"


def examined(log: ClickLog, fit: str, values: Float[np.ndarray, "K"], attraction: Float[np.ndarray, "D"]) -> Examined:
    """Return how often users with these values and attractions examine documents at places of the log, in expectation.

    For dcm a page is examined down to the first click after which they do not read on.
    """
    if fit != "dcm":
        return log.impressions * values
    assert log.pages is not None
    total = np.zeros(log.impressions.shape)
    reached = np.ones(len(log.pages[0]))
    for place, document in enumerate(log.pages[0].T):
        there = document >= 0
        total[:, place] = np.bincount(document[there], reached[there], len(total))
        clicks = np.where(there, attraction[document], 0)
        reached *= 1 - clicks * (1 - values[place])
    return total
