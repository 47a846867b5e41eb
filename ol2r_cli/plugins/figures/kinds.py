"""The kinds of figures: what each shows, what runs it needs, its options, and what its intervals are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.plugins.figures.look import Look
from ol2r_cli.report.run_groups import Group


class Kind(NamedTuple):
    """A figure that `draw` knows, drawn by the function of its name in `module`.

    shows: its content, in one line. needs: what the runs must have, as the end of a sentence. options: names of those
    that it has beside those of `Look`. reading: a sentence on intervals, {} for what they are.
    """

    shows: str
    needs: str = "finished runs"
    options: Sequence[str] = ()
    reading: str = "Lines are means; bands are {}, cut where they leave the panel."
    module: str = "over_rounds"


_BLOCKS = "an exploration that forms blocks, such as ranker=pairrank, and blocks in measures"
_BANDS: Mapping[str | None, str] = {"sd": "standard deviations", "se": "standard errors of the mean"}
_BARS = "Lines at the ends of bars are {}."
KINDS: Mapping[str, Kind] = {
    "learning_curve": Kind(
        "NDCG on held-out queries over rounds",
        "runs with evaluate_on=[validation,test] and a ranker that is evaluated offline",
        ["split", "cutoff"],
    ),
    "measure": Kind(
        "a measure over rounds",
        "a column with values: --option column=NAME, such as err_10 with measures=[ndcg,err]",
        ["column", "split", "window"],
    ),
    "online_ndcg": Kind("NDCG of the lists shown over rounds, smoothed", options=["window"]),
    "cumulative_ndcg": Kind("discounted sum of online NDCG over rounds", options=["every"]),
    "unfairness": Kind(
        "cumulative unfairness of exposure between groups over rounds",
        "a dataset with groups: dataset=synthetic, or dataset.group={feature: .., threshold: ..}",
        ["signed", "scale", "every"],
        "Lines are means; bands are {}, on a logarithmic axis those of the logarithm of the mean.",
    ),
    "block_size": Kind(
        "size of the block at ranks 1, 5 and 10 over rounds, smoothed", _BLOCKS, ["window"], module="blocks"
    ),
    "blocks": Kind("number of blocks over rounds, smoothed", _BLOCKS, ["window"], module="blocks"),
    "block_size_by_rank": Kind(
        "size of the block at every rank in some rounds",
        "rounds that were kept: block_rounds=[10,100,1000], and blocks to keep, as of ranker=pairrank",
        ["rounds"],
        "Means over the seeds whose query in this round has the rank.",
        module="blocks",
    ),
    "certain_ratio": Kind(
        "share of certain pairs in the top 10 over rounds, smoothed", _BLOCKS, ["window"], module="blocks"
    ),
    "cosine": Kind(
        "cosine between a linear ranker and the offline RankNet over rounds",
        "linear rankers that were run with trace_cosine=true",
    ),
    "violations": Kind(
        "certain pairs that the shown list reverses over rounds, smoothed", _BLOCKS, ["window"], module="blocks"
    ),
    "running_time": Kind("milliseconds per round", options=["unit"], reading=_BARS, module="bars"),
    "bar": Kind("one metric by group, with intervals", options=["metric"], reading=_BARS, module="bars"),
    "differences": Kind(
        "paired differences of one metric to a baseline, with intervals",
        "a baseline, such as --baseline pdgd, and other rows with its folds and seeds",
        ["baseline", "metric", "test"],
        "Dots are means over the (fold, seed) that both have, filled where the difference is significant after Holm's "
        "correction; lines are {}.",
        module="bars",
    ),
    "trial": Kind(
        "sum over pages of a measure minus that of a baseline",
        "a baseline, such as --baseline fixed, and other rows with its folds and seeds",
        ["baseline", "metric", "every"],
        "Lines are means over the (fold, seed) that both have; bands are {}, cut where they leave the panel.",
        module="trial",
    ),
    "by_setting": Kind(
        "one metric by a setting, a curve for runs that differ in it alone",
        "runs with several numbers for the setting: --option setting=NAME, such as ranker.l2",
        ["setting", "metric"],
        module="by_setting",
    ),
    "lda": Kind(
        "documents by grade on two axes: features against what a network makes of them",
        "the ranker.pt of a ranker with a network, such as ranker=olranknet, and its dataset",
        ["documents", "seed", "config_dir"],
        "",
        module="lda",
    ),
}


def reading(kind: str, groups: Sequence[Group], look: Look) -> tuple[str, str]:
    """Return what the intervals of a figure are, and how many groups have none by default: they have too few units."""
    text = "Means without intervals." if look.bands == "none" else KINDS[kind].reading
    if "{}" not in text:
        return text, ""
    what = _BANDS.get(look.bands, "95% intervals of the mean")
    over = "runs" if kind == "running_time" else look.units or groups[0].units.over(groups)
    text = text.format(f"{what} over {over}")
    few = sum(_units(kind, group, look) < LEAST_UNITS for group in groups)
    if look.bands is not None or few == 0:
        return text, ""
    unit = "runs" if kind == "running_time" else "seeds or folds"
    return text, f"No intervals for {few} of {len(groups)} groups: they have fewer than {LEAST_UNITS} {unit}."


def _units(kind: str, group: Group, look: Look) -> int:
    """Return how many values the interval of a group is computed from."""
    if kind == "running_time":
        return len(group.runs)
    return group.units.independent_count(group, look.units)
