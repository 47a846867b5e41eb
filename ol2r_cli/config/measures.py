"""The measures of a run: from a list of names, `measures=[ndcg,err@5]`, to the settings of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ol2r_cli.config.catalogue import MEASURE, Catalogue
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.text.formatting import must_be_one_of

Nodes = dict[str, dict[str, Any]]  # the settings of each measure, by its name in the list


def measure_nodes(names: Any, catalogue: Catalogue, typed: Mapping[str, Any]) -> Nodes:
    """Return the settings of the measures of a list by their names there; `name@5` sets the `cutoff` to 5.

    `typed` has other settings, such as {"measure.ndcg.discount": 1}, of all measures of the list with this name.
    ValueError for a name that is no measure, for one that is there twice, and for a setting that no measure of the list
    has.
    """
    if not isinstance(names, Sequence) or isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"measures must be a list of names, such as [ndcg,err@5], got {names!r}")
    nodes: Nodes = {}
    for name in names:
        if name in nodes:
            raise ValueError(f"measures must have each name once, got '{name}' twice")
        nodes[name] = _node(name, catalogue)
    for setting, value in typed.items():
        for node in _nodes_with(setting, nodes):
            node[setting.split(".")[2]] = value
    return nodes


def _node(name: str, catalogue: Catalogue) -> dict[str, Any]:
    """Return the settings of a measure, by its name with or without a cutoff."""
    known = catalogue.choices[MEASURE]
    plain, at, cutoff = name.partition("@")
    if plain not in known:
        raise ValueError(must_be_one_of("measures", known, plain))
    node = {"_target_": known[plain].content.get("_target_"), **known[plain].values}
    if not at:
        return node
    if "cutoff" not in node:
        raise ValueError(f"measures must have {plain} without a number, got '{name}': it has no cutoff")
    if not re.fullmatch(r"[1-9]\d{0,5}", cutoff):
        raise ValueError(f"measures must have a whole number above 0 behind @, as in {plain}@5, got '{name}'")
    return node | {"cutoff": int(cutoff)}


def _nodes_with(setting: str, nodes: Nodes) -> list[dict[str, Any]]:
    """Return the settings of the measures that a name, such as `measure.ndcg.discount`, is about; ValueError if none
    has it. The cutoff is set in the list alone."""
    _, measure, key = f"{setting}..".split(".")[:3]
    having = [node for name, node in nodes.items() if name.partition("@")[0] == measure and key in node]
    if key in ("", "_target_", "cutoff") or not having:
        usual = "type 'measures=[ndcg,err@5]', or a setting as in measure.ndcg.discount=1"
        raise ValueError(
            f"{setting} must be a setting of a measure in {as_typed(list(nodes))}, without its cutoff: {usual}"
        )
    return having
