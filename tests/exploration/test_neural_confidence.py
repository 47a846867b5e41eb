"""Confidence intervals on a network's tangents: against the definition written out, whole runs long."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.exploration import neural_confidence
from ol2r_cli.exploration.neural_confidence import Certainty
from ol2r_cli.interfaces import Prediction
from ol2r_cli.learning import covariance
from tests.choices import play, seen
from tests.worlds import handmade, simulate, tiny

LENGTHS = [6, 20, 1, 13, 17, 9, 20, 4, 15]
ROUNDS = 25
NETWORK = (
    *("ranker=sgd_ranknet", "ranker/model=mlp", "ranker.model.width=8", "ranker.model.init=standard"),
    *("exploration=neural_confidence", "click=perfect", "positions=6"),
)


@pytest.fixture(autouse=True)
def short_strips(monkeypatch):
    monkeypatch.setattr(covariance, "STRIP", 16)
    monkeypatch.setattr(neural_confidence, "TILE", 4)  # lists of one round are in several groups
    with torch.inference_mode():
        yield


EVERY = 1 << 62  # places whose certain pairs are wanted: they are then by document


SETTINGS = {"alpha": 0.05, "covariance": "full", "l2": 0.1, "tangent_at": "serving", "precision": "float64"}


def simulation(seeds=(3, 4), lengths=LENGTHS, needs_reasons=False, rounds=ROUNDS, regret=None, words=(), **settings):
    """A network whose parameters change a little every round; without `needs_reasons`, documents that are not shown are
    not traced."""
    dice = torch.Generator().manual_seed(5)
    lists = [torch.randint(5, (length,), generator=dice).tolist() for length in lengths]
    traced = {"regret": needs_reasons if regret is None else regret, "blocks": needs_reasons}
    chosen = [f"exploration.{name}={value}" for name, value in {**SETTINGS, **settings}.items()]
    return simulate(
        tiny(*NETWORK, *chosen, *words), list(seeds), rounds, handmade(lists), dtype=torch.float64, **traced
    )


class Written:
    """A, or its diagonal, written out for every replica, and the pairs that are certain by definition."""

    def __init__(self, running, replicas):
        self.settings, size = running.exploration, running.ranker.weights().shape[2]
        self.matrix = torch.eye(size).double().repeat(replicas, 1, 1) * self.settings.l2
        self.distances = []

    def add(self, tangent, preferences):
        v = tangent.dense().double()
        v = gather(v, preferences.winner) - gather(v, preferences.loser)
        v = v * preferences.valid[:, :, None]
        self.matrix += v.mT @ v

    def certain(self, one):
        """[i, j] by document, before any closure."""
        g, scores = one.prediction.tangent().dense().double(), one.prediction.scores[:, 0].double()
        mask = one.candidates.mask
        apart = g[:, :, None] - g[:, None, :]
        if self.settings.covariance == "full":
            squared = torch.einsum("bxyp,bpq,bxyq->bxy", apart, torch.linalg.inv(self.matrix), apart)
        else:
            squared = (apart.square() / self.matrix.diagonal(dim1=1, dim2=2)[:, None, None]).sum(3)
        self.distances.append(squared)
        margin = (scores[:, :, None] - scores[:, None, :]).sigmoid() - 0.5
        certain = margin > self.settings.alpha * squared.sqrt()
        return (certain & mask[:, :, None] & mask[:, None, :]) | (mask[:, :, None] & ~mask[:, None, :])


def gather(table, index):
    return torch.stack([own[chosen] for own, chosen in zip(table, index, strict=True)])


@pytest.mark.parametrize(("covariance_", "tangent_at"), [("full", "serving"), ("full", "refit"), ("diagonal", "refit")])
def test_certain_pairs_are_those_of_the_definition(covariance_, tangent_at, monkeypatch):
    """Over a whole run, through every strip and, for the full matrix, from the dual form to the primal."""
    monkeypatch.setattr(covariance, "RATIO", 0.2)  # 104 parameters
    given = {"covariance": covariance_, "tangent_at": tangent_at, "transitive": False}
    running = simulation(needs_reasons=True, **given, alpha={"full": 0.02, "diagonal": 0.1}[covariance_])
    running.exploration.certain_places = EVERY
    written, waiting, some = Written(running, 2), None, 0
    theta = running.ranker.weights().clone()
    for _, one in running.play():
        if waiting is not None:  # at the parameters that served this round, which were fitted to the one before
            features, preferences = waiting
            written.add(running.ranker.model.forward(theta, features).tangent(), preferences)
        expected = written.certain(one)
        assert torch.equal(one.proposal.certain, expected)
        some += (expected & one.candidates.mask[:, None, :]).sum()
        if tangent_at == "refit":
            waiting = one.candidates.features, one.preferences
        else:
            written.add(one.prediction.tangent(), one.preferences)
        theta = running.ranker.weights().clone()
    assert some > 500
    assert (written.distances[-1] < written.distances[0].mean()).any()
    if covariance_ == "full":
        assert all(part.inverse is not None for part in running.exploration.tangents.parts)


@pytest.fixture
def noted(monkeypatch) -> list[int]:
    """The numbers of documents whose distances are made certain pairs."""
    found, certain = [], Certainty.certain

    def noting(one, distances):
        found.append(distances.shape[1])
        return certain(one, distances)

    monkeypatch.setattr(Certainty, "certain", noting)
    return found


@pytest.mark.parametrize(
    ("covariance_", "alpha", "tangent_at"), [("full", 0.002, "serving"), ("diagonal", 0.03, "refit")]
)
def test_pruned_shows_what_it_shows_unpruned(covariance_, alpha, tangent_at, noted):
    lengths = [40, 33, 40, 5, 28, 37]
    given = {"covariance": covariance_, "alpha": alpha, "tangent_at": tangent_at, "lengths": lengths}
    pruned = play(simulation(**given), 25)
    assert min(noted) < 12
    noted.clear()
    unpruned = play(simulation(prune=False, **given), 25)
    assert min(noted) >= 5
    assert seen(pruned) == seen(unpruned)
    short = [one for one in pruned if one.proposal.block is None and one.candidates.mask.all()]
    assert short
    for one in short:
        assert torch.equal(one.proposal.order[:, -1], one.proposal.scores.argmin(1)), "what is left out goes by score"


@pytest.mark.parametrize(
    "traced",
    [{"needs_reasons": True, "regret": False}, {"regret": True}, {"shuffle": "random"}],
    ids=str,
)
def test_traced_documents_are_not_pruned(traced):
    assert simulation().exploration.prunes
    assert not simulation(**traced).exploration.prunes


def test_equal_documents_are_never_certain():
    """Not even where their scores differ, as those of matrix products do in the last bits."""
    running = simulation(seeds=[3], needs_reasons=True, alpha=0.0, covariance="diagonal")
    running.exploration.certain_places = EVERY
    running.train_split.features[1::2] = running.train_split.features[0:-1:2].clone()
    predict = running.ranker.predict

    def rounding(candidates, random):
        prediction = predict(candidates, random)
        scores = prediction.scores + 1e-5 * torch.rand(prediction.scores.shape, generator=dice)
        return Prediction(scores, prediction.tangent)

    dice, running.ranker.predict = torch.Generator().manual_seed(0), rounding
    for _, one in running.play():
        features, scores, certain = one.candidates.features[0], one.prediction.scores[0, 0], one.proposal.certain[0]
        equal = (features[:, None] == features[None]).all(2)
        assert not (certain & equal).any()
        assert certain[(scores[:, None] > scores[None, :]) & ~equal].all()


WIDE = ("ranker.model.width=100",)  # 10,500 parameters, for which an inverse is never written out


def test_too_long_a_run_is_refused_before_its_first_round():
    """Of each replica a triangle of 3 x 10^6 rows, in strips of 512, and of each row the gradients of two documents."""
    rows, numbers = 3 * 10**6, 2 * (4 + 4 * 102) + max(LENGTHS)
    needed = 2 * 8 * (rows * (rows + 512) // 2 + rows * numbers) / 2**30
    refusal = r"^exploration.covariance must be diagonal, or rounds or replicas fewer, .* got full with rounds=1000000 "
    with pytest.raises(ValueError, match=refusal + rf"and replicas=2, which may need {needed:.1f} GiB$"):
        simulation(rounds=10**6, words=WIDE)


@pytest.mark.parametrize(
    "given",
    [{"rounds": 60, "words": WIDE}, {"rounds": 10**6, "covariance": "diagonal", "words": WIDE}, {"rounds": 10**6}],
    ids=["few rounds", "a diagonal", "an inverse that is small"],
)
def test_a_run_that_fits_begins(given):
    assert len(play(simulation(**given), 1)) == 1
