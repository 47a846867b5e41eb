"""Regression trees walked node by node, as LightGBM describes them (`Booster.dump_model`, key `tree_info`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def tree_value(node: Mapping[str, Any], document: Sequence[float]) -> float:
    """The value of the leaf that a document falls into: left where x <= threshold, right elsewhere."""
    while "leaf_value" not in node:
        assert node["decision_type"] == "<="
        assert node["missing_type"] == "None"
        left = float(document[node["split_feature"]]) <= node["threshold"]
        node = node["left_child"] if left else node["right_child"]
    return node["leaf_value"]


def score(trees: Sequence[Mapping[str, Any]], document: Sequence[float]) -> float:
    """The sum of the trees."""
    total = 0.0
    for tree in trees:
        total += tree_value(tree["tree_structure"], document)
    return total
