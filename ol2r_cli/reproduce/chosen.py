"""Choice of settings by validation: at every place, for every competitor, the cell with the best mean NDCG@10.

`ol2r_cli.report.select` does so for whatever lies below a folder, and never chooses settings of fairness, which make
the task another one there. Here it is known what competes, and a gain of FairCo is chosen as the paper chooses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ol2r_cli.report.groups import Group
from ol2r_cli.report.select import METRIC
from ol2r_cli.reproduce.protocol import Place, Trial
from ol2r_cli.reproduce.words import Words


def chosen(groups: Mapping[Trial, Group]) -> dict[Place, Words]:
    """The settings that did best on validation, of equals those that stand first in the grid.

    ValueError where a place was not evaluated on validation queries.
    """
    best: dict[Place, tuple[float, Trial]] = {}
    for trial, group in groups.items():
        estimate = group.estimate(METRIC)
        if estimate is None:
            raise ValueError(
                f"settings of {trial.place.competitor} are chosen by validation, which {group.runs[0].path} lacks: "
                "type dataset.validation=0.2"
            )
        if trial.place not in best or estimate.mean > best[trial.place][0]:
            best[trial.place] = (estimate.mean, trial)
    return {place: trial.settings for place, (_, trial) in best.items()}
