"""The user of a click log: attraction by grade, from labels or by quantiles, who clicks as often as the log."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli.click.models import DependentByPlace, PositionBased
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.files import parse_yaml
from ol2r_cli.interfaces import RunContext
from ol2r_cli.plugins.click_logs.click_log import ClickLog
from ol2r_cli.plugins.click_logs.fit_clicks import main
from ol2r_cli.plugins.click_logs.fitted_user import (
    SHARES,
    JoinedLabels,
    _differences,
    _different_depths,
    as_choice,
    depth_of_user,
    fitted_user,
    joined_labels,
    quantile_grades,
)
from ol2r_cli.plugins.click_logs.position_bias import examined
from ol2r_cli.tensor.streams import Streams
from tests.finished import refused
from tests.plugins.click_logs.logs import of_pages

THETA = np.array([1.0, 0.5, 0.25])


def expected(shown, attraction):
    """Exactly the expected clicks of position-based users."""
    return ClickLog(np.arange(len(shown)), shown.astype(float), shown * attraction[:, None] * THETA)


def test_attraction_by_labels_is_clicks_over_examinations():
    """Two documents of grade 0, one of grade 2, none of grade 1. One without a label decides nothing."""
    shown = np.array([[100, 0, 0], [0, 100, 100], [50, 50, 0], [900, 0, 0]])
    log = expected(shown, np.array([0.1, 0.3, 0.8, 0.9]))
    user = fitted_user(log, "adjacent", THETA, JoinedLabels(np.array([0, 0, 2, -1]), 3, "some"))
    zero = (10 + 0.3 * 75) / (100 + 75)
    assert user.tables == {3: pytest.approx([zero, (zero + 0.8) / 2, 0.8], abs=1e-6)}
    assert user.log_clicks * 1050 == pytest.approx([10 + 40 + 810, 15 + 20, 7.5])
    assert user.user_clicks * 1050 == pytest.approx([100 * zero + 40 + 810, 50 * zero + 20, 25 * zero])
    assert user.user_clicks.sum() == pytest.approx(user.log_clicks.sum())
    assert user.doubts[:2] == [
        "the log has no document of grade 1, which has an attraction between those of its neighbours",
        "attraction has a standard error above 10 % for grade 0 (32 clicks), 2 (60 clicks)",
    ]
    assert "tables:  # of some, by their labels" in as_choice(user, [])


def popular_is_attractive():
    """Documents that attract more are shown more, as by a ranker that knows them; two of three are nearly unseen."""
    rng = np.random.default_rng(0)
    attraction = rng.beta(1, 3, 600)
    shown = rng.poisson(100 + 2000 * attraction[:, None] ** 3 / np.arange(1, 4), (600, 3))
    return expected(shown, attraction)


def test_without_labels_the_user_clicks_as_often_as_the_log():
    """Where documents count alike instead, he clicks less, since those of a grade that are shown more attract more."""
    log = popular_is_attractive()
    user = fitted_user(log, "pbm", THETA, None)
    assert user.user_clicks.sum() == pytest.approx(user.log_clicks.sum(), rel=1e-3)
    attraction = log.clicks.sum(1) / (log.impressions @ THETA)
    alike = quantile_grades(attraction, np.ones(600, np.bool_), SHARES[5])
    clicks = log.impressions @ THETA @ alike @ (attraction @ alike / alike.sum(0))
    assert clicks < 0.98 * log.clicks.sum()
    for grades, table in user.tables.items():
        assert table == sorted(table)
        assert len(table) == grades


def test_documents_on_a_border_have_both_grades_in_part():
    member = quantile_grades(np.array([0.9, 0.1, 0.3, 0.5, 0.0]), np.arange(5) < 4, [0.625, 0.375])
    assert member.tolist() == [[0, 1], [1, 0], [1, 0], [0.5, 0.5], [0, 0]]


VALUES = np.array([0.9, 0.6, 0.4])


@pytest.fixture(scope="module")
def world():
    """Attractions of seven documents, and 20 pages with three of them, of which some are short."""
    rng = np.random.default_rng(2)
    attraction, documents = rng.random(7), np.array([rng.permutation(7)[:3] for _ in range(20)])
    documents[::4, 2] = -1
    return attraction, documents


def model_of(fit, attraction, replicas):
    """Users with an attraction for each document."""
    kinds = {"dcm": DependentByPlace(attraction.tolist(), {}, VALUES.tolist())}
    model = kinds.get(fit, PositionBased(attraction.tolist(), {}, 1, VALUES.tolist()))
    model.setup(RunContext(replicas, 9, 1, 3, 1, 1, grades=7), torch.zeros(1, 1))
    return model


@pytest.mark.parametrize("fit", ["adjacent", "dcm"])
def test_examinations_are_those_of_the_click_model(world, fit):
    attraction, documents = world
    log, whole = of_pages([0] * 7, documents, np.zeros((20, 3))), documents >= 0
    chance = model_of(fit, attraction, 1).propensities(torch.tensor(documents).clamp(min=0)).numpy()
    total = np.zeros((7, 3))
    np.add.at(total, (documents[whole], np.nonzero(whole)[1]), chance[whole])
    assert examined(log, fit, VALUES, attraction) == pytest.approx(total)


@pytest.mark.parametrize("fit", ["adjacent", "dcm"])
def test_depths_of_the_last_click_are_those_of_the_click_model(world, fit):
    """The share over 3,000 simulated replicas of each page."""
    attraction, documents = world
    pages = torch.tensor(documents).repeat(3000, 1)
    streams = Streams(torch.arange(len(pages)), ahead=1).at("click", 0)
    clicks = model_of(fit, attraction, len(pages)).click(pages.clamp(min=0), pages >= 0, streams).numpy()
    shares = np.bincount((clicks * np.arange(1, 4)).max(1), minlength=4) / len(pages)
    found = depth_of_user(of_pages([0] * 7, documents, clicks[:20]), fit, VALUES, attraction)
    assert found == pytest.approx(shares, abs=4 * (0.25 / len(pages)) ** 0.5)
    assert found.sum() == pytest.approx(1)


def test_depths_of_log_and_user_are_compared_and_warned_of():
    """A log whose pages have a click at one rank or none: the position-based user also clicks at several."""
    rng = np.random.default_rng(1)
    pages, clicks = np.array([rng.permutation(3) for _ in range(4000)]), np.zeros((4000, 3), bool)
    clicks[np.arange(4000), rng.integers(0, 3, 4000)] = rng.random(4000) < 0.9
    log = of_pages([0] * 3, pages, clicks)
    user = fitted_user(log, "pbm", np.ones(3), JoinedLabels(np.zeros(3, int), 2, "all"))
    assert user.log_depth == pytest.approx([1 - clicks.any(1).mean(), *clicks.mean(0)])
    rate = clicks.mean()
    assert user.user_depth == pytest.approx([(1 - rate) ** 3, *(rate * (1 - rate) ** below for below in (2, 1, 0))])
    assert [name for name, *_ in user.compared()][-4:] == ["no click", "last click 1", "last click 2", "last click 3"]
    assert user.doubts[-1].startswith(
        "the last click of the fitted user is more than 5 % off the log's at rank none (+"
    )


OF_ONE_GRADE = JoinedLabels(np.zeros(3, int), 2, "all")
OF_THREE = expected(np.diag([2000, 2000, 2000]), np.array([0.3, 0.2, 0.2]))


def test_differences_above_five_per_cent_are_doubts():
    """Within a grade the first rank has documents that attract more, which a user by grade does not know."""
    grade = (0.3 + 0.1 + 0.05) / 1.75
    ranks = f"1 ({100 * (grade / 0.3 - 1):+.0f} %), 2 ({100 * (grade / 0.2 - 1):+.0f} %), 3"
    told = f"clicks of the fitted user, on its lists, differ by more than 5 % from those of the log at rank {ranks}"
    assert fitted_user(OF_THREE, "adjacent", THETA, OF_ONE_GRADE).doubts[-1].startswith(told)


def test_differences_are_those_of_documents_with_a_grade():
    """One without, which has most of the clicks, does not hide them."""
    shown = np.vstack([OF_THREE.impressions, [[90_000, 0, 0]]])
    log = ClickLog(np.arange(4), shown, np.vstack([OF_THREE.clicks, [[45_000, 0, 0]]]))
    labels = OF_ONE_GRADE._replace(grade=np.array([0, 0, 0, -1]))
    told = "clicks of the fitted user, on its documents with a grade, differ by more than 5 % from those of the log at "
    assert fitted_user(log, "adjacent", THETA, labels).doubts[-1].startswith(f"{told}rank 1 (")


@pytest.mark.parametrize(
    ("log", "user", "told"),
    [
        (0, 0.29, None),
        (0, 4.1, "none in the log"),
        (1, 3.8, None),
        (100, 125, "+25 %"),
        (100, 75, "-25 %"),
        (3, 0, None),
    ],
)
def test_few_events_differ_by_chance(log, user, told):
    """Of no click of the log where the user has 0.29 nothing can be said, and no share of it."""
    log, user = np.array([1e6, log]), np.array([1e6, user])
    line = f"at rank 2 ({told})"
    assert [each for each in _differences(log, user, "its lists") if line in each or not told] == [
        *(
            [f"clicks of the fitted user, on its lists, differ by more than 5 % from those of the log {line}"]
            if told
            else []
        )
    ]
    depths = list(_different_depths(log / 2e6, user / 2e6, 2_000_000))
    assert depths == (
        [f"the last click of the fitted user is more than 5 % off the log's at rank 1 ({told})"] if told else []
    )


def test_differences_within_two_standard_errors_are_none():
    few = replace(OF_THREE, impressions=OF_THREE.impressions / 40, clicks=OF_THREE.clicks / 40)
    doubts = fitted_user(few, "adjacent", THETA, OF_ONE_GRADE).doubts
    assert [line for line in doubts if "fitted user" in line] == []


def dataset(**more):
    """Queries a and b of three and two documents, of grades 0, 1, 2 and 3, 4."""
    parts: dict = {"features": torch.zeros(5, 1), "labels": torch.arange(5).char(), "offsets": torch.tensor([0, 3, 5])}
    parts |= {"name": "mine", "fingerprint": "", "query_ids": ["a", "b"], "grades": 5, "splits": {}}
    return Dataset(**parts | more)


def log_of(*pairs: tuple[str, str], shown: int = 10) -> ClickLog:
    queries = sorted({query for query, _ in pairs})
    numbers = np.array([queries.index(query) for query, _ in pairs])
    impressions = np.full((len(pairs), 1), float(shown))
    return ClickLog(numbers, impressions, impressions, query_ids=queries, document_ids=[name for _, name in pairs])


def test_labels_are_joined_by_query_and_row():
    """Row 2 is of query a: it is no document of b."""
    labels = joined_labels(log_of(("a", "0"), ("a", "2"), ("b", "4"), ("c", "3")), dataset())
    assert (labels.grade.tolist(), labels.grades, labels.unknown) == ([0, 2, 4, -1], 5, "")
    assert labels.joined == "3 of 4 documents in 2 of 3 queries, 75% of the impressions"
    assert joined_labels(log_of(("a", "1"), ("b", "2"), ("b", "3")), dataset()).grade.tolist() == [1, -1, 3]


def test_documents_that_are_unknown_in_known_queries_are_told():
    log = log_of(("a", "0"), ("a", "ad"), ("b", "3"), ("b", "4"), ("c", "3"))
    told = "1 document in its queries, 25.0% of their impressions: they keep their ranks, and have no grade"
    assert joined_labels(log, dataset()).unknown == told


def test_labels_are_joined_by_names_in_comments(tmp_path):
    """They are those of their query, too."""
    rows = [f"0 qid:{query} 1:0 # docid = {name}\n" for query, name in ["ax", "ay", "az", "bx", "by"]]
    (file := tmp_path / "train.txt").write_text("".join(rows))
    named = joined_labels(log_of(("a", "x"), ("b", "x"), ("b", "y"), ("a", "0")), dataset(files=(file,)))
    assert named.grade.tolist() == [0, 3, 4, -1]


def test_half_of_the_impressions_may_have_no_label():
    assert joined_labels(log_of(("a", "0"), ("a", "u")), dataset()).grade.tolist() == [0, -1]


@pytest.mark.parametrize(("pairs", "message"), [
    ([("A", "0"), ("B", "4")], r"^dataset=mine has none of the 2 queries of the log, such as A$"),
    ([("a", "0"), ("a", "u"), ("a", "v"), ("c", "w")],
     r"must have at least 50% of the impressions .*, got 33% and no document u of query a: a document is"),
])  # fmt: skip
def test_logs_of_other_documents_are_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        joined_labels(log_of(*pairs), dataset())


def written_log(file, document):
    """Clicks on two documents of each of three queries at two ranks, as often as their grades say."""
    rows = []
    for row, (place, examination) in product(range(6), [(1, 1.0), (2, 0.5)]):
        clicks = round(10_000 * examination * [0.1, 0.4][row % 2])
        rows.append((str(row // 2 + 1), document.format(row), place, 10_000, clicks))
    pl.DataFrame(rows, schema=["query", "document", "place", "impressions", "clicks"], orient="row").write_csv(file)


def compared(text: str) -> set[tuple[str, ...]]:
    """What is printed of log and fitted user, by word."""
    return {tuple(line.removeprefix("# ").split()) for line in text.splitlines()}


BOTH = {("clicks", "a", "page", "0.3750", "0.3750"), ("rank", "2", "0.1250", "0.1250")}


@pytest.mark.parametrize("document", ["{}", "name-{}"])
def test_the_command_takes_labels_of_a_dataset(tmp_path, capsys, caplog, document):
    """By name and by row."""
    caplog.set_level("INFO")
    log = tmp_path / "log.csv"
    written_log(log, document)
    for number, split in enumerate(["train", "vali", "test"]):
        lines = [f"{grade} qid:{number + 1} 1:{grade} # docid = name-{2 * number + grade}\n" for grade in (0, 1)]
        (tmp_path / f"{split}.txt").write_text("".join(lines))
    assert main([str(log), "dataset=letor", f"dataset.path={tmp_path}", f"dataset.cache_dir={tmp_path}"]) == 0
    out, err = capsys.readouterr()
    (table,) = parse_yaml(out)["tables"].values()
    assert table["click"][:2] == pytest.approx([0.1, 0.4])
    assert "6 of 6 documents in 3 of 3 queries, 100% of the impressions" in caplog.text
    assert "assumed" not in (out + err).lower()
    assert compared(out) >= BOTH
    assert compared(err) >= BOTH


def test_without_a_dataset_the_assumption_is_said(tmp_path, capsys):
    written_log(tmp_path / "log.csv", "{}")
    assert main([str(tmp_path / "log.csv")]) == 0
    out, err = capsys.readouterr()
    assert "# Assumed: documents of the log have the shares of grades of MSLR-WEB30K" in out
    assert "assumed: documents of the log have the shares" in err
    assert ("clicks", "a", "page", "0.3750", "0.3750") in compared(err)


@pytest.mark.parametrize(("words", "message"), [
    (["log.csv", "other.csv"], "one FILE is needed, and it takes dataset=..: type ol2r data fit-clicks log.csv"),
    (["log.csv", "rounds=5"], ", got log.csv rounds=5"),
    (["dataset=synthetic"], "one FILE is needed"),
    (["log.csv", "--config-dir", "."], "--config-dir goes with dataset=.. of your own"),
    (["log.csv", "--documents", "out.txt"], "--documents must be a .csv or .parquet file, got out.txt"),
    (["log.csv", "--documents", "out.csv", "--fit", "dcm"], "--documents needs examination by rank"),
])  # fmt: skip
def test_other_words_are_refused(capsys, words, message):
    assert message in refused(capsys, "data", "fit-clicks", *words)
