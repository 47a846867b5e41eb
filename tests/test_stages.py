"""Compiled stages play for a class only where they stand for its methods: what a copy, a subclass or an object has
changed is what is played. `ol2r check` compares stages with methods; loops are played by Python here."""

from __future__ import annotations

import dataclasses
import types
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli import loops
from ol2r_cli.click.models import CascadeBased, DependentClick
from ol2r_cli.exploration.order import NoExploration
from ol2r_cli.fairness.by_merit import NoFairness
from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane
from ol2r_cli.measure.blocks import Blocks
from ol2r_cli.plugins.authoring.class_source import copied_class
from ol2r_cli.plugins.check import role_laws, small_world
from ol2r_cli.plugins.check.laws import CheckReport, check_composition
from ol2r_cli.ranker.model_ranker import GradientRanker
from ol2r_cli.ranker.pairrank import PairwiseRanker
from ol2r_cli.ranker.pdgd import PDGD
from tests.choices import composed, composition, each_choice, missing_package, names, seen, simulation
from tests.loops.lanes_by_threads import loops_by, one_lane

ROUNDS = 30
FIRST = ("ranker=pdgd", "click=random")
FAST = ("ranker=sgd_ranknet", "click=perfect", "ranker.learning_rate=0.1")


@pytest.fixture
def by_python(monkeypatch):
    """Loops are not compiled."""
    loops_by(one_lane, monkeypatch)


def own(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"


class CopiedRanker(GradientRanker):
    """A copy of SGDRankNet by hand, which descends where that ascends."""

    def __init__(self, model, learning_rate, decay, pairs):
        super().__init__(model, learning_rate, decay)
        self.pairs = pairs

    def stages(self):
        return self.gradient_stages(loops.gradient_steps.learns_by_ranknet)

    def learn(self, interaction, random):
        valid = interaction.preferences.valid
        pull = torch.sigmoid(-self.margins(interaction)) * valid
        self.move(self.pair_gradient(interaction, -pull), valid.any(1))


class Halved(PDGD):
    """Keeps the stages of PDGD by name, and moves in another way."""

    stages = PDGD.stages

    def move(self, direction, moved):
        super().move(direction / 2, moved)


class Below(Halved):
    """Names the stages once more."""

    stages = PDGD.stages


class Slowly:
    """A mixin."""

    def move(self, direction, moved):
        super().move(direction / 2, moved)  # type: ignore[misc]


class Mixed(Slowly, PDGD):
    stages = PDGD.stages


class Plain(PDGD):
    """A subclass that changes nothing."""


class Lazy(DependentClick):
    """Never clicks."""

    stages = CascadeBased._reads_from_the_top

    def click(self, grades, shown, random):
        return torch.zeros_like(shown)


class Reversed(NoExploration):
    """Shows the worst first."""

    def stages(self):
        return self.arrange()

    def propose(self, prediction, candidates, random):
        proposal = super().propose(prediction, candidates, random)
        length = candidates.mask.sum(1)
        for row, count in zip(proposal.order, length.tolist(), strict=True):
            row[:count] = row[:count].flip(0)
        return proposal


class Swapped(NoFairness):
    """Serves the second document first."""

    def stages(self):
        return ()

    def rerank(self, proposal, candidates, random):
        order = proposal.order.clone()
        two = candidates.mask.sum(1) > 1
        order[two, :2] = order[two, :2].flip(1)
        return order


class OneBlock(Blocks):
    """Takes every list for one block."""

    def memory(self):
        return super().memory()

    def record(self, row, interaction, labels):
        super().record(row, interaction, labels)
        self.block[row] = 0


def played(overrides: tuple[str, ...], rounds: int = ROUNDS, **more: Any) -> Any:
    """A simulation after all rounds, played as by a run."""
    running = simulation(overrides, rounds=rounds, regret=False, **more)
    with torch.inference_mode():
        for _ in running.play_until(lambda t: False):
            pass
    return running


@pytest.mark.parametrize(
    ("words", "group", "cls", "method"),
    [
        (FAST, "ranker", CopiedRanker, "learn"),
        *((("ranker=pdgd",), "ranker", cls, "move") for cls in (Halved, Below, Mixed)),
        (FAST, "click", Lazy, "click"),
        (FAST, "exploration", Reversed, "propose"),
        (FAST, "fairness", Swapped, "rerank"),
    ],
)
def test_what_a_class_has_changed_is_what_plays(by_python, words, group, cls, method):
    """It is not played by the loops of ol2r that it names, and a line says so."""
    running = played((*words, f"{group}._target_={own(cls)}"), rounds=2)
    assert running.together is None
    roles = running.ranker, running.exploration, running.fairness, running.click
    (line,) = [line for role in roles for line in role.warnings]
    assert line.endswith(f"is played by its methods, round by round: its stages do not stand for its `{method}`")


def test_changed_methods_have_other_numbers(by_python):
    """Each of them is called: theta goes the other way, half as far, and users never click."""
    original, copied = (played(words) for words in (FAST, (*FAST, f"ranker._target_={own(CopiedRanker)}")))
    assert original.together == []
    assert original.ranker.own_stages() is not None
    before, after = original.ranker.theta, copied.ranker.theta
    assert (before * after).sum() < 0
    lazy = played((*FAST, f"click._target_={own(Lazy)}"))
    assert not lazy.measurement.clicks.any()
    assert original.measurement.clicks.any()
    steps = [played((*FIRST, f"ranker._target_={own(cls)}"), rounds=1).ranker.theta for cls in (PDGD, Halved)]
    torch.testing.assert_close(steps[0], 2 * steps[1])
    assert steps[0].any()


def test_a_measure_records_by_its_own_method(by_python):
    for target, blocks in ("ol2r_cli.measure.blocks.Blocks", False), (own(OneBlock), True):
        measures = {"blocks": resolve_name(target)()}
        running = played(("ranker=pairrank",), blocks=False, measures=measures)
        assert (running.together is None) == blocks
        _, columns = running.measurement.measures()
        assert bool((columns["blocks"] == 1).all()) == blocks


def doubled(self, direction, moved):
    """Move twice as far."""
    GradientRanker.move(self, 2 * direction, moved)


@pytest.mark.parametrize("target", ["object", "class"])
def test_methods_that_are_set_on_an_object_or_a_class_play(by_python, monkeypatch, target):
    first = played(FIRST, rounds=1).ranker
    running = simulation(FIRST, rounds=1, regret=False)
    if target == "object":
        running.ranker.move = types.MethodType(doubled, running.ranker)
    else:
        monkeypatch.setattr(PDGD, "move", doubled, raising=False)
    with torch.inference_mode():
        running.advance(1)
    torch.testing.assert_close(running.ranker.theta, 2 * first.theta)
    assert first.theta.any()


def test_a_class_of_a_notebook_is_not_of_ol2r():
    module = types.ModuleType("__main__")
    text = "class Mine(PDGD):\n    stages = PDGD.stages\n    def learn(self, interaction, random):\n        pass\n"
    exec(text, {**vars(module), "PDGD": PDGD, "__name__": "__main__"}, vars(module))  # as a cell
    running = simulation(("ranker=pdgd",), rounds=2, regret=False)
    running.ranker.__class__ = module.__dict__["Mine"]
    assert running.ranker.own_stages() is None


@compiled
def clicks_by_grade(b, space, round, stream, user):
    """Click on every document that is relevant."""
    if lane() == 0:
        for place in range(len(round.clicks)):
            round.clicks[place] = round.grades[place] > 0
    barrier()


@compiled
def clicks_on_good_ones(b, space, round, stream, user):
    """Click as a stage does whose author has changed it, and not the method."""
    if lane() == 0:
        for place in range(len(round.clicks)):
            round.clicks[place] = round.grades[place] > 1
    barrier()


class ByGrade(CascadeBased):
    """Clicks on every document that is relevant, with a stage of its own."""

    stage: Any = clicks_by_grade

    def _probability(self, context):
        return torch.zeros(2, context.positions, context.grades, dtype=torch.float64)

    def stages(self):
        return loops.rounds.UserStages(self.stage, (self.probability,))

    def click(self, grades, shown, random):
        return (grades > 0) & shown


class Drifted(ByGrade):
    """Its stage is another one."""

    stage: Any = clicks_on_good_ones

    def stages(self):
        return super().stages()

    def click(self, grades, shown, random):
        return super().click(grades, shown, random)


class OtherSolver(PairwiseRanker):
    """A stage of ol2r for a method of ol2r, which works with another solver."""

    stages = PairwiseRanker.stages

    def setup(self, context, features, oracle=None):
        super().setup(context, features)
        self.solver.update = lambda rows, valid: None


def checked(group: str, *words: str) -> CheckReport:
    whole = composition(words)
    return check_composition(whole, (group,), " ".join(words), laws=[role_laws.stages])


def users(cls: type) -> CheckReport:
    """What the law says of a user without settings but those of a class of ol2r."""
    whole = composition(("click=perfect",))
    click = {"_target_": own(cls), "click": None, "tables": whole.settings["click"]["tables"]}
    whole = dataclasses.replace(whole, settings=whole.settings | {"click": click})
    return check_composition(whole, ("click",), cls.__name__, laws=[role_laws.stages])


def test_stages_of_ones_own_are_compared_with_the_method(by_python):
    report = users(ByGrade)
    assert report.passed == ("stages",), report
    report = users(Drifted)
    (violation,) = report.violations
    assert "by stages and by methods: " in violation.difference
    assert "clicks" in violation.difference
    assert violation.input.startswith("seed ")


def test_a_stage_of_ol2r_beside_another_solver_is_found(by_python):
    assert checked("ranker", "ranker=pairrank", f"ranker._target_={own(OtherSolver)}").violations


def test_the_check_says_whose_methods_play():
    reason = checked("ranker", *FAST, f"ranker._target_={own(CopiedRanker)}").left_out["stages"]
    assert reason == "its stages do not stand for its `learn`: its methods play"
    for words in ("ranker=toprank",), ("ranker=pdgd", f"ranker._target_={own(Plain)}"):
        report = checked("ranker", *words)
        assert (report.passed, report.left_out) == ((), {}), "without stages there is nothing to say"


def copied(target: str, folder: Path, monkeypatch) -> str:
    """The path of a copy of a class, as `ol2r new` writes it into a folder."""
    cls = resolve_name(target)
    name = f"copy_of_{cls.__name__.lower()}"
    source = Path(str(resolve_name(cls.__module__).__file__)).read_text()
    (folder / f"{name}.py").write_text(copied_class(source, cls))
    monkeypatch.syspath_prepend(folder)
    return f"{name}.{cls.__name__}"


def copies() -> list[tuple[str, tuple[str, ...]]]:
    """Every class of a ranker, an exploration or a user: its group, and a choice of it with all that it plays with."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    users = [("ranker=sgd_ranknet", f"click={name}") for name in names("click")]
    for group, choices in ("ranker", each_choice()), ("exploration", each_choice()), ("click", users):
        for overrides in choices:
            if not missing_package(overrides):
                found.setdefault(composition(overrides).config[group]._target_, (group, overrides))
    return list(found.values())


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 6))])
def test_a_copy_plays_what_the_original_plays(part, tmp_path, monkeypatch):
    """In double precision on a CPU lists and clicks are the same, and what is learned is, but for rounding: the method
    of a ranker with stages adds up a step in another order."""
    for group, overrides in copies()[part::6]:
        original, results = composed(overrides), []
        copy = original.copy()
        OmegaConf.set_readonly(copy, False)
        copy[group]._target_ = copied(original[group]._target_, tmp_path, monkeypatch)
        for config in original, copy:
            running = small_world.simulation(config, rounds=12, dtype=torch.float64)
            with torch.inference_mode():
                results.append((seen([happened for _, happened in running.play()]), running.ranker.deploy()))
        assert getattr(running, group).own_stages() is None, copy[group]
        assert results[0][0] == results[1][0], copy[group]
        torch.testing.assert_close(results[1][1], results[0][1], msg=f"{copy[group]}")
