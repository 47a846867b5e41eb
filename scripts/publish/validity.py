"""How valid simulated users are: whether two rankers have the order under them that they have under users fitted to
logs, beside how far users are from these in what they click.

Zerhoudi (SIGIR 2026, arXiv 2604.27878) asks which distance from real users says that a simulator orders systems as they
do, and finds that of click depth (|r| = .43 over 48 simulators and data).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.click_logs.fitted_user import SHARES
from ol2r_cli.report.measures import heading
from ol2r_cli.report.names import click_order
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.text.table import TextTable, markdown

PLACES, GRADES = 10, 3  # of lists
ROUNDING = 1e-9  # of equal correlations
Taus = Mapping[tuple[str, str], Any]  # a `Tau` of two users


def last_click(user: str) -> float:
    """Return the mean rank of the last click of pages with a click, on lists in random order with MQ2008's grades.

    It is exact, for users who examine ranks independently (`click.examination`), and for those who read from the top
    and stop after a click, by grade (`click.stop`) or by rank (`click.continuation`): docs/algorithms/clicks.md.
    """
    settings, shares = Catalogue().choices["click"][user].content, np.array(SHARES[GRADES])
    table = {name: np.array(values) for name, values in settings["tables"][GRADES].items()}
    click = shares @ table["click"]  # of an examined document
    if "examination" in settings:
        clicks = click * np.array(settings["examination"])
        none_below = np.cumprod(np.append(1, 1 - clicks[:0:-1]))[::-1]
        last = clicks * none_below
    else:
        stop = shares @ (table["click"] * table["stop"]) / click if "stop" in table else 0
        goes_on = np.array(settings.get("continuation", [1 - stop] * PLACES))
        reached = np.cumprod(np.append(1, 1 - click * (1 - goes_on[:-1])))
        none_below = (1 - click) ** np.arange(PLACES - 1, -1, -1)
        last = reached * click * (1 - goes_on * (1 - none_below))
    return float(last @ np.arange(1, PLACES + 1) / last.sum())


def agreement(found: Sequence[Taus], user: str, other: str) -> tuple[float, Float[np.ndarray, "draws"]]:
    """Return in which share of pairs two users order two rankers alike, the mean over data; and in each draw."""
    of_data = [taus[user, other] for taus in found]
    return (1 + np.mean([tau.value for tau in of_data])) / 2, (1 + np.mean([tau.drawn for tau in of_data], 0)) / 2


def section(found: Mapping[str, Mapping[str, Taus]], clicks: Mapping[str, float], fitted: Sequence[str]) -> list[str]:
    """Return the paragraphs: the agreement of all users with those fitted to logs, and how distance predicts it.

    found: by metric and data. clicks: a page, by user.
    """
    users = sorted(clicks, key=click_order)
    last_clicks = {user: last_click(user) for user in users}
    columns = [(other, metric) for other in fitted for metric in found]
    headings = [f"{other}, {heading(metric)}" for other, metric in columns]
    rows = []
    for user in users:
        agreements = [agreement([*found[metric].values()], user, other) for other, metric in columns]
        numbers = [f"{clicks[user]:.2f}", f"{last_clicks[user]:.1f}"]
        rows.append([user, *numbers, *(_with_interval(*of_column) for of_column in agreements)])
    data = [*next(iter(found.values()))]
    pairs = [*dict.fromkeys(tuple(sorted((user, other))) for other in fitted for user in users if user != other)]
    lines = [
        [name, heading(metric), *predicted(of_user, of_data, pairs)]
        for name, of_user in (("last click", last_clicks), ("clicks a page", clicks))
        for metric, of_data in found.items()
    ]
    return [
        "## Validity of simulated users",
        "In which share of the pairs of rankers that learn from clicks a user has the order of a user fitted to a log, "
        f"who stands for the log: the mean over {', '.join(data)}. Higher is more alike; 0.5 is chance, and of a user "
        f"and itself it is that of two draws. In parentheses: its {LEVEL:.0%} interval over the draws above. clicks a "
        "page: in these runs, the mean over rankers and data. last click: its mean rank on pages with a click, of "
        "lists of ten in random order with the shares of grades of MQ2008.",
        markdown(TextTable.of(["user"], ["clicks a page", "last click", *headings], rows)),
        "Does the distance of two users predict how often they agree? Pearson's r over the "
        f"{len(pairs)} pairs of a fitted user and another one: below 0, users that are near each other agree more. Its "
        "interval is over the same draws, and says nothing about other users. p: the share of the permutations of "
        "users' distances with an r as low, not corrected for the number of rows. Which distances are compared was not "
        "fixed before the runs.",
        markdown(TextTable.of(["distance in", "agreement by"], ["r", "p", *data], lines)),
    ]


def predicted(of_user: Mapping[str, float], of_data: Mapping[str, Taus], pairs: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the correlation of the distance of pairs with their agreement, as text: over all data with its interval,
    its p by permutations of users, and that of each of the data."""

    def correlation(of_user: Mapping[str, float], agreements: Any) -> Any:
        distance = np.array([abs(of_user[user] - of_user[other]) for user, other in pairs])
        x, y = distance - distance.mean(), agreements - agreements.mean(-1, keepdims=True)
        return y @ x / np.sqrt((x @ x) * (y * y).sum(-1))

    values, drawn = zip(*(agreement([*of_data.values()], *pair) for pair in pairs), strict=True)
    r = correlation(of_user, np.array(values))
    permuted = [
        correlation(dict(zip(of_user, others, strict=True)), np.array(values))
        for others in permutations(of_user.values())
    ]
    p = np.mean(np.array(permuted) <= r + ROUNDING)
    by_data = [correlation(of_user, np.array([agreement([of], *pair)[0] for pair in pairs])) for of in of_data.values()]
    return [
        _with_interval(r, correlation(of_user, np.array(drawn).T)),
        f"{p:.3f}",
        *(f"{each:.2f}" for each in by_data),
    ]


def _with_interval(value: float, drawn: Float[np.ndarray, "draws"]) -> str:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return f"{value:.2f} ({low:.2f} to {high:.2f})"
