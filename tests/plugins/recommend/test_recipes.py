"""Recipes of fits: figures and tables of the dissertation, and what `ol2r reproduce` makes of one."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from ol2r_cli.plugins.benchmark.recipe import load_recipe, recipe_names
from ol2r_cli.plugins.benchmark.reproduce import main
from tests.plugins.benchmark.small import PAPER, use, write

NMF = "model=nmf model.steps=10"
COMPETITORS = {"all": {"words": NMF}, "NMF": {"words": NMF, "over": "reviews.features=2,8"}}
CHANGES = {
    **{"runs": "recommend", "data": ["amazon", "amazon_with_hit"], "words": None},
    **{"competitors": COMPETITORS, "caveat": "numbers are of another kind", "metrics": ["test_ndcg_10"]},
    "scale": {"quick": "reviews.split=0,1", "paper": "reviews.split=0"},
    "figures": [{"kind": "by_setting", "options": {"setting": "reviews.features", "metric": "test_ndcg_50"}}],
    "printed": [{"data": "amazon", "competitor": "NMF", "metric": "test_ndcg_10", "value": 0.0649}],
}


@pytest.fixture
def recipes(tmp_path, monkeypatch):
    """A folder without recipes, but with the datasets of the papers, in place of those of ol2r."""
    return use(tmp_path / "recipes", monkeypatch)


def test_there_is_a_recipe_for_each_figure_and_table():
    of_fits = {name for name in recipe_names("reproduce") if load_recipe("reproduce", name).runs == "recommend"}
    tables = {"dissertation_table4_2", "dissertation_table4_3"}
    assert of_fits == tables | {f"dissertation_fig4_{number}" for number in (3, *range(5, 11))}


def test_a_recipe_of_fits_has_lines_over_a_setting(recipes, tmp_path, capfd):
    """Two numbers of features, the second of which is all: the fit without a number is the same.

    It says why numbers are of another kind.
    """
    write(recipes, "pairrank_x", **PAPER | CHANGES)
    typed = ["pairrank_x", f"output_dir={tmp_path}", "reviews.users=40", "reviews.items=400", "reviews.of_user=9"]
    assert main([*typed, "--dry-run"]) == 0
    assert "8 jobs: 8 new" in capfd.readouterr().out
    assert main(typed) == 0
    out = capfd.readouterr().out
    assert out.startswith("quick: 2 splits, generated data: shapes can be compared")
    folder = tmp_path / "reproduce" / "pairrank_x"
    assert (folder / "by_setting.png").is_file()
    rows = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    everybody, with_hit = rows[:3], rows[3:]
    columns = "data", "competitor", "settings", "paper_value"
    assert [[row[name] for name in columns] for row in everybody] == [
        ["generated", "all", "", ""],
        ["generated", "NMF", "reviews.features=2", "0.0649"],
        ["generated", "NMF", "reviews.features=8", "0.0649"],
    ]
    assert everybody[0]["mean"] == everybody[2]["mean"]
    assert [row["data"] for row in with_hit] == ["generated, users=with_hit"] * 3
    n, mean = (np.array([float(row[name]) for row in rows]) for name in ("n", "mean"))
    assert (n[3:] < n[:3]).all()
    assert (mean[3:] > mean[:3]).all()
    assert "over users; n counts (user, split)." in (folder / "README.md").read_text()


def test_data_that_are_missing_are_named(recipes, tmp_path, capfd):
    write(recipes, "pairrank_x", **PAPER | CHANGES)
    assert main(["pairrank_x", "--scale", "paper", f"data_dir={tmp_path}"]) == 2
    error = capfd.readouterr().err
    assert "ol2r reproduce: pairrank_x needs Amazon, all users: reviews.path must be a folder with" in error
    assert "it is published at https://github.com/MyTHWN/MTER" in error
    assert error.endswith("type reviews=generated\n")
