"""Replicas of a batch show what each of them shows alone, and roles that need each other."""

from __future__ import annotations

import re
from functools import cache

import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.config.instantiate import build
from tests.choices import arrangements, pairings, play, refusal, seen, simulation
from tests.worlds import TINY, simulate, tiny

# The lists are so long that a batch is processed in several groups of similar lengths, with several replicas each.
LONG_LISTS = ["dataset.queries={train: 40, validation: 0, test: 0}", "dataset.documents=45", "dataset.features=20"]


@pytest.mark.parametrize(
    ("click", "alone", "rounds"),
    [
        ("informational", 2, 40),
        *(pytest.param(name, 10, 150, marks=pytest.mark.slow) for name in ("perfect", "navigational", "informational")),
    ],
)
def test_replicas_of_a_batch_equal_single_runs(click, alone, rounds):
    """The first `alone` of ten replicas."""
    config, seeds = tiny(*LONG_LISTS, f"click={click}"), list(range(10))
    dataset = build(config.dataset).load()
    with torch.inference_mode():
        batch = play(simulate(config, seeds, rounds, dataset), rounds)
        for seed in seeds[:alone]:
            single = play(simulate(config, [seed], rounds, dataset), rounds)
            assert seen(single) == seen(batch, seed), f"seed {seed}"
    lengths = torch.stack([one.candidates.mask.sum(1) for one in batch])
    assert (lengths.amax(1) > 2 * lengths.amin(1)).any(), "the batch has little padding"
    assert sum(int(one.preferences.valid.sum()) for one in batch) > 5 * rounds, "too few preferences"


@cache
def refused() -> dict[tuple[str, ...], str]:
    """All rankers with an exploration or a fairness that are refused, with the error message."""
    messages = {overrides: refusal(overrides) for overrides in [*pairings(), *arrangements()]}
    return {overrides: message for overrides, message in messages.items() if message}


def suggestions(message: str) -> list[tuple[str, ...]]:
    """The overrides that a message says to type: `A or B`, or `A with B=2 or more`."""
    (advice,) = re.fullmatch(r".*: use (.*)", message).groups()
    return [tuple(part.split(" with ")) for part in advice.removesuffix(" or more").split(" or ")]


def follow(overrides: tuple[str, ...], suggestion: tuple[str, ...]) -> tuple[str, ...]:
    """The command line with the suggestion in place of what it replaces, a choice with its settings."""
    replaced = {override.partition("=")[0] for override in suggestion}
    names = {word: word.partition("=")[0] for word in overrides}
    kept = (word for word, name in names.items() if name not in replaced and name.partition(".")[0] not in replaced)
    return (*kept, *suggestion)


def test_what_a_refusal_suggests_is_not_refused_once_per_message():
    for message, overrides in {message: overrides for overrides, message in refused().items()}.items():
        assert not any(refusal(follow(overrides, suggestion)) for suggestion in suggestions(message))


@pytest.mark.slow
def test_what_a_refusal_suggests_works_for_all_combinations():
    for overrides, message in refused().items():
        for suggestion in suggestions(message):
            followed = follow(overrides, suggestion)
            assert not refusal(followed)
            assert len(play(simulation(followed), 2)) == 2


def test_combinations_are_refused_or_not():
    """Some combinations are refused, and others are not."""
    pairs = {tuple(words[place].partition("=")[2] for place in (0, -1)) for words in refused()}
    assert {("pdgd", "none"), ("dbgd", "confidence"), ("mgd", "none"), ("toprank", "none")} <= pairs
    assert {("pairrank", "ensemble"), ("pairrank", "team_draft"), ("pairrank", "stated")} <= pairs
    assert not {("pdgd", "plackett_luce"), ("dbgd", "team_draft"), ("mgd", "probabilistic_interleaving")} & pairs
    assert not {("toprank", "stated"), ("pepairrank", "ensemble"), ("pairrank", "plackett_luce")} & pairs
    unfair = {ranker for ranker, fairness in pairs if fairness == "fairexp"}
    assert {"pdgd", "dbgd", "mgd", "random", "oracle", "sgd_ranknet"} <= unfair
    assert not {"pairrank", "pepairrank", "toprank", "olranknet", "ollambdarank", "p2neurrank"} & unfair


def test_a_refusal_names_the_override_to_type(tmp_path, capsys):
    for overrides, advice in (
        ("ranker=dbgd exploration=plackett_luce", "use exploration=team_draft"),
        ("ranker=pepairrank ranker.members=1", "use ranker=pepairrank with ranker.members=2 or more"),
        ("ranker=pairrank exploration=stated", "use ranker=toprank"),
        ("ranker=pdgd fairness=fairexp", "use ranker=pairrank with exploration=confidence"),
    ):
        assert refusal(tuple(overrides.split())).endswith(advice), overrides
    runs = tmp_path / "runs"
    assert cli.main(["run", *TINY, "ranker=pdgd", "exploration=none", "rounds=3", f"output_dir={runs}"]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert re.fullmatch(r"ol2r run: the ranker .*: use exploration=plackett_luce\n", errors)
    assert not runs.exists()
