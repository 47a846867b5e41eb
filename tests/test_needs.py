"""Roles that need each other: what does not go together is refused, and what the refusal says to type works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ol2r_cli.interfaces import Need, Role
from ol2r_cli.simulation import check_needs
from tests.choices import arrangements, pairings, play, refusal, simulation
from tests.launch import Launched
from tests.worlds import TINY

REFUSED = [overrides for overrides in pairings() if refusal(overrides)]
UNFAIR = [overrides for overrides in arrangements() if refusal(overrides)]


def suggested(message: str) -> list[tuple[str, ...]]:
    """What a refusal says to type: `A or B`, or `A with B=2 or more`."""
    (advice,) = re.fullmatch(r".*: use (.*)", message).groups()
    return [tuple(one.split(" with ")) for one in advice.removesuffix(" or more").split(" or ")]


def follow(overrides: tuple[str, ...], advice: tuple[str, ...]) -> tuple[str, ...]:
    """The command line with the advice in place of what it replaces."""
    named = {override.partition("=")[0] for override in advice}
    return (*(one for one in overrides if one.partition("=")[0] not in named), *advice)


@pytest.mark.parametrize("overrides", [*REFUSED, *UNFAIR], ids=",".join)
def test_what_a_refusal_says_to_type_works(overrides):
    for advice in suggested(refusal(overrides)):
        followed = follow(overrides, advice)
        assert not refusal(followed)
        assert len(play(simulation(followed), 2)) == 2


def test_there_are_pairings_of_both_kinds():
    refusing = {(one[0].partition("=")[2], one[1].partition("=")[2]) for one in REFUSED}
    assert {("pdgd", "none"), ("dbgd", "confidence"), ("mgd", "none"), ("toprank", "none")} <= refusing
    assert {("pairrank", "ensemble"), ("pairrank", "team_draft"), ("pairrank", "stated")} <= refusing
    assert not {("pdgd", "plackett_luce"), ("dbgd", "team_draft"), ("mgd", "probabilistic_interleaving")} & refusing
    assert not {("toprank", "stated"), ("pepairrank", "ensemble"), ("pairrank", "plackett_luce")} & refusing


def test_fairness_goes_with_whoever_states_what_is_certain():
    unfair = {one[0].partition("=")[2] for one in UNFAIR if one[1] == "fairness=fairexp"}
    assert {"pdgd", "dbgd", "mgd", "random", "oracle", "sgd_ranknet"} <= unfair
    assert not {"pairrank", "pepairrank", "toprank", "olranknet", "ollambdarank", "p2neurrank"} & unfair


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("ranker=pdgd exploration=none", "use exploration=plackett_luce"),
        ("ranker=dbgd exploration=plackett_luce", "use exploration=team_draft"),
        ("ranker=pepairrank ranker.members=1", "use ranker=pepairrank with ranker.members=2 or more"),
        ("ranker=pairrank exploration=stated", "use ranker=toprank"),
        ("ranker=pdgd fairness=fairexp", "use ranker=pairrank with exploration=confidence"),
    ],
)
def test_on_the_command_line_it_is_one_line_and_nothing_is_written(words, advice, tmp_path: Path):
    there = tmp_path / "runs"
    run = Launched(["run", *TINY, *words.split(), "rounds=3", f"output_dir={there}"], tmp_path / "told")
    assert run.wait() == 2
    assert run.output == ""
    assert run.errors.startswith("ol2r run: the ")
    assert run.errors.endswith(f"{advice}\n")
    assert run.errors.count("\n") == 1
    assert not there.exists()


class _Offering(Role):
    def __init__(self, *offers: str):
        super().__init__()
        self.offers = frozenset(offers)


class _Asking(Role):
    needs = (Need("bread", "bakery=a"), Need("butter", "dairy=b"))


def test_needs_may_be_met_by_any_roles_one_each():
    check_needs({"one": _Asking(), "two": _Offering("bread"), "three": _Offering("butter", "salt")})
    with pytest.raises(ValueError, match=r"^the one _Asking needs butter: use dairy=b$"):
        check_needs({"one": _Asking(), "two": _Offering("bread")})
