"""What a log and documents say together, and runs in worlds against sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.plugins.advise.evidence import evidence_of, evidence_with
from ol2r_cli.plugins.advise.pages import expected, grades_of, ordered, simulated_user
from ol2r_cli.plugins.advise.play import DrawnWorld, write_worlds
from ol2r_cli.plugins.advise.world import World, WorldDocuments
from ol2r_cli.plugins.advise.worlds import GRID, WorldUser, fit
from ol2r_cli.run.run import Run, find_runs
from tests.plugins.advise.logs import pages, shop
from tests.plugins.click_logs.logs import of_pages


def log():
    """Three pages of query b, one of query a; x is unknown to the data."""
    of = of_pages([1, 1, 0, 0, 1], [[0, 1], [1, 0], [0, 4], [2, 3]], [[1, 0], [0, 1], [0, 1], [1, 0]])
    return replace(of, query_ids=["a", "b"], document_ids=["d0", "d1", "d7", "d8", "x"])


def dataset():
    """Query b with documents that are called by their rows: 0 to 2; and query c."""
    return Dataset(
        name="shop",
        fingerprint="",
        features=torch.tensor([[5.0], [6], [7], [8]]),
        labels=torch.zeros(4, dtype=torch.int8),
        offsets=torch.tensor([0, 3, 4]),
        query_ids=["b", "c"],
        grades=2,
        splits={"train": torch.arange(2)},
    )


def test_worlds_of_a_log_have_its_documents():
    known = evidence_of(log())
    assert known.documents.query_ids == ["a", "b"]
    assert known.documents.offsets.tolist() == [0, 2, 5]
    assert known.rows.tolist() == [2, 3, 0, 1, 4]
    assert known.documents.rank.tolist() == [1, 2, 1, 2, 3]
    assert known.documents.features.tolist() == [[1], [2], [1], [2], [3]]
    assert known.documents.shares.tolist() == [0.25, 0.75]
    assert known.share == 0.75  # a was asked once
    assert known.places == 2


def test_advertisements_are_left_out_of_worlds():
    known = evidence_of(log(), np.arange(5) == 4)
    assert known.rows.tolist() == [2, 3, 0, 1]
    assert known.documents.offsets.tolist() == [0, 2, 4]
    assert known.log.impressions.sum() == 8


def test_worlds_with_data_have_documents_that_were_never_shown():
    known = evidence_with(replace(log(), document_ids=["0", "1", "d7", "d8", "x"]), dataset())
    assert known.documents.query_ids == ["b"]
    assert known.rows.tolist() == [0, 1, 5]  # the last one was added
    assert known.log.query.tolist() == [1, 1, 0, 0, 1, 1]
    assert known.log.impressions[5].tolist() == [0, 0]
    assert known.documents.rank.tolist() == [1, 2, 4]  # the advertisement has rank 3
    assert known.documents.features[:, 1].tolist() == [5, 6, 7]
    assert known.documents.features[:, 0] == pytest.approx(1 / np.log2([2, 3, 5]))
    assert known.documents.shares.tolist() == [1]
    assert known.share == 0.75
    assert known.features is not None
    assert known.features[4, 1] == 6  # the mean, of what is not in the data
    assert known.joined.startswith("2 of 5 documents in 1 of 2 queries")


def test_features_foretell_what_was_never_shown():
    """Attraction follows a feature: of documents that the log never shows, too."""
    random = np.random.default_rng(6)
    of, places = shop(seed=2, queries=120, documents=12), 6
    feature = random.normal(size=(120, 12))
    attraction = 1 / (1 + np.exp(2 - 1.5 * feature))
    of = of._replace(attraction=attraction, production=random.permuted(np.tile(np.arange(12), (120, 1)), axis=1))
    of = of._replace(examination=1 / np.arange(1.0, 13))
    query, order, click = pages(of, 20_000)
    seen = of_pages(np.repeat(np.arange(120), 12), query[:, None] * 12 + order[:, :places], click[:, :places])
    never = seen.impressions.sum(1) == 0
    assert never.sum() > 400
    found = fit(seen, "pbm", features=feature.reshape(-1, 1)).posterior @ GRID
    assert np.corrcoef(found[never], attraction.ravel()[never])[0, 1] > 0.9
    assert found[never].mean() == pytest.approx(attraction.ravel()[never].mean(), abs=0.03)
    without = fit(seen, "pbm").posterior @ GRID
    assert without[never].std() < 0.02


def test_runs_see_what_sums_say(tmp_path):
    """Production as a run of ranker=fixed, on each of its pages: the expected clicks of its query."""
    random = np.random.default_rng(1)
    documents = WorldDocuments(
        features=np.tile(np.arange(1.0, 6), 4)[:, None].astype(np.float32),
        rank=np.tile(np.arange(1, 6), 4),
        offsets=np.arange(0, 21, 5),
        query_ids=list("abcd"),
        shares=np.array([0.4, 0.3, 0.2, 0.1]),
    )
    user, grades = simulated_user(WorldUser("pbm", np.array([1, 0.5, 0.3]))), random.integers(0, 50, 20)
    write_worlds(tmp_path, documents, [DrawnWorld(False, user, grades)])
    words = ["run", "dataset=world", f"dataset.path={tmp_path}", *user.words(), "positions=3", "evaluate_on=[]"]
    words += ["measures=[expected_clicks]", "rounds=200", f"output_dir={tmp_path / 'runs'}", "--quiet"]
    assert cli.main([*words, "ranker=fixed", "ranker.feature=-1"]) == 0
    (path,) = find_runs(tmp_path / "runs")
    trace = Run.read_finished(path).trace
    lists = ordered(-documents.rank, documents.offsets, 3)
    by_query = expected(user.model(3), grades_of(lists, grades))
    assert trace["expected_clicks"].to_numpy() == pytest.approx(by_query[trace["query"].to_numpy()])
    asked = np.bincount(trace["query"].to_numpy(), minlength=4) / 200
    assert asked == pytest.approx(documents.shares, abs=0.1)


def test_a_world_is_what_its_files_have(tmp_path):
    """The fingerprint is that of the numbers, wherever they lie; a world that is not there is refused in a line."""
    documents = WorldDocuments(
        np.ones((4, 1), np.float32), np.array([1, 2, 1, 2]), np.array([0, 2, 4]), ["a", "b"], np.full(2, 0.5)
    )
    user = simulated_user(WorldUser("pbm", np.ones(2)))
    worlds = [DrawnWorld(False, user, np.array(grades)) for grades in ([1, 2, 3, 4], [1, 2, 3, 5])]
    for name in "one", "two":
        write_worlds(tmp_path / name, documents, worlds)
    first, other, second = (
        World("world", str(tmp_path / name), fold, 50).load() for name, fold in (("one", 1), ("two", 1), ("one", 2))
    )
    assert first.fingerprint == other.fingerprint != second.fingerprint
    assert first.labels.tolist() == [1, 2, 3, 4]
    assert first.popularity.tolist() == [0.5, 0.5]
    told = "dataset.path must be a folder of worlds, as `ol2r advise` writes it, got "
    with pytest.raises(ValueError, match=f"{told}.* without world 3"):
        World("world", str(tmp_path / "one"), 3, 50).load()
    with pytest.raises(ValueError, match=told):
        World("world", None, 1, 50).load()
