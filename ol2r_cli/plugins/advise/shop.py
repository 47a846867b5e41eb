"""Shops whose users are known: documents, a production order, pages with clicks, and the gain that a learner has there.

They try a forecast out, and test whether its interval contains the truth (scripts/forecasts.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.files import read_json, write_text
from ol2r_cli.plugins.advise.pages import SimulatedUser, grades_of, ordered, simulated
from ol2r_cli.plugins.advise.play import DrawnWorld, WorldRun, play, write_worlds
from ol2r_cli.plugins.advise.world import WorldDocuments
from ol2r_cli.plugins.advise.worlds import GRID
from ol2r_cli.tensor.shapes import Bool, Float, Int

PLACES, FEATURES = 10, 8
USERS = {
    "position": "position-based, examination 1 / rank^eta, eta from .6 to 1.4",
    "browsing": "user browsing model with the examination of `yandex_ubm`",
    "bayesian": "dynamic Bayesian network: satisfied as often as attracted, goes on with .9",
    "trust": "trust bias, which no fitted user has",
}
_TRUE_RUNS = 6
_PAGES, _QUERIES, _DOCUMENTS, _REPEATED, _WITH_AD = 20_000, 100, 20, 0.05, 0.2  # of the shop that is written


class Shop(NamedTuple):
    """Q queries of D documents with features [Q D F], if there are some; grades [Q D], of which g attracts with
    GRID[g]; rank in production from 1 [Q D]; the share of pages of each query; and the user."""

    features: Float[np.ndarray, "Q D F"] | None
    grades: Int[np.ndarray, "Q D"]
    rank: Int[np.ndarray, "Q D"]
    shares: Float[np.ndarray, "Q"]
    user: SimulatedUser


def shop(queries: int, documents: int, with_features: bool, user: str, random: np.random.Generator) -> Shop:
    """Return a shop with one of `USERS`. Production errs: by noise, or by other weights of features."""
    shape, features = (queries, documents), None
    if with_features:
        features = random.normal(size=(*shape, FEATURES))
        weights = random.normal(size=FEATURES)
        signal = features @ weights / np.sqrt(FEATURES) + 0.5 * random.normal(size=shape)
        attraction = 1 / (1 + np.exp(2.2 - 1.5 * signal))
        score = features @ (weights + random.normal(size=FEATURES))
    else:
        relevance = random.choice(5, shape, p=[0.5, 0.25, 0.15, 0.07, 0.03])
        attraction = 0.03 + 0.17 * relevance + 0.05 * random.normal(size=shape)
        score = attraction + 0.25 * random.normal(size=shape)
    grades = abs(GRID - attraction.clip(0.01, 0.95)[..., None]).argmin(-1)
    shares = 1 / np.arange(1.0, queries + 1)
    rank = 1 + np.argsort(np.argsort(-score, axis=1), axis=1)
    return Shop(features, grades, rank, shares / shares.sum(), _user(user, random))


def _user(name: str, random: np.random.Generator) -> SimulatedUser:
    click = GRID.round(6).tolist()
    if name == "position":
        eta = random.uniform(0.6, 1.4)
        examination = [round(float(rank**-eta), 6) for rank in range(1, PLACES + 1)]
        return SimulatedUser("position_based", {"click": click, "examination": examination})
    if name == "browsing":
        examination = Catalogue().choices["click"]["yandex_ubm"].values["examination"]
        return SimulatedUser("user_browsing", {"click": click, "examination": examination})
    if name == "bayesian":
        return SimulatedUser("dynamic_bayesian", {"click": click, "stop": click, "continuation": 0.9})
    return SimulatedUser("trust_bias", {"click": click})


def pages(
    of: Shop, number: int, swaps: float, seed: int, random: np.random.Generator
) -> tuple[Int[np.ndarray, "S K"], Bool[np.ndarray, "S K"]]:
    """Return documents of pages, as numbers q D + d, and their clicks.

    Neighbouring documents of the production order change places, each pair with probability 1/2, on a share `swaps` of
    the pages.
    """
    queries, documents = of.grades.shape
    lists = ordered(-of.rank.ravel(), np.arange(0, queries * documents + 1, documents), documents)
    order = lists[random.choice(queries, number, p=of.shares)]
    first, chosen = random.integers(0, 2, number), random.random(number) < swaps
    for rank in range(min(PLACES, documents - 1)):
        moved = chosen & (rank >= first) & ((rank - first) % 2 == 0) & (random.random(number) < 0.5)
        order[moved, rank], order[moved, rank + 1] = order[moved, rank + 1], order[moved, rank].copy()
    order = order[:, :PLACES]
    return order, simulated(of.user.model(PLACES), grades_of(order, of.grades.ravel()), seed)


class Truth(NamedTuple):
    """The grades of the documents of queries, and the user, who made a log."""

    grades: dict[str, list[int]]
    user: SimulatedUser


def read_truth(file: Path) -> Truth:
    """Return what `write` has written; ValueError for another file."""
    try:
        content = read_json(file)
        return Truth(content["grades"], SimulatedUser(*content["user"]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"--truth must be truth.json of a shop that --shop has written, got {file} ({error})"
        ) from None


def true_runs(
    folder: Path,
    documents: WorldDocuments,
    grades: Int[np.ndarray, "N"],
    user: SimulatedUser,
    places: int,
    pages: int,
    learner: Sequence[str],
) -> list[WorldRun]:
    """Play a learner in the world that made a log, with several seeds; runs are in the folder."""
    same = [DrawnWorld(False, user, grades)] * _TRUE_RUNS
    write_worlds(folder, documents, same)
    return play(folder, documents, same, places, pages, learner)


def write(folder: Path, seed: int = 0) -> None:
    """Write a shop: train.txt (documents with features), production.csv, log.jsonl and truth.json.

    The log is raw: a row a page, with the documents shown and those clicked; one of 20 rows is there twice, and one of
    five pages has an advertisement, of which the documents know nothing. ValueError for a folder with files.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"--shop must be a new or an empty folder, got {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    made = shop(_QUERIES, _DOCUMENTS, True, "position", random)
    assert made.features is not None
    lines, scores = [], ["query,document,score"]
    for query, (features, ranks) in enumerate(zip(made.features, made.rank, strict=True)):
        for document, (values, rank) in enumerate(zip(features, ranks, strict=True)):
            numbers = " ".join(f"{number}:{value:.5f}" for number, value in enumerate(values, 1))
            lines.append(f"0 qid:{query} {numbers} # docid = p{document}")
            scores.append(f"{query},p{document},{-rank}")
    write_text(folder / "train.txt", "\n".join(lines) + "\n")
    write_text(folder / "production.csv", "\n".join(scores) + "\n")
    write_text(folder / "log.jsonl", "".join(f"{json.dumps(row)}\n" for row in _raw_log(made, seed, random)))
    grades = {str(query): of_query for query, of_query in enumerate(made.grades.tolist())}
    write_text(folder / "truth.json", json.dumps({"grades": grades, "user": made.user}))


def _raw_log(made: Shop, seed: int, random: np.random.Generator) -> list[dict[str, Any]]:
    order, click = pages(made, _PAGES, 0.2, seed, random)
    has_ad, ad_clicked = random.random(_PAGES) < _WITH_AD, random.random(_PAGES) < 0.05
    rows = []
    for number, (documents, clicks) in enumerate(zip(order.tolist(), click.tolist(), strict=True)):
        shown = [f"p{document % _DOCUMENTS}" for document in documents]
        clicked = [name for name, is_clicked in zip(shown, clicks, strict=True) if is_clicked]
        if has_ad[number]:  # in place of the last document
            shown[-1:] = [f"ad{number % 7}"]
            clicked = [name for name in clicked if name in shown] + [shown[-1]] * bool(ad_clicked[number])
        row = {"page": number, "time": number, "query": str(documents[0] // _DOCUMENTS), "product_ids": shown}
        rows += [row | {"clicked_ids": clicked}] * (1 + (random.random() < _REPEATED))
    return rows
