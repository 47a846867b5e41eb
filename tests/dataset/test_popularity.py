"""Queries that are asked more often than others: by Zipf's law, or by counts, the same for every ranker."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest
import torch

from ol2r_cli.config.composer import compose
from ol2r_cli.dataset.cache import digest
from ol2r_cli.dataset.popularity import asked_by
from ol2r_cli.interfaces import RunContext
from ol2r_cli.measure.quality import HeadAndTail
from ol2r_cli.run.experiment import Experiment
from tests.worlds import TINY

QUERIES = 8
SMALL = [*TINY, f"dataset.queries={{train: {QUERIES}, validation: 2, test: 2}}", "replicas=2"]


def experiment(*words: str) -> Experiment:
    composition = compose([*SMALL, *words])
    return Experiment(composition.settings, composition.choices)


@pytest.fixture
def file(tmp_path):
    """A file of counts."""
    return tmp_path / "counts.csv"


def played(*words: str, singly: bool = False, rounds: int = 200) -> dict[str, torch.Tensor]:
    """The columns [T, B] of a run."""
    simulation = experiment(*words, f"rounds={rounds}").simulation()
    with torch.inference_mode():
        parts = [
            simulation.measurement.measures()[1]
            for _ in (simulation.play() if singly else simulation.play_until(lambda t: False))
            if simulation.measurement.full() or int(simulation.round) == rounds
        ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("popularity", ["uniform", "{zipf: 1}"])
def test_every_ranker_meets_the_same_queries(popularity):
    """In rounds that are played together, as in single ones."""
    words = f"dataset.popularity={popularity}", "seed=5"
    first, *others = (
        played(*words, f"ranker={ranker}", singly=singly)["query"]
        for ranker, singly in (("random", False), ("pdgd", False), ("pdgd", True))
    )
    assert all(torch.equal(other, first) for other in others)


def test_a_file_says_how_often(file):
    """A query without a line is never asked, also if it is the first or the last."""
    file.write_text("train-2,30\ntrain-3,1\ntrain-5\t10\ntrain-6,15\nnobody 7\n")
    queries = played(f"dataset.popularity={{file: {file}}}", "ranker=random", rounds=5000)["query"]
    counts = torch.bincount(queries.flatten(), minlength=QUERIES)
    shares = torch.tensor([0, 30, 1, 0, 10, 15, 0, 0]) / 56
    deviation = (10_000 * shares * (1 - shares)).sqrt()
    assert ((counts - 10_000 * shares).abs() <= 4 * deviation).all()


@pytest.mark.parametrize("content", [
    "\ufefftrain-1,30\ntrain-2,10\n",  # with a byte order mark, as Excel writes it
    "train-1,8\ntrain-2,10\ntrain-1,22\n",  # counts of a query are added, as those of click logs are
    '"train-1",30\r\n"train-2" , 10\r\n\r\n',
])  # fmt: skip
def test_counts_of_a_file_are_those_of_its_queries(content, file):
    for written in content.encode(), gzip.compress(content.encode()):
        file.write_bytes(written)
        dataset = asked_by(experiment().dataset, {"file": str(file)})
        assert dataset.popularity.tolist() == [0.75, 0.25, *[0.0] * (QUERIES - 2)]


def test_counts_of_a_file_are_part_of_the_id_as_they_are_written(file):
    """As they have always been: ids of runs with such a file follow from it."""
    file.write_text("train-1,30\ntrain-2,10\n")
    known = "9b9a37ff25dd816c8b20a4348037c04f4e6d3f27e26a854cb49f7f28dec983e2"
    words = [*TINY, f"dataset.popularity={{file: {file}}}"]
    composition = compose(words)
    assert Experiment(composition.settings, composition.choices).dataset.fingerprint == known


def test_counts_may_be_as_large_as_numbers_are(file):
    file.write_text("train-1,3e307\ntrain-2,9e307\ntrain-3,3e307\ntrain-4,3e307\n")
    found = asked_by(experiment().dataset, {"file": str(file)}).popularity.tolist()
    assert found[:4] == pytest.approx([1 / 6, 1 / 2, 1 / 6, 1 / 6])


def test_how_many_queries_were_joined_is_said(file):
    """A file of all training queries says nothing; with an umlaut and a blank in an id it is joined, too."""
    plain = experiment().dataset
    of_words = replace(plain, query_ids=["größe 7,5", *plain.query_ids[1:]])
    lines = [f"{query},1" for query in of_words.query_ids[:QUERIES]]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert asked_by(of_words, {"file": str(file)}).warnings == ()
    file.write_text("\n".join(["other,9", *lines[2:]]), encoding="utf-8")
    (line,) = asked_by(of_words, {"file": str(file)}).warnings
    never = "the others, such as größe 7,5, are never asked"
    foreign = "1 of its 7 queries, such as other, are not in the data"
    assert line == f"{file} has a count for 6 of the {QUERIES} training queries; {never}; {foreign}"


def test_a_file_of_other_queries_is_refused(file):
    """It has less than half of the training queries, and less than half of its queries are in the data."""
    dataset = experiment().dataset
    file.write_text("train-1 1\ntrain-2 1\nTRAIN-3 1\nTRAIN-4 1\n")  # half of its queries are there
    assert len(asked_by(dataset, {"file": str(file)}).warnings) == 1
    file.write_text("train-1 1\ntrain-2 1\nTRAIN-3 1\nTRAIN-4 1\nTRAIN-5 1\n")
    with pytest.raises(ValueError, match=r"a count for 2 of the 8 training queries, not for train-3, and 3 of its 5"):
        asked_by(dataset, {"file": str(file)})


@pytest.mark.parametrize(("encoding", "line"), [("latin-1", 2), ("utf-16", 1)])
def test_another_encoding_is_named_with_file_and_line(encoding, line, file):
    file.write_text("train-1 3\ngröße 2\n", encoding=encoding)
    with pytest.raises(ValueError, match=rf"^{file}, line {line}: found text in another encoding, .* type iconv -f"):
        asked_by(experiment().dataset, {"file": str(file)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("train-1 often", "line 1 must be a query and a count, got 'train-1 often'"),
        ("train-1,3\ntrain-2", "line 2 must be a query and a count, got 'train-2'"),
        ("train-1 -3", "line 1 must be a query and a count"),
        ("other 3", f"has a count for none of the {QUERIES} training queries, such as train-1"),
    ],
)
def test_a_bad_file_is_refused(content, message, file):
    file.write_text(content)
    with pytest.raises(ValueError) as error:
        experiment(f"dataset.popularity={{file: {file}}}").simulation()
    assert message in str(error.value)


def test_popularity_is_part_of_the_id_unless_it_is_uniform(file):
    file.write_text("train-1 1")
    settings = ["uniform", "{zipf: 1}", "{zipf: 1, seed: 1}", "{zipf: 2}", f"{{file: {file}}}"]
    ids = [experiment(f"dataset.popularity={setting}").id for setting in settings]
    assert ids[0] == experiment().id
    assert len(set(ids)) == len(settings)
    assert experiment("dataset.popularity={zipf: 1.0, seed: 0}").id == ids[1]


@pytest.mark.parametrize(
    ("seed", "zipf", "ranks"),
    [(0, 1, [3, 5, 4, 7, 6, 1, 2, 8]), (3, 0.25, [7, 8, 3, 2, 5, 6, 4, 1]), (3, 2, [7, 8, 3, 2, 5, 6, 4, 1])],
)
def test_ranks_and_ids_are_those_of_published_runs(seed, zipf, ranks):
    """Rank r has 1 / r^zipf of the share of rank 1. Frozen values on purpose, of numpy 2.1: ranks by
    `default_rng(seed).permutation`, and 1 without a point."""
    dataset, law = experiment().dataset, np.array(ranks) ** -float(zipf)
    asked = asked_by(dataset, {"zipf": float(zipf), "seed": seed})
    assert asked.popularity.numpy() == pytest.approx(law / law.sum())
    assert asked.fingerprint == digest({"dataset": dataset.fingerprint, "popularity": {"zipf": zipf, "seed": seed}})


@pytest.mark.parametrize(("share", "head"), [(0.5, [1]), (0.7, [1, 3]), (1.0, [0, 1, 2, 3])])
def test_the_head_makes_up_the_share_of_the_rounds(share, head):
    popularity = torch.tensor([0.125, 0.5, 0.125, 0.25], dtype=torch.float64)
    measure = HeadAndTail(share)
    measure.setup(RunContext(1, 5, 1, 5, 4, 9, 5, popularity=popularity), torch.ones(4, 5, dtype=torch.int64))
    assert measure.is_head.nonzero().flatten().tolist() == head


def test_head_and_tail_have_the_ndcg_of_their_rounds():
    columns = played("dataset.popularity={zipf: 1}", "measures=[ndcg,head_and_tail]")
    head, tail, online = (columns[name] for name in ("online_ndcg_head", "online_ndcg_tail", "online_ndcg"))
    assert (head.isnan() ^ tail.isnan()).all()
    assert torch.equal(torch.where(head.isnan(), tail, head), online)
    assert 0 < head.isnan().sum() < head.numel()


def test_they_do_not_apply_where_all_queries_are_asked_alike():
    columns = played("measures=[head_and_tail]", rounds=50)
    assert columns["online_ndcg_head"].isnan().all()
    assert columns["online_ndcg_tail"].isnan().all()
