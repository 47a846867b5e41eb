"""RankNet fitted offline with linear scores: the optimum over all pairs that true labels order (Burges, ICML 2005)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad
from torch.nn.utils.rnn import pad_sequence

from ol2r_cli.interfaces import Oracle
from ol2r_cli.learning.lbfgs import limit_threads
from ol2r_cli.tensor.shapes import Bool, Float, Int

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
        """Features of a batch, padding included."""
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
    """The training queries that have a pair."""
    for start, length in zip(oracle.start.tolist(), oracle.length.tolist(), strict=True):
        label, order = oracle.labels[start : start + length].sort(descending=True, stable=True)
        winners = int((label > label[-1]).sum())
        if winners:
            yield _Query(round(8 * math.log2(length)), winners, length, start + order, label)


def _padded(queries: Sequence[_Query]) -> Batch:
    """A batch of these queries, padded to the longest."""
    labels = [query.label for query in queries]
    first = int(queries[0].document[0])
    document = pad_sequence([query.document for query in queries], batch_first=True, padding_value=first)
    winner = pad_sequence(labels, batch_first=True, padding_value=-1)
    loser = pad_sequence(labels, batch_first=True, padding_value=127)
    return Batch(document, winner[:, : max(query.winners for query in queries)], loser)
