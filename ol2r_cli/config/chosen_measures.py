"""The measures of a run: from the setting `measures=[ndcg,err@5]` to a node for each, as other groups have one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import nearest

GROUP = "measure"


def measure_nodes(
    settings: Mapping[str, Any], catalogue: Catalogue, typed: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The settings of every measure that is taken, by its name in the list; `name@5` sets its `cutoff` to 5.

    `typed` has other settings, such as {"measure.ndcg.discount": 1}, of all measures of the list with this name.

    A list that the user types takes what it names. The default list takes `regret` only with trace_regret=true, which
    adds it to every list, because it makes a round slower; trace_blocks=false leaves out `blocks`. ValueError for a
    name that is no measure, for one that is there twice, and for a setting that no measure of the list has.
    """
    listed, known = settings["measures"], catalogue.choices[GROUP]
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not all(isinstance(n, str) for n in listed):
        raise ValueError(f"measures must be a list of names, such as [ndcg,err@5], got {listed!r}")
    names = list(listed)
    if settings["trace_regret"] and "regret" not in names:
        names.append("regret")
    elif not settings["trace_regret"] and names == catalogue.root.values["measures"]:
        names.remove("regret")
    if not settings["trace_blocks"] and "blocks" in names:
        names.remove("blocks")
    nodes: dict[str, dict[str, Any]] = {}
    for name in names:
        plain, _, cutoff = name.partition("@")
        if plain not in known:
            advice = nearest(plain, known)
            raise ValueError(f"measures must be some of {', '.join(known)}, got '{name}'{advice}")
        node = {"_target_": known[plain].content.get("_target_"), **catalogue.values(known[plain])}
        if plain != name:
            if "cutoff" not in node:
                raise ValueError(f"measures must have {plain} without a number, got '{name}': it has no cutoff")
            if not re.fullmatch(r"[1-9]\d{0,5}", cutoff):
                raise ValueError(f"measures must have a whole number above 0 behind @, as in {plain}@5, got '{name}'")
            node["cutoff"] = int(cutoff)
        if name in nodes:
            raise ValueError(f"measures must have each name once, got '{name}' twice")
        nodes[name] = node
    for key, value in typed.items():
        _, plain, setting = f"{key}..".split(".")[:3]
        having = [node for name, node in nodes.items() if name.partition("@")[0] == plain and setting in node]
        if setting in ("", "_target_", "cutoff") or not having:
            usual = "type measures=[ndcg,err@5], or a setting as in measure.ndcg.discount=1"
            raise ValueError(f"{key} must be a setting of a measure in {as_typed(names)}, without its cutoff: {usual}")
        for node in having:
            node[setting] = value
    return nodes
