"""Worlds drawn from a click log: what users are found, what remains open, and when nothing can be said."""

from __future__ import annotations

import numpy as np
import pytest

from ol2r_cli.plugins.advise import worlds
from ol2r_cli.plugins.advise.worlds import GRID, WorldUser
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.tensor.shapes import Bool, Float, Int
from tests.plugins.advise.logs import clicks_of

PLACES = 5
USERS = {
    "pbm": WorldUser("pbm", np.array([1, 0.6, 0.4, 0.3, 0.2])),
    "ubm": WorldUser(
        "ubm",
        np.array([[1, 0, 0, 0, 0], [0.9, 0.5, 0, 0, 0], [0.8, 0.6, 0.3, 0, 0], [0.8, 0.6, 0.4, 0.2, 0], [0.7] * 5]),
    ),
    "dbn": WorldUser("dbn", np.stack([np.full(len(GRID), 0.9), 0.8 - 0.5 * GRID])),
}


def logged(
    user: WorldUser, pages: int, queries: int = 40, swapped: float = 1.0, seed: int = 0
) -> tuple[ClickLog, Float[np.ndarray, "D"]]:
    """A log of pages on which neighbours change places, and the attraction of its documents."""
    random = np.random.default_rng(seed)
    attraction = random.beta(1, 3, (queries, PLACES)).clip(0.01, 0.95)
    query = random.integers(queries, size=pages)
    order = np.tile(np.arange(PLACES), (pages, 1))
    for page in np.flatnonzero(random.random(pages) < swapped):
        place = random.integers(PLACES - 1)
        order[page, [place, place + 1]] = order[page, [place + 1, place]]
    document = (query[:, None] * PLACES + order).astype(np.int32)
    clicks = clicks_of(user, attraction.ravel()[document], random)
    return of_pages(document, clicks), attraction.ravel()


def of_pages(document: Int[np.ndarray, "S K"], clicks: Bool[np.ndarray, "S K"]) -> ClickLog:
    documents = int(document.max()) + 1
    empty = ClickLog(np.arange(documents) // PLACES, *np.zeros((2, documents, PLACES)), (document, clicks))
    return worlds.of_pages(empty, np.ones(len(document), bool))


def test_production_rank_is_the_mean_rank_where_missing_is_below():
    """Document 2 was at rank 1 on one page of four, so that its mean rank is (1 + 3 x 3) / 4."""
    shown = np.array([[3.0, 1], [0, 3], [1, 0]])
    log = ClickLog(np.zeros(3, int), shown, shown)
    assert worlds.production_rank(log).tolist() == [1, 2, 3]
    other = ClickLog(np.array([1, 0, 1]), shown, shown)
    assert worlds.production_rank(other).tolist() == [1, 1, 2]


@pytest.mark.parametrize("kind", ["pbm", "ubm", "dbn"])
def test_users_and_attractions_are_found(kind):
    """Of 20,000 pages, and the kind of users by the pages held out: ubm can do all that pbm does."""
    log, attraction = logged(USERS[kind], 20_000)
    found = worlds.fit(log, kind)
    error = found.user.values - USERS[kind].values
    assert np.abs(error).max() < (0.06 if kind == "pbm" else 0.15)
    assert np.abs(found.posterior @ GRID - attraction).mean() < 0.03
    assert kind in worlds.choose(log)
    assert worlds.choose(log)[0] == kind or kind == "pbm"  # of which ubm has all


def test_counts_say_what_pages_say():
    log, _ = logged(USERS["pbm"], 2000)
    counts = ClickLog(log.query, log.impressions, log.clicks)
    np.testing.assert_allclose(worlds.fit(counts, "pbm").posterior, worlds.fit(log, "pbm").posterior)
    assert worlds.choose(counts) == ["pbm"]
    with pytest.raises(ValueError, match="need a log of pages"):
        worlds.fit(counts, "ubm")


def test_examination_is_unbiased_of_rare_documents():
    """Of documents that were shown twice, of which likelihoods with an attraction for each one are far off."""
    user = WorldUser("pbm", np.array([1, 0.8, 0.6, 0.5, 0.4]))
    log, _ = logged(user, 16_000, queries=8000)
    assert log.impressions.sum(1).mean() == pytest.approx(2)
    np.testing.assert_allclose(worlds.fit(log, "pbm").user.values, user.values, atol=0.06)


def test_rare_documents_are_not_perfect():
    """Attractions drawn for documents that were shown once have the mean and the spread of all."""
    log, attraction = logged(USERS["pbm"], 3000, queries=3000)
    found = worlds.fit(log, "pbm")
    drawn = GRID[worlds.draw(found, np.random.default_rng(0))]
    assert drawn.mean() == pytest.approx(attraction.mean(), abs=0.04)
    assert drawn.std() == pytest.approx(attraction.std(), abs=0.06)
    rate = log.clicks.sum(1) / np.maximum(log.impressions @ USERS["pbm"].values, 1e-9)
    assert rate.std() > 2 * drawn.std()  # attraction as it is fitted to each document


def test_draws_have_the_probabilities_of_the_posterior():
    posterior = np.zeros((2, len(GRID)))
    posterior[0, [3, 7]], posterior[1, 49] = (0.25, 0.75), 1
    found, random = worlds.LogFit(USERS["pbm"], posterior, posterior), np.random.default_rng(0)
    drawn = np.array([worlds.draw(found, random) for _ in range(2000)])
    assert set(drawn[:, 0]) == {3, 7}
    assert (drawn[:, 0] == 3).mean() == pytest.approx(0.25, abs=0.04)
    assert set(drawn[:, 1]) == {49}


def test_worlds_repeat_and_differ():
    log, _ = logged(USERS["ubm"], 1000)
    first, again = ([*worlds.worlds(log, "ubm", 2, 3, seed=5)] for _ in range(2))
    assert [is_refit for is_refit, _, _ in first] == [False, False, True, True, True]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one[1].values, other[1].values)
        np.testing.assert_array_equal(one[2], other[2])
    examinations = {user.values.tobytes() for _, user, _ in first}
    assert len(examinations) == 4  # the first two have that of the fit
    assert len({grades.tobytes() for _, _, grades in first}) == 5


def covered(logs: int, refits: int) -> float:
    """The share of small logs whose interval has what the order by attraction would gain."""
    user, inside = USERS["pbm"], 0
    for seed in range(logs):
        log, attraction = logged(user, 1500, queries=30, seed=seed)
        order = worlds.production_rank(log).reshape(-1, PLACES).argsort(1)
        attraction = attraction[: len(log.query)]

        def gain(examination, of_document, order=order):
            by_query = of_document.reshape(-1, PLACES)
            now = np.take_along_axis(by_query, order, 1)
            return float((-np.sort(-by_query, 1) @ examination - now @ examination).mean())

        gains = {False: [], True: []}
        for is_refit, drawn, grades in worlds.worlds(log, "pbm", refits // 2, refits, seed):
            gains[is_refit].append(gain(drawn.values, GRID[grades]))
        _, low, high = worlds.interval(gains[False], gains[True])
        inside += low <= gain(user.values, attraction) <= high
    return inside / logs


def test_interval_is_students_by_the_spread_of_refits():
    """Of three refits: 4.303 standard deviations about the mean of the fit."""
    assert worlds.interval([2.0, 4.0], [10.0, 11.0, 12.0]) == pytest.approx((3, 3 - 4.302653, 3 + 4.302653))


def test_intervals_contain_the_truth():
    assert covered(logs=12, refits=24) >= 10 / 12


@pytest.mark.slow
def test_intervals_contain_the_truth_in_most_logs():
    assert 0.88 <= covered(logs=100, refits=40) <= 1


def test_what_cannot_be_forecast_is_said():
    log, _ = logged(USERS["pbm"], 5000)
    assert worlds.doubt(log, "pbm") == ""
    assert "one query" in worlds.doubt(log.of(log.query == 0), "pbm")
    assert "clicks, of which a forecast needs" in worlds.doubt(worlds.of_pages(log, np.arange(5000) < 50), "pbm")


@pytest.mark.parametrize(("swapped", "told"), [
    (0, "no clicked document was shown both at rank 1"),
    (0.03, "clicks do not tell whether users trust in ranks"),
    (0.004, "known within a factor of"),
])  # fmt: skip
def test_logs_with_few_changes_of_ranks_have_no_forecast(swapped, told):
    assert told in worlds.doubt(logged(USERS["pbm"], 5000, swapped=swapped)[0], "pbm")


@pytest.mark.parametrize("kind", ["pbm", "ubm"])
def test_users_who_trust_in_ranks_are_not_forecast(kind):
    """At rank 1 they click on nearly every document, at lower ranks on attractive ones."""
    random = np.random.default_rng(0)
    log, attraction = logged(USERS["pbm"], 10_000)
    document, _ = log.pages
    certain = np.array([0.7, 0.3, 0.1, 0.05, 0.05])
    chance = np.array([1, 0.9, 0.8, 0.7, 0.6]) * (certain + (1 - certain) * attraction[document])
    trusting = of_pages(document, random.random(document.shape) < chance)
    assert "attractive documents lose fewer clicks by a low rank" in worlds.doubt(trusting, kind)
    assert worlds.doubt(log, kind) == ""
