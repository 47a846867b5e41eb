"""Shops whose users are known, and a forecast by features beside the truth."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli.plugins.advise.shop import PLACES, USERS, pages, read_truth, shop, write
from ol2r_cli.plugins.advise.worlds import GRID
from tests.finished import printed, refused


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop") / "shop"
    write(folder)
    return folder


@pytest.mark.parametrize("user", USERS)
def test_pages_are_of_production_with_neighbours_changed(user):
    made = shop(12, 15, False, user, np.random.default_rng(1))
    order, click = pages(made, 3000, 0.3, 5, np.random.default_rng(2))
    assert click.any()
    query = order // 15
    assert (query == query[:, :1]).all()
    assert Counter(query[:, 0].tolist()).most_common(1)[0][0] == 0
    rank = made.rank.ravel()[order]
    moved = (rank != np.arange(1, PLACES + 1)).any(1)
    assert (abs(rank - np.arange(1, PLACES + 1)) <= 1).all()
    assert moved.mean() == pytest.approx(0.3, abs=0.04)  # of changed pages 1 of 32 keeps its order by chance
    again, _ = pages(made, 3000, 0.3, 5, np.random.default_rng(2))
    assert np.array_equal(again, order)


def test_users_click_more_on_what_attracts():
    made = shop(12, 15, True, "position", np.random.default_rng(1))
    order, click = pages(made, 20_000, 1.0, 5, np.random.default_rng(2))
    attraction = GRID[made.grades.ravel()[order[:, 0]]]
    examination = made.user.settings["examination"]
    assert click[:, 0].mean() == pytest.approx(attraction.mean(), abs=0.01)
    assert click[:, 4].mean() == pytest.approx(examination[4] * GRID[made.grades.ravel()[order[:, 4]]].mean(), abs=0.01)


def test_the_log_is_raw(written):
    rows = [json.loads(line) for line in (written / "log.jsonl").read_text().splitlines()]
    seen = Counter(row["page"] for row in rows)
    assert len(seen) == 20_000
    assert len(rows) / len(seen) == pytest.approx(1.05, abs=0.01)
    ads = [row for row in rows if row["product_ids"][-1].startswith("ad")]
    assert len(ads) / len(rows) == pytest.approx(0.2, abs=0.02)
    assert all(set(row["clicked_ids"]) <= set(row["product_ids"]) for row in rows)
    with (written / "production.csv").open() as file:
        scores = list(csv.DictReader(file))
    assert len(scores) == len((written / "train.txt").read_text().splitlines()) == 2000
    of_first = sorted((row for row in scores if row["query"] == "0"), key=lambda row: -float(row["score"]))
    shown = Counter(row["product_ids"][0] for row in rows if row["query"] == "0")
    assert shown.most_common(1)[0][0] == of_first[0]["document"]


def test_a_forecast_by_features_is_beside_the_truth(written, tmp_path, capsys, monkeypatch):
    """Of 20,000 pages, ranks of a fifth changed; 1,000 pages of PDGD in 16 worlds."""
    monkeypatch.chdir(tmp_path)
    words = ["advise", str(written / "log.jsonl"), "dataset=letor", f"dataset.path={written}", "launcher.jobs=1"]
    words += ["--pages", "1000", "--worlds", "16"]
    out = printed(capsys, *words, "--truth", written / "truth.json")
    (line,) = [line for line in out.splitlines() if line.startswith("the truth")]
    assert "of the order by attraction +" in line
    assert "documents are those of the data" in out
    found = json.loads(printed(capsys, *words, "--json", "--truth", written / "truth.json", "--out", "page.html"))
    assert line.partition("the truth")[2].strip() in Path("page.html").read_text()
    truth = read_truth(written / "truth.json")
    best, of_1000 = (float(part.rpartition(" ")[2]) / 100 for part in line.replace("the truth", "").split(" %")[1::-1])
    true = found["truth"]
    assert true["ceiling"] == pytest.approx(best * true["clicks_a_page"], rel=0.01)
    assert true["gain"]["1000"] == pytest.approx(of_1000 * true["clicks_a_page"], abs=0.001)
    assert found["ceiling"]["low"] < true["ceiling"] < found["ceiling"]["high"]
    assert len(truth.grades) == 100


def test_a_shop_is_written_into_a_new_folder(written, tmp_path, capsys):
    assert "--shop must be a new or an empty folder" in refused(capsys, "advise", "--shop", written)
    told = "--shop writes an example and takes no log: leave out log.csv"
    assert told in refused(capsys, "advise", "log.csv", "--shop", tmp_path / "new")


@pytest.mark.parametrize("content", ["", "{}", '{"grades": {}, "user": 1}'])
def test_a_truth_is_that_of_a_shop(content, tmp_path):
    file = tmp_path / "truth.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"--truth must be truth\.json of a shop that --shop has written"):
        read_truth(file)
