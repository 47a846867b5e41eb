"""The laws that every choice of every group keeps; a new YAML file is found by itself and has to keep them too."""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
from functools import cache
from pkgutil import resolve_name

import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli.catalogue import dotted
from ol2r_cli.choice import Choice
from ol2r_cli.compose import config_dir
from tests import choices
from tests.choices import (
    LISTS,
    POSITIONS,
    ROUNDS,
    SEEDS,
    arrangements,
    combinations,
    composed,
    pairings,
    play,
    rankers,
    refusal,
    seen,
    simulation,
    world,
)

CHOICES = [(group, name) for group in choices.PARTS for name in choices.names(group)]
FILES = sorted(path.relative_to(config_dir()).as_posix() for path in config_dir().glob("*/**/*.yaml"))


@pytest.fixture(autouse=True)
def _inference():
    with torch.inference_mode():
        yield


@cache
def played(overrides):
    """The interactions and measures of the ordinary run, for all laws that only look at it."""
    running = simulation(overrides)
    return play(running), running.measurement.measures()[1]


def by_name(value):
    return ",".join(value) if isinstance(value, tuple) else None


def clicking(probabilities):
    """A click group with these probabilities by grade, that never stops."""
    return {**composed(("click=random",)).click, "click": probabilities}


PLAIN = ("ranker=pairrank", "fairness=fairexp", "fairness.fill=paper")  # in plain Python, which a GPU waits for
laws = pytest.mark.parametrize("overrides", [*combinations(), PLAIN], ids=by_name)


def same(found, expected):
    """Two mappings of tensors are equal to the last bit, NaN in the same places."""
    assert found.keys() == expected.keys()
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("file", FILES)
def test_the_first_line_says_what_it_is(file):
    path = config_dir() / file
    assert len(Choice("", path.stem, path).header[0].split()) > 1


@pytest.mark.parametrize("name", choices.names("experiment"))
def test_what_a_preset_says_holds(name):
    preset = Choice("experiment", name, config_dir() / "experiment" / f"{name}.yaml")
    config = composed((f"experiment={name}",))
    for setting, value in dotted(preset.values):
        assert OmegaConf.select(config, setting) == value
    for group, choice in preset.brings.items():
        assert config.choices[group] == choice


@pytest.mark.parametrize(("group", "name"), CHOICES)
def test_spells_out_every_setting_and_lives_in_the_package_of_its_group(group, name):
    node = OmegaConf.select(composed(choices.typed(group, name)), group.replace("/", "."))
    target = resolve_name(node._target_)
    owner = next(parent for parent in target.__mro__ if "__init__" in vars(parent))  # it may inherit its settings
    signature = inspect.signature(target).parameters if owner.__module__.startswith("ol2r_cli.") else {}
    assert {key for key in node if key != "_target_"} == set(signature)
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in signature.values())
    assert f"{target.__module__}.".startswith(f"ol2r_cli.{group.replace('/', '.')}.")
    constructor = ast.parse(textwrap.dedent(inspect.getsource(target.__init__))) if signature else ast.parse("")
    read = {node.id for node in ast.walk(constructor) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert set(signature) <= read, "a setting that is not used"


@pytest.mark.parametrize("overrides", [p for p in [*pairings(), *arrangements()] if refusal(p)], ids=by_name)
def test_what_makes_no_sense_together_is_refused_with_the_override_to_type(overrides):
    assert re.fullmatch(
        r"the (ranker|exploration|fairness) \w+ needs [^:]+: use (ranker|exploration)=\w+.*", refusal(overrides)
    )
    with pytest.raises(ValueError, match=": use "):
        simulation(overrides)


@laws
def test_shows_a_permutation_of_the_real_documents_and_clicks_on_what_is_shown(overrides):
    for one in played(overrides)[0]:
        check_lists(one, POSITIONS)


def check_lists(one, positions):
    mask, length = one.candidates.mask, one.candidates.mask.sum(1)
    for order in one.draft.order, one.order:
        assert torch.equal(order.sort(1).values, torch.arange(mask.shape[1]).expand_as(order))
        assert torch.equal(mask.gather(1, order), mask), "padding before a real document"
    assert torch.equal(one.ranking, one.order[:, :positions])
    assert torch.equal(one.shown.sum(1), length.clamp(max=positions))
    assert not (one.clicks & ~one.shown).any()
    assert one.belief.scores[mask[:, None].expand_as(one.belief.scores)].isfinite().all()


@laws
def test_the_same_seed_gives_the_same_trace_and_another_seed_another(overrides):
    (first, measures), again = played(overrides), simulation(overrides)
    assert seen(play(again)) == seen(first)
    same(again.measurement.measures()[1], measures)
    assert seen(play(simulation(overrides, seeds=[20, 21, 22]))) != seen(first)


@laws
def test_a_replica_alone_shows_what_it_shows_in_a_batch(overrides):
    batch, _ = played(overrides)
    lengths = torch.stack([one.candidates.mask.sum(1) for one in batch])
    assert (lengths.amin(1) < lengths.amax(1)).any(), "the batch never pads"
    for replica, seed in enumerate(SEEDS):
        assert seen(play(simulation(overrides, seeds=[seed]))) == seen(batch, replica)


@laws
def test_all_state_is_in_buffers(overrides):
    """Save after some rounds, load into a fresh simulation, continue: as if nothing had happened."""
    through, saved = simulation(overrides), io.BytesIO()
    play(through, ROUNDS // 2)
    through.measurement.measures()
    torch.save(through.state_dict(), saved)
    expected = play(through)
    resumed = simulation(overrides)
    saved.seek(0)
    resumed.load_state_dict(torch.load(saved, weights_only=True))
    found = play(resumed)
    assert len(found) == ROUNDS - ROUNDS // 2
    assert seen(found) == seen(expected)
    same(resumed.measurement.measures()[1], through.measurement.measures()[1])
    same(resumed.state_dict(), through.state_dict())


SURVIVED = {
    "one-document": ([[0], [3], [1]], POSITIONS),
    "shorter than K": ([[0, 1], [2, 0, 1], [1, 0]], POSITIONS),
    "nothing relevant": ([[0] * 7, [0] * 3, [0] * 9], POSITIONS),
    "no clicks": (LISTS, POSITIONS),
    "one position": (LISTS, 1),
    "more positions than documents": (LISTS, 15),
}


@laws
@pytest.mark.parametrize("kind", SURVIVED)
def test_survives(overrides, kind):
    lists, positions = SURVIVED[kind]
    user = {"click": clicking([0.0] * 5)} if kind == "no clicks" else {}
    running = simulation(overrides, world(lists), positions=positions, **user)
    rounds = play(running)
    assert len(rounds) == ROUNDS
    for one in rounds:
        check_lists(one, positions)
        assert not (one.preferences.valid.any() and kind == "no clicks")
    measures = running.measurement.measures()[1]
    assert ((measures["online_ndcg"] >= 0) & (measures["online_ndcg"] <= 1 + 1e-12)).all()
    assert running.ranker.deploy().isfinite().all()


@pytest.mark.parametrize("overrides", [c for c in combinations() if not c[0].startswith("click=")], ids=by_name)
def test_never_sees_labels(overrides):
    """Other labels under clicks that ignore them change nothing, except for skylines, which say that they look."""
    reverse = [[4 - label for label in labels] for labels in LISTS]
    running, other = (simulation(overrides, world(lists), click=clicking([0.5] * 5)) for lists in (LISTS, reverse))
    looks = any(role.needs_labels for role in (running.ranker, running.exploration, running.fairness))
    assert (seen(play(running)) == seen(play(other))) is not looks


@laws
def test_works_in_single_precision(overrides):
    running = simulation(overrides, dtype=torch.float32)
    for one in play(running):
        check_lists(one, POSITIONS)
        assert one.belief.scores.dtype == torch.float32
    assert running.ranker.deploy().dtype == torch.float32
    assert running.ranker.deploy().isfinite().all()


@pytest.mark.parametrize("overrides", rankers(), ids=by_name)
def test_a_snapshot_scores_a_query_the_same_in_whatever_company(overrides):
    running = simulation(overrides)
    play(running)
    snapshots = running.ranker.deploy().repeat(2, 1)
    candidates, _ = running.train_split.serve(torch.arange(len(LISTS)))
    together = running.ranker.score(snapshots, candidates)
    assert together.shape == (len(snapshots), *candidates.mask.shape)
    for query, labels in enumerate(LISTS):
        candidates, _ = running.train_split.serve(torch.tensor([query]))
        for snapshot in range(len(snapshots)):
            alone = running.ranker.score(snapshots[snapshot : snapshot + 1], candidates)
            assert alone.isfinite().all()
            torch.testing.assert_close(alone[0, 0], together[snapshot, query, : len(labels)])
