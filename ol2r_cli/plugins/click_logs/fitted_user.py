"""The user that is fitted to a click log: attraction by grade, a comparison with the log, and the YAML file.

Attraction by grade is clicks over examinations of the documents of a grade, so that the user clicks as often as the log
on lists of these documents. Grades are labels of a dataset, or quantiles of attraction with assumed shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from ol2r_cli.dataset.letor import document_names
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.plugins.click_logs.position_bias import LEAST, MOST_ERROR, dcm, examined, pbm
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.text.formatting import listed, plural

ENOUGH = 100  # impressions of a document whose attraction stands for a grade, if so many documents have them
# Shares of grades, by their number: of MSLR-WEB30K, and of LETOR's MQ2008; with two grades its upper ones are one.
SHARES = {5: (0.51469, 0.32504, 0.1339, 0.0183, 0.00807), 3: (0.80724, 0.13155, 0.06121), 2: (0.80724, 0.19276)}
LEAST_JOINED = 0.5  # of the impressions of queries that log and data both have
MOST_DIFFERENCE = 0.05  # of clicks between the log and the fitted user, without a warning


class JoinedLabels(NamedTuple):
    """The grades of the documents of a log that a dataset has, -1 for others, and how many were joined and not."""

    grade: Int[np.ndarray, "D"]
    grades: int
    joined: str
    unknown: str = ""


def joined_labels(log: ClickLog, dataset: Dataset) -> JoinedLabels:
    """Return the grades of documents; ValueError as `joined_rows`."""
    rows, joined = joined_rows(log, dataset)
    grade = np.where(rows >= 0, dataset.labels.numpy()[rows], -1).astype(np.int64)
    common = pl.Series(log.query_ids, dtype=pl.String).is_in(dataset.query_ids).to_numpy()[log.query]
    shown, lost, unknown = log.impressions.sum(1), common & (rows < 0), ""
    if lost.any():
        where = f"in its queries, {shown[lost].sum() / shown[common].sum():.1%} of their impressions"
        unknown = f"{plural(int(lost.sum()), 'document')} {where}: they keep their ranks, and have no grade"
    return JoinedLabels(grade, dataset.grades, joined, unknown)


def joined_rows(log: ClickLog, dataset: Dataset) -> tuple[Int[np.ndarray, "D"], str]:
    """Return the row in the data of each document of a log, -1 for others, by the ids of query and document; and how
    many were joined.

    The id of a document is its name in a LETOR comment (`# docid = NAME`), as `ol2r export --to trec` has it, or its
    row in the table, as `--to clicks` has it: whichever joins more. ValueError where the log has no query of the
    dataset, or less than half of the impressions of these queries are of documents that the dataset has.
    """
    query_of = np.repeat(np.arange(len(dataset.query_ids)), np.diff(dataset.offsets.numpy()))
    of_log = pl.DataFrame({
        "query": pl.Series(log.query_ids, dtype=pl.String).gather(log.query),
        "document": pl.Series(log.document_ids, dtype=pl.String),
    })  # fmt: skip
    shown, rows, share = log.impressions.sum(1), np.full(len(log.query), -1), -1.0
    for names in dict.fromkeys([tuple(map(str, document_names(dataset))), tuple(map(str, range(len(query_of))))]):
        of_data = pl.DataFrame({
            "query": pl.Series(dataset.query_ids, dtype=pl.String).gather(query_of),
            "document": pl.Series(names, dtype=pl.String),
            "row": np.arange(len(query_of)),
        })  # fmt: skip
        found = of_log.join(of_data, on=["query", "document"], how="left", maintain_order="left")["row"]
        joined = found.fill_null(-1).to_numpy()
        if shown[joined >= 0].sum() > share:
            rows, share = joined, shown[joined >= 0].sum()
    common = of_log["query"].is_in(dataset.query_ids).to_numpy()
    queries, all_queries = of_log["query"].filter(pl.Series(common)).n_unique(), len(log.query_ids)
    if not queries:
        raise ValueError(
            f"dataset={dataset.name} has none of the {all_queries} queries of the log, such as {of_log['query'][0]}"
        )
    lost = np.flatnonzero(common & (rows < 0))
    of_common = share / shown[common].sum()
    if of_common < LEAST_JOINED:
        query, document = of_log.row(int(lost[0]))
        needed = f"at least {LEAST_JOINED:.0%} of the impressions of the queries that it shares with the log"
        called = "a document is called by its name in a LETOR comment, or by its row, as ol2r export --to clicks writes"
        got = f"{of_common:.0%} and no document {document} of query {query}"
        raise ValueError(f"dataset={dataset.name} must have {needed}, got {got}: {called}")
    documents = f"{(rows >= 0).sum():,} of {len(rows):,} documents in {queries:,} of {all_queries:,} queries"
    return rows, f"{documents}, {share / shown.sum():.0%} of the impressions"


def quantile_grades(
    attraction: Float[np.ndarray, "D"], known: Bool[np.ndarray, "D"], shares: Sequence[float]
) -> Float[np.ndarray, "D G"]:
    """Return which part of each known document has each grade, if higher grades are those of higher attraction.

    The lowest grade is the share shares[0] of documents with the lowest attraction, and so on; a document on a border
    has both grades in part. Documents that are not known have none.
    """
    number = int(known.sum())
    borders = np.append(0, np.cumsum(shares)) * number / np.sum(shares)
    rank = np.arange(number)[:, None]
    part = np.minimum(rank + 1, borders[1:]) - np.maximum(rank, borders[:-1])
    member = np.zeros((len(attraction), len(shares)))
    member[np.flatnonzero(known)[np.argsort(attraction[known], kind="stable")]] = part.clip(0)
    return member


@dataclass(frozen=True)
class FittedUser:
    """A user of a click log with attraction by grade.

    values: examination by place, or for dcm continuation. tables: P(click | examined, grade) by number of grades.
    grades_of: where tables are from. log_clicks, user_clicks: clicks a page by place, in the log and of the user on its
    lists. log_depth, user_depth: for logs of pages the share of pages without a click, and of those whose last click is
    at each place. In all of these, documents without a grade have the attraction of the fit. doubts: a line for each
    difference above `MOST_DIFFERENCE`, clicks those of documents with a grade, and for each grade that the log says
    little of.
    """

    fit: str
    values: Float[np.ndarray, "K"]
    tables: dict[int, list[float]]
    grades_of: str
    log_clicks: Float[np.ndarray, "K"]
    user_clicks: Float[np.ndarray, "K"]
    doubts: list[str]
    log_depth: Float[np.ndarray, "K1"] | None = None
    user_depth: Float[np.ndarray, "K1"] | None = None

    def compared(self) -> list[tuple[str, str, str]]:
        """Return clicks a page, at each rank, and of pages by depth of the last click, in the log and of the user."""
        sums = ("clicks a page", self.log_clicks.sum(), self.user_clicks.sum())
        ranks = enumerate(zip(self.log_clicks, self.user_clicks, strict=True), 1)
        rows = [sums, *((f"rank {rank}", log, user) for rank, (log, user) in ranks)]
        if self.log_depth is not None and self.user_depth is not None:
            depths = enumerate(zip(self.log_depth, self.user_depth, strict=True))
            rows += [(f"last click {depth}" if depth else "no click", log, user) for depth, (log, user) in depths]
        return [(name, f"{log:.4f}", f"{user:.4f}") for name, log, user in rows]


def fitted_user(log: ClickLog, fit: str, values: Float[np.ndarray, "K"], labels: JoinedLabels | None) -> FittedUser:
    """Return the user with these values, who has attraction by labels or, without any, by quantiles."""
    attraction = (dcm if fit == "dcm" else pbm)(log, values)[1]
    seen = examined(log, fit, values, attraction).sum(1)
    clicks = log.clicks.sum(1)
    doubts: list[str] = []
    if labels is not None:
        known = labels.grade >= 0
        members = {labels.grades: (labels.grade[:, None] == np.arange(labels.grades)).astype(float)}
        grades_of = f"of {labels.joined}, by their labels"
        doubts += _doubtful_grades(clicks @ members[labels.grades], seen @ members[labels.grades])
    else:
        enough = log.impressions.sum(1) >= ENOUGH
        known = enough if enough.sum() >= ENOUGH else np.ones(len(clicks), np.bool_)
        members = {grades: quantile_grades(attraction, known, shares) for grades, shares in SHARES.items()}
        shares_of = "with the shares of MSLR-WEB30K (5) and MQ2008 (3, 2)"
        grades_of = f"by quantiles of {known.sum():,} documents, {shares_of}"
    tables = {grades: _attraction(clicks @ member, seen @ member) for grades, member in members.items()}
    grades = max(tables)
    of_user = np.where(known, members[grades] @ tables[grades], attraction)
    pages = log.impressions.sum(0).max()
    of_log, expected = log.clicks, examined(log, fit, values, of_user) * of_user[:, None]
    where = "its lists" if known.all() else "its documents with a grade"
    doubts += _differences(of_log[known].sum(0), expected[known].sum(0), where)
    user = FittedUser(fit, values, tables, grades_of, of_log.sum(0) / pages, expected.sum(0) / pages, doubts)
    if log.pages is None:
        return user
    log_depth, user_depth = _depth_of_log(log), depth_of_user(log, fit, values, of_user)
    doubts += _different_depths(log_depth, user_depth, len(log.pages[0]))
    return replace(user, log_depth=log_depth, user_depth=user_depth)


def _depth_of_log(log: ClickLog) -> Float[np.ndarray, "K1"]:
    """Return the share of pages without a click, and of those whose last click is at each place."""
    assert log.pages is not None
    clicked = log.pages[1]
    last = np.where(clicked.any(1), clicked.shape[1] - clicked[:, ::-1].argmax(1), 0)
    return np.bincount(last, minlength=clicked.shape[1] + 1) / len(last)


def depth_of_user(
    log: ClickLog, fit: str, values: Float[np.ndarray, "K"], attraction: Float[np.ndarray, "D"]
) -> Float[np.ndarray, "K1"]:
    """Return the probability that users with these values and attractions do not click on a page of the log, and that
    their last click is at each place: the mean over its pages."""
    assert log.pages is not None
    pages, places = log.pages[0].shape
    reached = [np.ones(pages)]
    attracted = [np.where(document >= 0, attraction[document], 0) for document in log.pages[0].T]
    if fit == "dcm":
        for chance, goes_on in zip(attracted, values, strict=True):
            reached.append(reached[-1] * (1 - chance * (1 - goes_on)))
    silent, depth = np.ones(pages), np.zeros(places + 1)  # silent: no click below, of who reads there
    for place in reversed(range(places)):
        if fit == "dcm":
            leaves = 1 - values[place] + values[place] * silent
            depth[place + 1] = (reached[place] * attracted[place] * leaves).mean()
            silent = silent * (1 - attracted[place])
        else:
            chance = attracted[place] * values[place]
            depth[place + 1] = (chance * silent).mean()
            silent = silent * (1 - chance)
    depth[0] = silent.mean()
    return depth


def _attraction(clicks: Float[np.ndarray, "G"], seen: Float[np.ndarray, "G"]) -> list[float]:
    """Return clicks over examinations of each grade; between those of its neighbours for a grade without any."""
    there = np.flatnonzero(seen > 0)
    rate = (clicks[there] / np.maximum(seen[there], LEAST)).clip(max=1)
    return np.interp(np.arange(len(seen)), there, rate).tolist()


def _doubtful_grades(clicks: Float[np.ndarray, "G"], seen: Float[np.ndarray, "G"]) -> Iterator[str]:
    """Yield lines for grades without documents, and with too few clicks: of c clicks the logarithm has error c^-1/2."""
    absent = np.flatnonzero(seen == 0)
    if absent.size:
        told = "which has an attraction between those of its neighbours"
        yield f"the log has no document of grade {listed(absent.tolist())}, {told}"
    few = np.flatnonzero((seen > 0) & (clicks * MOST_ERROR**2 < 1))
    if few.size:
        of_each = ", ".join(f"{grade} ({plural(round(clicks[grade]), 'click')})" for grade in few)
        yield f"attraction has a standard error above {100 * MOST_ERROR:.0f} % for grade {of_each}"


def _differences(log: Float[np.ndarray, "K"], user: Float[np.ndarray, "K"], where: str) -> Iterator[str]:
    """Yield lines for clicks of the user that differ from those of the log."""
    if _differ(log.sum(keepdims=True), user.sum(keepdims=True)).any():
        yield f"the fitted user clicks {user.sum() / log.sum():.2f} times as often as the log, on {where}"
    differs = np.flatnonzero(_differ(log, user))
    if differs.size:
        ranks = ", ".join(f"{rank + 1} ({_change(log[rank], user[rank])})" for rank in differs)
        most = f"{100 * MOST_DIFFERENCE:.0f} %"
        yield f"clicks of the fitted user, on {where}, differ by more than {most} from those of the log at rank {ranks}"


def _different_depths(log: Float[np.ndarray, "K1"], user: Float[np.ndarray, "K1"], pages: int) -> Iterator[str]:
    """Yield a line for depths of the last click that differ; they are shares of pages."""
    differs = np.flatnonzero(_differ(pages * log, pages * user))
    if differs.size:
        depths = ", ".join(f"{depth or 'none'} ({_change(log[depth], user[depth])})" for depth in differs)
        most = f"more than {100 * MOST_DIFFERENCE:.0f} %"
        yield f"the last click of the fitted user is {most} off the log's at rank {depths}"


def _differ(log: Float[np.ndarray, "N"], user: Float[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
    """Return which numbers of events differ by more than `MOST_DIFFERENCE`, and by more than two standard errors, which
    are those of the larger number, of one event at least: where the log has none, its own would be 0."""
    error = np.sqrt(np.maximum(np.maximum(log, user), 1))
    return (abs(user - log) > MOST_DIFFERENCE * log) & (abs(user - log) > 2 * error)


def _change(log: float, user: float) -> str:
    """Return by how much the user differs from the log, as `+12 %`."""
    return f"{100 * (user / log - 1):+.0f} %" if log else "none in the log"


def as_choice(user: FittedUser, comments: Sequence[str]) -> str:
    """Return the YAML file of a user."""
    by_place = _yaml_list(user.values.tolist())
    lines = [f"# {comment}" for comment in comments]
    if user.fit == "dcm":
        lines += ["_target_: ol2r_cli.click.models.DependentByPlace"]
        bias = f"continuation: {by_place}  # lambda_k, one per rank"
    else:
        lines += ["_target_: ol2r_cli.click.models.PositionBased"]
        lines += ["eta: 1.0  # rank r is examined with probability 1 / r^eta, if examination is null"]
        bias = f"examination: {by_place}  # one probability per rank"
    lines += ["click: null  # P(click | grade), one per grade; null: from the tables below", bias]
    lines += [f"tables:  # {user.grades_of}"]
    lines += [f"  {grades}: {{click: {_yaml_list(table)}}}" for grades, table in user.tables.items()]
    return "\n".join(lines)


def _yaml_list(numbers: Sequence[float]) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in numbers)}]"
