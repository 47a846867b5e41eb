"""LambdaMART on the true labels of the training queries, by LightGBM (Burges, "From RankNet to LambdaRank to
LambdaMART", 2010; Ke et al., "LightGBM", NIPS 2017)."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.columns import CUTOFF
from ol2r_cli.interfaces import Oracle
from ol2r_cli.learning.regression_trees import RegressionTree
from ol2r_cli.tensor.shapes import Float

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
