"""Worlds in which a learner is played: users and attractions drawn from what a click log says, and what it leaves open.

Fitted attraction as it is makes rare documents perfect, so that learning seems to gain twice what it does: attractions
are drawn from a posterior, whose prior by rank of production is learned from the log (g-modelling: Efron, "Empirical
Bayes deconvolution estimates", Biometrika 2016). Most of what a log leaves open is the examination of ranks, which is
drawn too. Examination: documents shown at several ranks, as in Agarwal et al. (WSDM 2019). UBM: Dupret and Piwowarski
(SIGIR 2008). DBN: Chapelle and Zhang (WWW 2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from ol2r_cli.metrics.intervals import quantile
from ol2r_cli.plugins.click_logs import position_bias
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.tensor.shapes import Bool, Float, Int

Kind = Literal["pbm", "ubm", "dbn"]
KINDS: tuple[Kind, ...] = get_args(Kind)
GRID: Float[np.ndarray, "G"] = np.linspace(0.001**0.5, 0.99**0.5, 50) ** 2  # of P(click | examined)
LEAST_CLICKS = 100
MOST_APART = 0.05  # share of clicks at ranks that nothing joins to rank 1
MOST_ERROR = 0.5  # standard error of the logarithm of examination, averaged over clicks
SOME_TRUST, MOST_TRUST = 0.2, 0.7  # how much examination may depend on attraction, if that is certain, and at most
_LEVELS = np.linspace(0, 1, 25) ** 2  # of examination, to which that of users who read from the top is rounded
_LEAST, _STEPS, _RIDGE = 1e-300, 60, 1.0
_LOG_SWAPS = "log more pages on which neighbouring documents change places at random"
# Before a log is seen, log(examination) of a rank k is -eta log k with this mean and standard deviation of eta, its
# difference from the rank above has this standard deviation besides, and that of a last click about its rank:
_ETA, _SLACK_OF_ETA, _SLACK = 1.0, 0.5, 0.25
_SLACK_OF_LAST_CLICK = 1.0
_READS_ON, _SLACK_OF_READING = (0.9, 0.7, -0.3), (0.2, 0.5, 0.7)  # the same of the three numbers of dbn


class WorldUser(NamedTuple):
    """How users of a world examine.

    values: pbm: examination by rank [K], the largest is 1. ubm: [K K], row k has G(k, 1) .. G(k, k) by the distance
    from the last click, as `UserBrowsing`. dbn: the probability of reading on [2 G] without and after a click, by the
    attraction of the document as a number of `GRID`: gamma and gamma (1 - P(satisfied)), as `DynamicBayesian`.
    """

    kind: Kind
    values: Float[np.ndarray, "K"] | Float[np.ndarray, "K K"] | Float[np.ndarray, "2 G"]


class LogFit(NamedTuple):
    """Users, and what is known of attraction: its prior by rank of production, the last row of all ranks below those
    shown, and its posterior of each document, on `GRID`. weights: by which features foretell the logit of attraction;
    the last one is the standard deviation of what they leave open."""

    user: WorldUser
    prior: Float[np.ndarray, "R G"]
    posterior: Float[np.ndarray, "D G"]
    weights: Float[np.ndarray, "F"] | None = None


class _Cells(NamedTuple):
    """Impressions and clicks of documents in cells, in each of which examination is the same; which cells a rank has.

    pages: the different pages of a log, and how often each is there. features: of documents, of mean 0 and standard
    deviation 1, the first of which is 1.
    """

    kind: Kind
    query: Int[np.ndarray, "D"]
    rank: Int[np.ndarray, "D"]
    shown: Float[np.ndarray, "D C"]
    clicked: Float[np.ndarray, "D C"]
    rank_of_cell: Int[np.ndarray, "C"]
    places: int
    pages: tuple[Int[np.ndarray, "U K"], Bool[np.ndarray, "U K"], Int[np.ndarray, "U"]] | None
    features: Float[np.ndarray, "D F"] | None = None


class _Examination(NamedTuple):
    """What a log says of users, and a root R of its covariance R R'.

    values: pbm and ubm: the logarithm of the examination of cells, that of the first is 0. dbn: gamma, and b and c, by
    which users read on with probability b + c x attraction after a click.
    """

    values: Float[np.ndarray, "C"]
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


def _cells(log: ClickLog, kind: Kind, features: Float[np.ndarray, "D F"] | None = None) -> _Cells:
    """Return the cells of a kind of user, ranks or for ubm ranks and last clicks; ValueError for counts, but of pbm."""
    places, rank = log.impressions.shape[1], production_rank(log)
    if kind != "pbm" and log.pages is None:
        raise ValueError(f"users of the kind {kind} need a log of pages, which counts are not: only pbm can be fitted")
    pages = None if kind == "pbm" or log.pages is None else _different(*log.pages)
    if features is not None:
        spread = features.std(0)
        features = np.column_stack([np.ones(len(features)), ((features - features.mean(0)) / spread)[:, spread > 0]])
    if kind != "ubm" or pages is None:
        cells = np.arange(places)
        return _Cells(kind, log.query, rank, log.impressions, log.clicks, cells, places, pages, features)
    document, click, count = pages
    cell = np.cumsum(np.tri(places)).astype(np.int64).reshape(places, places) - 1  # by place and last click
    rank_of_cell = np.repeat(np.arange(places), np.arange(1, places + 1))
    shape = len(log.query), len(rank_of_cell)
    shown, clicked, last = np.zeros(shape[0] * shape[1]), np.zeros(shape[0] * shape[1]), np.zeros(len(count), np.int64)
    for place in range(places):
        there = document[:, place] >= 0
        key = document[there, place].astype(np.int64) * shape[1] + cell[place, last[there]]
        shown += np.bincount(key, count[there], len(shown))
        clicked += np.bincount(key, count[there] * click[there, place], len(shown))
        last = np.where(click[:, place], place + 1, last)
    counts = shown.reshape(shape), clicked.reshape(shape)
    return _Cells(kind, log.query, rank, *counts, rank_of_cell, places, pages, features)


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


def _examination(cells: _Cells, of_query: Float[np.ndarray, "Q"]) -> _Examination:
    """Return what the clicks on queries of these weights say of users.

    They are the clicks of each document in some cells, given those in all: sum_d (c_dc - C_d n_dc g_c / sum_c' n_dc'
    g_c') is 0 in expectation, whatever attraction is, and also where clicks are frequent. Newton's steps on log g;
    ranks of few clicks are drawn to their neighbours, and last clicks to their rank.
    """
    if cells.kind == "dbn":
        return _reading(cells, of_query)
    used = (cells.clicked.sum(1) > 0) & ((cells.shown > 0).sum(1) > 1)
    shown, clicked, weight = cells.shown[used], cells.clicked[used], of_query[cells.query[used]]
    clicks = weight * clicked.sum(1)
    size = shown.shape[1]
    within = cells.rank_of_cell[:, None] == cells.rank_of_cell
    of_rank = (np.arange(cells.places)[:, None] == cells.rank_of_cell) / within.sum(1)  # mean over cells
    shape = np.log(np.arange(2, cells.places + 1))
    steps = np.tri(cells.places - 1)
    spread = _SLACK_OF_ETA**2 * np.outer(shape, shape) + _SLACK**2 * steps @ steps.T  # of ranks below the first
    below = of_rank[1:] - of_rank[0]
    penalty = (
        below.T @ np.linalg.solve(spread, below) + (np.eye(size) - within / within.sum(1)) / _SLACK_OF_LAST_CLICK**2
    )
    centre = -_ETA * np.log1p(cells.rank_of_cell)
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


def _reading(cells: _Cells, of_query: Float[np.ndarray, "Q"]) -> _Examination:
    """Return what the clicks say of dbn, by the equation of `_examination` for each click given those above it.

    Attractions, which decide how likely users still read, are fitted in turn.
    """
    assert cells.pages is not None
    document, click, count = cells.pages
    there, size = document >= 0, len(cells.query)
    row, clicks = document[there], cells.clicked.sum(1)
    shown = np.repeat(count[:, None], document.shape[1], 1)[there]
    weight, penalty = of_query[cells.query], np.diag(np.array(_SLACK_OF_READING) ** -2.0)
    values, fitted = np.array(_READS_ON), None
    for _ in range(8):
        fitted = _fit(cells, of_query, values, fitted)
        attraction = fitted.posterior @ GRID
        for _ in range(3):
            examined, gradient = (
                np.stack(part, 1)[there] for part in zip(*_read(cells, values, attraction), strict=True)
            )
            expected = shown * examined
            total = np.maximum(np.bincount(row, expected, size), _LEAST)
            mean = np.stack([np.bincount(row, expected * part, size) for part in gradient.T], 1) / total[:, None]
            away = gradient - mean[row]
            observed = (weight[row] * shown * click[there]) @ away
            scaled = weight[row] * expected * (clicks / total)[row]
            information = (away * scaled[:, None]).T @ away + penalty
            slope = observed - scaled @ away - penalty @ (values - _READS_ON)
            step = np.linalg.solve(information, slope)
            values = values + step / max(1.0, np.abs(step).max() / 0.2)
            values[0] = values[0].clip(0.05, 1)
    return _Examination(values, np.linalg.inv(np.linalg.cholesky(information)).T)


def _read(
    cells: _Cells, values: Float[np.ndarray, "3"], attraction: Float[np.ndarray, "D"]
) -> Iterator[tuple[Float[np.ndarray, "U"], Float[np.ndarray, "U 3"]]]:
    """Yield by place how likely users of dbn examine it, given the clicks above, and the gradient of its logarithm."""
    assert cells.pages is not None
    document, click, _ = cells.pages
    examined, gradient = np.ones(len(click)), np.zeros((len(click), 3))
    for place in range(cells.places):
        yield examined, gradient
        of_document = np.where(document[:, place] >= 0, attraction[document[:, place]], 0)
        misses = np.maximum(1 - examined * of_document, 1e-9)
        after = (values[1] + values[2] * of_document).clip(0.01, values[0])
        clicked = np.stack([np.zeros(len(after)), 1 / after, of_document / after], 1)
        gradient = np.where(click[:, place, None], clicked, gradient / misses[:, None] + [1 / values[0], 0, 0])
        examined = np.where(click[:, place], after, values[0] * examined * (1 - of_document) / misses)


def _user(cells: _Cells, values: Float[np.ndarray, "C"]) -> WorldUser:
    """Return the user with the values of an examination."""
    if cells.kind == "dbn":
        patience = min(values[0], 1)
        return WorldUser(
            "dbn", np.stack([np.full(len(GRID), patience), (values[1] + values[2] * GRID).clip(0.01, patience)])
        )
    examination = np.exp(values)
    if cells.kind == "pbm":
        return WorldUser("pbm", examination / examination.max())
    by_distance = np.zeros((cells.places, cells.places))
    for place in range(cells.places):
        by_distance[place, place::-1] = np.minimum(examination[cells.rank_of_cell == place], 1)  # from no click above
    return WorldUser("ubm", by_distance)


def _likelihood(
    cells: _Cells, values: Float[np.ndarray, "C"], attraction: Float[np.ndarray, "D"]
) -> tuple[Float[np.ndarray, "D G"], Float[np.ndarray, "D"]]:
    """Return the likelihood of the clicks on each document by its attraction, the largest is 1, and how often it was
    examined in expectation.

    For dbn it takes the attractions of others, by which users still read.
    """
    shown, clicked, examination = _examined(cells, values, attraction)
    chance = np.clip(examination[:, None] * GRID, 1e-9, 1 - 1e-9)
    logarithm = clicked @ np.log(chance) + (shown - clicked) @ np.log1p(-chance)
    return np.exp(logarithm - logarithm.max(1, keepdims=True)), shown @ examination


def _examined(
    cells: _Cells, values: Float[np.ndarray, "C"], attraction: Float[np.ndarray, "D"]
) -> tuple[Float[np.ndarray, "D C"], Float[np.ndarray, "D C"], Float[np.ndarray, "C"]]:
    """Return impressions and clicks of documents in cells, and the examination of these."""
    user = _user(cells, values)
    if user.kind == "pbm":
        return cells.shown, cells.clicked, user.values
    if user.kind == "ubm":
        by_last_click = [user.values[place, place::-1] for place in range(cells.places)]
        return cells.shown, cells.clicked, np.concatenate(by_last_click)
    assert cells.pages is not None
    document, click, count = cells.pages
    shape = len(cells.query), len(_LEVELS)
    shown, clicked = np.zeros(shape[0] * shape[1]), np.zeros(shape[0] * shape[1])
    for place, (examined, _) in enumerate(_read(cells, values, attraction)):
        there = document[:, place] >= 0
        level = np.rint(np.sqrt(examined[there]) * (len(_LEVELS) - 1)).astype(np.int64)
        key = document[there, place].astype(np.int64) * shape[1] + level
        shown += np.bincount(key, count[there], len(shown))
        clicked += np.bincount(key, count[there] * click[there, place], len(shown))
    return shown.reshape(shape), clicked.reshape(shape), np.maximum(_LEVELS, 1e-4)


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
    cells: _Cells, weight: Float[np.ndarray, "Q"], values: Float[np.ndarray, "C"], start: LogFit | None = None
) -> LogFit:
    """Return the fit with the values of an examination, to queries of these weights."""
    group = np.minimum(cells.rank, cells.places + 1) - 1
    prior, weights = (None, None) if start is None else (start.prior, start.weights)
    attraction = np.full(len(group), 0.2) if start is None else start.posterior @ GRID
    for _ in range(4 if cells.kind == "dbn" and start is None else 1):
        likelihood, examined = _likelihood(cells, values, attraction)
        told = weight[cells.query] * examined / (1 + examined)  # a document that is hardly examined tells nothing
        prior = _prior(group, likelihood, told, cells.places + 1, prior, _STEPS if start is None else 20)
        of_document = prior[group]
        if cells.features is not None:
            weights = _regression(cells.features, likelihood, told, weights, 200 if start is None else 50)
            of_document = _by_features(cells.features, weights)
        posterior = of_document * likelihood
        posterior /= posterior.sum(1, keepdims=True)
        attraction = posterior @ GRID
    assert prior is not None
    return LogFit(_user(cells, values), prior, posterior, weights)


def _regression(
    features: Float[np.ndarray, "D F"],
    likelihood: Float[np.ndarray, "D G"],
    weight: Float[np.ndarray, "D"],
    start: Float[np.ndarray, "F1"] | None,
    steps: int,
) -> Float[np.ndarray, "F1"]:
    """Return weights of features, and the standard deviation, of largest likelihood, by EM.

    The logit of attraction is normal about features @ weights. A ridge keeps weights of few documents small.
    """
    logit, size = np.log(GRID / (1 - GRID)), features.shape[1]
    weights = np.append(np.zeros(size), 1.5) if start is None else start
    if start is None:
        weights[0] = -2.0
    scaled = features * weight[:, None]
    information = scaled.T @ features + np.diag(np.append(0.01, np.full(size - 1, _RIDGE)))
    for _ in range(steps):
        posterior = _by_features(features, weights) * likelihood
        posterior /= np.maximum(posterior.sum(1, keepdims=True), _LEAST)
        mean, square = posterior @ logit, posterior @ logit**2
        found = np.linalg.solve(information, scaled.T @ mean)
        about = features @ found
        variance = weight @ (square - 2 * mean * about + about**2) / max(float(weight.sum()), _LEAST)
        weights = np.append(found, np.sqrt(max(float(variance), 0.01)))
    return weights


def _by_features(features: Float[np.ndarray, "D F"], weights: Float[np.ndarray, "F1"]) -> Float[np.ndarray, "D G"]:
    """Return the prior of each document: normal in the logit, on the steps of `GRID`."""
    logit = np.log(GRID / (1 - GRID))
    away = (logit - (features @ weights[:-1])[:, None]) / weights[-1]
    density = np.exp(-0.5 * (away**2 - (away**2).min(1, keepdims=True))) * np.gradient(logit)
    return np.asarray(density / density.sum(1, keepdims=True))


def fit(
    log: ClickLog,
    kind: Kind,
    weight: Float[np.ndarray, "Q"] | None = None,
    features: Float[np.ndarray, "D F"] | None = None,
) -> LogFit:
    """Return the users of a kind and the attractions that a log says, of queries that count as often as `weight`.

    features: of all documents, which foretell attraction. ValueError for a log of counts, if the kind needs pages.
    """
    cells = _cells(log, kind, features)
    weight = np.ones(int(log.query.max()) + 1) if weight is None else weight
    return _fit(cells, weight, _examination(cells, weight).values)


def draw(fit: LogFit, random: np.random.Generator) -> Int[np.ndarray, "D"]:
    """Return attractions drawn from the posterior, as numbers of `GRID`."""
    below = fit.posterior.cumsum(1)
    return (random.random((len(below), 1)) * below[:, -1:] > below).sum(1)


def worlds(
    log: ClickLog, kind: Kind, point: int, refits: int, seed: int, features: Float[np.ndarray, "D F"] | None = None
) -> Iterator[tuple[bool, WorldUser, Int[np.ndarray, "D"]]]:
    """Yield worlds: whether its users and prior are drawn too, its users, and attractions as numbers of `GRID`.

    The first `point` worlds have the users and the prior of the fit; each of the `refits` others has an examination
    drawn from what the clicks leave open, and the prior of queries with random weights (Bayesian bootstrap).
    """
    cells, random = _cells(log, kind, features), np.random.default_rng(seed)
    queries = int(log.query.max()) + 1
    examination = _examination(cells, np.ones(queries))
    fitted = _fit(cells, np.ones(queries), examination.values)
    for _ in range(point):
        yield False, fitted.user, draw(fitted, random)
    for _ in range(refits):
        values = examination.values + examination.root @ random.normal(size=len(examination.root))
        again = _fit(cells, random.exponential(size=queries), values, fitted)
        yield True, again.user, draw(again, random)


def interval(point_gains: Sequence[float], refit_gains: Sequence[float]) -> tuple[float, float, float]:
    """Return the forecast of a gain, and the ends of its 95 % interval, by worlds of the fit and of refits.

    It is Student's by the spread between refits, about the mean of the fit: refits, whose examination differs from that
    of the fit, have a mean of their own, and so few say little of quantiles.
    """
    mean, spread = float(np.mean(point_gains)), float(np.std(refit_gains, ddof=1))
    half = quantile(len(refit_gains) - 1) * spread
    return mean, mean - half, mean + half


def users(log: ClickLog) -> dict[Kind, Float[np.ndarray, "Q"]]:
    """Return for each kind of user the log-likelihood of every fifth page, summed by query; nothing without pages of
    two ranks.

    The others are fitted to. Each click is foretold from the clicks above it on its page.
    """
    if log.pages is None or len(log.pages[0]) < 5 or log.impressions.shape[1] < 2:
        return {}
    out = np.arange(len(log.pages[0])) % 5 == 4
    rest, held_out = of_pages(log, ~out), of_pages(log, out)
    weight = np.ones(int(log.query.max()) + 1)
    found = {}
    for kind in KINDS:
        cells = _cells(rest, kind)
        values = _examination(cells, weight).values
        attraction = _fit(cells, weight, values).posterior @ GRID
        shown, clicked, examination = _examined(_cells(held_out, kind), values, attraction)
        chance = np.clip(attraction[:, None] * examination, 1e-9, 1 - 1e-9)
        of_document = (clicked * np.log(chance) + (shown - clicked) * np.log1p(-chance)).sum(1)
        found[kind] = np.bincount(log.query, of_document, len(weight))
    return found


def choose(log: ClickLog) -> list[Kind]:
    """Return the kinds of users that a log does not tell apart, the one first that foretells held-out pages best.

    Others are worse by more than two standard errors, which are over queries. A log of counts tells only of pbm.
    """
    found = users(log)
    if not found:
        return ["pbm"]
    ranked: list[Kind] = sorted(found, key=lambda kind: -found[kind].sum())
    kept = []
    for kind in ranked:
        behind = found[ranked[0]] - found[kind]
        if behind.sum() <= 2 * np.sqrt(len(behind)) * behind.std():
            kept.append(kind)
    return kept


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
    if len(clicks) < 2:
        return "all documents are at one rank, and a forecast needs pages of two documents or more"
    if log.query.max() == log.query.min():
        return "all pages are of one query, of which the uncertainty between queries cannot be told"
    if clicks.sum() < LEAST_CLICKS:
        return f"the log has {clicks.sum():,.0f} clicks, of which a forecast needs {LEAST_CLICKS:,}"
    examination = _examination(_cells(log, "pbm"), np.ones(int(log.query.max()) + 1))
    examined = np.append(1, np.minimum(np.exp(examination.values[1:]), 1 - 1e-9))  # errors are relative to rank 1
    apart = ~position_bias.joined_places(log, examined, 0)
    if clicks[apart].sum() > MOST_APART * clicks.sum():
        told = ", ".join(map(str, 1 + np.flatnonzero(apart)))
        return f"no clicked document was shown both at rank 1 and, by a chain of others, at rank {told}: {_LOG_SWAPS}"
    errors = np.where(apart, 0, position_bias.standard_errors(log, examined))
    error = float(np.sqrt(clicks @ errors**2 / clicks.sum()))
    if error > MOST_ERROR:
        return f"the examination of ranks is known within a factor of {np.exp(1.96 * error):.1f} at best: {_LOG_SWAPS}"
    slope, error = _trust(log, kind)
    if abs(slope) > max(SOME_TRUST, 3 * error):
        fewer = "fewer" if slope < 0 else "more"
        told = f"attractive documents lose {fewer} clicks by a low rank than others"
        return f"{told}, as none of the kinds of users explains"
    if abs(slope) + 2 * error > MOST_TRUST:
        return f"clicks do not tell whether users trust in ranks, or only see the upper ones more often: {_LOG_SWAPS}"
    return ""


def _trust(log: ClickLog, kind: Kind) -> tuple[float, float]:
    """Return by how much examination depends on attraction, and the standard error of that.

    It is b of P(click) = a_d g_c^(1 + b x_d), one step of Newton's from 0. The logarithm x_d of the click rate is that
    of one half of the impressions, b that of the clicks on the other half, and the reverse.
    """
    cells, weight = _cells(log, kind), np.ones(int(log.query.max()) + 1)
    values = _examination(cells, weight).values
    shown, clicked, examination = _examined(cells, values, _fit(cells, weight, values).posterior @ GRID)
    seen = shown.sum(0) > 0
    shown, clicked, examination = shown[:, seen].astype(np.int64), clicked[:, seen].astype(np.int64), examination[seen]
    random, depth = np.random.default_rng(0), np.log(examination)
    half = random.binomial(shown, 0.5)
    in_half = random.hypergeometric(clicked, shown - clicked, half)
    size = len(depth) + 1
    slope, information = np.zeros(size), np.eye(size) * 1e-3
    for n, c, n_other, c_other in (
        (half, in_half, shown - half, clicked - in_half),
        (shown - half, clicked - in_half, half, in_half),
    ):
        examined, clicks = n_other @ examination, c_other.sum(1)
        rate = np.log((clicks + clicks.sum() / examined.sum()) / (examined + 1))
        share = n * examination
        share /= np.maximum(share.sum(1, keepdims=True), _LEAST)
        of_document = c.sum(1)
        x = rate - (of_document @ rate) / max(of_document.sum(), 1)
        mean = share @ depth
        slope += np.append((c - of_document[:, None] * share).sum(0), x @ (c @ depth - of_document * mean))
        expected = of_document[:, None] * share
        both = (x @ (expected * (depth - mean[:, None])))[:, None]
        own = (of_document * x**2) @ (share @ depth**2 - mean**2)
        information += np.block([[np.diag(expected.sum(0)) - expected.T @ share, both], [both.T, np.array([[own]])]])
    covariance = np.linalg.inv(information)
    return float(covariance[-1] @ slope), float(covariance[-1, -1] ** 0.5)
