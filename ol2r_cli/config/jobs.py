"""The jobs that overrides with several values stand for: all combinations, but for settings that advance together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from hydra.core.override_parser.types import Override

from ol2r_cli.config.grammar import MOST, with_one_value

Axis = tuple[str, ...]  # the settings of a sweep that advance together; most are alone


def jobs_of(
    overrides: Sequence[Override], choices: Mapping[str, Iterable[str]], paired: Iterable[Sequence[str]] = ()
) -> list[list[str]]:
    """Return the overrides of every job: the product of all values, the last setting changing fastest.

    Of a setting that is there twice the last override decides. `choices` are the names of each group, among which
    `glob(..)` selects. The settings in each group of `paired` advance together; ValueError where these have different
    numbers of values, and for more jobs than `MOST`.
    """
    values: dict[str, list[str]] = {}  # of each setting, as overrides
    for override in overrides:
        names = sorted(choices.get(str(override.key_or_group), ()))
        values[override.get_key_element()] = with_one_value(override, names)
    axis_of = _axes(paired, values)
    axes = list(dict.fromkeys(axis_of.get(name, (name,)) for name in values))
    count = math.prod(len(values[axis[0]]) for axis in axes)
    if count > MOST:
        raise ValueError(f"a sweep must have at most {MOST:,} jobs, got {count:,}: type fewer values")
    jobs = []
    for steps in itertools.product(*(range(len(values[axis[0]])) for axis in axes)):
        step_of = {name: step for axis, step in zip(axes, steps, strict=True) for name in axis}
        jobs.append([values[name][step_of[name]] for name in values])
    return jobs


def check_repeated(overrides: Sequence[Override]) -> None:
    """Raise ValueError for a setting that is there twice, of which one has several values: they would be dropped."""
    earlier: dict[str, Override] = {}
    for override in overrides:
        name = override.get_key_element().lstrip("+")
        before = earlier.get(name, override)
        is_sweep = before.is_sweep_override() or override.is_sweep_override()
        if is_sweep and before.input_line != override.input_line:
            both = f"{before.input_line} and {override.input_line}"
            raise ValueError(f"{name} is typed twice, {both}: type all its values at once, or leave one out")
        earlier[name] = override


def _axes(paired: Iterable[Sequence[str]], values: Mapping[str, Sequence[str]]) -> dict[str, Axis]:
    """Return the settings of a sweep that advance together, by each of their names, in the order of the sweep."""
    axis_of: dict[str, Axis] = {}
    for names in paired:
        for name in names:
            if name not in values:
                raise ValueError(f"--paired {','.join(names)}: there is no {name}=.. in this sweep")
            if name in axis_of or names.count(name) > 1:
                raise ValueError(f"--paired may name {name} once: type --paired with all that go together")
        if len({len(values[name]) for name in names}) > 1:
            counts = ", ".join(f"{name} has {len(values[name])}" for name in names)
            raise ValueError(f"--paired {','.join(names)} must have equally many values: {counts}")
        axis_of |= dict.fromkeys(names, tuple(name for name in values if name in names))
    return axis_of
