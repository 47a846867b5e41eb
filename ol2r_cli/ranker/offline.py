"""Skylines that are fitted offline to the true labels of all training queries, and never learn: RankNet at the optimum
of a linear score (Burges et al., ICML 2005), RankNet and LambdaRank with any model (Burges, Ragno and Le, NIPS 2006),
and LambdaMART by LightGBM (Burges, "From RankNet to LambdaRank to LambdaMART", 2010; Ke et al., "LightGBM", 2017)."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad
from torch.nn.utils.rnn import pad_sequence

from ol2r_cli.columns import CUTOFF
from ol2r_cli.config.ranges import Count, Positive, Range, WholeNumber
from ol2r_cli.dataset.cache import Cache
from ol2r_cli.interfaces import Candidates, Oracle, Prediction, Ranker, RunContext
from ol2r_cli.learning.losses import LabelledLists
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.learning.refit import Adam
from ol2r_cli.metrics.ranking import dcg, ideal_dcg, ndcg
from ol2r_cli.ranker.model_ranker import LinearRanker, ModelRanker, predicted
from ol2r_cli.source import code_hash
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.tensor.streams import Random, Streams

LEAST_WORK = 10_000  # feature values and pairs of documents; a fit to fewer takes less than a second
QUIET = 2.0  # seconds; a fit that takes longer is announced


class OfflineRanker(Ranker):
    """Fits parameters theta before the first round, and keeps them in <cache_dir>/offline under a hash of everything
    that decides them.

    All replicas share theta, which does not depend on the seeds of the run. One process fits while others wait.
    """

    needs_labels = True
    choice = ""  # its name in messages

    theta: Tensor
    cache_dir: str

    def setup(self, context: RunContext, features: Float[Tensor, "N F"], oracle: Oracle | None = None) -> None:
        """Fit, or load an earlier fit. ValueError where that is not possible."""
        if oracle is None:
            raise ValueError(f"ranker={self.choice} needs the labels of the dataset")
        theta = self._fitted_once(features, oracle, context)
        self.register_buffer("theta", theta.to(context.device, context.dtype).expand(context.replicas, -1).clone())

    def _fitted_once(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        """Return theta of an earlier fit to the same, where it took long enough to be kept."""
        settings = self.decisive(oracle, context)
        if int((oracle.length * (oracle.length + features.shape[1])).sum()) < LEAST_WORK:
            return self.fitted(features, oracle, context)
        versions = [library.__version__ for library in (np, scipy, torch)]
        code = code_hash("dataset", "learning", "metrics", "ranker", "tensor"), versions, context.code
        decisive = [code, self.choice, *map(str, features.shape), _labels_hash(oracle), *settings]
        key = hashlib.sha256(json.dumps(decisive, default=repr).encode()).hexdigest()

        def build(folder: Path) -> None:
            np.save(folder / "theta.npy", self.fitted(features, oracle, context).numpy())

        cache = Cache(Path(self.cache_dir) / "offline", thorough=True)
        return torch.from_numpy(cache.open(key, build)["theta"])

    def decisive(self, oracle: Oracle, context: RunContext) -> list[Any]:
        """Return what decides the fit, besides features, labels and code."""
        raise NotImplementedError

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        raise NotImplementedError

    def weights(self) -> Float[Tensor, "B N P"]:
        return self.theta[:, None]


def _labels_hash(oracle: Oracle) -> list[str]:
    """Return the fingerprint, which does not cover the labels of a dataset that was made by hand, and a hash of
    these."""
    parts = oracle.start, oracle.length, oracle.labels
    return [oracle.fingerprint, hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()]


class OfflineRankNet(OfflineRanker, LinearRanker):
    """A linear RankNet. `l2` is lambda, per pair: mean cross-entropy + l2/2 |theta|^2."""

    choice = "offline_ranknet"

    def __init__(self, l2: Positive, cache_dir: str):
        super().__init__()
        self.l2, self.cache_dir = float(l2), cache_dir

    def decisive(self, oracle: Oracle, context: RunContext) -> list[Any]:
        return [self.l2]

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "F"]:
        """Return the optimum; ValueError where it is out of reach."""
        try:
            return fit_ranknet(features, oracle, self.l2)
        except FloatingPointError as error:
            setting = self.setting("l2")
            raise ValueError(f"{setting} must be larger to fit these features, got {self.l2} ({error})") from error


def limit_threads() -> None:
    """Give numpy's and scipy's linear algebra as many threads as torch has, for the rest of the process."""
    import scipy.optimize  # noqa: F401  (loads its linear algebra, which is then limited)
    from threadpoolctl import threadpool_limits

    threadpool_limits(torch.get_num_threads(), user_api="blas")


CELLS = 1 << 18  # pairs, or feature values, worked on at once: they should fit a cache
TOLERANCE = 1e-7  # for every entry of the gradient, where the Hessian at theta = 0 is the identity
STEPS = 5000  # of the optimiser, at most; ten are usual


def fit_ranknet(features: Float[Tensor, "N F"], oracle: Oracle, l2: float) -> Float[Tensor, "F"]:
    """Return theta that minimises the mean of log(1 + exp(-(s_better - s_worse))) over all pairs + l2/2 |theta|^2, in
    float64.

    s = theta.x, and a pair is two documents of the same training query with different labels; each has weight 1.
    L-BFGS-B starts from theta = 0, in coordinates in which the Hessian there is the identity, so that neither the
    scales of the features nor their correlations slow it down. It ends when no entry of the gradient exceeds
    `TOLERANCE`. Without a pair theta is 0. Raises FloatingPointError where rounding keeps the optimum out of reach.
    """
    import scipy.optimize

    pairs = TrainingPairs(features, oracle)
    if not pairs.count:
        return torch.zeros(features.shape[1], dtype=torch.float64)
    announce = _announcement("ranker on {:,} pairs ..")
    limit_threads()
    curvature = pairs.curvature()
    # The billionth part makes up for rounding where features are large.
    root = torch.linalg.cholesky(curvature + torch.diag(l2 + 1e-9 * curvature.diagonal()))

    def unwhitened(point: np.ndarray) -> Float[Tensor, "F"]:
        return torch.linalg.solve_triangular(root.mT, torch.from_numpy(point)[:, None], upper=True).squeeze(1)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        announce(pairs.count)
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

    def better(self) -> Bool[Tensor, "Q W D"]:
        """Return [q, w, d], whether document w is labelled above document d."""
        return self.winner[:, :, None] > self.loser[:, None, :]


class TrainingPairs:
    """All pairs of documents of the same training query with different labels.

    The pairs are never listed: features are read, and scores compared, for one batch of queries at a time.
    """

    def __init__(self, features: Float[Tensor, "N F"], oracle: Oracle):
        self.features = features
        self.batches = list(_batches(oracle, features.shape[1]))
        self.count = sum(int(batch.better().sum()) for batch in self.batches)

    def loss(self, theta: Float[Tensor, "F"]) -> tuple[Float[Tensor, ""], Float[Tensor, "F"]]:
        """Mean cross-entropy of the pairs and its gradient; a sum over pairs becomes one number per document first."""
        total, gradient = theta.new_zeros(()), torch.zeros_like(theta)
        for batch in self.batches:
            rows = self._rows(batch)
            scores = (rows @ theta).view(batch.document.shape)
            winners = batch.winner.shape[1]
            margin = scores[:, :winners, None] - scores[:, None, :]
            margin.masked_fill_(~batch.better(), torch.inf)  # no pair: neither loss nor gradient
            total -= logsigmoid(margin).sum()
            pull = margin.neg_().sigmoid_()
            slope = pull.sum(1)
            slope[:, :winners] -= pull.sum(2)
            gradient += slope.flatten() @ rows
        return total / self.count, gradient / self.count

    def curvature(self) -> Float[Tensor, "F F"]:
        """Return the Hessian of the loss at theta = 0: the mean of x_ij x_ij^T / 4, as X^T (degrees - links) X per
        query."""
        total = self.features.new_zeros((self.features.shape[1],) * 2, dtype=torch.float64)
        for batch in self.batches:
            rows, better = self._rows(batch), batch.better().double()
            link = pad(better, (0, 0, 0, better.shape[2] - better.shape[1]))
            link += link.mT.clone()
            laplacian = torch.diag_embed(link.sum(2)) - link
            total += (laplacian @ rows.view(*batch.document.shape, -1)).flatten(0, 1).mT @ rows
        return total / (4 * self.count)

    def _rows(self, batch: Batch) -> Float[Tensor, "R F"]:
        return self.features.index_select(0, batch.document.flatten()).double()


def _batches(oracle: Oracle, features: int) -> Iterator[Batch]:
    """Return the training queries that have a pair, grouped by length, in steps of 9 %, and by number of winners."""
    queries = []
    for start, length in zip(oracle.start.tolist(), oracle.length.tolist(), strict=True):
        label, order = oracle.labels[start : start + length].sort(descending=True, stable=True)
        winners = int((label > label[-1]).sum())
        if winners:
            queries.append((round(8 * math.log2(length)), winners, length, start + order, label))
    queries.sort(key=lambda query: query[:3])
    first = 0
    for end in range(1, len(queries) + 1):
        if end < len(queries):
            octave, winners, length, *_ = queries[end]
            cells = (end + 1 - first) * length * max(winners, features)
            if octave == queries[first][0] and cells <= CELLS:
                continue
        together = queries[first:end]
        documents, labels = [query[3] for query in together], [query[4] for query in together]
        winner = pad_sequence(labels, batch_first=True, padding_value=-1)[:, : max(query[1] for query in together)]
        loser = pad_sequence(labels, batch_first=True, padding_value=127)
        yield Batch(pad_sequence(documents, batch_first=True, padding_value=int(documents[0][0])), winner, loser)
        first = end


HELD_OUT = 10  # one in this many queries is held out to decide when to stop
AVERAGED = 50  # steps that the moving average is about over: it takes the noise of small batches away
EPSILON = 1e-12  # of Adam: small, because the gradients of LambdaRank are
AT_ONCE = 64  # queries evaluated together


class OfflineNetwork(OfflineRanker, ModelRanker):
    """Any model, fitted by Adam on the mean `loss` of the pairs of `batch` queries, for at most `epochs` passes.

    A tenth of the queries is held out. Training stops after `patience` epochs in a row below the best NDCG@10 on them;
    the best epoch counts, of equal ones the last. `learning_rate` is divided by sqrt(m). What is evaluated and kept is
    a moving average of the parameters. `seed` decides the initial parameters, the queries held out and all orders.
    """

    choice = "offline_network"

    def __init__(
        self,
        model: Model,
        loss: Literal["ranknet", "lambdarank"],
        learning_rate: Positive,
        batch: Count,
        epochs: Count,
        patience: Count,
        seed: WholeNumber,
        cache_dir: str,
    ):
        super().__init__(model)
        self.loss, self.learning_rate, self.batch = loss, learning_rate, batch
        self.epochs, self.patience, self.seed, self.cache_dir = epochs, patience, seed, cache_dir

    def decisive(self, oracle: Oracle, context: RunContext) -> list[Any]:
        model_class = type(self.model)
        model = (
            f"{model_class.__module__}.{model_class.__qualname__}",
            getattr(self.model, "__dict__", repr(self.model)),
        )
        return [*model, self.loss, self.learning_rate, self.batch, self.epochs, self.patience, self.seed]

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        """Return the parameters, in the model's precision; the initial ones where no two labels of a query differ.

        The initial parameters do not compete: all their scores may be equal, and the order of the table good by the way
        it was made.
        """
        streams = Streams(torch.tensor([self.seed]), ahead=1)
        start = self.model.initial(streams.at("offline", 0), features.shape[1], 1).reshape(1, 1, -1)
        best = start.to(self.model.dtype)
        lists = LabelledLists(oracle, self.loss == "lambdarank", torch.device("cpu"))
        query = lists.pairs.nonzero().squeeze(1)
        if not len(query):
            return best.flatten()

        def shuffled(query: Int[Tensor, "Q"], epoch: int) -> Int[Tensor, "Q"]:
            return query[streams.at("offline", epoch).uniform(len(query), "order")[0].argsort(stable=True)]

        def forward(theta: Float[Tensor, "1 1 P"], document: Int[Tensor, "1 Y"]) -> Forward:
            return self.model.forward(theta, features.index_select(0, document[0])[None].to(theta.dtype))

        held_out, rest = shuffled(query, 0).tensor_split([max(1, len(query) // HELD_OUT)])
        training = rest if len(rest) else held_out  # a single query serves for both
        theta, mean, adam = best.clone(), best.clone(), Adam(best, EPSILON)
        rate = self.learning_rate / math.sqrt(self.model.width)
        reached, since, announce = -1.0, 0, _announcement("network: epoch {} of at most {} ..")
        for epoch in range(1, self.epochs + 1):
            for part in shuffled(training, epoch).split(self.batch):
                sample = lists.sample(part[None], torch.ones_like(part[None], dtype=torch.bool))
                scored = forward(theta, sample.document)
                theta.add_(adam(scored.gradient(sample.pull(scored.scores)) / sample.pairs), alpha=rate)
                mean.lerp_(theta, max(1 / adam.steps, 1 / AVERAGED))
                announce(epoch, self.epochs)
            total, since = 0.0, since + 1
            for part in held_out.split(AT_ONCE):  # sum of NDCG@10; equal scores stay in the order of the table
                document, label = lists.rows(part[None], torch.ones_like(part[None], dtype=torch.bool))
                scores = forward(mean, document.flatten(1)).scores.view(label.shape).masked_fill(label < 0, -torch.inf)
                top, grades = scores.argsort(dim=2, descending=True, stable=True)[:, :, :CUTOFF], label.clamp(min=0)
                total += float(ndcg(dcg(grades.gather(2, top)), ideal_dcg(grades, CUTOFF)).sum())
            if total >= reached:  # few queries may soon all be in order: then longer training is better
                best, reached, since = mean.clone(), total, 0
            if since == self.patience:
                break
        return best.flatten()


def _announcement(text: str) -> Callable[..., None]:
    """Return a function that says once that a long fit is going on."""
    began, announced = time.monotonic(), False

    def announce(*numbers: int) -> None:
        nonlocal announced
        if not announced and time.monotonic() - began > QUIET:
            announced = True
            print("fitting the offline " + text.format(*numbers), file=sys.stderr, flush=True)

    return announce


LONGEST = 10_000  # documents of a query that LightGBM accepts
AT_ONCE_IN_TREES = 1 << 17  # documents x trees worked on at once: they should fit a cache

Leaves = Annotated[int, Range(2, 512)]  # the depth of what LightGBM describes as nested JSON


class OfflineLambdaMART(OfflineRanker):
    """Up to `trees` trees that LightGBM adds one by one; what is not set here is LightGBM's default.

    `leaves` and `min_documents` limit a tree and its leaves, `learning_rate` multiplies its values, pairs count where
    one of both documents is among the first `truncation_level`, and `seed` draws the sample of documents from which
    histograms are made. With `patience`, trees end `patience` trees after the best NDCG@10 on the validation split, and
    the best counts; None looks at no other split than training. A document of label g gains 2^g - 1.

    Only the fit needs LightGBM, whose version decides the trees as well. theta are leaf, feature and threshold of every
    split, tree by tree, and then the values of the leaves: P = trees x (4 leaves - 3). A tree is grown from leaf 0 by
    its splits in their order: documents of a leaf with x[feature] > threshold go to a new leaf, which the k-th split,
    from 0, numbers k + 1. Unused splits are of leaf -1, in which no document is. Thresholds are rounded down to
    float32, which no document notices, because features are float32 numbers; so they are the same in either precision.
    """

    choice = "offline_lambdamart"
    pairs = "none"
    packages = ("lightgbm",)

    def __init__(
        self,
        trees: Count,
        leaves: Leaves,
        learning_rate: Positive,
        min_documents: Count,
        truncation_level: Count,
        patience: Count | None,
        seed: WholeNumber,
        cache_dir: str,
    ):
        super().__init__()
        self.trees, self.leaves, self.patience, self.cache_dir = trees, leaves, patience, cache_dir
        self.options: dict[str, Any] = {
            "objective": "lambdarank",
            "num_leaves": leaves,
            "learning_rate": learning_rate,
            "min_data_in_leaf": min_documents,
            "lambdarank_truncation_level": truncation_level,
            "seed": seed,
            "metric": "ndcg",
            "eval_at": [CUTOFF],
            "use_missing": False,  # every feature has a value, and 0 is one
            "zero_as_missing": False,
            "deterministic": True,  # the same trees with any number of threads
            "force_row_wise": True,  # LightGBM would time both layouts, and round otherwise with each
            "verbosity": -1,
        }

    def decisive(self, oracle: Oracle, context: RunContext) -> list[Any]:
        """Return version, settings and validation split; ValueError without LightGBM."""
        if self.patience is not None and oracle.validation is None:
            setting = self.setting("patience")
            raise ValueError(f"{setting} needs a dataset with a validation split: type {setting}=null")
        try:
            import lightgbm
        except (ImportError, OSError) as error:  # OSError: a library that it needs is missing
            needs = "ranker=offline_lambdamart needs LightGBM"
            raise ValueError(f"{needs} ({error}): type pip install 'ol2r[lightgbm]'") from None
        watched = [] if self.patience is None or oracle.validation is None else _labels_hash(oracle.validation)
        return [lightgbm.__version__, self.options, self.trees, self.patience, context.grades, watched]

    def fitted(self, features: Float[Tensor, "N F"], oracle: Oracle, context: RunContext) -> Float[Tensor, "P"]:
        """Fit with as many threads as torch has; ValueError for longer queries than LightGBM accepts."""
        import lightgbm

        label_gain = [2**grade - 1 for grade in range(context.grades)]
        parameters = {**self.options, "label_gain": label_gain, "num_threads": torch.get_num_threads()}

        def dataset(oracle: Oracle, training: Any = None) -> Any:
            longest = int(oracle.length.max())
            if longest > LONGEST:
                raise ValueError(f"LightGBM accepts queries of at most {LONGEST} documents, got one of {longest}")
            rows = oracle.rows()
            labelled = features[rows].numpy(), oracle.labels[rows].numpy()
            return lightgbm.Dataset(*labelled, training, group=oracle.length.numpy(), params=parameters)

        announce = _announcement("LambdaMART: tree {} of at most {} ..")
        callbacks: list[Any] = [lambda environment: announce(environment.iteration + 1, self.trees)]
        training, watched = dataset(oracle), []
        if self.patience is not None and oracle.validation is not None:
            watched = [dataset(oracle.validation, training)]
            callbacks.append(lightgbm.early_stopping(self.patience, verbose=False))
        booster = lightgbm.train(parameters, training, self.trees, valid_sets=watched, callbacks=callbacks)
        return self.flat([tree["tree_structure"] for tree in booster.dump_model()["tree_info"]])

    def flat(self, roots: Sequence[Mapping[str, Any]]) -> Float[Tensor, "P"]:
        """Return trees of LightGBM's `dump_model` as theta: documents with x <= threshold go to the left child."""
        split = torch.zeros(self.trees, self.leaves - 1, 3).double()
        value = torch.zeros(self.trees, self.leaves).double()
        split[..., 0] = -1
        for number, root in enumerate(roots):
            waiting, splits = [(root, 0)], 0
            while waiting:
                node, leaf = waiting.pop()
                if "leaf_value" in node:
                    value[number, leaf] = node["leaf_value"]
                    continue
                placed = [leaf, node["split_feature"], node["threshold"]]
                split[number, splits] = torch.tensor(placed, dtype=value.dtype)
                splits += 1
                waiting += [(node["right_child"], splits), (node["left_child"], leaf)]
        threshold = split[..., 2]
        nearest = threshold.float()
        below = torch.nextafter(nearest, torch.full_like(nearest, -torch.inf))
        split[..., 2] = torch.where(nearest.double() > threshold, below, nearest).double()
        return torch.cat([split.movedim(2, 0).flatten(), value.flatten()])

    def predict(self, candidates: Candidates, random: Random) -> Prediction:
        scores = self.sums(self.theta[0], candidates.features.flatten(0, 1)).view(candidates.mask.shape)
        return predicted(scores, candidates)

    def deploy(self) -> Float[Tensor, "B P"]:
        return self.theta.clone()

    def score(self, deployed: Float[Tensor, "S P"], candidates: Candidates) -> Float[Tensor, "S Q D"]:
        different, of = deployed.unique(dim=0, return_inverse=True)  # the snapshots of a run are equal
        documents = candidates.features.flatten(0, 1)
        scores = torch.stack([self.sums(parameters, documents) for parameters in different])
        return scores[of].unflatten(1, candidates.mask.shape)

    def sums(self, theta: Float[Tensor, "P"], features: Float[Tensor, "N F"]) -> Float[Tensor, "N"]:
        """Return the sum over the trees of the value of the leaf that each document falls into, added tree by tree."""
        split, value = theta.tensor_split([3 * self.trees * (self.leaves - 1)])
        leaf, feature, threshold = split.view(3, self.trees, self.leaves - 1)
        leaf, feature, parts = leaf.long(), feature.long(), []
        for rows in features.split(max(1, AT_ONCE_IN_TREES // self.trees)):
            column = rows.T.contiguous()
            place = torch.zeros(self.trees, len(rows), dtype=torch.int64, device=features.device)
            for k in range(self.leaves - 1):
                goes = column.index_select(0, feature[:, k]) > threshold[:, k, None]
                place.masked_fill_(goes & (place == leaf[:, k, None]), k + 1)
            # In sequence: equal documents get equal scores to the last bit.
            parts.append(value.view(self.trees, -1).gather(1, place).cumsum(0)[-1])
        return torch.cat(parts)
