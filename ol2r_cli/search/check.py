"""The whole space before the first trial, so that a bad value is told at once and not after hours."""

from __future__ import annotations

from collections.abc import Sequence

from ol2r_cli.compose import build, compose
from ol2r_cli.search.objective import check_metric
from ol2r_cli.search.space import Space
from ol2r_cli.search.trial import configured


def check_space(space: Space, metric: str) -> None:
    """Compose and build the corners of the space; ValueError, of one line, for the first that is no experiment.

    For every combination of groups (`ranker=pairrank,pdgd`) the experiment is built once, with the first corner of each
    range; all other corners of a range are composed, and their roles built, one range at a time.
    """
    import torch

    from ol2r_cli.experiment import Experiment

    used: set[str] = set()
    with torch.inference_mode():
        for groups in space.choices():
            ranges = space.applying(groups)
            used.update(range.name for range in ranges)
            first = [*space.fixed, *groups, *(f"{range.name}={range.corners[0]}" for range in ranges)]
            experiment = Experiment(*configured(first))
            check_metric(metric, experiment)
            experiment.simulation()
            for range in ranges:
                others = [word for word in first if not word.startswith(f"{range.name}=")]
                for corner in range.corners[1:]:
                    _build_roles([*others, f"{range.name}={corner}"])
    _check_used(space, used)


def _build_roles(words: Sequence[str]) -> None:
    config, choices = configured(words)
    for group in ("ranker", "exploration", "fairness"):
        if group in choices:
            build(config[group])


def _check_used(space: Space, used: set[str]) -> None:
    """Raises ValueError, in the words of `ol2r run`, for a range that no combination of groups has."""
    groups = next(space.choices())
    for range in space.ranges:
        if range.name not in used and not any(word.startswith(f"{range.name}=") for word in groups):
            compose([*space.fixed, *groups, f"{range.name}={range.corners[0]}"])
            raise ValueError(f"{range.name} must be a setting of what is searched: see `ol2r list`")
