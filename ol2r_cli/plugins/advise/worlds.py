"""Worlds in which a learner is played: users and attractions drawn from what a click log says, and what it leaves open.

Fitted attraction as it is makes rare documents perfect, so that learning seems to gain twice what it does: attractions
are drawn from a posterior, whose prior by rank of production is learned from the log (g-modelling: Efron, "Empirical
Bayes deconvolution estimates", Biometrika 2016). Most of what a log leaves open is the examination of ranks, which is
drawn too. Examination: documents shown at several ranks, as in Agarwal et al. (WSDM 2019). UBM: Dupret and Piwowarski
(SIGIR 2008). DCM: Guo, Liu and Wang (WSDM 2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.plugins.click_logs import position_bias
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.tensor.shapes import Bool, Float, Int

Kind = Literal["pbm", "ubm", "dcm"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEAST_CLICKS, MOST_APART, MOST_ERROR = 100, 0.05, 0.5
GRID: Float[np.ndarray, "G"] = np.linspace(0.001**0.5, 0.99**0.5, 50) ** 2  # of P(click | examined)
_LEVELS = np.linspace(0, 1, 25) ** 2  # of examination, to which that of users who read from the top is rounded
_LEAST, _STEPS = 1e-300, 60
_LOG_SWAPS = "log more pages on which neighbouring documents change places at random"
_SLACK = 1.0  # standard deviation of log(examination) of a rank about that of the rank above, before the log is seen
_SLACK_OF_LAST_CLICK = 0.5  # of a last click about its rank


class WorldUser(NamedTuple):
    """How users of a world examine.

    values: pbm: examination by rank [K], the largest is 1. ubm: [K K], row k has G(k, 1) .. G(k, k) by the distance
    from the last click, as `UserBrowsing`. dcm: the probability of reading on after a click, by rank [K].
    """

    kind: Kind
    values: Float[np.ndarray, "K"] | Float[np.ndarray, "K K"]


class LogFit(NamedTuple):
    """Users, and what is known of attraction: its prior by rank of production, the last row of all ranks below those
    shown, and its posterior of each document, on `GRID`."""

    user: WorldUser
    prior: Float[np.ndarray, "R G"]
    posterior: Float[np.ndarray, "D G"]


class _Cells(NamedTuple):
    """Impressions and clicks of documents in cells, in each of which examination is the same; which cells a rank has.

    pages: the different pages of a log, and how often each is there.
    """

    kind: Kind
    query: Int[np.ndarray, "D"]
    rank: Int[np.ndarray, "D"]
    shown: Float[np.ndarray, "D C"]
    clicked: Float[np.ndarray, "D C"]
    rank_of_cell: Int[np.ndarray, "C"]
    places: int
    pages: tuple[Int[np.ndarray, "U K"], Bool[np.ndarray, "U K"], Int[np.ndarray, "U"]] | None


class _Examination(NamedTuple):
    """The logarithm of the examination of cells, that of the first is 0, and a root R of its covariance R R'."""

    logarithm: Float[np.ndarray, "C"]
    root: Float[np.ndarray, "C C"]


def production_rank(log: ClickLog) -> Int[np.ndarray, "D"]:
    """Return the rank from 1 of each document within its query, by its mean rank on the pages of the query.

    A document that a page does not show counts as below its end.
    """
    places = log.impressions.shape[1]
    by_place = np.zeros((int(log.query.max()) + 1, places))
    np.add.at(by_place, log.query, log.impressions)
    pages = by_place.max(1)[log.query]
    shown = log.impressions.sum(1)
    mean = (log.impressions @ np.arange(places) + np.maximum(pages - shown, 0) * places) / np.maximum(pages, 1)
    order = np.lexsort((np.arange(len(mean)), mean, log.query))
    sorted_query = log.query[order]
    first = np.flatnonzero(np.append(True, sorted_query[1:] != sorted_query[:-1]))
    begin = np.repeat(first, np.diff(np.append(first, len(order))))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - begin + 1
    return rank


def _cells(log: ClickLog, kind: Kind) -> _Cells:
    """Return the cells of a kind of user: ranks; ranks and last clicks; for dcm no click above, or one directly above.

    Clicks there tell how likely users read on after a click, whatever the attraction of other documents.
    """
    places, rank = log.impressions.shape[1], production_rank(log)
    if kind == "pbm":
        return _Cells(kind, log.query, rank, log.impressions, log.clicks, np.arange(places), places, None)
    if log.pages is None:
        raise ValueError(f"users of the kind {kind} need a log of pages, which counts are not: only pbm can be fitted")
    document, click, count = pages = _different(*log.pages)
    if kind == "ubm":
        cell = np.tril(np.cumsum(np.tri(places)).astype(np.int64).reshape(places, places) - 1)  # by place, last click
        rank_of_cell = np.repeat(np.arange(places), np.arange(1, places + 1))
    else:
        cell = np.full((places, places), -1)
        cell[:, 0] = 0
        cell[np.arange(1, places), np.arange(1, places)] = np.arange(1, places)
        rank_of_cell = np.arange(places)
    shape = len(log.query), len(rank_of_cell)
    shown, clicked, last = np.zeros(shape[0] * shape[1]), np.zeros(shape[0] * shape[1]), np.zeros(len(count), np.int64)
    for place in range(places):
        at = cell[place, last]
        there = (document[:, place] >= 0) & (at >= 0)
        key = document[there, place].astype(np.int64) * shape[1] + at[there]
        shown += np.bincount(key, count[there], len(shown))
        clicked += np.bincount(key, count[there] * click[there, place], len(shown))
        last = np.where(click[:, place], place + 1, last)
    return _Cells(kind, log.query, rank, shown.reshape(shape), clicked.reshape(shape), rank_of_cell, places, pages)


def _different(
    document: Int[np.ndarray, "S K"], click: Bool[np.ndarray, "S K"]
) -> tuple[Int[np.ndarray, "U K"], Bool[np.ndarray, "U K"], Int[np.ndarray, "U"]]:
    """Return the different pages, their clicks and how often each is there; told apart as by `position_bias`."""
    random = np.random.default_rng(0)
    number = random.integers(2**63, size=(int(document.max()) + 2, 1))
    factor = random.integers(2**62, size=(2, document.shape[1])) * 2 + 1
    sums = (number[document + 1, 0] * np.where(click, factor[1], factor[0])).sum(1)  # modulo 2^64
    _, first, count = np.unique(sums, return_index=True, return_counts=True)
    return document[first], click[first], count


def _examination(cells: _Cells, weight: Float[np.ndarray, "D"]) -> _Examination:
    """Return the examination of cells by the clicks of each document in some cells, given those in all.

    That eliminates attraction: sum_d (c_dc - C_d n_dc g_c / sum_c' n_dc' g_c') is 0 in expectation, also where clicks
    are frequent. Newton's steps on log g; its neighbours draw ranks of few clicks to themselves, and ranks last clicks.
    """
    used = (cells.clicked.sum(1) > 0) & ((cells.shown > 0).sum(1) > 1)
    shown, clicked, weight = cells.shown[used], cells.clicked[used], weight[used]
    clicks = weight * clicked.sum(1)
    size = shown.shape[1]
    penalty, centre = np.zeros((size, size)), np.zeros(size)
    if cells.kind == "dcm":
        penalty = np.diag(np.full(size, _SLACK**-2))
        centre = np.log(np.append(1, np.full(size - 1, 0.5)))
    else:
        within = cells.rank_of_cell[:, None] == cells.rank_of_cell
        of_rank = (np.arange(cells.places)[:, None] == cells.rank_of_cell) / within.sum(1)  # mean over cells
        step = np.diff(of_rank, axis=0)
        penalty = step.T @ step / _SLACK**2 + (np.eye(size) - within / within.sum(1)) / _SLACK_OF_LAST_CLICK**2
        centre = -np.log1p(cells.rank_of_cell)
        centre = centre - centre[0]
    theta = centre.copy()
    observed = weight @ clicked
    for _ in range(50):
        share = shown * np.exp(theta)
        share /= share.sum(1, keepdims=True)
        expected = clicks[:, None] * share
        information = np.diag(expected.sum(0)) - expected.T @ share + penalty
        slope = observed - expected.sum(0) - penalty @ (theta - centre)
        step = np.linalg.solve(information[1:, 1:], slope[1:])
        theta[1:] += step / max(1.0, np.abs(step).max() / 2)
        if np.abs(step).max() < 1e-6:
            break
    root = np.zeros((size, size))
    root[1:, 1:] = np.linalg.inv(np.linalg.cholesky(information[1:, 1:])).T
    return _Examination(theta, root)


def _user(cells: _Cells, logarithm: Float[np.ndarray, "C"]) -> WorldUser:
    """Return the user with this examination of cells."""
    examination = np.exp(logarithm)
    if cells.kind == "pbm":
        return WorldUser("pbm", examination / examination.max())
    if cells.kind == "dcm":
        return WorldUser("dcm", np.append(np.minimum(examination[1:], 1), 0.0))
    values = np.zeros((cells.places, cells.places))
    for place in range(cells.places):
        values[place, place::-1] = np.minimum(examination[cells.rank_of_cell == place], 1)  # from no click above
    return WorldUser("ubm", values)


def _likelihood(cells: _Cells, user: WorldUser, attraction: Float[np.ndarray, "D"]) -> Float[np.ndarray, "D G"]:
    """Return the likelihood of the clicks on each document by its attraction, the largest is 1.

    For dcm it takes the attractions of others, by which users still examine the ranks below a last click.
    """
    shown, clicked, examination = _examined(cells, user, attraction)
    chance = np.clip(examination[:, None] * GRID, 1e-9, 1 - 1e-9)
    logarithm = clicked @ np.log(chance) + (shown - clicked) @ np.log1p(-chance)
    return np.exp(logarithm - logarithm.max(1, keepdims=True))


def _examined(
    cells: _Cells, user: WorldUser, attraction: Float[np.ndarray, "D"]
) -> tuple[Float[np.ndarray, "D C"], Float[np.ndarray, "D C"], Float[np.ndarray, "C"]]:
    """Return impressions and clicks of documents in cells, and the examination of these."""
    if user.kind == "pbm":
        return cells.shown, cells.clicked, user.values
    if user.kind == "ubm":
        by_last_click = [user.values[place, place::-1] for place in range(cells.places)]
        return cells.shown, cells.clicked, np.concatenate(by_last_click)
    return (*_by_level(cells, user.values, attraction), np.maximum(_LEVELS, 1e-4))


def _by_level(
    cells: _Cells, goes_on: Float[np.ndarray, "K"], attraction: Float[np.ndarray, "D"]
) -> tuple[Float[np.ndarray, "D L"], Float[np.ndarray, "D L"]]:
    """Return impressions and clicks of documents by the probability that users examine them, given the clicks above."""
    assert cells.pages is not None
    document, click, count = cells.pages
    shape = len(cells.query), len(_LEVELS)
    shown, clicked, examined = np.zeros(shape[0] * shape[1]), np.zeros(shape[0] * shape[1]), np.ones(len(count))
    for place in range(cells.places):
        there = document[:, place] >= 0
        level = np.rint(np.sqrt(examined) * (len(_LEVELS) - 1)).astype(np.int64)
        key = document[there, place].astype(np.int64) * shape[1] + level[there]
        shown += np.bincount(key, count[there], len(shown))
        clicked += np.bincount(key, count[there] * click[there, place], len(shown))
        of_document = np.where(there, attraction[document[:, place]], 0)
        still = examined * (1 - of_document) / np.maximum(1 - examined * of_document, _LEAST)
        examined = np.where(click[:, place], goes_on[place], still)
    return shown.reshape(shape), clicked.reshape(shape)


def _prior(
    group: Int[np.ndarray, "D"],
    likelihood: Float[np.ndarray, "D G"],
    weight: Float[np.ndarray, "D"],
    groups: int,
    start: Float[np.ndarray, "R G"] | None = None,
    steps: int = _STEPS,
) -> Float[np.ndarray, "R G"]:
    """Return the prior of attraction by group of largest likelihood, by EM; neighbouring groups are alike."""
    prior = np.full((groups, len(GRID)), 1 / len(GRID)) if start is None else start
    members = [np.flatnonzero(group == number) for number in range(groups)]
    of_group = [(likelihood[rows], weight[rows]) for rows in members]
    for _ in range(steps):
        new = np.empty_like(prior)
        for number, (rows, share) in enumerate(of_group):
            new[number] = prior[number] * ((share / np.maximum(rows @ prior[number], _LEAST)) @ rows)
        new += 0.02 / len(GRID)
        new = new + 0.25 * (np.vstack([new[:1], new[:-1]]) + np.vstack([new[1:], new[-1:]]))
        prior = new / new.sum(1, keepdims=True)
    return prior


def _fit(
    cells: _Cells, weight: Float[np.ndarray, "Q"], logarithm: Float[np.ndarray, "C"], start: LogFit | None = None
) -> LogFit:
    """Return the fit with this examination of cells, to queries of these weights."""
    user, of_document = _user(cells, logarithm), weight[cells.query]
    group = np.minimum(cells.rank, cells.places + 1) - 1
    prior = None if start is None else start.prior
    attraction = np.full(len(group), 0.2) if start is None else start.posterior @ GRID
    for _ in range(4 if user.kind == "dcm" and start is None else 1):
        likelihood = _likelihood(cells, user, attraction)
        prior = _prior(group, likelihood, of_document, cells.places + 1, prior, _STEPS if start is None else 20)
        posterior = prior[group] * likelihood
        posterior /= posterior.sum(1, keepdims=True)
        attraction = posterior @ GRID
    assert prior is not None
    return LogFit(user, prior, posterior)


def fit(log: ClickLog, kind: Kind, weight: Float[np.ndarray, "Q"] | None = None) -> LogFit:
    """Return the users of a kind and the attractions that a log says, of queries that count as often as `weight`.

    ValueError for a log of counts, if the kind needs pages.
    """
    cells = _cells(log, kind)
    weight = np.ones(int(log.query.max()) + 1) if weight is None else weight
    return _fit(cells, weight, _examination(cells, weight[log.query]).logarithm)


def draw(fit: LogFit, random: np.random.Generator) -> Int[np.ndarray, "D"]:
    """Return attractions drawn from the posterior, as numbers of `GRID`."""
    below = fit.posterior.cumsum(1)
    return (random.random((len(below), 1)) * below[:, -1:] > below).sum(1)


def worlds(
    log: ClickLog, kind: Kind, point: int, refits: int, seed: int
) -> Iterator[tuple[bool, WorldUser, Int[np.ndarray, "D"]]]:
    """Yield worlds: whether its users and prior are drawn too, its users, and attractions as numbers of `GRID`.

    The first `point` worlds have the users and the prior of the fit; each of the `refits` others has an examination
    drawn from what the clicks leave open, and the prior of queries with random weights (Bayesian bootstrap).
    """
    cells, random = _cells(log, kind), np.random.default_rng(seed)
    queries = int(log.query.max()) + 1
    examination = _examination(cells, np.ones(len(log.query)))
    fitted = _fit(cells, np.ones(queries), examination.logarithm)
    for _ in range(point):
        yield False, fitted.user, draw(fitted, random)
    for _ in range(refits):
        logarithm = examination.logarithm + examination.root @ random.normal(size=len(examination.root))
        again = _fit(cells, random.exponential(size=queries), logarithm, fitted)
        yield True, again.user, draw(again, random)


def interval(point_gains: Sequence[float], refit_gains: Sequence[float]) -> tuple[float, float, float]:
    """Return the forecast of a gain, and the ends of its 95 % interval, by worlds of the fit and of refits.

    It is Student's by the spread between refits, about the mean of the fit: refits, whose examination differs from that
    of the fit, have a mean of their own, and so few say little of quantiles.
    """
    mean, spread = float(np.mean(point_gains)), float(np.std(refit_gains, ddof=1))
    half = quantile(len(refit_gains) - 1) * spread
    return mean, mean - half, mean + half


def users(log: ClickLog) -> dict[str, float]:
    """Return for each kind of user that a log can tell the log-likelihood of an impression of every fifth page.

    The others are fitted to. Each click is foretold from the clicks above it on its page.
    """
    if log.pages is None:
        return {"pbm": float("nan")}
    out = np.arange(len(log.pages[0])) % 5 == 4
    rest, held_out = of_pages(log, ~out), of_pages(log, out)
    weight = np.ones(int(log.query.max()) + 1)
    found: dict[str, float] = {}
    for kind in KINDS:
        cells = _cells(rest, kind)
        fitted = _fit(cells, weight, _examination(cells, weight[log.query]).logarithm)
        attraction = fitted.posterior @ GRID
        shown, clicked, examination = _examined(_cells(held_out, kind), fitted.user, attraction)
        chance = np.clip(attraction[:, None] * examination, 1e-9, 1 - 1e-9)
        total = (clicked * np.log(chance) + (shown - clicked) * np.log1p(-chance)).sum()
        found[kind] = float(total / shown.sum())
    return found


def choose(log: ClickLog) -> Kind:
    """Return the kind of user that foretells held-out pages best; pbm for a log of counts."""
    found = users(log)
    return max(KINDS, key=lambda kind: found.get(kind, -np.inf)) if log.pages is not None else "pbm"


def of_pages(log: ClickLog, kept: Bool[np.ndarray, "S"]) -> ClickLog:
    """Return the log of some pages, with the same documents."""
    assert log.pages is not None
    document, click = (array[kept] for array in log.pages)
    shown, clicked = np.zeros((2, *log.impressions.shape))
    for place in range(shown.shape[1]):
        there = document[:, place] >= 0
        shown[:, place] = np.bincount(document[there, place], minlength=len(shown))
        clicked[:, place] = np.bincount(document[there, place], click[there, place], len(shown))
    return ClickLog(log.query, shown, clicked, (document, click))


def doubt(log: ClickLog, kind: Kind) -> str:
    """Return why nothing can be forecast from a log for users of a kind; empty if it can."""
    clicks = log.clicks.sum(0)
    if log.query.max() == log.query.min():
        return "all pages are of one query, of which the uncertainty between queries cannot be told"
    if clicks.sum() < LEAST_CLICKS:
        return f"the log has {clicks.sum():,.0f} clicks, of which a forecast needs {LEAST_CLICKS:,}"
    examination, ranks = _examination(_cells(log, "pbm"), np.ones(len(log.query))), np.arange(1, len(clicks) + 1)
    examined = np.append(1, np.minimum(np.exp(examination.logarithm[1:]), 1 - 1e-9))  # errors are relative to rank 1
    apart = ~position_bias.joined_places(log, examined, 0)
    if clicks[apart].sum() > MOST_APART * clicks.sum():
        told = ", ".join(map(str, ranks[apart]))
        return f"no clicked document was shown both at rank 1 and, by a chain of others, at rank {told}: {_LOG_SWAPS}"
    errors = np.where(apart, 0, position_bias.standard_errors(log, examined))
    error = float(np.sqrt(clicks @ errors**2 / clicks.sum()))
    if error > MOST_ERROR:
        return f"the examination of ranks is known within a factor of {np.exp(1.96 * error):.1f} at best: {_LOG_SWAPS}"
    return ""
