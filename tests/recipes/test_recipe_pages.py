"""From runs to results: the table beside the paper's numbers, and the page."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ol2r_cli.recipes.recipe import Recipe
from ol2r_cli.recipes.recipe_runs import RecipeRuns
from ol2r_cli.recipes.reproduce import ReportedValue, as_csv, comparison_table, data_values, paper_page, run_values
from ol2r_cli.recipes.run_plan import Condition, by_name, paper_plan
from ol2r_cli.report.estimates import Estimate
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.text_table import TextTable, markdown
from tests.recipes.small import load
from tests.report.runs import make, only

CONDITION = Condition("synthetic", "perfect", "A")
NUMBER = {"competitor": "A", "metric": "test_ndcg_10", "text": "paper.txt", "near": "Table 1"}
PRINTED = [NUMBER | {"data": "mslr", "value": 0.4, "click": "perfect"}, NUMBER | {"data": "yahoo", "value": 0.7}]


@pytest.fixture
def recipe(recipes) -> Recipe:
    competitors = {"A": {"words": "ranker=pairrank"}}
    return load("reproduce", recipes, metrics=["test_ndcg_10"], competitors=competitors, printed=PRINTED)


def run_group(folder: Path, **values) -> Group:
    """The group of one run with these values."""
    make(folder, **values)
    return only(folder)


@pytest.fixture
def runs(tmp_path) -> RecipeRuns:
    """One competitor, whose two seeds are at .45 and .55."""
    return RecipeRuns(
        {CONDITION: run_group(tmp_path, test={0: 0.45, 1: 0.55})},
        {CONDITION: by_name("ranker.l2=7 exploration.alpha=1")},
    )


def test_a_value_has_the_printed_numbers_of_all_datasets_that_its_slot_replaces(recipe, runs):
    (line,) = run_values(paper_plan(recipe), runs)
    assert (line.value.mean, line.value.n) == (pytest.approx(0.5), 2)
    assert line.printed == {"MSLR-WEB10K": 0.4, "Yahoo": 0.7}
    head, _, row = cells_of(comparison_table([line], comparable=False))
    assert head == ["data", "click", "competitor", "settings", "n", "test NDCG@10", "the paper"]
    # t(1) = 12.706, sd = .1 / sqrt 2, over sqrt 2: .6353
    own = ["synthetic", "perfect", "A", "l2=7 alpha=1", "2", "0.5000 ± 0.6353"]
    assert row == [*own, "0.4000 (MSLR-WEB10K), 0.7000 (Yahoo)"]


def cells_of(shown: TextTable) -> list[list[str]]:
    """The cells of a table's lines in markdown."""
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in markdown(shown).splitlines()]


def test_differences_are_shown_only_for_the_protocol_of_the_paper():
    line = ReportedValue(
        Condition("Yahoo", "perfect", "A"), "", "test_ndcg_10", Estimate(0.72, None, 1), {"Yahoo": 0.7}
    )
    assert cells_of(comparison_table([line], comparable=True))[-1][-3:] == ["0.7200", "0.7000", "0.0200"]
    assert cells_of(comparison_table([line], comparable=False))[0][-2:] == ["test NDCG@10", "the paper"]


def test_metrics_are_columns_of_one_row():
    place = (Condition("Yahoo", "perfect", "A"), "")
    both = [
        ReportedValue(*place, "unfairness", Estimate(3, None, 1), {}),
        ReportedValue(*place, "test_ndcg_10", Estimate(0.7, None, 1), {"Yahoo": 0.6}),
        ReportedValue(Condition("Yahoo", "perfect", "B"), "", "test_ndcg_10", Estimate(0.5, None, 1), {}),
    ]
    head, _, *rows = cells_of(comparison_table(both, comparable=True))
    assert [head, *rows] == [
        ["data", "click", "competitor", "n", "unfairness", "test NDCG@10", "the paper", "difference"],
        ["Yahoo", "perfect", "A", "1", "3.000", "0.7000", "0.6000", "0.1000"],
        ["Yahoo", "perfect", "B", "1", "", "0.5000", "", ""],
    ]


def test_the_csv_has_full_precision_and_a_row_for_every_printed_number(recipe, runs):
    rows = list(csv.DictReader(io.StringIO(as_csv(run_values(paper_plan(recipe), runs), "quick"))))
    assert [(row["paper_data"], row["paper_value"]) for row in rows] == [("MSLR-WEB10K", "0.4"), ("Yahoo", "0.7")]
    assert rows[0]["scale"] == "quick"
    assert float(rows[0]["half_width"]) == pytest.approx(12.7062047 * 0.05)


def test_the_caveat_comes_before_the_first_number_of_the_page(recipe, runs):
    plan = paper_plan(recipe, "quick", ["rounds=50"])
    text = paper_page(plan, runs, run_values(plan, runs), [Path("somewhere/learning_curve.png")])
    warning = "> **quick: T = 50, 3 seeds, generated data: shapes can be compared, numbers cannot**"
    assert text.index(warning) < text.index("0.5000")
    assert "- A is best\n  - **no**, B is" in text
    assert "![learning_curve](learning_curve.png)" in text
    assert text.endswith("    ol2r reproduce pairrank_x --scale quick rounds=50\n")


def test_sizes_of_document_groups_in_every_dataset(recipes):
    """Sizes agree with `dataset.group_ratio` of the generated data to within 3 per cent."""
    recipe = load("reproduce", recipes, data=["mslr_inlink", "yahoo_471"])
    small = ["dataset.queries={train:30,validation:5,test:5}"]
    values = data_values(paper_plan(recipe, "quick", small))
    shares = {(v.condition.slot, v.condition.competitor): v.value.mean for v in values if v.metric == "size"}
    for ratio in (0.65, 0.86):
        slot = f"synthetic, group_ratio={ratio}"
        assert shares[slot, "A"] == pytest.approx(100 * ratio, abs=3)
        assert shares[slot, "A"] + shares[slot, "B"] == pytest.approx(100)
