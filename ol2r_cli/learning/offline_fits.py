"""RankNet and LambdaRank fitted offline to the true labels of the training queries: the optimum for linear scores
(Burges, ICML 2005), and Adam for any model. A fit is kept on disk under everything that decides it."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad
from torch.nn.utils.rnn import pad_sequence

from ol2r_cli.columns import CUTOFF
from ol2r_cli.dataset.cache import Cache, code_hash
from ol2r_cli.interfaces import Oracle
from ol2r_cli.learning.losses import LabelledLists
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.learning.newton import limit_threads
from ol2r_cli.learning.refit import Adam
from ol2r_cli.metrics.ranking import dcg, ideal_dcg, ndcg
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Streams


def fit_key(features: Float[Tensor, "N F"], oracle: Oracle, *settings: Any) -> str:
    """sha256 of a fit with these settings to these labels, by the present code of ol2r and of libraries.

    The labels are hashed besides the fingerprint, which does not cover them where a dataset was made by hand.
    """
    libraries = [library.__version__ for library in (np, scipy, torch)]
    code = code_hash("dataset", "learning", "metrics", "ranker", "tensor"), libraries
    text = json.dumps([code, oracle.fingerprint, list(features.shape), *settings], default=repr)
    key = hashlib.sha256(text.encode())
    for part in oracle.start, oracle.length, oracle.labels:
        key.update(part.numpy().tobytes())
    return key.hexdigest()


def cached_fit(cache_dir: str, key: str, fit: Callable[[], Tensor]) -> Float[Tensor, "P"]:
    """The parameters in <cache_dir>/offline/<key>; where they are absent or damaged, `fit` makes them.

    One process fits while others wait. An interrupted fit leaves only its lock file, released. Raises ValueError when
    the folder cannot be written.
    """

    def build(folder: Path) -> None:
        np.save(folder / "theta.npy", fit().numpy())

    cache = Cache(Path(cache_dir) / "offline", thorough=True)
    return torch.from_numpy(cache.open(key, build)["theta"])


CELLS = 1 << 18  # pairs, or feature values, worked on at once: they should fit a cache
TOLERANCE = 1e-7  # for every entry of the gradient, where the Hessian at theta = 0 is the identity
STEPS = 5000  # of the optimiser, at most; ten are usual
PATIENCE = 2.0  # seconds; a fit that will take longer is announced


def fit_ranknet(features: Float[Tensor, "N F"], oracle: Oracle, l2: float) -> Float[Tensor, "F"]:
    """theta that minimises the mean of log(1 + exp(-(s_better - s_worse))) over all pairs + l2/2 |theta|^2, in float64.

    s = theta.x, and a pair is two documents of the same training query with different labels; each has weight 1.
    L-BFGS-B starts from theta = 0, in coordinates in which the Hessian there is the identity, so that neither the
    scales of the features nor their correlations slow it down. It ends when no entry of the gradient exceeds
    `TOLERANCE`. Without a pair theta is 0. Raises FloatingPointError where rounding keeps the optimum out of reach.
    """
    import scipy.optimize

    pairs = TrainingPairs(features, oracle)
    if not pairs.count:
        return torch.zeros(features.shape[1], dtype=torch.float64)
    if pairs.seconds() > PATIENCE:
        print(f"fitting the offline ranker on {pairs.count:,} pairs ..", file=sys.stderr, flush=True)
    limit_threads()
    curvature = pairs.curvature()
    # The billionth part makes up for rounding where features are large.
    root = torch.linalg.cholesky(curvature + torch.diag(l2 + 1e-9 * curvature.diagonal()))

    def unwhitened(point: np.ndarray) -> Float[Tensor, "F"]:
        return torch.linalg.solve_triangular(root.mT, torch.from_numpy(point)[:, None], upper=True).squeeze(1)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        theta = unwhitened(point)
        loss, gradient = pairs.loss(theta)
        whitened = torch.linalg.solve_triangular(root, (gradient + l2 * theta)[:, None], upper=False)
        return float(loss + l2 / 2 * theta @ theta), whitened.squeeze(1).numpy()

    options = {"gtol": TOLERANCE, "ftol": 0, "maxcor": 30, "maxiter": STEPS, "maxfun": 2 * STEPS}
    start = np.zeros(features.shape[1])
    optimum = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if not abs(optimum.jac).max() <= 100 * TOLERANCE:  # rounding may stop it a little early
        raise FloatingPointError(f"the gradient stays at {abs(optimum.jac).max():.1e}")
    return unwhitened(optimum.x)


class Batch(NamedTuple):
    """Queries of similar length, the documents of each by descending label, of which the first W can win a pair."""

    document: Int[Tensor, "Q D"]  # row of the table; padding repeats one of them
    winner: Int[Tensor, "Q W"]  # label, -1 on padding: below every label
    loser: Int[Tensor, "Q D"]  # label, 127 on padding: above every label


class TrainingPairs:
    """All pairs of documents of the same training query with different labels.

    The pairs are never listed: features are read, and scores compared, for one batch of queries at a time.
    """

    def __init__(self, features: Float[Tensor, "N F"], oracle: Oracle):
        self.features = features
        self.batches = list(_batches(oracle, features.shape[1]))
        self.count = sum(int(_better(batch).sum()) for batch in self.batches)

    def seconds(self) -> float:
        """Estimated duration of a fit: ten passes, with what a pair and a feature value cost on one core."""
        values = sum(batch.document.numel() for batch in self.batches) * self.features.shape[1]
        return 10 * (1e-8 * self.count + 3e-9 * values)

    def loss(self, theta: Float[Tensor, "F"]) -> tuple[Float[Tensor, ""], Float[Tensor, "F"]]:
        """Mean cross-entropy of the pairs and its gradient; a sum over pairs becomes one number per document first."""
        total, gradient = theta.new_zeros(()), torch.zeros_like(theta)
        for batch in self.batches:
            rows = self._rows(batch)
            scores = (rows @ theta).view(batch.document.shape)
            winners = batch.winner.shape[1]
            margin = scores[:, :winners, None] - scores[:, None, :]
            margin.masked_fill_(~_better(batch), torch.inf)  # no pair: neither loss nor gradient
            total -= logsigmoid(margin).sum()
            pull = margin.neg_().sigmoid_()
            slope = pull.sum(1)
            slope[:, :winners] -= pull.sum(2)
            gradient += slope.flatten() @ rows
        return total / self.count, gradient / self.count

    def curvature(self) -> Float[Tensor, "F F"]:
        """The Hessian of the loss at theta = 0: the mean of x_ij x_ij^T / 4, as X^T (degrees - links) X per query."""
        total = self.features.new_zeros((self.features.shape[1],) * 2, dtype=torch.float64)
        for batch in self.batches:
            rows, better = self._rows(batch), _better(batch).double()
            link = pad(better, (0, 0, 0, better.shape[2] - better.shape[1]))
            link += link.mT.clone()
            laplacian = torch.diag_embed(link.sum(2)) - link
            total += (laplacian @ rows.view(*batch.document.shape, -1)).flatten(0, 1).mT @ rows
        return total / (4 * self.count)

    def _rows(self, batch: Batch) -> Float[Tensor, "R F"]:
        return self.features.index_select(0, batch.document.flatten()).double()


def _better(batch: Batch) -> Bool[Tensor, "Q W D"]:
    """[q, w, d]: document w is labelled above document d."""
    return batch.winner[:, :, None] > batch.loser[:, None, :]


class _Query(NamedTuple):
    """A training query with at least one pair; `octave` is its length in steps of 9 %."""

    octave: int
    winners: int  # how many documents are above the lowest label
    length: int
    document: Int[Tensor, "D"]
    label: Int[Tensor, "D"]


def _batches(oracle: Oracle, features: int) -> Iterator[Batch]:
    """The training queries that have a pair, grouped by length and number of winners."""
    waiting: list[_Query] = []
    for query in sorted(_queries(oracle), key=lambda query: query[:3]):
        cells = (len(waiting) + 1) * query.length * max(query.winners, features)
        if waiting and (query.octave != waiting[0].octave or cells > CELLS):
            yield _padded(waiting)
            waiting = []
        waiting.append(query)
    if waiting:
        yield _padded(waiting)


def _queries(oracle: Oracle) -> Iterator[_Query]:
    for start, length in zip(oracle.start.tolist(), oracle.length.tolist(), strict=True):
        label, order = oracle.labels[start : start + length].sort(descending=True, stable=True)
        winners = int((label > label[-1]).sum())
        if winners:
            yield _Query(round(8 * math.log2(length)), winners, length, start + order, label)


def _padded(queries: Sequence[_Query]) -> Batch:
    labels = [query.label for query in queries]
    first = int(queries[0].document[0])
    document = pad_sequence([query.document for query in queries], batch_first=True, padding_value=first)
    winner = pad_sequence(labels, batch_first=True, padding_value=-1)
    loser = pad_sequence(labels, batch_first=True, padding_value=127)
    return Batch(document, winner[:, : max(query.winners for query in queries)], loser)


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
