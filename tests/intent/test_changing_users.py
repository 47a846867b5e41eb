"""Runs whose users change their intent: labels, clicks, measures and evaluations are those of the current intent."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.run.recomputed import differences
from ol2r_cli.run.run import Run
from tests.manifests import accept_changes
from tests.worlds import TINY, measured, simulate, tiny

INTENTS = "dataset.intents={number: 3, overlap: -0.3}"
SMOOTH = ["intent=smooth", "intent.intents=[1,3,2]", "intent.every=20", "intent.width=8"]
ROUNDS = 70  # beyond the first 64, after which measures are taken one by one


def dcg(labels: list[int]) -> float:
    return sum((2**label - 1) / math.log2(place + 2) for place, label in enumerate(labels[:10]))


def play(*overrides: str, seeds: list[int], dataset: Dataset | None = None):
    """Interactions and measures of all rounds."""
    config = tiny(*overrides, "measures=[ndcg,dynamic_regret]")
    measures = {name: build(config.measure[name]) for name in ("ndcg", "dynamic_regret")}
    columns, interactions = measured(simulate(config, seeds, ROUNDS, dataset, measures=measures))
    return interactions, columns


def test_users_judge_by_the_labels_of_their_intent():
    """Perfect users click what is relevant for their intent; NDCG and regret are recomputed from the lists shown."""
    seeds, dataset = [4, 5, 6], build(tiny(INTENTS).dataset).load()
    words = INTENTS, *SMOOTH, "ranker=pdgd", "click=perfect", "click.click=[0,1,1,1,1]"
    interactions, columns = play(*words, seeds=seeds, dataset=dataset)
    assert set(columns["user_intent"].flatten().tolist()) == {1, 2, 3}
    regret = [0.0] * len(seeds)
    for t, seen in enumerate(interactions):
        for b in range(len(seeds)):
            labels = dataset.intents.labels[int(columns["user_intent"][t, b]) - 1]
            documents = seen.candidates.document[b]
            shown = labels[documents[seen.ranking[b][seen.shown[b]]]]
            assert torch.equal(shown > 0, seen.clicks[b][seen.shown[b]])
            best = dcg(sorted(labels[documents[seen.candidates.mask[b]]].tolist(), reverse=True))
            ndcg = dcg(shown.tolist()) / best if best else 0.0
            assert columns["online_ndcg"][t, b] == pytest.approx(ndcg)
            regret[b] += (1 - ndcg) if best else 0.0
            assert columns["dynamic_regret"][t, b] == pytest.approx(regret[b])


def test_rounds_played_together_have_the_same_users():
    results, config = [], tiny(INTENTS, *SMOOTH, "ranker=pdgd", "measures=[ndcg]")
    for together in (True, False):
        running = simulate(config, [4, 5], 60, measures={"ndcg": build(config.measure.ndcg)})
        with torch.inference_mode():
            for _ in running.play_until(lambda t: t == 30) if together else running.play():
                pass
        assert running.together is not None
        results.append(running.measurement.measures()[1])
    assert results[0].keys() >= {"user_intent", "query", "online_ndcg"}
    torch.testing.assert_close(*results)


def run(tmp_path: Path, *overrides: str) -> Path:
    """The directory of a finished run of the command line."""
    assert cli.main(["run", *TINY, *overrides, f"output_dir={tmp_path}"]) == 0
    return max(tmp_path.glob("synthetic/*"), key=lambda path: path.stat().st_mtime_ns)


def test_offline_evaluations_are_of_the_current_intent(tmp_path):
    """NDCG after a round is that of each intent, as runs that stay with it evaluate the same ranker, by its share."""
    common = ["ranker=random", "rounds=40", "evaluate_every=2", INTENTS, "replicas=2"]
    schedules = ["dataset.intent=1"], ["dataset.intent=3"], [*SMOOTH, "intent.intents=[1,3]"]
    paths = (run(tmp_path, *common, *schedule) / "evaluation.parquet" for schedule in schedules)
    tables = [pl.read_parquet(path).sort("split", "round", "seed").rows(named=True) for path in paths]
    for first, third, row in zip(*tables, strict=True):
        moved = min(1.0, max(0, row["round"] - 1 - 12) / 8)
        for column in (f"ndcg_{cutoff}" for cutoff in (1, 3, 5, 10)):
            expected = (1 - moved) * first[column] + moved * third[column]
            assert row[column] == pytest.approx(expected, abs=1e-6)
    assert len(tables[0]) == 2 * 21 * 2


def test_a_run_is_named_after_its_schedule_and_is_intact(tmp_path):
    folder = run(tmp_path, "rounds=30", "ranker=pdgd", INTENTS, *SMOOTH, "save_interactions=true")
    assert "-informational-smooth-" in folder.name
    state = Run.read(folder)
    assert state.manifest["choices"]["intent"] == "smooth"
    assert not list(differences(state, []))
    trace = pl.read_parquet(folder / "trace.parquet")
    assert trace["user_intent"].is_between(1, 3).all()
    wrong = trace.with_columns(user_intent=4 - pl.col("user_intent"))
    wrong.write_parquet(folder / "trace.parquet")
    accept_changes(folder)
    assert any("online_ndcg" in line for line in differences(Run.read(folder), []))


@pytest.mark.parametrize(("schedule", "every"), [("abrupt", 29), ("abrupt", 30), ("recurring", 30)])
def test_a_schedule_that_does_not_change_is_a_warning(tmp_path, capsys, schedule, every):
    run(tmp_path, "rounds=30", f"intent={schedule}", INTENTS, f"intent.every={every}", "intent.share=.7")
    line = "warning: users keep their intent in all 30 rounds: type intent.every=15 or less\n"
    assert (line in capsys.readouterr().err) == (every == 30)


@pytest.mark.parametrize(
    ("message", "overrides"),
    {
        "has no intents: type 'dataset.intents={number: ": ["intent=abrupt"],
        "has 2 intents": ["intent=abrupt", "intent.intents=[1,3]", "dataset.intents={number: 2, overlap: 0}"],
        "needs labels that stay as they are": ["intent=abrupt", INTENTS, "ranker=oracle"],
        "trace_cosine=true": ["intent=abrupt", INTENTS, "trace_cosine=true"],
        "an intent must be one of the 3": [INTENTS, "dataset.intent=4"],
        "dataset.intents.number must be from 2 to 4, got 5": ["dataset.intents={number: 5, overlap: 0}"],
    }.items(),
)
def test_what_does_not_go_together_is_explained(tmp_path, capsys, message, overrides):
    assert cli.main(["run", *overrides, f"output_dir={tmp_path}"]) == 2, message
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
