"""What the values of a fit are of: the users with a test review, of whom some are in several splits of the reviews."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ol2r_cli.plugins.recommend.fit import PER_USER
from ol2r_cli.report.estimates import Estimate, Values, clusters
from ol2r_cli.report.units import Measured, Units, as_units
from ol2r_cli.run.run import Run


class Users(Units):
    """A metric has a value for each (user, split), the mean over seeds.

    All values count the same. Those of a user are a cluster, so that users are the units: the interval is that of a
    mean of clusters of unequal sizes.
    """

    pair = "(user, split)"
    tested = "users"

    def read(self, run: Run) -> dict[int, dict[str, Any]]:
        """Return the metrics of each user."""
        super().read(run)  # ValueError for a damaged run
        return {row.pop("user"): row for row in run.table(PER_USER).to_dicts()}

    def values(self, group: Measured, metric: str) -> Values:
        """Return a metric by (user, split)."""
        of_seeds: dict[tuple[Any, int], list[float]] = {}
        for run in group.runs:
            for user, metrics in run.values.items():
                value = metrics.get(metric)
                if value is not None:
                    of_seeds.setdefault((user, run.fold), []).append(value)
        return {unit: fmean(values) for unit, values in of_seeds.items()}

    def independent(self, values: Values) -> list[float]:
        """Return the mean m of the n values, for each of the u users plus u / n times the sum of its values less m.

        These have the mean m, and their standard error is that of a mean of clusters of unequal sizes (Cameron and
        Miller, 2015, with the factor u / (u - 1)). Where each user has one value, they are the values.
        """
        users, mean = clusters(values), fmean(values.values())
        share = len(users) / len(values)
        return [mean + share * math.fsum(value - mean for value in of_user) for of_user in users.values()]

    def count(self, group: Measured) -> int:
        """Return the number of (user, split) with the first metric."""
        return len(group.values(group.metrics[0]))

    def counted(self, group: Measured) -> str:
        """Return the number."""
        return str(group.n)

    def independent_count(self, group: Measured, units: str | None) -> int:
        """Return the number of values."""
        return group.n

    def name(self, estimate: Estimate) -> str:
        """Return `users`."""
        return "users"

    def pairs(self, estimate: Estimate) -> str:
        """Return the number of pairs, with that of users where it is another: `90 of 60 users`."""
        return f"{estimate.n} of {estimate.clusters} users" if estimate.clusters < estimate.n else str(estimate.n)

    def over(self, groups: Sequence[Measured]) -> str:
        """Return `users`."""
        return "users"

    def note(self, groups: Sequence[Measured]) -> tuple[str, str]:
        """Return what each value is of, and the units of intervals where there are several splits."""
        has_folds = any(len(group.seeds) > 1 for group in groups)
        interval = f" with the {as_units('users')}, whatever the number of splits" if has_folds else ""
        return "user of each split, the mean over seeds", interval

    def below_table(self, groups: Sequence[Measured]) -> str:
        """Return over what the intervals are, and what n counts."""
        return "users; n counts (user, split)."
