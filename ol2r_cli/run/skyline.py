"""A ranker that is fitted to labels, with which others are compared or from which they begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Oracle, Ranker, RunContext
from ol2r_cli.tensor.shapes import Float


def fit_offline(
    choice: str, settings: Mapping[str, Any], context: RunContext, dataset: Dataset, oracle: Oracle
) -> Float[Tensor, "P"]:
    """Return the parameters of a skyline, with its default settings but for these, fitted to the labels of `oracle`."""
    content = Catalogue().choices["ranker"][choice].content
    usual = {name: value for name, value in content.items() if name != "defaults"}
    offline: Ranker = build({**usual, **settings}, "ranker")
    offline.setup(replace(context, replicas=1), dataset.features, oracle)
    return offline.deploy()[0]
