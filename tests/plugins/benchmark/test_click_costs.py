"""`ol2r benchmark clicks`: settings chosen by clicks, what that costs, and what the rule says of the claim."""

from __future__ import annotations

import re
from statistics import fmean

import polars as pl
import pytest

from ol2r_cli.plugins.benchmark.benchmark import main
from ol2r_cli.plugins.benchmark.click_costs import costs, of_all, of_users, verdict
from ol2r_cli.plugins.benchmark.results import published, published_choices, tables_of
from ol2r_cli.report.estimates import of_values
from scripts import click_costs
from scripts.publish.__main__ import main as publish
from tests.plugins.benchmark.small import BENCHMARK, published_in, use, write

SMALL = BENCHMARK | {
    "baseline": "SGD",
    "competitors": {"SGD": BENCHMARK["competitors"]["SGD"]},
    "aims": ["offline", "online", "clicks", "raw"],
    "choose": "seed=1000 replicas=2 evaluate_on=[validation] validation_sessions=30",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The published results of a small benchmark."""
    folder = tmp_path_factory.mktemp("clicks")
    with pytest.MonkeyPatch.context() as patch:
        write(use(folder / "recipes", patch), "tiny", **SMALL)
        published_in(folder / "published", patch)
        words = ["tiny", "--run", f"output_dir={folder / 'out'}", "--out", str(folder / "published")]
        assert main(words) == 0
        yield folder / "published"


def test_every_choice_has_the_best_mean_of_its_values(made):
    """Choosing runs are published with what clicks say, and each choice has the best cell by its own values."""
    by_aim = {"offline": "validation_ndcg_10", "online": "cumulative_ndcg"}
    by_aim |= {"clicks": "click_dcg_10", "raw": "clicks_a_session"}
    choices = published_choices("tiny")
    assert choices is not None
    for row in published("tiny"):
        if not row.aim:
            continue
        cells = choices.filter(click=row.condition.click).group_by("settings").agg(pl.col(*by_aim.values()).mean())
        best = cells.sort(by_aim[row.aim], descending=True)["settings"][0]
        assert best in row.words, row.aim


def test_a_cost_is_what_labels_have_more_than_clicks(made, capsys):
    """Paired differences of the reported runs, on the page and the terminal."""
    tables = tables_of(published("tiny"))
    found = costs(tables)
    assert {(cost.competitor, cost.compared) for cost in found} == {
        ("SGD", "by clicks"),
        ("SGD", "by raw clicks"),
        ("SGD", "cumulative, by clicks"),
    }
    for cost in found:
        metric = "cumulative_ndcg" if cost.compared.startswith("cumulative") else "test_ndcg_10"
        of_labels, of_clicks = (fmean(e.group.values(metric).values()) for e in (cost.by_labels, cost.by_clicks))
        assert cost.difference.mean == pytest.approx(of_labels - of_clicks)
    users = of_users(found, "by clicks")
    assert list(users) == ["perfect", "informational"]
    assert of_all(found, "by clicks").n == 1, "one row, the mean over its users"
    assert publish([]) == 0
    page = (made / "tiny.md").read_text()
    assert f"**It is {verdict(users.values())}** for 2 users, 1 rankers and small, by " in page
    assert re.search(r"\| all +\| +[+-][\d.]+ ", page)
    assert "### small, informational" in page
    assert main(["tiny"]) == 0
    assert f"It is {verdict(users.values())} for 2 users" in capsys.readouterr().out
    assert main(["tiny", "click=perfect"]) == 0
    assert "It is " not in capsys.readouterr().out, "a part of the rows decides nothing"


def test_a_user_outside_the_protocol_has_costs_of_the_same_kind(made, tmp_path, capsys):
    """The script plays the rows, and decides nothing."""
    assert click_costs.main(["click=navigational", f"output_dir={tmp_path}"], "tiny") == 0
    out = capsys.readouterr().out
    assert re.search(r"\| navigational +\| +[+-][\d.]+ ", out)
    assert "It is " not in out
    with pytest.raises(ValueError, match="rounds"):
        click_costs.main(["click=navigational", "rounds=5"], "tiny")


def estimate(*costs_of_rows: float):
    return of_values({(None, number): cost for number, cost in enumerate(costs_of_rows)})


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ([(0.001, 0.002, 0.003), (0.0, 0.0, 0.0)], "confirmed"),  # 0.002 ± 0.0025
        ([(0.001, 0.002, 0.003), (0.0, 0.02, 0.0)], "undecided"),  # 0.0067 ± 0.029
        ([(0.001, 0.002, 0.003), (0.01, 0.01, 0.01)], "refuted"),
        ([(0.001,)], "undecided"),
        ([], "undecided"),
    ],
)
def test_the_rule_decides_by_the_upper_ends_of_users(users, expected):
    assert verdict([estimate(*rows) for rows in users]) == expected
