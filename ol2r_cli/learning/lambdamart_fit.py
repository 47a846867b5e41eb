"""LambdaMART on the true labels of the training queries, by LightGBM (Burges, "From RankNet to LambdaRank to
LambdaMART", 2010; Ke et al., "LightGBM", NIPS 2017), and its trees as a flat tensor of parameters."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ol2r_cli.columns import CUTOFF
from ol2r_cli.interfaces import Oracle
from ol2r_cli.tensor.shapes import Float

CELLS = 1 << 17  # documents x trees worked on at once: they should fit a cache


class RegressionTree(NamedTuple):
    """A binary tree, grown from leaf 0 by its splits in their order, and the value of each leaf.

    A split (leaf, feature, threshold) sends the documents of a leaf with x[feature] > threshold to a new leaf; the
    leaf that the k-th split makes, from 0, is leaf k + 1.
    """

    splits: Sequence[tuple[int, int, float]]
    values: Sequence[float]


class RegressionTrees:
    """Up to `trees` trees of up to `leaves` leaves each.

    The parameters are leaf, feature and threshold of every split, tree by tree, and then the values of the leaves:
    P = trees x (4 leaves - 3). Unused splits are of leaf -1, in which no document is. Thresholds are rounded down to
    float32, which no document notices, because features are float32 numbers; so they are the same in either precision.
    """

    def __init__(self, trees: int, leaves: int):
        self.trees, self.splits, self.leaves = trees, leaves - 1, leaves

    def parameters(self, trees: Sequence[RegressionTree]) -> Float[Tensor, "P"]:
        """These trees, in float64; trees that are not there have the value 0."""
        split, value = torch.zeros(3, self.trees, self.splits).double(), torch.zeros(self.trees, self.leaves).double()
        split[0] = -1
        for number, tree in enumerate(trees):
            if tree.splits:
                split[:, number, : len(tree.splits)] = torch.tensor(tree.splits, dtype=torch.float64).T
            value[number, : len(tree.values)] = torch.tensor(tree.values, dtype=torch.float64)
        split[2] = _rounded_down(split[2])
        return torch.cat([split.flatten(), value.flatten()])

    def scores(self, parameters: Float[Tensor, "P"], features: Float[Tensor, "N F"]) -> Float[Tensor, "N"]:
        """The sum over the trees of the value of the leaf that each document falls into, added tree by tree."""
        at_once = max(1, CELLS // self.trees)
        return torch.cat([self._scores(parameters, part) for part in features.split(at_once)])

    def _scores(self, parameters: Float[Tensor, "P"], features: Float[Tensor, "N F"]) -> Float[Tensor, "N"]:
        split = parameters[: 3 * self.trees * self.splits].view(3, self.trees, self.splits)
        value = parameters[split.numel() :].view(self.trees, self.leaves)
        leaf, feature, threshold = split[0].long(), split[1].long(), split[2]
        column = features.T.contiguous()
        place = torch.zeros(self.trees, len(features), dtype=torch.int64, device=features.device)
        for k in range(self.splits):
            goes = column.index_select(0, feature[:, k]) > threshold[:, k, None]
            place.masked_fill_(goes & (place == leaf[:, k, None]), k + 1)
        return value.gather(1, place).cumsum(0)[-1]  # in sequence: equal documents get equal scores to the last bit


def _rounded_down(threshold: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """The largest float32 numbers that are not above these, as float64."""
    nearest = threshold.float()
    below = torch.nextafter(nearest, torch.full_like(nearest, -torch.inf))
    return torch.where(nearest.double() > threshold, below, nearest).double()


LONGEST = 10_000  # documents of a query that LightGBM accepts
QUIET = 2.0  # seconds after which a fit is announced


class LambdaMARTFit:
    """Up to `trees` trees that LightGBM adds one by one; what is not set here is LightGBM's default.

    `leaves` >= 2 and `min_documents` >= 1 limit a tree and its leaves, `learning_rate` > 0 multiplies its values, pairs
    count where one of both documents is among the first `truncation_level`, and `seed` draws the sample of documents
    from which histograms are made. With `patience`, trees end `patience` trees after the best NDCG@10 on the validation
    split, and the best counts; None looks at no other split than training. A document of label g gains 2^g - 1.
    """

    def __init__(
        self,
        trees: int,
        leaves: int,
        learning_rate: float,
        min_documents: int,
        truncation_level: int,
        patience: int | None,
        seed: int,
    ):
        self.trees, self.patience = trees, patience
        self.parameters: Mapping[str, Any] = {
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

    def __call__(self, features: Float[Tensor, "N F"], oracle: Oracle, grades: int) -> list[RegressionTree]:
        """The trees; labels are below `grades`. Uses as many threads as torch. Raises ValueError for longer queries
        than LightGBM accepts."""
        import lightgbm

        parameters = {
            **self.parameters,
            "label_gain": [2**grade - 1 for grade in range(grades)],
            "num_threads": torch.get_num_threads(),
        }

        def dataset(oracle: Oracle, training: Any = None) -> Any:
            if (longest := int(oracle.length.max())) > LONGEST:
                raise ValueError(f"LightGBM accepts queries of at most {LONGEST} documents, got one of {longest}")
            rows = oracle.rows()
            labelled = features[rows].numpy(), oracle.labels[rows].numpy()
            return lightgbm.Dataset(*labelled, training, group=oracle.length.numpy(), params=parameters)

        training, callbacks, watched = dataset(oracle), [_announcement(self.trees)], []
        if self.patience is not None and oracle.validation is not None:
            watched = [dataset(oracle.validation, training)]
            callbacks.append(lightgbm.early_stopping(self.patience, verbose=False))
        booster = lightgbm.train(parameters, training, self.trees, valid_sets=watched, callbacks=callbacks)
        return [_tree(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]


def _announcement(trees: int) -> Any:
    """A callback that says once that a long fit is going on."""
    began, announced = time.monotonic(), False

    def after_tree(environment: Any) -> None:
        nonlocal announced
        if not announced and time.monotonic() - began > QUIET:
            announced, tree = True, environment.iteration + 1
            print(f"fitting the offline LambdaMART: tree {tree} of at most {trees} ..", file=sys.stderr, flush=True)

    return after_tree


def _tree(root: Mapping[str, Any]) -> RegressionTree:
    """A tree of LightGBM's `dump_model`: documents with x <= threshold go to the left child."""
    splits: list[tuple[int, int, float]] = []
    values: dict[int, float] = {}
    waiting = [(root, 0)]
    while waiting:
        node, leaf = waiting.pop()
        if "leaf_value" in node:
            values[leaf] = node["leaf_value"]
            continue
        splits.append((leaf, node["split_feature"], node["threshold"]))
        waiting += [(node["right_child"], len(splits)), (node["left_child"], leaf)]
    return RegressionTree(splits, [values[leaf] for leaf in range(len(values))])
