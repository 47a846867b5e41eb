"""Click logs, and what they say of users: position bias by intervention harvesting, and PBM and DCM by EM.

A document that was shown at two places for the same query separates its attraction from the examination of the places.
Harvesting: Agarwal et al., "Estimating position bias without intrusive interventions" (WSDM 2019). PBM: Craswell et al.
(WSDM 2008). DCM: Guo, Liu and Wang, "Efficient multiple-click models" (WSDM 2009). EM as in Chuklin, Markov and de
Rijke, "Click Models for Web Search" (2015), chapter 4, but places below the last click of DCM are hidden, not unseen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ol2r_cli.formatting import one_line
from ol2r_cli.tensor.shapes import Bool, Float, Int

_progress = logging.getLogger(__name__)
COUNTS, SESSIONS = (
    ("query", "document", "place", "impressions", "clicks"),
    ("session", "query", "document", "place", "click"),
)
MOST_PLACES, CONVERGED, STEPS = 1000, 1e-4, 5000  # a fit ends when ten steps change the log-likelihood by less
BELOW_ONE = 1 - 1e-9  # the largest probability of an estimate
ENOUGH = 100  # impressions of a document whose attraction stands for a grade
# Shares of grades, by their number: LETOR's MQ2008 (its two upper ones as one), and MSLR-WEB30K.
SHARES = {5: (0.51469, 0.32504, 0.1339, 0.0183, 0.00807), 3: (0.80724, 0.13155, 0.06121), 2: (0.80724, 0.19276)}


@dataclass(frozen=True)
class ClickLog:
    """Impressions and clicks of D documents, each of one query, at K places, and the S pages they come from if known.

    `pages` are the document at each place (-1: none), and whether it was clicked.
    """

    query: Int[np.ndarray, "D"]
    impressions: Float[np.ndarray, "D K"]
    clicks: Float[np.ndarray, "D K"]
    pages: tuple[Int[np.ndarray, "S K"], Bool[np.ndarray, "S K"]] | None = None

    def of(self, kept: Bool[np.ndarray, "D"]) -> ClickLog:
        """Return the log of some documents, which must be all those of their queries."""
        pages = self.pages
        if pages is not None:
            document, click = (each[kept[pages[0].max(1)]] for each in pages)
            pages = np.where(document < 0, -1, (np.cumsum(kept) - 1)[document]), click
        return ClickLog(self.query[kept], self.impressions[kept], self.clicks[kept], pages)


def read(path: Path, skip_bad: bool = False) -> tuple[ClickLog, int]:
    """Return the log in a csv or parquet file with the columns `COUNTS` or `SESSIONS`, and how many rows were skipped.

    A row of sessions is a shown document. `position` is another name of `place`, which counts from 1. ValueError, with
    the line, for the first row that cannot be, unless `skip_bad`.
    """
    try:
        is_csv = path.suffix != ".parquet"
        table = pl.read_csv(path, infer_schema=False) if is_csv else pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"FILE must be a csv or parquet file, got {path} ({one_line(error)[:120]})") from None
    table = table.rename({"position": "place"} if "place" not in table.columns else {}, strict=False)
    names = SESSIONS if "session" in table.columns else COUNTS
    if missing := [name for name in names if name not in table.columns]:
        both = f"{', '.join(COUNTS)}, or {', '.join(SESSIONS)}"
        raise ValueError(f"{path} must have the columns {both}; it has no {missing[0]}")
    truth = {"true": "1", "false": "0"}
    numbers = pl.col(*names[3 if names is COUNTS else 4 :], "place").cast(pl.String).str.strip_chars()
    table = table.select(names).with_columns(
        pl.col("document", "query").cast(pl.String), numbers.replace(truth).cast(pl.Int64, strict=False)
    )
    place = pl.col("place").is_between(1, MOST_PLACES)
    if names is COUNTS:
        clicks, shown = pl.col("clicks"), pl.col("impressions")
        rules = {"clicks from 0 to impressions": (clicks >= 0) & (clicks <= shown), "impressions from 1": shown >= 1}
    else:
        same = pl.col("query").n_unique().over("session") == 1
        twice = pl.struct("session", "place").is_unique() & pl.struct("session", "document").is_unique()
        rules = {"click 0 or 1": pl.col("click").is_in([0, 1]), "one query in a session": same}
        rules |= {"each place and document of a session once": twice}
    present = pl.all_horizontal(pl.col(*names[:3]).is_not_null())
    rules = {f"place from 1 to {MOST_PLACES}": place, **rules, f"{', '.join(names[:3])}": present}
    good = table.select(**{rule: holds.fill_null(False) for rule, holds in rules.items()})
    kept = good.select(pl.all_horizontal(pl.all())).to_series()
    if not kept.all() and not skip_bad:
        row = kept.arg_min()
        assert row is not None
        rule = next(rule for rule in rules if not good[rule][row])
        found = ", ".join(f"{name} {value}" for name, value in table.row(row, named=True).items())
        line = f"line {row + 2}" if is_csv else f"row {row + 1}"
        others = f"; {len(kept) - kept.sum():,} rows are bad" if len(kept) - kept.sum() > 1 else ""
        raise ValueError(f"{path}, {line}: a row must have {rule}, got {found}{others}: --skip-bad leaves them out")
    if not kept.any():
        raise ValueError(f"{path} has no row that can be used")
    return _log(table.filter(kept), names), int((~kept).sum())


def _log(table: pl.DataFrame, names: Sequence[str]) -> ClickLog:
    """The rows as arrays. Documents are sorted by query."""
    key = pl.struct("query", "document").rank("dense").cast(pl.Int64) - 1
    table = table.with_columns(number=key, of=pl.col("query").rank("dense").cast(pl.Int64) - 1)
    number, place = table["number"].to_numpy(), table["place"].to_numpy() - 1
    shape = int(number.max()) + 1, int(place.max()) + 1
    query, impressions, clicks = np.zeros(shape[0], np.int64), np.zeros(shape), np.zeros(shape)
    query[number] = table["of"].to_numpy()
    clicked = table[names[-1]].to_numpy()
    np.add.at(impressions, (number, place), 1 if names is SESSIONS else table["impressions"].to_numpy())
    np.add.at(clicks, (number, place), clicked)
    if names is COUNTS:
        return ClickLog(query, impressions, clicks)
    session = table["session"].rank("dense").to_numpy().astype(np.int64) - 1
    document, click = np.full((session.max() + 1, shape[1]), -1), np.zeros((session.max() + 1, shape[1]), np.bool_)
    document[session, place], click[session, place] = number, clicked
    return ClickLog(query, impressions, clicks, (document, click))


def harvest(log: ClickLog, all_pairs: bool) -> Float[np.ndarray, "K"]:
    """Return the examination of places, the largest is 1, from documents that were shown at two of them.

    For places j and k each document counts n_j n_k / (n_j + n_k), the weight of Mantel and Haenszel, of its impressions
    n: Agarwal et al. count all documents alike. The adjacent chain multiplies the ratios of clicks at neighbouring
    places; all pairs is their likelihood, which is that of `pbm` with a document for each pair of places. ValueError if
    no document connects two neighbouring places, or none was clicked.
    """
    places = log.impressions.shape[1]
    rate = log.clicks / np.maximum(log.impressions, 1)
    pairs = [(j, k) for j in range(places) for k in range(j + 1, places if all_pairs else min(j + 2, places))]
    shown, clicks = np.zeros((len(pairs), places)), np.zeros((len(pairs), places))
    for row, (j, k) in enumerate(pairs):
        n, m = log.impressions[:, j], log.impressions[:, k]
        weight = n * m / np.maximum(n + m, 1)
        shown[row, [j, k]], clicks[row, [j, k]] = weight.sum(), (weight @ rate[:, j], weight @ rate[:, k])
        if k == j + 1 and not clicks[row, [j, k]].all():
            alone = f"no document was shown at places {j + 1} and {k + 1} and clicked at both"
            raise ValueError(f"{alone}, which harvesting needs: type --fit pbm")
    if all_pairs:
        return pbm(ClickLog(np.arange(len(pairs)), shown, clicks))[0]
    chain = np.cumprod([1.0, *(clicks[row, row + 1] / clicks[row, row] for row in range(places - 1))])
    return chain / chain.max()


def pbm(
    log: ClickLog, examination: Float[np.ndarray, "K"] | None = None
) -> tuple[Float[np.ndarray, "K"], Float[np.ndarray, "D"], float]:
    """Return examination by place, the largest is 1, attraction by document, and the log-likelihood of all impressions.

    With a given `examination` only attraction is estimated.
    """
    shown, clicks = log.impressions, log.clicks
    theta = 1 / np.arange(1.0, shown.shape[1] + 1) if examination is None else np.asarray(examination)
    attraction, reached = np.full(len(shown), 0.5), -np.inf
    for step in range(STEPS):
        chance = np.clip(attraction[:, None] * theta, 1e-300, BELOW_ONE)
        if step % 10 == 0:
            likelihood = float((clicks * np.log(chance) + (shown - clicks) * np.log1p(-chance)).sum())
            if abs(likelihood - reached) < CONVERGED:
                break
            reached = likelihood
        # The log-likelihood is concave in log(attraction) and log(theta): Newton's steps, at most half way to 1.
        slope = (clicks - shown * chance) / (1 - chance)
        curvature = (shown - clicks) * chance / (1 - chance) ** 2
        if step % 2 == 0 or examination is not None:
            ascent = slope.sum(1) / np.maximum(curvature.sum(1), 1e-300)
            attraction = np.minimum(attraction * np.exp(ascent.clip(-1, 1)), (1 + attraction) / 2)
        else:
            ascent = slope.sum(0) / np.maximum(curvature.sum(0), 1e-300)
            theta = np.minimum(theta * np.exp(ascent.clip(-1, 1)), (1 + theta) / 2)
    return theta / theta.max(), attraction * theta.max(), likelihood


def dcm(
    log: ClickLog, continuation: Float[np.ndarray, "K"] | None = None
) -> tuple[Float[np.ndarray, "K"], Float[np.ndarray, "D"], float]:
    """Return the probability of reading on after a click by place, attraction, and the log-likelihood of all pages.

    That of the last place, of which pages say nothing, is 0. With a given `continuation` only attraction is estimated.
    """
    assert log.pages is not None
    document, click = log.pages
    places = np.arange(click.shape[1])
    there, any_click = document >= 0, click.any(1)
    last = np.where(any_click, click.shape[1] - 1 - click[:, ::-1].argmax(1), -1)
    below, above = there & (places > last[:, None]) & any_click[:, None], there & (places <= last[:, None])
    above |= there & ~any_click[:, None]
    at, ends = click.sum(0), np.bincount(last[any_click], minlength=len(places))
    goes_on = np.full(len(places), 0.5) if continuation is None else continuation
    total = log.clicks.sum(1)
    attraction, reached = np.full(len(log.query), 0.5), -np.inf
    for step in range(STEPS):
        passed = np.where(there, 1 - attraction[document], 1)
        silent = np.where(below, passed, 1).prod(1)  # P(no click below | reads on)
        leaves = np.where(any_click, 1 - goes_on[last] + goes_on[last] * silent, 1)  # P(no click below)
        if step % 10 == 0:
            of_places = np.log(np.maximum(np.where(click, 1 - passed, np.where(above, passed, 1)), 1e-300)).sum()
            of_clicks = ((at - ends) * np.log(np.maximum(goes_on, 1e-300))).sum()
            likelihood = float(of_places + of_clicks + np.log(np.maximum(leaves, 1e-300)).sum())
            if likelihood - reached < CONVERGED:
                break
            reached = likelihood
        read_on = np.where(any_click, goes_on[last] * silent / np.maximum(leaves, 1e-300), 0)
        examined = np.bincount(document[there], (above + below * read_on[:, None])[there], len(total))
        attraction = np.minimum(total / np.maximum(examined, 1e-300), BELOW_ONE)
        if continuation is None:
            hidden = np.bincount(last[any_click], read_on[any_click], len(places))
            goes_on = (at - ends + hidden) / np.maximum(at, 1)
    return np.append(goes_on[:-1], 0.0), attraction, likelihood


FITS = {"adjacent": lambda log: harvest(log, False), "all-pairs": lambda log: harvest(log, True)}
FITS |= {"pbm": lambda log: pbm(log)[0], "dcm": lambda log: dcm(log)[0]}
_MODEL = {
    False: ("PositionBased", "examination", "eta: 1.0  # not used, as examination is set\n"),
    True: ("DependentByPlace", "continuation", ""),
}


def held_out(log: ClickLog, folds: int) -> dict[str, float]:
    """Return the log-likelihood of an impression for each fit, in the queries of each fold by a fit to all others.

    Attraction is fitted to the held-out queries themselves, because queries do not share documents. no bias examines
    every place, 1 / rank is fixed, and saturated is the click rate of each document at each place, which no position
    bias can exceed. Where a fold cannot be harvested it is NaN.
    """
    total = dict[str, float]()
    ranks = np.arange(1.0, log.impressions.shape[1] + 1)
    for fold in range(folds):
        _progress.info("fold %d of %d", fold + 1, folds)
        out = log.query % folds == fold
        rest, test = log.of(~out), log.of(out)
        fits = {"no bias": lambda _: ranks**0, "1 / rank": lambda _: 1 / ranks, **FITS}
        for name, fit in fits.items():
            if name == "dcm" and log.pages is None:
                continue
            try:
                reached = (dcm if name == "dcm" else pbm)(test, fit(rest))[2]
            except ValueError:
                reached = np.nan
            total[name] = total.get(name, 0.0) + reached
    rate = log.clicks / np.maximum(log.impressions, 1)
    of_places = log.clicks * np.log(np.maximum(rate, 1e-300)) + (log.impressions - log.clicks) * np.log1p(
        -rate * (rate < 1)
    )
    return {name: value / log.impressions.sum() for name, value in {**total, "saturated": of_places.sum()}.items()}


def by_grade(attraction: Float[np.ndarray, "D"], shares: Sequence[float]) -> list[float]:
    """Return the mean attraction of the documents of each grade, if the best have the highest grade.

    The lowest grade is the share shares[0] of documents with the lowest attraction, and so on; a document on the border
    counts for both in part.
    """
    sums = np.append(0, np.cumsum(np.sort(attraction))) / len(attraction)
    borders = np.interp(np.append(0, np.cumsum(shares) / np.sum(shares)), np.linspace(0, 1, len(sums)), sums)
    return (np.diff(borders) / shares * np.sum(shares)).tolist()


def as_choice(log: ClickLog, fit: str, comments: Sequence[str]) -> str:
    """Return the YAML file of a user with the position bias of this fit, and with attraction by grade by quantiles."""
    values = FITS[fit](log)
    attraction = (dcm if fit == "dcm" else pbm)(log, values)[1]
    enough = log.impressions.sum(1) >= ENOUGH
    known = attraction[enough if enough.sum() >= ENOUGH else slice(None)]
    model, setting, more = _MODEL[fit == "dcm"]

    def text(numbers: Sequence[float]) -> str:
        return f"[{', '.join(f'{number:.4g}' for number in numbers)}]"

    tables = [f"  {grades}: {{click: {text(by_grade(known, shares))}}}" for grades, shares in SHARES.items()]
    of_grades = f"attraction by quantiles of {len(known):,} documents at the shares of grades of MSLR-WEB30K and MQ2008"
    lines = [f"# {line}" for line in comments]
    lines += [
        f"_target_: ol2r_cli.click.models.{model}",
        "click: null  # P(click | grade, examined); null: from the tables",
    ]
    lines += [
        f"{more}{setting}: {text(values.tolist())}  # one probability per place",
        f"tables:  # {of_grades}",
        *tables,
    ]
    return "\n".join(lines)
