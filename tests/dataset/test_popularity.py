"""Queries that are asked more often than others: by Zipf's law, or by counts, the same for every ranker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.config.composer import compose
from ol2r_cli.dataset.popularity import asked_by
from ol2r_cli.measure.quality import HeadAndTail
from ol2r_cli.run.experiment import Experiment
from tests.worlds import TINY

QUERIES = 8
SMALL = [*TINY, f"dataset.queries={{train: {QUERIES}, validation: 2, test: 2}}", "replicas=2"]


def experiment(*words: str) -> Experiment:
    composition = compose([*SMALL, *words])
    return Experiment(composition.settings, composition.choices)


def asked(*words: str, singly: bool = False, rounds: int = 2000) -> torch.Tensor:
    """The queries [T, B] of a run."""
    simulation = experiment(*words, f"rounds={rounds}").simulation()
    queries = torch.empty(0, 2, dtype=torch.int64)
    with torch.inference_mode():
        for _ in simulation.play() if singly else simulation.play_until(lambda t: False):
            if simulation.measurement.full() or int(simulation.round) == rounds:
                queries = torch.cat([queries, simulation.measurement.measures()[1]["query"]])
    return queries


@pytest.mark.parametrize("zipf", [0.25, 1, 2])
def test_shares_follow_the_law(zipf):
    """Rank r has 1 / r^zipf of the share of rank 1; another seed draws other ranks."""
    dataset = experiment().dataset
    shares = [asked_by(dataset, {"zipf": zipf, "seed": seed}).popularity for seed in range(3)]
    law = 1 / np.arange(1, QUERIES + 1) ** zipf
    for found in shares:
        assert np.sort(found.numpy())[::-1] == pytest.approx(law / law.sum())
    assert len({tuple(found.tolist()) for found in shares}) > 1


def test_queries_are_asked_by_their_shares():
    words = "dataset.popularity={zipf: 1}", "ranker=random"
    shares = experiment(*words).dataset.popularity
    counts = torch.bincount(asked(*words, rounds=5000).flatten(), minlength=QUERIES)
    deviation = (10_000 * shares * (1 - shares)).sqrt()
    assert ((counts - 10_000 * shares).abs() < 4 * deviation).all()


@pytest.mark.parametrize("popularity", ["uniform", "{zipf: 1}"])
def test_every_ranker_meets_the_same_queries(popularity):
    """In rounds that are played together, as in single ones."""
    words = f"dataset.popularity={popularity}", "seed=5"
    expected = asked(*words, "ranker=random", rounds=300)
    assert torch.equal(asked(*words, "ranker=pdgd", rounds=300), expected)
    assert torch.equal(asked(*words, "ranker=pdgd", singly=True, rounds=300), expected)


def test_a_file_says_how_often(tmp_path: Path):
    """A query without a line is never asked, also if it is the first or the last."""
    file = tmp_path / "counts.csv"
    file.write_text("train-2,30\ntrain-5\t10\nnobody 7\n")
    queries = asked(f"dataset.popularity={{file: {file}}}", "ranker=random")
    counts = Counter(queries.flatten().tolist())
    assert counts.keys() == {1, 4}
    assert counts[1] / counts.total() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("train-1 often", "line 1 must be a query and a count, got 'train-1 often'"),
        ("train-1,3\ntrain-2", "line 2 must be a query and a count, got 'train-2'"),
        ("train-1 -3", "line 1 must be a query and a count"),
        ("other 3", f"has a count for none of the {QUERIES} training queries, such as train-1"),
    ],
)
def test_a_bad_file_is_refused(content, message, tmp_path):
    file = tmp_path / "counts.csv"
    file.write_text(content)
    with pytest.raises(ValueError) as error:
        experiment(f"dataset.popularity={{file: {file}}}").simulation()
    assert message in str(error.value)


def test_popularity_is_part_of_the_id_unless_it_is_uniform(tmp_path):
    file = tmp_path / "counts.csv"
    file.write_text("train-1 1")
    settings = ["uniform", "{zipf: 1}", "{zipf: 1, seed: 1}", "{zipf: 2}", f"{{file: {file}}}"]
    ids = [experiment(f"dataset.popularity={setting}").id for setting in settings]
    assert ids[0] == experiment().id
    assert len(set(ids)) == len(settings)


@pytest.mark.parametrize(("share", "head"), [(0.5, 1), (0.7, 2), (1.0, 4)])
def test_the_head_makes_up_the_share_of_the_rounds(share, head):
    """Shares are .5, .25, .125 and .125."""
    popularity = torch.tensor([0.125, 0.5, 0.125, 0.25], dtype=torch.float64)
    simulation = experiment().simulation()
    measure = HeadAndTail(share)
    context = simulation.context
    object.__setattr__(context, "popularity", popularity)
    measure.setup(context, torch.ones(4, 10, dtype=torch.int64))
    assert measure.is_head.nonzero().flatten().tolist() == sorted([1, 3, 0, 2][:head])


def test_head_and_tail_have_the_ndcg_of_their_rounds():
    words = "dataset.popularity={zipf: 1}", "measures=[ndcg,head_and_tail]", "rounds=200"
    simulation = experiment(*words).simulation()
    with torch.inference_mode():
        for _ in simulation.play_until(lambda t: False):
            if int(simulation.round) == 200:
                columns = simulation.measurement.measures()[1]
    head, tail, online = (columns[name] for name in ("online_ndcg_head", "online_ndcg_tail", "online_ndcg"))
    assert (head.isnan() ^ tail.isnan()).all()
    assert torch.equal(torch.where(head.isnan(), tail, head), online)
    assert 0 < head.isnan().sum() < head.numel()


def test_they_do_not_apply_where_all_queries_are_asked_alike():
    simulation = experiment("measures=[head_and_tail]", "rounds=50").simulation()
    with torch.inference_mode():
        for _ in simulation.play_until(lambda t: False):
            columns = simulation.measurement.measures()[1]
            assert columns["online_ndcg_head"].isnan().all()
            assert columns["online_ndcg_tail"].isnan().all()
