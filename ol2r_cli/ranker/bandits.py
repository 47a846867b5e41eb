"""Bandits that count clicks on documents. Separate for every query: CascadeUCB1 and CascadeKL-UCB (Kveton, Szepesvari,
Wen and Ashkan, "Cascading Bandits: Learning to Rank in the Cascade Model", ICML 2015), CascadeDUCB and CascadeSWUCB
for users who change (Li and de Rijke, "Cascading Non-Stationary Bandits", IJCAI 2019), and TopRank (Lattimore, Kveton,
Li and Szepesvari, NeurIPS 2018, algorithm 1). By features: CascadeLinUCB and CascadeLinTS (Zong, Ni, Sung, Ke, Wen and
Kveton, "Cascading Bandits for Large-Scale Recommendation Problems", UAI 2016)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import Count, NonNegative, Positive, PositiveShare
from ol2r_cli.interfaces import FEATURES, LAYERS, STATED, Candidates, Interaction, Need, Oracle, Prediction, RunContext
from ol2r_cli.ranker.model_ranker import LinearRanker, ParameterFree, predicted
from ol2r_cli.tensor.gather import gather
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random

Each = Float[Tensor, "B D"]  # a number for each document
Feedback = Literal["first_click", "last_click", "all"]


def examined(interaction: Interaction, feedback: Feedback) -> Bool[Tensor, "B K"]:
    """Return the places that count as examined: down to the first click, down to the last one, or all that are shown.

    Without a click, all that are shown count. The cascade model has at most one click, on the last examined place
    (Kveton et al., ICML 2015, section 2).
    """
    clicks = interaction.clicks
    if feedback == "all":
        return interaction.shown
    if feedback == "first_click":
        return interaction.shown & (clicks.cumsum(1) - clicks.long() == 0)  # no click above
    at_or_below = clicks.flip(1).cumsum(1).flip(1) > 0
    return interaction.shown & (at_or_below | ~clicks.any(1, keepdim=True))


UNOBSERVED = 1e6  # score of a document that was never examined, and of one of which a discount has left nothing
NEWTON_STEPS = 12  # ten reach the last bit for N up to a million and log t up to 60


class CascadeBandit(ParameterFree):
    """Scores a document by an upper confidence bound of its attraction, the mean of its clicks while it was examined.

    Documents that were never examined come first. `feedback` says which places of a list were examined. It learns
    nothing about queries never served: there is no offline evaluation. It keeps 8 bytes for each document of the
    dataset and replica.
    """

    generalises = False
    pairs = "none"
    of_counts = torch.int32  # type of N and S

    served: Tensor
    observations: Tensor
    attractions: Tensor

    def __init__(self, feedback: Feedback):
        super().__init__()
        self.feedback: Feedback = feedback

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        rounds = torch.zeros(context.replicas, context.queries, dtype=torch.int64, device=context.device)
        self.register_buffer("served", rounds)  # of each query
        counts = torch.zeros(context.replicas, len(features), dtype=self.of_counts, device=context.device)
        self.register_buffer("observations", counts)  # N of each document
        self.register_buffer("attractions", counts.clone())  # S, clicks on it when it was examined

    def index(self, mean: Each, count: Each, t: Int[Tensor, "B 1"]) -> Each:
        """Return upper bounds, given means of `count` > 0 observations, in the t-th round of the query."""
        raise NotImplementedError

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        count = self.observations.gather(1, candidates.document).double()
        some = count.masked_fill(count == 0, 1)
        mean = self.attractions.gather(1, candidates.document) / some
        t = self.served.gather(1, candidates.query[:, None]) + 1
        scores = self.index(mean, some, t).masked_fill_(count == 0, UNOBSERVED).clamp_(max=UNOBSERVED)
        return predicted(scores.to(self.nothing.dtype), candidates)

    def learn(self, interaction: Interaction, random: Random) -> None:
        counts = examined(interaction, self.feedback)
        document = interaction.candidates.document.gather(1, interaction.ranking)
        self.observations.scatter_add_(1, document, counts.to(self.of_counts))
        self.attractions.scatter_add_(1, document, (counts & interaction.clicks).to(self.of_counts))
        query = interaction.candidates.query[:, None]
        self.served.scatter_add_(1, query, torch.ones_like(query))


class CascadeUCB1(CascadeBandit):
    """S/N + sqrt(alpha log t / N). `alpha` is 1.5 in the paper."""

    def __init__(self, alpha: NonNegative, feedback: Feedback):
        super().__init__(feedback)
        self.alpha = alpha

    def index(self, mean: Each, count: Each, t: Int[Tensor, "B 1"]) -> Each:
        return mean + (self.alpha * t.double().log() / count).sqrt()


class CascadeDUCB(CascadeBandit):
    """S/N + 2 sqrt(epsilon log n / N): a round counts gamma^age in S, N and n = (1 - gamma^t) / (1 - gamma).

    The age is in rounds of the query, 0 for the latest. gamma is `discount`; null is 1 - 1 / (4 sqrt(T)), where T is
    the number of rounds for each query.
    """

    of_counts = torch.float64

    def __init__(self, epsilon: NonNegative, discount: PositiveShare | None, feedback: Feedback):
        super().__init__(feedback)
        self.epsilon, self.discount = epsilon, discount

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        self.gamma = self.discount or 1 - 0.25 * max(1, context.rounds / context.queries) ** -0.5

    def index(self, mean: Each, count: Each, t: Int[Tensor, "B 1"]) -> Each:
        rounds = t.double() if self.gamma == 1 else (1 - self.gamma ** t.double()) / (1 - self.gamma)
        return mean + 2 * (self.epsilon * rounds.log().clamp(min=0) / count).sqrt()

    def learn(self, interaction: Interaction, random: Random) -> None:
        document = interaction.candidates.document
        for counts in self.observations, self.attractions:
            lost = counts.gather(1, document) * (1 - self.gamma) * interaction.candidates.mask
            counts.scatter_add_(1, document, -lost)
        super().learn(interaction, random)


class CascadeSWUCB(CascadeBandit):
    """S/N + sqrt(epsilon log min(t, tau) / N), where S and N are those of the last tau rounds of the query.

    tau is `window`; null is 2 sqrt(T log T), where T is the number of rounds for each query. It keeps 4 bytes for each
    place of these rounds, training query and replica.
    """

    recent: Tensor

    def __init__(self, epsilon: NonNegative, window: Count | None, feedback: Feedback):
        super().__init__(feedback)
        self.epsilon, self.window = epsilon, window

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        rounds = max(2, context.rounds / context.queries)
        self.tau = min(self.window or math.ceil(2 * math.sqrt(rounds * math.log(rounds))), context.rounds)
        shape = context.replicas, context.queries * self.tau, context.positions
        # By place of a round: 0 where it was not examined, else 1 + 2 x document + click.
        self.register_buffer("recent", torch.zeros(shape, dtype=torch.int32, device=context.device))

    def index(self, mean: Each, count: Each, t: Int[Tensor, "B 1"]) -> Each:
        return mean + (self.epsilon * t.clamp(max=self.tau).double().log() / count).sqrt()

    def learn(self, interaction: Interaction, random: Random) -> None:
        query, counts = interaction.candidates.query[:, None], examined(interaction, self.feedback)
        row = (query * self.tau + self.served.gather(1, query) % self.tau)[:, :, None].expand(-1, 1, counts.shape[1])
        left = self.recent.gather(1, row)[:, 0].long()
        document = (left - 1).clamp(min=0) // 2
        self.observations.scatter_add_(1, document, -(left > 0).int())
        self.attractions.scatter_add_(1, document, -((left > 0) & (left % 2 == 0)).int())
        document = interaction.candidates.document.gather(1, interaction.ranking)
        new = (1 + 2 * document + interaction.clicks) * counts
        self.recent.scatter_(1, row, new[:, None].int())
        super().learn(interaction, random)


class CascadeKLUCB(CascadeBandit):
    """The largest q with N KL(S/N, q) <= log t + c log log t, KL being that of Bernoulli distributions.

    `c` is 3 in the paper. A budget below zero, as in the first rounds, counts as zero.
    """

    def __init__(self, c: NonNegative, feedback: Feedback):
        super().__init__(feedback)
        self.c = c

    def index(self, mean: Each, count: Each, t: Int[Tensor, "B 1"]) -> Each:
        log = t.double().log()
        budget = log + self.c * log.log() if self.c else log  # log log t is -inf in the first round
        return kl_upper_bound(mean, budget.clamp(min=0) / count)


def kl_upper_bound(mean: Each, budget: Each) -> Each:
    """Return the largest q from `mean` to 1 with KL(mean, q) <= budget, to the precision of float64.

    KL(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q)), with 0 log 0 = 0, is convex in q, so that Newton's steps from above
    approach the root from above. They start at the lesser of two upper bounds: KL is at least 2 (q-p)^2 (Pinsker), and
    at least -H(p) - (1-p) log(1-q). KL is calculated from q - p, because p/q itself rounds where the two are close.
    """
    least = torch.finfo(mean.dtype).tiny
    rest = 1 - mean
    below, above = mean.clamp(min=least), rest.clamp(min=least)
    entropy = -torch.special.xlogy(mean, mean) - torch.special.xlogy(rest, rest)
    bound = torch.minimum((budget / 2).sqrt(), (rest - (-(budget + entropy) / above).exp()).clamp(min=0))  # of q - p
    bound = bound.minimum(rest * (1 - 2.0**-53))  # below 1, where KL is infinite
    for _ in range(NEWTON_STEPS):
        kl = -torch.special.xlog1py(mean, bound / below) - rest * torch.log1p(-bound / above)
        slope = bound / ((mean + bound) * (rest - bound)).clamp(min=least)
        bound = bound - (kl - budget).clamp(min=0) / slope.clamp(min=least)
    return mean + bound


class CascadeLinear(LinearRanker):
    """Predicts attraction, the probability of a click on an examined document, by theta.x; theta is for all queries.

    theta = M^-1 b / sigma^2 with M = I + sum x x^T / sigma^2 and b = sum c x over all documents examined so far, c
    being 1 for a click. `feedback` says which places of a list were examined. theta is deployed.
    """

    pairs = "none"

    precision: Tensor
    clicked: Tensor

    def __init__(self, sigma: Positive, feedback: Feedback):
        super().__init__()
        self.sigma, self.feedback = sigma, feedback

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        identity = torch.eye(context.features, dtype=context.dtype, device=context.device)
        self.register_buffer("precision", identity.repeat(context.replicas, 1, 1))  # M
        self.register_buffer("clicked", identity.new_zeros(context.replicas, context.features))  # b

    def estimate(self) -> tuple[Float[Tensor, "B F"], Float[Tensor, "B F F"]]:
        """Return theta = M^-1 b / sigma^2, and the lower triangle L with L L^T = M."""
        root = torch.linalg.cholesky_ex(self.precision).L
        return torch.cholesky_solve(self.clicked[:, :, None], root).squeeze(2) / self.sigma**2, root

    def weights(self) -> Float[Tensor, "B N P"]:
        return self.estimate()[0][:, None]

    def learn(self, interaction: Interaction, random: Random) -> None:
        counts = examined(interaction, self.feedback)
        rows = gather(interaction.candidates.features, interaction.ranking)
        observed = rows * counts[:, :, None]
        self.precision.baddbmm_(observed.mT, observed, alpha=self.sigma**-2)
        self.clicked.add_((observed * interaction.clicks[:, :, None]).sum(1))


class CascadeLinUCB(CascadeLinear):
    """Scores min(1, theta.x + alpha sqrt(x^T M^-1 x))."""

    def __init__(self, sigma: Positive, alpha: NonNegative, feedback: Feedback):
        super().__init__(sigma, feedback)
        self.alpha = alpha

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        features, (theta, root) = candidates.features, self.estimate()
        width = torch.linalg.solve_triangular(root, features.mT, upper=False).norm(dim=1)
        scores = (features * theta[:, None]).sum(2) + self.alpha * width
        return predicted(scores.clamp(max=1), candidates)


class CascadeLinTS(CascadeLinear):
    """Scores theta'.x with theta' drawn from N(theta, M^-1) in every round."""

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        """Return the attraction by the drawn weights: with z standard normal, L^-T z has the covariance M^-1."""
        features, (theta, root) = candidates.features, self.estimate()
        normal = random.normal(root.shape[1]).to(root.dtype)[:, :, None]
        drawn = theta + torch.linalg.solve_triangular(root.mT, normal, upper=True).squeeze(2)
        return predicted((features * drawn[:, None]).sum(2), candidates)


SCALE = 4 * math.sqrt(2 / math.pi) / math.erf(math.sqrt(2))  # c of the paper, 3.344 (its text prints 3.43)


class TopRank(ParameterFree):
    """Counts clicks between documents of the same layer until one is certainly better, query by query.

    With U_ij = c_i - c_j in a round whose layers hold i and j together, else 0, S = sum U and N = sum |U|: i is above j
    from when N > 0 and S >= sqrt(2 N log(c sqrt(N) / delta)). Documents not shown count c = 0. `delta` in (0, 1) is the
    probability of an error; null is 1/T. It learns nothing about queries never served: there is no offline evaluation.

    Queries share a pool, in which each owns length^2 numbers from `start` on. Which query a replica serves is read on
    the host.
    """

    generalises = False
    pairs = "none"
    needs = (Need(LAYERS, "exploration=stated"),)
    offers = frozenset({FEATURES, STATED})

    start: Tensor
    used: Tensor
    wins: Tensor
    above: Tensor

    def __init__(self, delta: Positive | None):
        super().__init__()
        if delta is not None and delta >= 1:
            raise ValueError(f"{self.setting('delta')} must be below 1, or null for 1/T, got {delta}")
        self.delta = delta
        self.register_load_state_dict_pre_hook(_resize_pool)

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        super().setup(context, features)
        shape = context.replicas, context.queries
        self.register_buffer("start", torch.full(shape, -1, dtype=torch.int64, device=context.device))
        self.register_buffer("used", torch.zeros((), dtype=torch.int64, device=context.device))
        self.register_buffer("wins", torch.zeros(0, dtype=torch.int32, device=context.device))
        self.register_buffer("above", torch.zeros(0, dtype=torch.bool, device=context.device))
        self.error = self.delta or 1 / max(context.rounds, 2)

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        mask = candidates.mask
        certain = torch.zeros(*mask.shape, mask.shape[1], dtype=torch.bool, device=mask.device)
        lengths = mask.sum(1).tolist()
        for replica, (query, length) in enumerate(zip(candidates.query.tolist(), lengths, strict=True)):
            if self.start[replica, query] < 0:
                self.start[replica, query] = self.used
                self.used += length * length
                missing = int(self.used) - len(self.wins)
                if missing > 0:
                    room = max(missing, len(self.wins))  # the pool at least doubles
                    self.wins = torch.cat([self.wins, self.wins.new_zeros(room)])
                    self.above = torch.cat([self.above, self.above.new_zeros(room)])
            certain[replica, :length, :length] = self._square(self.above, replica, query, length)
        return predicted(torch.zeros_like(mask, dtype=self.nothing.dtype), candidates, certain)

    def learn(self, interaction: Interaction, random: Random) -> None:
        block = interaction.proposal.block
        assert block is not None
        clicked = torch.zeros_like(interaction.candidates.mask).scatter_(1, interaction.ranking, interaction.clicks)
        lengths = interaction.candidates.mask.sum(1).tolist()
        for replica, (query, length) in enumerate(zip(interaction.candidates.query.tolist(), lengths, strict=True)):
            chosen, layer = clicked[replica, :length], block[replica, :length]
            wins = self._square(self.wins, replica, query, length)  # [i, j]: i was clicked and j, in its layer, was not
            wins += chosen[:, None] & ~chosen & (layer[:, None] == layer)
            count = (wins + wins.mT).double()
            bound = (2 * count * (SCALE * count.sqrt() / self.error).log()).sqrt()
            decided = (count > 0) & (wins - wins.mT >= bound)
            self._square(self.above, replica, query, length).logical_or_(decided)

    def _square(self, pool: Tensor, replica: int, query: int, length: int) -> Tensor:
        """Return a view of the pool for the pairs of a query, [length, length]."""
        first = int(self.start[replica, query])
        return pool[first : first + length * length].view(length, length)


def _resize_pool(ranker: TopRank, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    """Give the pool the size that it has in the checkpoint."""
    for name in "wins", "above":
        saved = state.get(prefix + name)
        if saved is not None:
            setattr(ranker, name, getattr(ranker, name).new_zeros(saved.shape))
