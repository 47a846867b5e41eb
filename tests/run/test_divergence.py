"""A run whose numbers are not finite fails, and says in which round, in which replicas and what to change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from ol2r_cli.commands.run import main
from ol2r_cli.metrics.measurement import NonFiniteScores
from ol2r_cli.run.run import Run, find_runs
from tests.plugins.check.broken import Sound
from tests.worlds import simulate, tiny

SMOKE = ["experiment=smoke", "evaluate_every=1000"]


def failure(folder: Path, *words: str, base: Sequence[str] = SMOKE) -> str:
    """The error in the manifest of a run that must fail."""
    assert main([*base, f"output_dir={folder}", *words]) == 1
    (path,) = find_runs(folder)
    state = Run.read(path)
    assert state is not None
    assert state.state == "failed"
    assert not (path / "summary.json").exists()
    return str(state.error).removeprefix("FloatingPointError: ")


RATE = "ranker.learning_rate must be smaller, got"


DIVERGING = {
    "ranker=ollambdarank ranker.model.width=8 ranker.l2=0 ranker.learning_rate=1e30 rounds=3": (
        f"scores of ranker=ollambdarank are not finite in round 2: {RATE} 1e+30"
    ),
    "ranker.l2=1e-300": "scores of ranker=pairrank are not finite in round 2: ranker.l2 must be larger, got 1e-300",
    "ranker=dbgd ranker.learning_rate=1e308 replicas=3": (
        f"scores of ranker=dbgd with seed 2 are not finite in round 4: {RATE} 1e+308"
    ),
    **dict.fromkeys(
        (
            "ranker=sgd_ranknet ranker.pairs=all ranker.learning_rate=1.7e308 rounds=1",
            "ranker=sgd_ranknet ranker.pairs=all ranker.learning_rate=1.7e308 rounds=1 evaluate_on=[]",
        ),
        f"parameters of ranker=sgd_ranknet are not finite after round 1: {RATE} 1.7e+308",
    ),
}


@pytest.mark.parametrize("words", DIVERGING)
def test_a_run_that_diverges_says_where_and_what_to_change(tmp_path, words):
    assert failure(tmp_path, *words.split()) == f"the {DIVERGING[words]}"


def test_scores_beyond_single_precision_name_the_normalisation(tmp_path):
    """PDGD learns weights of about 1e21 from features of 1e22; evaluation would take the scores as infinite."""
    rows = [f"{label} qid:{query} 1:{label + 1}e22 2:1e22\n" for query in range(3) for label in (2, 1, 0)]
    for split in "train", "test":
        (tmp_path / f"{split}.txt").write_text("".join(rows))
    data = ["dataset=letor", f"dataset.path={tmp_path}", "dataset.normalise=none", f"cache_dir={tmp_path / 'cache'}"]
    words = ["ranker=pdgd", "click=perfect", "rounds=9", "evaluate_every=3"]
    assert failure(tmp_path / "runs", *words, base=data) == (
        "the scores of ranker=pdgd are not finite in single precision on test queries after round 3: "
        "dataset.normalise must be query_minmax, query_zscore or global_zscore, got none"
    )


class NotANumber(Sound):
    """A ranker of one's own, with a setting of which its mistake is independent."""

    def __init__(self, l2: float):
        super().__init__()

    def learn(self, interaction, random):
        self.weights /= 0 * self.weights


def test_of_an_own_ranker_the_class_is_named(tmp_path):
    """Of a ranker of one's own the class is named, and no setting is blamed."""
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text(f"_target_: {__name__}.NotANumber\nl2: .1\n")
    assert failure(tmp_path / "runs", "ranker=mine", "--config-dir", str(tmp_path)) == (
        "the scores of ranker=mine are not finite in round 2: look at "
        "tests.run.test_divergence.NotANumber, or type ol2r check ranker=mine"
    )


@pytest.mark.parametrize(
    "words",
    ["exploration.alpha=9223372036854775807", "ranker=olranknet ranker.model.width=8 exploration.alpha=1e100"],
    ids=["linear", "network"],
)
def test_intervals_may_be_very_wide(tmp_path, words):
    assert main([*SMOKE, "rounds=3", f"output_dir={tmp_path}", *words.split()]) == 0


@pytest.mark.parametrize("number", [0.0, torch.nan, torch.inf])
def test_only_padding_may_be_infinite(number):
    measurement = simulate(tiny(), [0, 1], 9).measurement
    measurement.first = 5
    totals = [[0.0, 1.0 if number else -torch.inf], [number, 1e308], [number, number]]
    measurement.recorded, measurement.total[:3] = 3, torch.tensor(totals, dtype=torch.float64)
    if not number:
        assert measurement.measures()[0] == 5
        return
    with pytest.raises(NonFiniteScores) as error:
        measurement.measures()
    assert (error.value.round, error.value.replicas) == (6, [0])
