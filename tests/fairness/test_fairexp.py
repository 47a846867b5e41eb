"""FairExp step by step against the plain ports: the same template, list and unfairness in every round."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.interfaces import Exposure, Interaction
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.simulation import Simulation
from tests.fairness.grouped import ONE_GROUP, Seen, grouped, seen
from tests.reference.exposure import list_unfairness, unfairness
from tests.reference.fairexp import Choice, choose, lists, qualifies
from tests.reference.fairexp_toprank import FairTopRank
from tests.reference.fairswap import paper
from tests.reference.violations import broken
from tests.rounds import SEEDS, fresh, rounds
from tests.worlds import handmade, simulate, tiny

BETA = 0.7
RANKERS = {
    "pairrank": ("ranker=pairrank", "exploration.alpha=0.1"),
    "pairrank, random shuffle": ("ranker=pairrank", "exploration.alpha=0.1", "exploration.shuffle=random"),
    "pepairrank": ("ranker=pepairrank",),
    "toprank": ("ranker=toprank", "ranker.delta=0.9"),
}
ENGINES = ["tensors", "loops"] if loops.available() else ["tensors"]


def fair(
    *overrides: str, positions: int = 5, number: int = 16, model: str = "reciprocal", engine: str = "tensors"
) -> Simulation:
    """A simulation with FairExp on two groups."""
    config = tiny("fairness=fairexp", "click=perfect", f"positions={positions}", *overrides)
    exposure = Exposure(position_exposure(model, positions), BETA)
    return simulate(config, SEEDS, number, grouped(), exposure=exposure, loops=engine == "loops")


def exposed(positions: int, model: str = "reciprocal") -> list[float]:
    return position_exposure(model, positions).tolist()


def expected(one: Seen, before: float, positions: int, epsilon: float, count: str) -> Choice:
    """What the plain port chooses after UF_{t-1} = `before`."""
    last, kept = len(one.proposal) if count == "all" else positions, one.kept()
    arranged = lists(one.proposal, one.groups, positions)
    return choose(
        arranged, lambda order: sum(broken(order[:last], kept, one.blocks)), before, exposed(positions), BETA, epsilon
    )


def check_template(one: Seen, before: float, positions: int, epsilon: float, after: float) -> bool:
    """What the list shows qualifies if anything does, and else nothing is less unfair; returns whether it qualifies."""
    p, shown = exposed(positions), "".join(one.groups[d] for d in one.order[:positions])
    arranged = lists(one.proposal, one.groups, positions)
    possible = [word for word in arranged if qualifies(word, before, p, BETA, epsilon)]
    assert after == pytest.approx(before + list_unfairness(shown, p, BETA))
    if possible:
        assert shown in possible
        assert abs(after) <= epsilon + 1e-12
    else:
        assert abs(after) == pytest.approx(min(abs(before + list_unfairness(word, p, BETA)) for word in arranged))
    return bool(possible)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_round_serves_the_list_of_the_plain_port(engine):
    for ranker, count in product(RANKERS, ["all", "shown"]):
        check_rounds(ranker, count, engine)


def check_rounds(ranker: str, count: str, engine: str) -> None:
    epsilon = 0.4
    running = fair(*RANKERS[ranker], f"fairness.epsilon={epsilon}", f"fairness.count={count}", engine=engine)
    before, held, moved, shown = [0.0] * len(SEEDS), 0, 0, [[] for _ in SEEDS]
    for t, interaction in rounds(running):
        for b in range(len(SEEDS)):
            one = seen(interaction, b)
            choice = expected(one, before[b], 5, epsilon, count)
            assert one.order == choice.order, f"round {t}, replica {b}"
            after = float(running.fairness.unfairness[b])
            assert after == pytest.approx(choice.unfairness, abs=1e-9)
            assert check_template(one, before[b], 5, epsilon, after) == choice.qualified
            shown[b].append("".join(one.groups[d] for d in one.order[:5]))
            assert after == pytest.approx(unfairness(shown[b], exposed(5), BETA)[-1], abs=1e-9)
            before[b], held, moved = after, held + choice.qualified, moved + (one.order != tuple(one.proposal))
    assert 7 < held < 48
    assert moved > 7


@pytest.mark.parametrize("engine", ENGINES)
def test_of_any_number_of_places_and_any_threshold(engine):
    for positions, epsilon in [(1, 0.1), (3, 0.0), (7, 1.0), (12, 0.1)]:
        check_places(positions, epsilon, engine)


def check_places(positions: int, epsilon: float, engine: str) -> None:
    words = f"fairness.epsilon={epsilon}", "exploration.alpha=0.1"
    running = fair(*words, positions=positions, number=12, engine=engine)
    before = [0.0] * len(SEEDS)
    lengths, single = set(), 0
    for _, interaction in rounds(running):
        for b in range(len(SEEDS)):
            one = seen(interaction, b)
            choice = expected(one, before[b], positions, epsilon, "all")
            assert one.order == choice.order
            before[b] = float(running.fairness.unfairness[b])
            assert before[b] == pytest.approx(choice.unfairness, abs=1e-9)
            if int(interaction.candidates.query[b]) in ONE_GROUP:
                single += 1
                assert len({*one.groups}) == 1
                assert one.order == tuple(one.proposal)
            lengths.add(len(one.groups))
    assert min(lengths) < max(3, positions) or positions == 1
    assert single > 3


def test_an_endless_threshold_lets_every_template_qualify_and_still_prefers_the_less_unfair():
    """At epsilon = infinity nothing is broken, and of the lists that break nothing the least unfair is served."""
    moved = 0
    running = fair("fairness.epsilon=inf", "exploration.alpha=0.1", number=20)
    before = [0.0] * len(SEEDS)
    for _, interaction in rounds(running):
        for b in range(len(SEEDS)):
            one = seen(interaction, b)
            choice = expected(one, before[b], 5, float("inf"), "all")
            assert (one.order, choice.added, choice.qualified) == (choice.order, 0, True)
            before[b], moved = choice.unfairness, moved + (one.order != tuple(one.proposal))
    assert moved > 5


@pytest.mark.parametrize(("ranker", "count"), [("pairrank", "all"), ("toprank", "shown")])
def test_as_printed_every_round_serves_the_list_of_the_plain_port(ranker, count):
    """Algorithm 4 with the round's permutation: every certain pair of its lists counts, inside blocks too."""
    epsilon = 0.4
    words = "fairness.fill=paper", f"fairness.epsilon={epsilon}", f"fairness.count={count}"
    running, clocks = fair(*RANKERS[ranker], *words, number=15), fresh()
    before, merging = [0.0] * len(SEEDS), 0
    for t, interaction in rounds(running):
        drawn = clocks.at("arrange", t).uniform(interaction.candidates.mask.shape[1])
        for b in range(len(SEEDS)):
            one = seen(interaction, b)
            shuffle = sorted(range(len(one.groups)), key=drawn[b].tolist().__getitem__)
            last = len(one.proposal) if count == "all" else 5
            arranged = {
                word: paper(one.blocks, one.groups, word, shuffle) for word in lists(one.proposal, one.groups, 5)
            }
            choice = choose(
                arranged,
                lambda order, one=one, last=last: sum(broken(order[:last], one.certain, one.blocks)),
                before[b],
                exposed(5),
                BETA,
                epsilon,
            )
            assert one.order == choice.order, f"round {t}, replica {b}"
            after = float(running.fairness.unfairness[b])
            assert check_template(one, before[b], 5, epsilon, after) == choice.qualified
            before[b] = after
            merging += one.order == expected(one, before[b], 5, epsilon, count).order
    assert merging < 40


@pytest.mark.slow
def test_a_whole_run_of_fairexp_toprank_is_that_of_the_plain_port():
    """From clicks to layers to templates, for as long as it takes until layers are deep."""
    running, clocks = fair(*RANKERS["toprank"], number=250), fresh()
    ports, deepest = [], 0
    for t, interaction in rounds(running):
        drawn = clocks.at("explore", t).exponential(interaction.candidates.mask.shape[1])
        for b in range(len(SEEDS)):
            if len(ports) == b:
                ports.append(FairTopRank({}, 0.9, exposed(5), BETA, 0.1))
            one, query = seen(interaction, b), int(interaction.candidates.query[b])
            ports[b].groups[query] = one.groups
            shuffle = sorted(range(len(one.groups)), key=drawn[b].tolist().__getitem__)
            clicks = dict(zip(one.order, interaction.clicks[b].long().tolist(), strict=False))
            choice = ports[b].round(query, shuffle, lambda shown, clicks=clicks: {d: clicks[d] for d in shown})
            assert one.order == choice.order, f"round {t}, replica {b}"
            assert float(running.fairness.unfairness[b]) == pytest.approx(ports[b].unfairness, abs=1e-9)
            deepest = max(deepest, len(one.blocks))
    assert deepest >= 3


def test_sums_that_differ_by_rounding_are_level():
    """A A B gives .4 - .5/2 = .15, A B B .2 - .7/2 = -.15, in floating point the less; the first of both is served."""
    dataset = dataclasses.replace(handmade([[0] * 6]), group=torch.tensor([0, 0, 0, 1, 1, 1], dtype=torch.int8))
    exposure = Exposure(position_exposure([0.2, 0.2, 0.5], 3), 0.5)
    running = simulate(tiny("fairness=fairexp", "positions=3"), [0], 1, dataset, exposure=exposure)
    assert (0.4 - 0.5 / 2) > -(0.2 - 0.7 / 2)
    _, interaction = next(rounds(running))
    assert interaction.candidates.group.gather(1, interaction.ranking).tolist() == [[0, 0, 1]]


def test_unfairness_adds_up_what_was_shown():
    """Two places, beta 2: A A is worth 3/2, A B 1 - 2/2 = 0, B A 1/2 - 2 = -3/2, and one A alone 1."""
    exposure = Exposure(position_exposure("reciprocal", 2), 2.0)
    running = simulate(tiny("fairness=fairexp", "positions=2"), [0], 9, grouped(), exposure=exposure)
    interaction = next(one for _, one in rounds(running) if one.candidates.mask.shape[1] > 1)
    added = {"AA": 1.5, "AB": 0.0, "BA": -1.5, "BB": -3.0, "A": 1.0}
    running.fairness.unfairness.zero_()
    total = 0.0
    for word in ["AB", "BA", "A", "BB", "AA"]:
        running.fairness.learn(showing(interaction, word), running.streams.at("learn/fairness", 0))
        total += added[word]
        assert running.fairness.unfairness.tolist() == [pytest.approx(total)]


def showing(interaction: Interaction, word: str) -> Interaction:
    """A round in which documents of these groups were shown, of two places."""
    group = torch.ones_like(interaction.candidates.group)
    group[0, :2] = torch.tensor(["AB".index(letter) for letter in word.ljust(2, "B")])
    candidates = dataclasses.replace(interaction.candidates, group=group)
    shown = torch.arange(2)[None] < len(word)
    return dataclasses.replace(interaction, candidates=candidates, ranking=torch.tensor([[0, 1]]), shown=shown)


REFUSED = {
    r"^fairness.epsilon must be 0 or more, got -0.1$": "fairness.epsilon=-0.1",
    r"^fairness.epsilon must be 0 or more, got nan$": "fairness.epsilon=nan",
    r"^fairness.fill must be one of ordered, paper, got 'swap'$": "fairness.fill=swap",
    r"^fairness.count must be one of all, shown, got 'top'$": "fairness.count=top",
    r"^the fairness FairExp needs an exploration that says which pairs are certain: use .* with": "exploration=none",
    r"^the fairness FairExp needs an exploration that says .*: use ranker=pairrank with ": "ranker=pdgd",
}


def test_what_is_refused():
    for message, word in REFUSED.items():
        with pytest.raises(ValueError, match=message):
            fair(word)
    exposure = Exposure(position_exposure("log", 5), (0.7, 1.6))
    message = (
        r"^FairExp needs a dataset with two groups, got 3: type fairness=fairco, or dataset.group \(.*\) with two$"
    )
    with pytest.raises(ValueError, match=message):
        simulate(tiny("fairness=fairexp", "positions=5"), [0], 5, grouped(groups=3), exposure=exposure)
    with pytest.raises(ValueError, match=r"^fairness needs a dataset with two groups: type dataset.group=\{..\} or "):
        simulate(tiny("fairness=fairexp"), [0], 1, grouped())


def test_places_beyond_twelve_are_refused_where_lists_are_so_long():
    longer = dataclasses.replace(grouped(), offsets=torch.tensor([0, 13]), splits={"train": torch.tensor([0])})
    exposure = Exposure(position_exposure("log", 20), 1.0)
    config = tiny("fairness=fairexp", "positions=13")
    with pytest.raises(ValueError, match=r"^positions must be at most 12 with fairness=fairexp, got 13$"):
        simulate(config, [0], 1, longer, exposure=exposure)
    running = simulate(tiny("fairness=fairexp", "positions=13"), [0], 3, grouped(), exposure=exposure)
    assert len(list(rounds(running))) == 3  # no list is longer than 12
