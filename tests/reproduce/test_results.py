"""From runs to what is told: the choice of settings, tables, and the words above them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ol2r_cli.report.formats import Table, markdown
from ol2r_cli.report.groups import Group
from ol2r_cli.report.statistics import Estimate
from ol2r_cli.reproduce.chosen import chosen
from ol2r_cli.reproduce.page import page
from ol2r_cli.reproduce.population import population
from ol2r_cli.reproduce.protocol import Place, Protocol, Trial
from ol2r_cli.reproduce.recipe import Competitor, Printed, Recipe
from ol2r_cli.reproduce.runs import Played
from ol2r_cli.reproduce.table import Line, as_csv, lines, table
from ol2r_cli.reproduce.words import words
from tests.report.runs import make, only

PLACE = Place("synthetic", "perfect", "A")
PRINTED = [
    Printed("mslr", "A", "test_ndcg_10", 0.4, "paper.txt", "Table 1", click="perfect"),
    Printed("yahoo", "A", "test_ndcg_10", 0.7, "paper.txt", "Table 1"),
]
RECIPE = Recipe(
    name="pairrank_x",
    title="A figure",
    paper="pairrank",
    where="figure 1",
    shows="something",
    claims=["A is best"],
    data=["mslr", "yahoo"],
    words="click=perfect",
    scale={"quick": "rounds=100 replicas=3", "paper": "rounds=5000 replicas=20"},
    metrics=["test_ndcg_10"],
    competitors={"A": Competitor("ranker=pairrank")},
    printed=PRINTED,
)


def trial(settings: str) -> Trial:
    return Trial(PLACE, words(settings), ())


def test_settings_are_chosen_by_mean_validation_and_of_equals_the_first(tmp_path):
    cells = {
        trial("fairness.gain=1"): only_of(tmp_path / "a", validation={0: 0.25, 1: 0.5}, test={0: 0.9, 1: 0.9}),
        trial("fairness.gain=2"): only_of(tmp_path / "b", validation={0: 0.75, 1: 0.5}, test={0: 0.1, 1: 0.1}),
        trial("fairness.gain=3"): only_of(tmp_path / "c", validation={0: 0.5, 1: 0.75}, test={0: 0.2, 1: 0.2}),
    }
    assert chosen(cells) == {PLACE: {"fairness.gain": "fairness.gain=2"}}


def only_of(folder: Path, **values) -> Group:
    make(folder, **values)
    return only(folder)


def test_without_validation_nothing_can_be_chosen(tmp_path):
    with pytest.raises(ValueError, match=r"settings of A are chosen by validation, which .* lacks: type dataset.valid"):
        chosen({trial("x=1"): only_of(tmp_path)})


@pytest.fixture
def played(tmp_path) -> Played:
    """One competitor, whose two seeds are at .45 and .55."""
    return Played(
        {PLACE: only_of(tmp_path, test={0: 0.45, 1: 0.55})}, {PLACE: words("ranker.l2=7 exploration.alpha=1")}
    )


def test_ours_stands_beside_all_numbers_that_the_paper_prints_for_what_it_stands_in_for(played):
    (line,) = lines(Protocol(RECIPE), played)
    assert (line.value.mean, line.value.n) == (pytest.approx(0.5), 2)
    assert line.printed == {"MSLR-WEB10K": 0.4, "Yahoo": 0.7}
    head, _, row = cells_of(table([line], comparable=False))
    assert head == ["data", "click", "competitor", "settings", "n", "test NDCG@10", "the paper"]
    # t(1) = 12.706, sd = .1 / sqrt 2, over sqrt 2: .6353
    own = ["synthetic", "perfect", "A", "l2=7 alpha=1", "2", "0.5000 ± 0.6353"]
    assert row == [*own, "0.4000 (MSLR-WEB10K), 0.7000 (Yahoo)"]


def cells_of(shown: Table) -> list[list[str]]:
    """The cells of a table's lines in markdown."""
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in markdown(shown).splitlines()]


def test_a_difference_is_told_only_where_the_protocol_is_the_papers():
    line = Line("Yahoo", "perfect", "A", "", "test_ndcg_10", Estimate(0.72, None, 1), {"Yahoo": 0.7})
    assert cells_of(table([line], comparable=True))[-1][-3:] == ["0.7200", "0.7000", "0.0200"]
    assert cells_of(table([line], comparable=False))[0][-2:] == ["test NDCG@10", "the paper"]


def test_several_measures_are_columns_of_one_row():
    place = ("Yahoo", "perfect", "A", "")
    both = [
        Line(*place, "unfairness", Estimate(3, None, 1), {}),
        Line(*place, "test_ndcg_10", Estimate(0.7, None, 1), {"Yahoo": 0.6}),
        Line("Yahoo", "perfect", "B", "", "test_ndcg_10", Estimate(0.5, None, 1), {}),
    ]
    head, _, *rows = cells_of(table(both, comparable=True))
    assert [head, *rows] == [
        ["data", "click", "competitor", "n", "unfairness", "test NDCG@10", "the paper", "difference"],
        ["Yahoo", "perfect", "A", "1", "3.000", "0.7000", "0.6000", "0.1000"],
        ["Yahoo", "perfect", "B", "1", "", "0.5000", "", ""],
    ]


def test_the_csv_has_full_precision_and_a_row_for_every_printed_number(played):
    rows = list(csv.DictReader(io.StringIO(as_csv(lines(Protocol(RECIPE), played), "quick"))))
    assert [(row["paper_data"], row["paper_value"]) for row in rows] == [("MSLR-WEB10K", "0.4"), ("Yahoo", "0.7")]
    assert rows[0]["scale"] == "quick"
    assert float(rows[0]["half_width"]) == pytest.approx(12.7062047 * 0.05)


def test_the_warning_stands_before_any_number_of_the_page(played):
    protocol = Protocol(RECIPE, "quick", ["rounds=50"])
    text = page(protocol, played, lines(protocol, played), [Path("somewhere/learning_curve.png")])
    warning = "> **quick: T = 50, 3 seeds, generated data: shapes can be compared, numbers cannot**"
    assert text.index(warning) < text.index("0.5000")
    assert "- A is best" in text
    assert "![learning_curve](learning_curve.png)" in text
    assert text.endswith("    ol2r reproduce pairrank_x --scale quick rounds=50\n")


def test_groups_of_documents_are_counted_on_every_dataset():
    """Shares as they are asked of generated data, to within one document in a hundred."""
    recipe = Recipe(**{**vars(RECIPE), "data": ["mslr_inlink", "yahoo_471"], "competitors": {}, "printed": []})
    small = ["dataset.queries={train:30,validation:5,test:5}"]
    shares = {(line.ground, line.competitor): line.value.mean for line in population(Protocol(recipe, "quick", small))
              if line.metric == "size"}  # fmt: skip
    for ratio in (0.65, 0.86):
        ground = f"synthetic, group_ratio={ratio}"
        assert shares[ground, "A"] == pytest.approx(100 * ratio, abs=3)
        assert shares[ground, "A"] + shares[ground, "B"] == pytest.approx(100)
