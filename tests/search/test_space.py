from __future__ import annotations

import shlex

import pytest

from ol2r_cli.search.check import check_space
from ol2r_cli.search.space import Space
from tests.search.spaces import TINY


def test_words_are_ranges_and_overrides():
    space = Space(["click=nav", "ranker.l2=log(1,10)", "rounds=50"])
    assert space.fixed == ["click=navigational", "rounds=50"]
    assert [range.name for range in space.ranges] == ["ranker.l2"]


def test_what_decides_about_settings_is_drawn_first():
    words = ["ranker.l2=1,2", "ranker.model.width=8,16", "ranker/model=linear,mlp", "exploration=none,confidence"]
    names = [range.name for range in Space([*words, "ranker=pairrank,olranknet"]).ranges]
    assert names == ["ranker", "exploration", "ranker/model", "ranker.l2", "ranker.model.width"]


def test_a_setting_is_drawn_only_where_the_drawn_ranker_has_it():
    """pairrank has l2, pdgd a learning rate; a cell of one has no value of the other."""
    space = Space(["ranker=pairrank,pdgd", "ranker.l2=0.1,1,10", "ranker.learning_rate=0.01,0.1"])
    cells = [space.typed(cell) for cell in space.cells()]
    assert cells == [
        *(["ranker=pairrank", f"ranker.l2={l2}"] for l2 in ("0.1", "1", "10")),
        *(["ranker=pdgd", f"ranker.learning_rate={rate}"] for rate in ("0.01", "0.1")),
    ]


def test_parts_decide_as_well():
    space = Space(["ranker=olranknet", "ranker/model=linear,mlp", "ranker.model.width=int(8,10)"])
    assert [space.typed(cell) for cell in space.cells()] == [
        ["ranker/model=linear"],
        *(["ranker/model=mlp", f"ranker.model.width={width}"] for width in (8, 9, 10)),
    ]


def test_real_numbers_cannot_be_counted():
    assert Space(["ranker.l2=log(1,10)", "ranker.reduction=sum,mean"]).cells() is None
    assert Space(["ranker.l2=int(1,200)", "exploration.alpha=int(1,200)"]).cells() is None, "40,000 are too many"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("rounds=50", "a search needs a range: type SETTING=RANGE"),
        ("seed=int(0,9)", "seed must have one value"),
        ("click=nav,inf", "click must have one value"),
        ("dataset.documents=5,10", "dataset.documents must have one value"),
        ("rankr.l2=1,2", "there is no setting or group 'rankr.l2': did you mean ranker?"),
        ("ranker.l2=1,2 ranker.l2=3", "ranker.l2 must be given once"),
        ("ranker.l2=1,2 ranker.l2=3,4", "ranker.l2 must be given once"),
        (
            "experiment=grid_pairrank ranker.l2=1,2",
            "experiment=grid_pairrank is a grid: give a range",
        ),
        ("ranker.l3=1,2", "ranker=pairrank has no setting 'l3'"),
        ("ranker=pairrank,pdgt", "ranker must be one of"),
        ("ranker=pairrank,pdgd ranker.steps=int(1,5)", "ranker=pairrank has no setting 'steps'"),
        ("ranker.l2=float(-1,1)", "ranker.l2 must be above 0, got -1"),
        ("ranker.l2=1,x", "ranker.l2 must be a number, got 'x'"),
        ("ranker.reduction=sum,mean,avg", "ranker.reduction must be 'sum' or 'mean', got 'avg'"),
        ("ranker=pairrank,toprank", "ranker=toprank is not evaluated on queries that are new to it"),
        ("ranker=pairrank,pdgd exploration=none", "the ranker PDGD needs lists drawn from the Plackett-Luce model"),
        ("ranker.l2=1,2 evaluate_on=[test]", "evaluate_on must have validation"),
        ("ranker.l2=1,2 'dataset.queries={train: 9, validation: 0, test: 3}'", "dataset must have a validation split"),
    ],
)
def test_a_bad_space_is_told_before_the_first_trial(words, complaint):
    with pytest.raises(ValueError) as raised:
        check_space(Space([*TINY, *shlex.split(words)]), "validation_ndcg_10")
    assert str(raised.value).startswith(complaint)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("metric", "complaint"),
    [
        ("regret", "trace_regret must be true for --metric regret"),
        ("validation_ndcg_5", "evaluate_on must have validation"),
    ],
)
def test_a_metric_the_summary_would_lack_is_told(metric, complaint):
    with pytest.raises(ValueError, match=complaint):
        check_space(Space([*TINY, "ranker.l2=1,2", "evaluate_on=[test]"]), metric)


def test_a_good_space_is_fine():
    check_space(Space([*TINY, "ranker=pairrank,pdgd", "ranker.l2=log(1e-4,1)"]), "validation_ndcg_10")
    check_space(Space([*TINY, "ranker.l2=log(1e-4,1)", "trace_regret=true"]), "regret")
