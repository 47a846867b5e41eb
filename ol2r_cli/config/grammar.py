"""Overrides as Hydra's grammar reads them, through `hydra.core.override_parser`: the values that they list, and the
jobs that overrides with several values stand for, all combinations but for settings that advance together.

The functions of sweeps, such as `range(..)`, do what Hydra's documentation says ("Extended Override syntax"). Hydra's
code sorts some ranges to other numbers, adds steps in binary, and loses an order or quotes.
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from hydra._internal.grammar import grammar_functions
from hydra._internal.grammar.functions import Functions
from hydra.core.override_parser import overrides_parser, overrides_visitor
from hydra.core.override_parser.overrides_parser import OverridesParser, create_functions
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, RangeSweep, Sweep
from hydra.errors import HydraException

from ol2r_cli.config.mistyped import uncomputable, unreadable
from ol2r_cli.config.overrides import as_typed, name_of
from ol2r_cli.text.formatting import must_be_one_of
from ol2r_cli.text.program import if_there

MOST = 1_000_000  # values of a range, and jobs of a sweep

if not __debug__:  # Hydra's parser takes steps in assert statements, which PYTHONOPTIMIZE leaves out
    source = inspect.getsource(overrides_visitor)
    exec(compile(source, str(overrides_visitor.__file__), "exec", optimize=0), vars(overrides_visitor))
    vars(overrides_parser)["HydraOverrideVisitor"] = overrides_visitor.HydraOverrideVisitor


@cache
def parse(word: str) -> Override:
    """Return what Hydra reads in an override; ValueError for one that cannot be read."""
    if word.splitlines() not in ([word], []):
        raise ValueError(f"{word!r} must be one line: leave out the line break")
    if not name_of(word):
        raise ValueError(unreadable(word))
    try:
        return OverridesParser(_functions()).parse_override(word)
    except HydraException as error:
        raise ValueError(uncomputable(word, str(error), _functions().functions) or unreadable(word)) from None


def with_one_value(override: Override, choices: Sequence[str] = ()) -> list[str]:
    """Return one override for each value of an override; `choices` are the names among which `glob(..)` selects.

    ValueError for an interval, which lists no values, and where there is no value or more than `MOST`.
    """
    key, typed = override.get_key_element(), str(override.input_line)
    value: Any = override.value()
    if not override.is_sweep_override():
        is_drawn = isinstance(value, list) and "shuffle(" in typed  # each reading would draw another order
        return [f"{key}={_typed(override._value)}" if is_drawn else typed]
    if isinstance(value, Glob):
        names = value.filter(list(choices))
        if not choices:
            raise ValueError(f"{typed} must list its values: glob(..) chooses among those of a group, such as ranker")
        if not names:
            raise ValueError(must_be_one_of(key, choices, typed.partition("=")[2]))
        return [f"{key}={name}" for name in names]
    if not override.is_discrete_sweep():
        raise ValueError(f"{typed} must list its values, as in {key}=1,2,3{if_there(': `ol2r search` tries ranges')}")
    try:
        values = _listed(value).list
    except ValueError as error:
        raise ValueError(f"{key}={error}") from None
    if any(isinstance(element, Sweep | Glob) for element in values):
        raise ValueError(f"{typed} must be values, or one function with all of them, such as {key}=range(0,3)")
    return [f"{key}={_typed(element)}" for element in (random.sample(values, len(values)) if value.shuffle else values)]


def expand(word: str) -> list[str]:
    """Return the overrides with one value each that an override with several values (`seed=1,2`) stands for.

    ValueError for an override that cannot be read.
    """
    return with_one_value(parse(word))


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


def _axes(paired: Iterable[Sequence[str]], values: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the settings of a sweep that advance together, by each of their names, in the order of the sweep."""
    axis_of: dict[str, tuple[str, ...]] = {}
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


@cache
def _functions() -> Functions:
    """Return Hydra's functions, those of sweeps as they are documented."""
    functions = create_functions()
    for name in ("int", "float", "str", "bool"):
        functions.functions[name] = _in_the_order_given(functions.functions[name])
    functions.functions["sort"] = _sort
    functions.functions["choice"] = grammar_functions.choice
    functions.definitions["choice"] = inspect.signature(lambda *values: None)  # of any type, also null, as in a,b
    return functions


def _in_the_order_given(cast: Callable[..., Any]) -> Callable[..., Any]:
    """Return a cast that leaves shuffled values shuffled."""

    def in_order(*values: Any, **value: Any) -> Any:
        made = cast(*values, **value)
        if isinstance(made, ChoiceSweep | RangeSweep):
            made.shuffle = any(getattr(given, "shuffle", False) for given in (*values, *value.values()))
        return made

    return in_order


def _sort(*values: Any, **named: Any) -> Any:
    """Return values in their order, those of a range, too, in place of another range, whatever shuffled them before."""
    given = [_listed(value) for value in values]
    made = grammar_functions.sort(*given, **{name: _listed(value) for name, value in named.items()})
    if isinstance(made, ChoiceSweep):
        made.shuffle = False
    return made


def _listed(value: Any) -> Any:
    """Return the numbers of a range as a choice, and anything else as it is; ValueError as `_numbers`."""
    return ChoiceSweep(list=[*_numbers(value)]) if isinstance(value, RangeSweep) else value


def _numbers(numbers: RangeSweep) -> list[int | float]:
    """Return start + i * step below stop (above it, where the step is negative), added as decimals, as they are typed.

    ValueError for no number at all, and for more than `MOST`.
    """
    assert numbers.start is not None  # as the stop, an argument of the function
    assert numbers.stop is not None
    ends = [numbers.start, numbers.stop, numbers.step]
    typed = f"range({','.join(map(str, ends[: 2 if numbers.step == 1 else 3]))})"
    if not all(math.isfinite(end) for end in ends) or not numbers.step:
        raise ValueError(f"{typed} must be range(START,STOP,STEP) of numbers, with a STEP that is not 0")
    start, stop, step = (Fraction(str(end if isinstance(end, float) else int(end))) for end in ends)
    count = math.ceil((stop - start) / step)
    if count <= 0:
        other = f"range({numbers.start},{numbers.stop},{-numbers.step})"
        hint = f"type {other}" if start != stop else "STOP itself is left out"
        raise ValueError(f"{typed} has no values: {hint}")
    if count > MOST:
        raise ValueError(f"{typed} must have at most {MOST:,} values, got {count:,}")
    as_number = int if all(isinstance(end, int) for end in ends) else float
    return [as_number(start + place * step) for place in range(count)]


def _typed(value: Any) -> str:
    """Return a value as it is typed, with quotes where text would be read as something else."""
    if isinstance(value, list):
        return f"[{','.join(map(_typed, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_typed(key)}:{_typed(content)}" for key, content in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    text = Override._get_value_element_as_str(value)
    is_text = isinstance(value, str) and not isinstance(parse(f"text={text}").value(), str)
    return as_typed(value) if is_text else text
