"""The groups of documents of every dataset of a recipe: their share and mean label, as table 1 of FairExp has them."""

from __future__ import annotations

from typing import Any

from ol2r_cli.dataset.statistics import group_statistics
from ol2r_cli.report.statistics import Estimate
from ol2r_cli.reproduce.at_hand import dataset
from ol2r_cli.reproduce.book import data
from ol2r_cli.reproduce.protocol import Ground, Protocol
from ol2r_cli.reproduce.table import UTILITY, Line

GROUPS = ("A", "B")  # as the paper calls groups 0 and 1
MEASURES = ("size", UTILITY)  # per cent of the documents, mean label


def population(protocol: Protocol) -> list[Line]:
    """Size and utility of both groups on every ground; ValueError for a dataset that has no two groups."""
    found = []
    for ground in protocol.grounds:
        source: Any = dataset(protocol, ground)
        statistics = group_statistics(source.load())
        if not statistics or len(statistics[-1].sizes) != len(GROUPS):
            raise ValueError(f"{ground.title} must have two groups of documents: type dataset.group={{..}}")
        whole = statistics[-1]
        values = {"size": [100 * size / sum(whole.sizes) for size in whole.sizes], UTILITY: whole.utilities}
        for measure in MEASURES:
            for group, value in zip(GROUPS, values[measure], strict=True):
                printed = _printed(protocol, ground, group, measure)
                found.append(Line(ground.title, "", group, "", measure, Estimate(value, None, 1), printed))
    return found


def _printed(protocol: Protocol, ground: Ground, group: str, measure: str) -> dict[str, float]:
    return {
        data(one.data).title: one.value
        for one in protocol.recipe.printed
        if one.data in ground.named and (one.competitor, one.metric) == (group, measure)
    }
