"""What the values of a metric are of, and how reports combine and name them: seeds, and the folds that share them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ol2r_cli.report.estimates import Estimate, Values, fold_means
from ol2r_cli.run.run import Run
from ol2r_cli.text.formatting import plural


class Measured(Protocol):
    """What units read of a group of runs: see `Group`."""

    @property
    def runs(self) -> Sequence[Any]:
        """Return its finished runs."""

    @property
    def seeds(self) -> Mapping[Any, Collection[int]]:
        """Return the seeds of each fold."""

    @property
    def metrics(self) -> Sequence[str]:
        """Return the metrics of its runs."""

    @property
    def n(self) -> int:
        """Return the number of values."""

    def values(self, metric: str) -> Values:
        """Return a metric by key."""

    def new_seeds(self, records: Callable[[Any], bool]) -> Iterator[tuple[Any, Collection[int]]]:
        """Yield runs that record something, each with the seeds that no earlier one of its fold has."""


class Units:
    """The values of experiments. A kind of run with others has a subclass (`RunKind.units`).

    A value has a key (cluster, number): values of a cluster are not independent. pair: what a key is; tested:
    what both groups of a test have.
    """

    pair = "(fold, seed)"
    tested = "(fold, seed)"

    def read(self, run: Run) -> dict[int, dict[str, Any]]:
        """Return the metrics of each seed, None where one does not apply. ValueError for a damaged run."""
        columns = dict(run.summary_file["by_seed"])
        seeds = columns.pop("seed")
        if seeds != run.seeds:
            raise ValueError("summary.json must have the seeds of run.json")
        rows = zip(*columns.values(), strict=True)
        return {seed: dict(zip(columns, row, strict=True)) for seed, row in zip(seeds, rows, strict=True)}

    def values(self, group: Measured, metric: str) -> Values:
        """Return a metric by key, where it applies."""
        values = {}
        for run, seeds in group.new_seeds(lambda run: metric in run.metrics):
            for seed in seeds:
                value = run.values[seed][metric]
                if value is not None:
                    values[run.fold, seed] = value
        return values

    def independent(self, values: Values) -> list[float]:
        """Return a value for each cluster, whose mean is the estimate, and whose spread is that of independent ones."""
        return fold_means(values)

    def count(self, group: Measured) -> int:
        """Return how many values a group has."""
        return sum(map(len, group.seeds.values()))

    def counted(self, group: Measured) -> str:
        """Return the number in words of a table, such as `25 (5 folds x 5 seeds)`."""
        folds, sizes = len(group.seeds), {len(seeds) for seeds in group.seeds.values()}
        if folds == 1:
            return str(group.n)
        seeds = f" x {plural(max(sizes), 'seed')}" if len(sizes) == 1 else ""
        return f"{group.n} ({folds} folds{seeds})"

    def independent_count(self, group: Measured, units: str | None) -> int:
        """Return how many independent values an interval is over, with these `units` of a figure (None: the usual)."""
        by_seed = units == "seeds" or (units is None and len(group.seeds) == 1)
        return group.n if by_seed else len(group.seeds)

    def name(self, estimate: Estimate) -> str:
        """Return what the independent values of an estimate are."""
        return "folds" if estimate.clusters > 1 else "seeds"

    def pairs(self, estimate: Estimate) -> str:
        """Return the number of pairs of a difference, with their clusters: `25 in 5 folds`."""
        return f"{estimate.n} in {estimate.clusters} folds" if estimate.clusters > 1 else str(estimate.n)

    def over(self, groups: Sequence[Measured]) -> str:
        """Return over what the intervals of these groups are."""
        folds = [len(group.seeds) > 1 for group in groups]
        if not any(folds):
            return "seeds"
        return "folds" if all(folds) else "folds, or over seeds in rows of one fold"

    def note(self, groups: Sequence[Measured]) -> tuple[str, str]:
        """Return what each value is of, and over what the interval of a mean is, empty where the former says it."""
        over = self.over(groups)
        if over == "seeds":
            return "seed", ""
        mixed = " where there are several folds, else with the seeds" if over != "folds" else ""
        return "(fold, seed), every fold counting the same", f" with the {as_units('folds')}{mixed}"

    def below_table(self, groups: Sequence[Measured]) -> str:
        """Return over what the intervals of a table are, and what its column n counts."""
        over = self.over(groups)
        return "seeds, of which there are n." if over == "seeds" else f"{over}; n counts (fold, seed)."


SEEDS = Units()


def as_units(first: str, *others: str) -> str:
    """Return the units of an interval or a test with their degrees of freedom."""
    text = f"{first} as units (degrees of freedom: {first} - 1)"
    return ", or ".join([text, *(f"{unit} as units ({unit} - 1)" for unit in others)])
