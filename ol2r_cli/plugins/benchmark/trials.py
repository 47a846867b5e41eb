"""Conditions and trials: which settings a recipe plays for one line of a figure or row of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from ol2r_cli.config.grammar import expand
from ol2r_cli.plugins.benchmark.overrides import Overrides
from ol2r_cli.report.run_groups import Group

# The aims for which a benchmark chooses settings, each by the mean of a metric of the choosing runs.
AIMS = {"offline": "validation_ndcg_10", "online": "cumulative_ndcg"}
# Further ones, of a benchmark that asks what it costs to choose without labels: by what clicks on validation queries
# say (`report.click_values`), and by their number.
BY_CLICKS = {"clicks": "click_dcg_10", "raw": "clicks_a_session"}


def aim_of(metric: str) -> str:
    """Return for which aim settings are chosen where a metric is compared: offline for a metric of test queries."""
    return "offline" if metric.startswith("test_") else "online"


class Condition(NamedTuple):
    """One line of a figure or row of a table: a competitor on a dataset (the title of a slot) under a click model.

    aim: for which its settings are chosen, one of `AIMS`; '' where one choice serves both, or there is none.
    point: the value of `Competitor.over`. click: empty where runs have no click model.
    """

    slot: str
    click: str
    competitor: str
    aim: str = ""
    point: str = ""


@dataclass(frozen=True, eq=False)
class Trial:
    """One choice of settings under a condition.

    words: the overrides of its runs on one line, which may list several values: dataset.fold=1,2.
    """

    condition: Condition
    settings: Overrides
    words: tuple[str, ...]

    @cached_property
    def runs(self) -> list[tuple[str, ...]]:
        """Return the overrides of its runs, one run for each fold."""
        return list(product(*map(expand, self.words)))


class PlayedTrial(NamedTuple):
    """A trial whose runs have finished, and the group of its runs."""

    trial: Trial
    group: Group

    @property
    def settings(self) -> Overrides:
        """Return the settings of the trial."""
        return self.trial.settings
