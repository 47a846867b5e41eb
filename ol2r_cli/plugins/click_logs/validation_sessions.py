"""Validation sessions: after the last round the trained ranker serves validation queries to the users of the run.

Nothing explores, reranks or learns, so that the clicks say what users make of the ranker that would be deployed. Only
counts are kept: how often each document was shown at each rank below each last click, and clicked there. These decide
the likelihood of the user browsing model (Dupret and Piwowarski, "A user browsing model to predict search engine click
data from past observations", SIGIR 2008), from which `click_values.py` estimates what lists are worth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import torch
from torch import Tensor

from ol2r_cli.config.ranges import WholeNumber, check_settings
from ol2r_cli.metrics.evaluation import Evaluator, ScoresOverflow
from ol2r_cli.run.run import VALIDATION_CLICKS, Run
from ol2r_cli.simulation import Simulation
from ol2r_cli.tensor.shapes import Bool, Float, Int

if TYPE_CHECKING:
    from ol2r_cli.run.experiment import Experiment
    from ol2r_cli.run.runner import Runner

_SETTING = "validation_sessions"
_AT_ONCE = 2**20  # shown documents that are counted together


class _ShownLists(NamedTuple):
    """The first K documents of every list of B replicas, by which the users judge them, and which ranks there are."""

    document: Int[Tensor, "B Q K"]
    judged: Int[Tensor, "B Q K"]
    shown: Bool[Tensor, "Q K"]


@dataclass(frozen=True)
class SessionSettings:
    """What the setting may be."""

    validation_sessions: WholeNumber


def prepare(experiment: Experiment) -> None:
    """Raise ValueError for a wrong value."""
    check_settings(SessionSettings, {_SETTING: experiment.settings[_SETTING]}, "")


def check(experiment: Experiment) -> None:
    """Raise ValueError where no validation session can be played."""
    sessions = f"{_SETTING}={experiment.settings[_SETTING]}"
    advice = f"or {_SETTING}=0"
    if not len(experiment.dataset.splits.get("validation", ())):
        needed = f"needs validation queries, and {experiment.dataset.name} has none"
        typed = "dataset.validation=0.2" if "validation" in experiment.settings["dataset"] else "other data"
        raise ValueError(f"{sessions} {needed}: type {typed} {advice}")
    if not experiment.roles["ranker"].generalises:
        needed = f"needs a ranker for new queries, not ranker={experiment.choices['ranker']}"
        raise ValueError(f"{sessions} {needed}: type ranker=pairrank {advice}")
    if experiment.intent.changes:
        raise ValueError(f"{sessions} needs users whose intent stays: type intent=none {advice}")


def finish(runner: Runner) -> None:
    """Play the sessions of a run after its last round, and write their counts.

    KeyboardInterrupt, after a checkpoint, if the run is to stop.
    """
    experiment, last = runner.experiment, runner.settings["rounds"]
    seeds = torch.tensor(experiment.seeds, device=experiment.device.torch)
    evaluator = Evaluator(experiment.dataset, "validation", seeds, "zero", experiment.dtype, {})
    deployed = runner.simulation.ranker.deploy()
    runner.check_parameters([last], deployed[None])
    try:
        rows = played_sessions(runner.simulation, evaluator, deployed, runner.settings[_SETTING], runner.stop)
    except ScoresOverflow as error:
        when = f"in single precision on {evaluator.name} queries after round {last}"
        raise FloatingPointError(runner.diverged("scores", when, error.replicas)) from None
    except KeyboardInterrupt:
        runner.save()
        raise
    runner.directory.write_parquet(VALIDATION_CLICKS.file, rows)


def differences(run: Run) -> Iterator[str]:
    """Yield a fault unless the counts are of all validation sessions of each seed, and those of a rank follow from
    those of the rank above: where it was clicked it is the last click, elsewhere the last click stays."""
    sessions, counts = run.settings.get(_SETTING, 0), run.validation_clicks
    by_seed = counts.filter(rank=1).group_by("seed").agg(pl.col("shown").sum()).sort("seed")
    expected = [(seed, sessions) for seed in sorted(run.seeds) if sessions]
    if by_seed.rows() != expected:
        yield f"{VALIDATION_CLICKS.file} has not {sessions:,} sessions of each seed"
    key, above = ["seed", "query", "rank", "last_click"], pl.col("rank")
    clicked = counts.select("seed", "query", rank=above + 1, last_click=above, shown=pl.col("clicked"))
    skipped = counts.select("seed", "query", above + 1, "last_click", pl.col("shown") - pl.col("clicked"))
    left = pl.concat([clicked, skipped]).group_by(key).agg(pl.col("shown").sum()).filter(pl.col("shown") != 0)
    ends = counts.group_by("seed", "query").agg(above.max() + 1)
    expected_below = left.join(ends, on=["seed", "query", "rank"], how="anti")
    below = counts.filter(above > 1).select(*key, "shown")
    if not expected_below.sort(key).equals(below.sort(key)):
        yield f"{VALIDATION_CLICKS.file}: counts of a rank are not those that the rank above leaves"


def played_sessions(
    simulation: Simulation,
    evaluator: Evaluator,
    deployed: Float[Tensor, "B P"],
    sessions: int,
    stop: Collection[int] = (),
    first: int = 0,
) -> pl.DataFrame:
    """Play so many sessions of each replica, from number `first` on, and return the rows of validation_clicks.parquet.

    Queries are drawn uniformly. Queries and clicks have streams of random numbers of their own, so that the same seed
    meets the same queries under every ranker. KeyboardInterrupt as soon as there is a signal in `stop`. ScoresOverflow
    as of `Evaluator.lists`.
    """
    lists, replicas = _shown_lists(simulation, evaluator, deployed), simulation.context.replicas
    width = lists.shown.shape[1]
    at_once = max(1, _AT_ONCE // (replicas * width))
    counts = []
    for begin in range(first, first + sessions, at_once):
        number = min(at_once, first + sessions - begin)
        query = torch.empty(number, replicas, dtype=torch.int64, device=deployed.device)
        clicks = torch.empty(number, replicas, width, dtype=torch.bool, device=deployed.device)
        for played in range(number):
            if stop:
                raise KeyboardInterrupt
            query[played], clicks[played] = _session(simulation, lists, begin + played)
        counts.append(_counted(simulation.streams.seeds, lists, query, clicks))
    key = ["seed", "query", "document", "rank", "last_click"]
    rows = pl.concat(counts).group_by(key).agg(pl.col("shown", "clicked").sum()).sort(VALIDATION_CLICKS.key)
    return rows.select(pl.col(name).cast(kind) for name, kind in VALIDATION_CLICKS.schema.items())


def _shown_lists(simulation: Simulation, evaluator: Evaluator, deployed: Float[Tensor, "B P"]) -> _ShownLists:
    """Return the lists of all validation queries, as far as they are shown."""
    split, by_document = evaluator.split, simulation.context.attraction is not None
    width = min(simulation.context.positions, split.longest)
    document = torch.zeros(len(deployed), len(split), width, dtype=torch.int64, device=deployed.device)
    judged = torch.zeros_like(document)
    for group in evaluator.lists(simulation.ranker, deployed):
        places = min(width, group.document.shape[2])
        first = group.document[..., :places]
        document[:, group.query, :places] = first
        judged[:, group.query, :places] = first if by_document else group.label[..., :places]
    shown = torch.arange(width, device=deployed.device) < split.length[:, None]
    return _ShownLists(document, judged, shown)


def _session(simulation: Simulation, lists: _ShownLists, number: int) -> tuple[Int[Tensor, "B"], Bool[Tensor, "B K"]]:
    """Return the query and the clicks of one session of each replica."""
    streams, replica = simulation.streams, torch.arange(len(lists.judged), device=lists.judged.device)
    chance = streams.at("sessions/query", number).uniform(1)[:, 0]
    query = (chance * len(lists.shown)).long()
    shown = lists.shown[query]
    clicks = simulation.click.click(lists.judged[replica, query], shown, streams.at("sessions/click", number))
    return query, clicks & shown


def _counted(
    seeds: Int[Tensor, "B"], lists: _ShownLists, query: Int[Tensor, "S B"], clicks: Bool[Tensor, "S B K"]
) -> pl.DataFrame:
    """Return how often each document was shown at each rank below each last click, and clicked there."""
    number, replica, place = lists.shown[query].nonzero(as_tuple=True)
    asked = query[number, replica]
    ranks = torch.arange(1, clicks.shape[2] + 1, device=clicks.device)
    upto = (clicks * ranks).cummax(2).values  # the last click at a rank or above it
    above = torch.cat([torch.zeros_like(upto[..., :1]), upto[..., :-1]], 2)
    columns = {
        "seed": seeds[replica],
        "query": asked,
        "document": lists.document[replica, asked, place],
        "rank": ranks[place],
        "last_click": above[number, replica, place],
        "clicked": clicks[number, replica, place].long(),
    }
    rows = pl.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})
    key = [name for name in columns if name != "clicked"]
    return rows.group_by(key).agg(shown=pl.len().cast(pl.Int64), clicked=pl.col("clicked").sum())
