"""The clicks of a finished run as a log for counterfactual learners: its rounds are played again, and compared.

docs/how-to/export.md describes the columns. The same settings give the same rounds, so that nothing was saved for this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.interfaces import Interaction
from ol2r_cli.report.frames import as_csv
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.recomputed import run_settings
from ol2r_cli.run.run import Run
from ol2r_cli.simulation import Simulation


def click_log(path: Path, data: Path | None = None, own_targets: Collection[str] = ()) -> tuple[pl.DataFrame, Dataset]:
    """Return a row for each shown document of the run in `path`, by session and position, and the run's dataset.

    `document` is the row of the dataset's table. `data` and `own_targets` are those of `RankedSplit`. ValueError where
    the run cannot be played again as it was.
    """
    run = Run.read_finished(path)
    experiment = Experiment(run_settings(run, own_targets, data), run.choices)
    simulation = experiment.simulation()
    if experiment.id != run.id:
        changed = "its data, its own code, the version of ol2r or the device is another one"
        raise ValueError(f"{path} cannot be played again, as {changed}: type {run.command} force=true")
    parts = [_rows(simulation, experiment.seeds, t, interaction) for t, interaction in simulation.play()]
    table = pl.concat(parts).sort("seed", "round", "position")
    rounds = table.group_by("seed", "round", maintain_order=True).agg(clicks=pl.col("click").sum())
    stored = run.trace.select("seed", "round", stored="clicks")
    other = rounds.join(stored, on=["seed", "round"], maintain_order="left").filter(
        pl.col("clicks") != pl.col("stored")
    )
    if len(other):
        found = f"round {other['round'][0]} has other clicks than {path} when it is played again"
        raise ValueError(f"{found}, by another processor or version: type {run.command} force=true")
    ids, train = pl.Series(experiment.dataset.query_ids), experiment.dataset.splits["train"].numpy()
    query = ids[train[table["query"].to_numpy()]]
    session = pl.struct("seed", "round").rank("dense").cast(pl.Int64)
    return table.select(session.alias("session"), query.alias("query"), pl.exclude("query")), experiment.dataset


def _rows(simulation: Simulation, seeds: Sequence[int], t: int, interaction: Interaction) -> pl.DataFrame:
    """Return a row for each document that was shown in round `t`, which the simulation has just recorded."""
    measurement, shown = simulation.measurement, interaction.shown.cpu().numpy()
    # A copy: `measures` clears them once it has as many rounds as it holds.
    grades = measurement.grades[measurement.recorded - 1, :, : shown.shape[1]].clone()
    if measurement.full():
        measurement.measures()
    judged, document = grades.long(), interaction.candidates.document.gather(1, interaction.ranking)
    if simulation.context.attraction is not None:
        intent = None if simulation.intents is None else simulation.intents.at(t - 1)
        judged = simulation.train_split.of_intent(document, intent)
    reranks = simulation.fairness.reranks
    probability = None if reranks else simulation.exploration.list_probability(interaction)
    values = {
        "document": document,
        "click": interaction.clicks,
        "examination": simulation.click.propensities(judged),
        "list_probability": None if probability is None else probability[:, None].expand(shown.shape),
        "grade": grades,
        "query": interaction.candidates.query[:, None].expand(shown.shape),
    }
    replica, place = np.nonzero(shown)
    columns = {"seed": np.asarray(seeds)[replica], "round": np.full(len(place), t), "position": place + 1}
    taken = {name: None if value is None else value.cpu().numpy()[shown] for name, value in values.items()}
    types = {"click": pl.Int8, "examination": pl.Float64, "list_probability": pl.Float64, "grade": pl.Int8}
    return pl.DataFrame({**columns, **taken}, schema_overrides=types)


def write(table: pl.DataFrame, dataset: Dataset, out: Path) -> None:
    """Write a click log with the features of its documents to a .parquet or .csv file, or as LETOR lines to another.

    A LETOR line has the click in place of the grade and the session in place of the query. It has features that are 0,
    too, because XGBoost takes one that is left out for missing.
    """
    features = dataset.features.numpy()[table["document"].to_numpy()]
    if out.suffix in (".parquet", ".csv"):
        named = {f"feature_{number}": column for number, column in enumerate(features.T, 1)}
        table = table.hstack(pl.DataFrame(named))
        write_parquet(out, table) if out.suffix == ".parquet" else write_text(out, as_csv(table))
        return
    lines = []
    for row, values in zip(table.iter_rows(named=True), features.tolist(), strict=True):
        click, session = row.pop("click"), row.pop("session")
        numbers = " ".join(f"{number}:{value:.9g}" for number, value in enumerate(values, 1))
        comment = " ".join(f"{name} = {value}" for name, value in row.items())
        lines.append(f"{click} qid:{session} {numbers} # {comment}\n")
    write_text(out, "".join(lines))
