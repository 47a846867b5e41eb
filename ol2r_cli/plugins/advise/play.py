"""Runs of a learner in worlds drawn from a click log: the folder of the worlds, the jobs, and what users saw."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.files import write_text
from ol2r_cli.interfaces import Candidates, Ranker
from ol2r_cli.plugins.advise.pages import SimulatedUser, expected, grades_of, ordered
from ol2r_cli.plugins.advise.world import DOCUMENTS, WorldDocuments, file_of
from ol2r_cli.plugins.advise.worlds import GRID, LogFit
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.run import INTERRUPTED, RANKER
from ol2r_cli.run.run import Run
from ol2r_cli.sweep.sweeper import sweep
from ol2r_cli.tensor.shapes import Float, Int

_LEAST_VIEWS, _MOST_VIEWS = 0.5, 50.0  # examinations for which the prior of the learner counts
_START = 10.0  # weight of production in the first lists of a learner by features


class DrawnWorld(NamedTuple):
    """A world: whether its users and prior are drawn, too, or those of the fit; its users; and the grades of the
    documents, which are numbers of `GRID`."""

    is_refit: bool
    user: SimulatedUser
    grades: Int[np.ndarray, "N"]


class WorldRun(NamedTuple):
    """What users saw in a world, in expected clicks a page.

    gain: of each page, the learner less production. production, ceiling: means over pages of the log's production
    order, and of the documents in order of attraction. last: documents in the order of the trained learner [Q K].
    """

    is_refit: bool
    gain: Float[np.ndarray, "T"]
    production: float
    ceiling: float
    last: Int[np.ndarray, "Q K"]


def check_ranker(name: str, settings: Mapping[str, Any]) -> None:
    """Raise ValueError for a ranker of these settings that has no scores of documents after its run."""
    ranker = build(settings, "ranker")
    if not isinstance(ranker, Ranker) or ranker.needs_labels or ranker.of_table or not _tells_apart(ranker):
        needed = "a forecast needs a ranker that learns scores of documents, which order them after its run"
        raise ValueError(f"{needed}, not ranker={name}: leave it out, or type ranker=pairrank")


def _tells_apart(ranker: Ranker) -> bool:
    """Return whether parameters decide the scores of two documents: those of a ranker that has none are alike."""
    parameters = torch.linspace(0.1, 0.9, max(ranker.size(2), 2))[None]
    two = torch.arange(2)[None]
    try:
        scores = ranker.score(parameters, Candidates(two[:, 0], two, torch.eye(2)[None], torch.ones_like(two) > 0))
    except (RuntimeError, LookupError, ValueError, TypeError):  # of a form of its own, or not implemented
        return type(ranker).score is not Ranker.score
    return bool(scores[0, 0, 0] != scores[0, 0, 1])


class InterruptedPlay(Exception):
    """A signal stopped the runs; the same command goes on."""


def write_worlds(folder: Path, documents: WorldDocuments, worlds: Sequence[DrawnWorld]) -> None:
    """Write a folder of worlds, of which `play` makes runs."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = documents._asdict() | {"query_ids": np.asarray(documents.query_ids)}
    with (folder / DOCUMENTS).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    for number, world in enumerate(worlds, 1):
        np.savez(folder / file_of(number), grades=world.grades.astype(np.int8))


def thompson(fitted: LogFit, log: ClickLog) -> list[str]:
    """Return the words of the learner without features: its prior is that of documents by their rank in production.

    For the examination of a rank it takes the clicks there over those of documents that are always examined, whoever
    the users are.
    """
    examined = log.clicks.sum(0) / np.maximum(fitted.posterior @ GRID @ log.impressions, 1e-9)
    mean = fitted.prior @ GRID
    variance = (fitted.prior * (GRID - mean[:, None]) ** 2).sum(1)
    views = (mean * (1 - mean) / np.maximum(variance, 1e-9) - 1).clip(_LEAST_VIEWS, _MOST_VIEWS)
    values = {
        "examination": np.clip(examined, 1e-4, 1),
        "prior_clicks": (mean * views).clip(min=1e-4),
        "prior_views": views,
    }
    words = [f"ranker.{name}=[{','.join(f'{value:.6g}' for value in each)}]" for name, each in values.items()]
    return ["ranker=pbm_thompson", *words, "ranker.rank_feature=1"]


def gradient(folder: Path, documents: WorldDocuments) -> list[str]:
    """Return the words of the learner by features, PDGD, which begins with the order of production: of that it has the
    first feature, to which others are added. Plays the run from which it starts, if it is not there."""
    weights = folder / "production.txt"
    write_text(weights, "\n".join(map(str, [_START, *[0.0] * (documents.features.shape[1] - 1)])))
    production = ["ranker=fixed", f"ranker.weights={weights}", "rounds=1", "dataset=world", f"dataset.path={folder}"]
    result = sweep([[*production, "evaluate_on=[]", f"output_dir={folder / 'runs'}"]])
    if result.code == INTERRUPTED:
        raise InterruptedPlay
    if result.directories[0] is None:
        raise ValueError(f"the run of production failed: {result.sweep_jobs[0].reason}")
    return ["ranker=pdgd", f"start.run={result.directories[0]}"]


def play(
    folder: Path,
    documents: WorldDocuments,
    worlds: Sequence[DrawnWorld],
    places: int,
    pages: int,
    learner: Sequence[str],
) -> list[WorldRun]:
    """Play a learner in all worlds of a folder, with progress on stderr; finished runs are not run again.

    learner: words of `ol2r run`. ValueError where a run failed, `InterruptedPlay` for a signal.
    """
    common = ["dataset=world", f"dataset.path={folder}", f"output_dir={folder / 'runs'}", f"positions={places}"]
    common += [f"rounds={pages}", "measures=[expected_clicks]", "evaluate_on=[]", *learner]
    users = [world.user.words() for world in worlds]
    jobs = [[*common, f"dataset.fold={number}", f"seed={number}", *user] for number, user in enumerate(users, 1)]
    result = sweep(jobs, terminal=sys.stderr, shared=[*chain(*users)])  # users are too long for names of jobs
    if result.code == INTERRUPTED:
        raise InterruptedPlay
    if result.failed:
        raise ValueError(f"{len(result.failed)} runs failed, the first: {result.failed[0].reason}")
    production = ordered(-documents.rank, documents.offsets, places)
    return [
        _played(path, documents, world, production)
        for path, world in zip(result.directories, worlds, strict=True)
        if path is not None
    ]


def _played(path: Path, documents: WorldDocuments, world: DrawnWorld, production: Int[np.ndarray, "Q K"]) -> WorldRun:
    """Return what users saw in the run of a world."""
    run, places = Run.read_finished(path), production.shape[1]
    user = world.user.model(places)
    by_query = expected(user, grades_of(production, world.grades))
    best = expected(user, grades_of(ordered(world.grades.astype(float), documents.offsets, places), world.grades))
    trace = run.trace.select("query", "expected_clicks")
    of_pages = by_query[trace["query"].to_numpy()]
    score = _scores(path, documents)
    return WorldRun(
        is_refit=world.is_refit,
        gain=trace["expected_clicks"].to_numpy() - of_pages,
        production=float(documents.shares @ by_query),
        ceiling=float(documents.shares @ best),
        last=ordered(score, documents.offsets, places),
    )


def _scores(path: Path, documents: WorldDocuments) -> Float[np.ndarray, "N"]:
    """Return the scores of all documents by the ranker that a run has trained."""
    content = torch.load(path / RANKER, map_location="cpu", weights_only=True)
    ranker: Ranker = build(content["ranker"], "ranker")
    deployed = content["deployed"]
    row = torch.arange(len(documents.features))[None]
    features = torch.from_numpy(documents.features).to(deployed.dtype)[None]
    candidates = Candidates(torch.zeros(1, dtype=torch.int64), row, features, torch.ones_like(row, dtype=torch.bool))
    return ranker.score(deployed, candidates)[0, 0].numpy()
