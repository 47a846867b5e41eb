"""RankNet and LambdaRank offline, with any model: Adam on mini-batches of queries, averaged, and stopped early.

Burges et al., ICML 2005; Burges, Ragno and Le, NIPS 2006; Kingma and Ba, "Adam: A Method for Stochastic Optimization",
ICLR 2015; Polyak and Juditsky, SIAM J. Control Optim. 1992, for the average.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from ol2r_cli.interfaces import Oracle
from ol2r_cli.learning.labelled import LabelledLists
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.metrics.ndcg import dcg, ideal_dcg, ndcg
from ol2r_cli.random import Streams
from ol2r_cli.shapes import Float, Int

HELD_OUT = 10  # one in so many queries decides when to stop
CUTOFF = 10  # of the NDCG that decides it
AVERAGED = 50  # last steps that the average is about over: it takes the noise of small batches away
QUIET = 2.0  # seconds that a fit may take without saying so
AT_ONCE = 64  # queries evaluated together

Order = Callable[[int], Tensor]


class NetworkFit:
    """Adam on the mean loss of the pairs of `batch` queries, for `epochs`, or until `patience` in a row fall below the
    best NDCG@10 on a tenth of the queries, which is held out; the best epoch counts, of equal ones the last.

    `loss` is `ranknet` or `lambdarank`; `learning_rate` > 0 is divided by sqrt(m); what is evaluated, and returned, is
    the moving average of the parameters. `seed` >= 0 decides the initial parameters, the tenth, and all orders.
    """

    def __init__(self, loss: str, learning_rate: float, batch: int, epochs: int, patience: int, seed: int):
        if loss not in ("ranknet", "lambdarank"):
            raise ValueError(f"ranker.loss must be one of ranknet, lambdarank, got {loss!r}")
        if not learning_rate > 0:
            raise ValueError(f"ranker.learning_rate must be above 0, got {learning_rate}")
        for name, value in {"batch": batch, "epochs": epochs, "patience": patience}.items():
            if value < 1:
                raise ValueError(f"ranker.{name} must be 1 or more, got {value}")
        if seed < 0:
            raise ValueError(f"ranker.seed must be 0 or more, got {seed}")
        self.weighed, self.learning_rate, self.batch = loss == "lambdarank", learning_rate, batch
        self.epochs, self.patience, self.seed = epochs, patience, seed

    def __call__(self, model: Model, features: Float[Tensor, "N F"], oracle: Oracle) -> Float[Tensor, "P"]:
        """The parameters, in the model's precision; the initial ones where no two labels of a query differ."""
        streams = Streams(torch.tensor([self.seed]), ahead=1)
        random = streams.at("offline", 0)
        start = model.initial(random, features.shape[1], 1).reshape(1, 1, -1).to(model.dtype)
        lists = LabelledLists(oracle, self.weighed, torch.device("cpu"))
        query = lists.pairs.nonzero().squeeze(1)
        if not len(query):
            return start.flatten()

        def shuffled(query: Int[Tensor, "Q"], epoch: int) -> Int[Tensor, "Q"]:
            return query[streams.at("offline", epoch).uniform(len(query), "order")[0].argsort(stable=True)]

        held, rest = shuffled(query, 0).tensor_split([max(1, len(query) // HELD_OUT)])
        training = rest if len(rest) else held  # a query that is alone teaches and decides
        return self._descend(Objective(model, features, lists), start, held, lambda epoch: shuffled(training, epoch))

    def _descend(
        self, objective: Objective, start: Float[Tensor, "1 1 P"], held: Int[Tensor, "Q"], order: Order
    ) -> Float[Tensor, "P"]:
        """The average of the parameters after the epoch that was best on the queries held out. The initial ones do not
        compete: all their scores may be equal, and the order of the table good by the way it was made."""
        theta, mean, best, adam = start.clone(), start.clone(), start, Adam(start)
        rate = self.learning_rate / math.sqrt(objective.model.width)
        reached, since, clock = -1.0, 0, _Clock()
        for epoch in range(1, self.epochs + 1):
            for query in order(epoch).split(self.batch):
                theta.add_(adam(objective.ascent(theta, query)), alpha=rate)
                mean.lerp_(theta, max(1 / adam.steps, 1 / AVERAGED))
                clock.announce(f"fitting the offline network: epoch {epoch} of at most {self.epochs} ..")
            now, since = objective.ndcg(mean, held), since + 1
            if now >= reached:  # few queries may soon all be in order: then longer is better
                best, reached, since = mean.clone(), now, 0
            if since == self.patience:
                break
        return best.flatten()


class Objective:
    """What a model is trained for, on one set of labelled lists: gradients of the loss, and NDCG@10."""

    def __init__(self, model: Model, features: Float[Tensor, "N F"], lists: LabelledLists):
        self.model, self.features, self.lists = model, features, lists

    def ascent(self, theta: Float[Tensor, "1 1 P"], query: Int[Tensor, "X"]) -> Float[Tensor, "1 1 P"]:
        """The gradient of the mean log-likelihood of the pairs of some queries, which must have some."""
        sample = self.lists.sample(query[None], torch.ones_like(query[None], dtype=torch.bool))
        forward = self._forward(theta, sample.document)
        return forward.gradient(sample.pull(forward.scores)) / sample.pairs

    def ndcg(self, theta: Float[Tensor, "1 1 P"], query: Int[Tensor, "X"]) -> float:
        """Mean NDCG@10 of some queries; equal scores stand as in the table."""
        total = 0.0
        for some in query.split(AT_ONCE):
            document, label = self.lists.rows(some[None], torch.ones_like(some[None], dtype=torch.bool))
            scores = (
                self._forward(theta, document.flatten(1)).scores.view(label.shape).masked_fill(label < 0, -torch.inf)
            )
            top = scores.argsort(dim=2, descending=True, stable=True)[:, :, :CUTOFF]
            grades = label.clamp(min=0)
            total += float(ndcg(dcg(grades.gather(2, top)), ideal_dcg(grades, CUTOFF)).sum())
        return total / len(query)

    def _forward(self, theta: Float[Tensor, "1 1 P"], document: Int[Tensor, "1 Y"]) -> Forward:
        return self.model.forward(theta, self.features.index_select(0, document[0])[None].to(theta.dtype))


class Adam:
    """Steps along a gradient, of about 1 in every parameter: its mean over the root of its mean square."""

    MEAN, SQUARE, LEAST = 0.9, 0.999, 1e-12  # beta_1, beta_2 and epsilon; lambdas are small, hence so is epsilon

    def __init__(self, like: Float[Tensor, "*P"]):
        self.mean, self.square, self.steps = torch.zeros_like(like), torch.zeros_like(like), 0

    def __call__(self, gradient: Float[Tensor, "*P"]) -> Float[Tensor, "*P"]:
        """The next step, both means being corrected for their start at 0."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - self.MEAN)
        self.square.lerp_(gradient.square(), 1 - self.SQUARE)
        root = (self.square / (1 - self.SQUARE**self.steps)).sqrt_()
        return self.mean / (1 - self.MEAN**self.steps) / root.add_(self.LEAST)


class _Clock:
    """Says what goes on, once, after `QUIET` seconds."""

    def __init__(self) -> None:
        self.start, self.said = time.monotonic(), False

    def announce(self, what: str) -> None:
        if not self.said and time.monotonic() - self.start > QUIET:
            print(what, file=sys.stderr, flush=True)
            self.said = True
