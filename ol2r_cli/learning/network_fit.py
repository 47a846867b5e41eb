"""RankNet or LambdaRank with any model, trained offline on the true labels of the training queries."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from ol2r_cli.columns import CUTOFF
from ol2r_cli.interfaces import Oracle
from ol2r_cli.learning.adam import Adam
from ol2r_cli.learning.labelled_lists import LabelledLists
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.metrics.ranking import dcg, ideal_dcg, ndcg
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Streams

HELD_OUT = 10  # one in this many queries is held out to decide when to stop
AVERAGED = 50  # steps that the moving average is about over: it takes the noise of small batches away
EPSILON = 1e-12  # of Adam: small, because the gradients of LambdaRank are
QUIET = 2.0  # seconds after which a fit is announced
AT_ONCE = 64  # queries evaluated together


class NetworkFit:
    """Adam on the mean loss of the pairs of `batch` queries, for at most `epochs` passes.

    A tenth of the queries is held out. Training stops after `patience` epochs in a row below the best NDCG@10 on them;
    the best epoch counts, of equal ones the last. `loss` is `ranknet` or `lambdarank`; `learning_rate` > 0 is divided
    by sqrt(m). What is evaluated and returned is a moving average of the parameters. `seed` >= 0 decides the initial
    parameters, the queries held out and all orders.
    """

    def __init__(self, loss: str, learning_rate: float, batch: int, epochs: int, patience: int, seed: int):
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

        held_out, rest = shuffled(query, 0).tensor_split([max(1, len(query) // HELD_OUT)])
        training = rest if len(rest) else held_out  # a single query serves for both
        return self._descend(
            Objective(model, features, lists), start, held_out, lambda epoch: shuffled(training, epoch)
        )

    def _descend(
        self,
        objective: Objective,
        start: Float[Tensor, "1 1 P"],
        held_out: Int[Tensor, "Q"],
        order: Callable[[int], Tensor],
    ) -> Float[Tensor, "P"]:
        """The average of the parameters after the epoch that is best on the queries held out; `order` shuffles the
        others for an epoch.

        The initial parameters do not compete: all their scores may be equal, and the order of the table good by the way
        it was made.
        """
        theta, mean, best, adam = start.clone(), start.clone(), start, Adam(start, EPSILON)
        rate = self.learning_rate / math.sqrt(objective.model.width)
        reached, since, began, announced = -1.0, 0, time.monotonic(), False
        for epoch in range(1, self.epochs + 1):
            for query in order(epoch).split(self.batch):
                theta.add_(adam(objective.ascent(theta, query)), alpha=rate)
                mean.lerp_(theta, max(1 / adam.steps, 1 / AVERAGED))
                if not announced and time.monotonic() - began > QUIET:
                    announced, message = True, f"fitting the offline network: epoch {epoch} of at most {self.epochs} .."
                    print(message, file=sys.stderr, flush=True)
            now, since = objective.ndcg(mean, held_out), since + 1
            if now >= reached:  # few queries may soon all be in order: then longer training is better
                best, reached, since = mean.clone(), now, 0
            if since == self.patience:
                break
        return best.flatten()


class Objective:
    """Gradient of the loss, and NDCG@10, of a model on labelled lists."""

    def __init__(self, model: Model, features: Float[Tensor, "N F"], lists: LabelledLists):
        self.model, self.features, self.lists = model, features, lists

    def ascent(self, theta: Float[Tensor, "1 1 P"], query: Int[Tensor, "X"]) -> Float[Tensor, "1 1 P"]:
        """The gradient of the mean log-likelihood of the pairs of some queries, which must have pairs."""
        sample = self.lists.sample(query[None], torch.ones_like(query[None], dtype=torch.bool))
        forward = self._forward(theta, sample.document)
        return forward.gradient(sample.pull(forward.scores)) / sample.pairs

    def ndcg(self, theta: Float[Tensor, "1 1 P"], query: Int[Tensor, "X"]) -> float:
        """Mean NDCG@10 of some queries; documents with equal scores stay in the order of the table."""
        total = 0.0
        for part in query.split(AT_ONCE):
            document, label = self.lists.rows(part[None], torch.ones_like(part[None], dtype=torch.bool))
            scores = self._forward(theta, document.flatten(1)).scores.view(label.shape)
            top = scores.masked_fill(label < 0, -torch.inf).argsort(dim=2, descending=True, stable=True)[:, :, :CUTOFF]
            grades = label.clamp(min=0)
            total += float(ndcg(dcg(grades.gather(2, top)), ideal_dcg(grades, CUTOFF)).sum())
        return total / len(query)

    def _forward(self, theta: Float[Tensor, "1 1 P"], document: Int[Tensor, "1 Y"]) -> Forward:
        return self.model.forward(theta, self.features.index_select(0, document[0])[None].to(theta.dtype))
