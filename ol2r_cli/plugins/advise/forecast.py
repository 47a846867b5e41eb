"""What users would see if a learner took the place of production: the gain with its interval, from runs in worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.interfaces import ClickModel
from ol2r_cli.plugins.advise.pages import grades_of, ordered, simulated
from ol2r_cli.plugins.advise.play import DrawnWorld, WorldRun
from ol2r_cli.plugins.advise.world import WorldDocuments
from ol2r_cli.plugins.figures.trial import turning_points
from ol2r_cli.tensor.shapes import Bool, Float, Int

_Z = 1.959964 + 0.841621  # of a two-sided test at 5 % with a power of 80 %
_PAGES_OF_TESTS = 20_000  # simulated, to know how much clicks of a page vary
_POINTS = 60  # of a curve


class ForecastValue(NamedTuple):
    """A number that is forecast, and its 95 % interval."""

    mean: float
    low: float
    high: float


class GainCurve(NamedTuple):
    """A forecast after each of some numbers of pages."""

    pages: Int[np.ndarray, "X"]
    mean: Float[np.ndarray, "X"]
    low: Float[np.ndarray, "X"]
    high: Float[np.ndarray, "X"]


class Forecast(NamedTuple):
    """What a learner would change, in clicks a page.

    production: clicks a page of the log's production order. gain: of the pages so far, after each number of pages.
    ceiling: what the order by attraction would gain. worst: the sum of gains after `worst_page` pages, where its mean
    is lowest; page 0 where that is never below 0. break_even: from which page on the mean sum stays above 0; None: not
    within these pages. last: the gain in the last tenth of the pages. ab_test_pages, interleaving_pages: what these
    tests need to show it, None where it is not above 0. curve: the sum of gains.
    """

    production: ForecastValue
    gain: Mapping[int, ForecastValue]
    ceiling: ForecastValue
    worst: ForecastValue
    worst_page: int
    break_even: int | None
    last: ForecastValue
    ab_test_pages: int | None
    interleaving_pages: int | None
    curve: GainCurve

    @property
    def verdict(self) -> str:
        """Return gain, loss, or undecided, by the interval of the gain of all pages."""
        whole = self.gain[max(self.gain)]
        return "gain" if whole.low > 0 else "loss" if whole.high < 0 else "undecided"


Interval = Callable[[Sequence[float], Sequence[float]], tuple[float, float, float]]


def forecast(
    played: Sequence[WorldRun],
    worlds: Sequence[DrawnWorld],
    documents: WorldDocuments,
    interval: Interval,
    horizons: Sequence[int],
) -> Forecast:
    """Return what the runs in worlds say."""

    def estimate(value: Callable[[WorldRun], float]) -> ForecastValue:
        values = [[value(each) for each in played if each.is_refit == refit] for refit in (False, True)]
        return ForecastValue(*interval(*values))

    sums = np.stack([each.gain.cumsum() for each in played])
    refit = np.array([each.is_refit for each in played])
    pages = np.unique(np.geomspace(1, sums.shape[1], _POINTS).round().astype(np.int64))
    of_fit, of_refits = sums[~refit], sums[refit]
    bands = [interval(of_fit[:, page - 1].tolist(), of_refits[:, page - 1].tolist()) for page in pages]
    mean = of_fit.mean(0)
    last = max(1, sums.shape[1] // 10)
    at_end = estimate(lambda each: float(each.gain[-last:].mean()))
    worst_page, break_even = turning_points(mean)
    tests = [_tests(each, world, documents) for each, world in zip(played, worlds, strict=True) if not each.is_refit]
    return Forecast(
        production=estimate(lambda each: each.production),
        gain={page: estimate(lambda each, page=page: float(each.gain[:page].mean())) for page in horizons},  # type: ignore[misc]
        ceiling=estimate(lambda each: each.ceiling - each.production),
        worst=estimate(lambda each: float(each.gain[:worst_page].sum())),
        worst_page=worst_page,
        break_even=break_even,
        last=at_end,
        ab_test_pages=_pages_needed(at_end.mean, 4 * float(np.mean([test.variance for test in tests]))),
        interleaving_pages=_pages_needed(
            float(np.mean([test.preference for test in tests])),
            float(np.mean([test.variance_of_preference for test in tests])),
        ),
        curve=GainCurve(pages, *np.array(bands).T),
    )


def _pages_needed(difference: float, variance: float) -> int | None:
    """Return how many pages show a mean difference with this variance a page; None where it is not above 0."""
    return math.ceil(_Z**2 * variance / difference**2) if difference > 0 else None


class _Tests(NamedTuple):
    """Of a world: the variance of the clicks on a page, and mean and variance of what a page of interleaving says: 1
    where the trained learner has more clicks than production, -1 where it has less."""

    variance: float
    preference: float
    variance_of_preference: float


def _tests(played: WorldRun, world: DrawnWorld, documents: WorldDocuments) -> _Tests:
    random, places = np.random.default_rng(0), played.last.shape[1]
    user = world.user.model(places)
    query = random.choice(len(documents.shares), _PAGES_OF_TESTS, p=documents.shares)
    production = ordered(-documents.rank, documents.offsets, places)
    variance = np.mean([_clicks(user, lists[query], world).sum(1).var() for lists in (production, played.last)])
    lists, of_learner = team_draft(production[query], played.last[query], random)
    clicks = _clicks(user, lists, world)
    credit = np.sign((clicks & of_learner).sum(1) - (clicks & ~of_learner).sum(1))
    return _Tests(float(variance), float(credit.mean()), float(credit.var()))


def _clicks(user: ClickModel, lists: Int[np.ndarray, "P K"], world: DrawnWorld) -> Bool[np.ndarray, "P K"]:
    return simulated(user, grades_of(lists, world.grades), seed=1)


def team_draft(
    first: Int[np.ndarray, "P K"], second: Int[np.ndarray, "P K"], random: np.random.Generator
) -> tuple[Int[np.ndarray, "P K"], Bool[np.ndarray, "P K"]]:
    """Return lists that two rankers fill in turn, and which places are of the second one; -1 is no document.

    In each turn a coin says who begins. Radlinski, Kurup and Joachims, "How does clickthrough data reflect retrieval
    quality?" (CIKM 2008).
    """
    pages, places = first.shape
    lists, of_second = np.full_like(first, -1), np.zeros(first.shape, np.bool_)
    begins = random.random((pages, places)) < 0.5
    for place in range(places):
        turn = begins[:, place // 2] ^ (place % 2 == 1)
        for second_chooses, source in ((False, first), (True, second)):
            rows = np.flatnonzero(turn == second_chooses)
            taken = (source[rows, :, None] == lists[rows, None, :place]).any(2) | (source[rows] < 0)
            choice = (~taken).argmax(1)
            lists[rows, place] = np.where(taken.all(1), -1, source[rows, choice])
        of_second[:, place] = turn
    return lists, of_second


def as_json(found: Forecast, share: float, assumptions: Sequence[str]) -> dict[str, Any]:
    """Return a forecast as plain values."""
    return {
        "verdict": found.verdict,
        "clicks_a_page": found.production._asdict(),
        "gain": {str(page): estimate._asdict() for page, estimate in found.gain.items()},
        "ceiling": found.ceiling._asdict(),
        "worst": {**found.worst._asdict(), "page": found.worst_page},
        "break_even": found.break_even,
        "last": found.last._asdict(),
        "ab_test_pages": found.ab_test_pages,
        "interleaving_pages": found.interleaving_pages,
        "share_of_pages": share,
        "assumptions": list(assumptions),
    }
