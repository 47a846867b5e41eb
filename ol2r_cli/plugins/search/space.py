"""What a search draws: intervals such as `ranker.l2=log(1e-4,10)` and options such as `ranker=pairrank,pdgd`.

It is checked before the first trial, with the metric by which trials are compared: a mean of summary.json over the
replicas, never one of the test split. The default is validation NDCG at the cutoff of `main_cutoff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ol2r_cli.columns import main_cutoff
from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.composer import Composer, Composition, check_grid
from ol2r_cli.config.grammar import parse, with_one_value
from ol2r_cli.config.overrides import full_names, split_launcher, split_search_path
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.sweep.plan import Plan
from ol2r_cli.text.formatting import must_be_one_of

if TYPE_CHECKING:
    from optuna.trial import Trial


FORMS = "float(LOW,HIGH), log(LOW,HIGH), int(LOW,HIGH), logint(LOW,HIGH) or choice(A,B,..)"
DIGITS = 3  # significant digits of a number that is drawn, which makes it short to type
ROLES = ("ranker", "exploration", "fairness")  # whose settings may be searched; the other groups define the task
MAX_COMBINATIONS = 10_000  # a space with more combinations is treated like one of real numbers
Direction = Literal["minimize", "maximize"]

_VALIDATION = tuple(f"validation_ndcg_{cutoff}" for cutoff in (1, 3, 5, 10))
_ONLINE = ("online_ndcg", "online_ndcg_last_tenth", "cumulative_ndcg")
_MINIMISED = ("regret", "unfairness", "violations")
METRICS = (*_VALIDATION, *_ONLINE, *_MINIMISED)
_AT_CUTOFF = re.compile(r"validation_ndcg_\d+|online_ndcg_\d+(_last_tenth)?|cumulative_ndcg_\d+")


@dataclass(frozen=True)
class SearchRange:
    """What a setting is drawn from: `options`, each as typed, or numbers from `low` to `high`, both included.

    log: uniform in the logarithm. whole: whole numbers only.
    """

    name: str
    options: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    @property
    def corners(self) -> tuple[str, ...]:
        """Return all options, or both ends as typed: if these are allowed, so are all values between them."""
        return self.options or (self.typed(self.low), self.typed(self.high))

    @property
    def values(self) -> Sequence[Any] | None:
        """Return all values; None for real numbers."""
        return range(int(self.low), int(self.high) + 1) if self.whole else self.options or None

    def suggest(self, trial: Trial) -> str:
        """Return a value drawn by Optuna, as typed."""
        if self.options:
            return str(trial.suggest_categorical(self.name, self.options))
        if self.whole:
            return self.typed(trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log))
        return self.typed(trial.suggest_float(self.name, self.low, self.high, log=self.log))

    def typed(self, value: Any) -> str:
        """Return a value as typed: a whole number, or a number with three significant digits such as 0.00345."""
        if self.options or self.whole:
            return str(value)
        rounded = min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)
        return repr(rounded).removesuffix(".0")


def read_range(word: str, choices: Sequence[str] = ()) -> SearchRange | None:
    """Return the range in `SETTING=RANGE`, or None for an ordinary override; values separated by commas are options.

    `choices` are the names among which `glob(..)` selects. ValueError for a range that cannot be drawn from.
    """
    name, _, value = word.partition("=")
    call = re.fullmatch(r"(float|log|int|logint)\((.*)\)", value)
    if call:
        return _interval(name, call[1], call[2].split(","), value)
    try:
        override = parse(word)
    except ValueError as error:
        raise ValueError(f"{error}; a range is {FORMS}") from None
    if not override.is_sweep_override():
        return None
    if "shuffle(" in value:  # another order each time, which would be another search
        raise ValueError(f"{name} must have its values without shuffle(..), since a search draws them, got {value}")
    options = tuple(option.partition("=")[2] for option in with_one_value(override, choices))
    if len(set(options)) != len(options) or len(options) < 2:
        raise ValueError(f"{name} must be choice(A,B,..) of two or more different values, got {value}")
    return SearchRange(name, options)


def _interval(name: str, form: str, ends: Sequence[str], value: str) -> SearchRange:
    """Return the range of a form such as `logint`; ValueError for ends that are no interval."""
    log, whole = form.startswith("log"), form.endswith("int")
    try:
        low, high = (int(end) if whole else float(end) for end in ends)
    except ValueError:
        numbers = "whole numbers" if whole else "numbers"
        raise ValueError(f"{name} must be {form}(LOW,HIGH) of two {numbers}, got {value}") from None
    if not -1e300 < low < high < 1e300:
        raise ValueError(f"{name} must be {form}(LOW,HIGH) with LOW below HIGH, got {value}")
    if log and low <= 0:
        raise ValueError(f"{name} must be {form}(LOW,HIGH) with LOW above 0, got {value}")
    return SearchRange(name, (), low, high, log, whole)


class Space:
    """The arguments of `ol2r search`: `fixed` overrides that all trials share, `ranges` that trials draw from, and the
    words of the `launcher`.

    When the ranker is searched (`ranker=pairrank,pdgd`), a trial leaves out the ranges of settings that its ranker does
    not have. ValueError for arguments that are no space; a range that no choice has is found by `check_space`.
    """

    def __init__(self, words: Sequence[str]):
        self.composer = Composer(words)
        self.catalogue = self.composer.catalogue
        ranges: list[SearchRange] = []
        self.fixed: list[str] = []
        typed, self.launcher = split_launcher(full_names(words, self.catalogue.choices))
        overrides = split_search_path(typed)[0]
        for word in typed:
            choices = [*self.catalogue.choices.get(word.partition("=")[0], ())]
            range = read_range(word, choices) if word in overrides else None
            if range is None:
                self.fixed.append(word)
            else:
                ranges.append(range)
        self.ranges = sorted(ranges, key=_order)
        self._present: dict[tuple[str, ...], set[str]] = {}  # settings and groups, by choices
        self._check_names()

    def _typed_names(self) -> list[str]:
        """Return the names of all ranges and fixed overrides."""
        return [range.name for range in self.ranges] + [word.partition("=")[0].lstrip("+") for word in self.fixed]

    def _check_names(self) -> None:
        """Raise ValueError without a range, and for one of a setting that cannot be searched or is typed twice."""
        if not self.ranges:
            raise ValueError("a search needs a range: type SETTING=RANGE, such as 'ranker.l2=log(1e-4,10)'")
        typed = self._typed_names()
        for range in self.ranges:
            if re.split("[./]", range.name)[0] not in ROLES:
                raise ValueError(
                    f"{range.name} must have one value: a search chooses settings of {', '.join(ROLES)}; other "
                    "differences make another task: use `ol2r run -m`"
                )
            if typed.count(range.name) > 1:
                raise ValueError(f"{range.name} must be given once: as a range or as a value")

    def composed(self) -> Composition:
        """Return the configuration without the ranges of settings.

        ValueError for a preset with a grid of settings that have neither a range nor a value.
        """
        composition = self.composer([*self.fixed, *next(self.choices())])
        check_grid(composition, self._typed_names(), "give a range or a value to each")
        return composition

    def applies(self, range: SearchRange, overrides: Sequence[str]) -> bool:
        """Return whether the choices among some overrides have the setting of a range."""
        choices = tuple(word for word in overrides if _is_group(word))
        if choices not in self._present:
            words = [*self.fixed, *choices]
            settings = (name for name, _ in dotted(self.catalogue.tree(words)))
            self._present[choices] = {*settings, *self.catalogue.chosen(words)}
        return range.name in self._present[choices]

    def draw(self, trial: Trial) -> list[str]:
        """Return the overrides of a trial, drawn by Optuna; a trial that was drawn before keeps its values."""
        overrides: list[str] = []
        for range in self.ranges:
            if self.applies(range, overrides):
                overrides.append(f"{range.name}={range.suggest(trial)}")
        return overrides

    def overrides(self, values: Mapping[str, Any]) -> list[str]:
        """Return the overrides for values by name, as Optuna stores the parameters of a trial."""
        return [f"{range.name}={range.typed(values[range.name])}" for range in self.ranges if range.name in values]

    @property
    def settings(self) -> list[SearchRange]:
        """Return the ranges of settings, without those of groups."""
        return [range for range in self.ranges if not _is_group(range.name)]

    def choices(self) -> Iterator[list[str]]:
        """Yield every combination of the groups that are searched; one empty combination when none is."""
        groups = [range for range in self.ranges if _is_group(range.name)]
        yield from map(self.overrides, self._combinations(groups, {}))

    def combinations(self) -> list[dict[str, Any]] | None:
        """Return the values of every possible trial by name; None for too many, or where a range has real numbers."""
        if any(range.values is None for range in self.ranges):
            return None
        listed = list(islice(self._combinations(self.ranges, {}), MAX_COMBINATIONS + 1))
        return listed if len(listed) <= MAX_COMBINATIONS else None

    def _combinations(self, ranges: Sequence[SearchRange], values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield every combination of values of `ranges` that continues `values`."""
        if not ranges:
            yield dict(values)
        elif not self.applies(ranges[0], self.overrides(values)):
            yield from self._combinations(ranges[1:], values)
        else:
            for value in ranges[0].values or ():
                yield from self._combinations(ranges[1:], {**values, ranges[0].name: value})


def _is_group(word: str) -> bool:
    """Return whether a name, or the name in an override, is a group and not a setting."""
    return "." not in word.partition("=")[0]


def _order(range: SearchRange) -> tuple[bool, bool, bool]:
    """Return a key for the order of drawing: ranker, other groups, ranker/model, then the settings that these have."""
    return not _is_group(range.name), "/" in range.name, range.name.partition(".")[0] != "ranker"


def direction(metric: str) -> Direction:
    """Return the direction in which a metric is better; ValueError for a metric that cannot be searched by."""
    if metric.startswith("test_"):
        raise ValueError(f"--metric must not look at the test split, got {metric}: type {_VALIDATION[-1]}, the default")
    if metric not in METRICS and not _AT_CUTOFF.fullmatch(metric):
        raise ValueError(must_be_one_of("--metric", METRICS, metric))
    return "minimize" if metric in _MINIMISED else "maximize"


def check_space(space: Space, metric: str, launcher: Sequence[str] = ()) -> Plan:
    """Return the corners of a space as the jobs of a sweep; ValueError for the first that is no experiment.

    They are those of one range at a time, for every combination of groups (`ranker=pairrank,pdgd`). `launcher` are the
    words that say where they would run.
    """
    jobs: list[list[str]] = []
    for choices in space.choices():
        jobs += _corner_jobs(space, choices)
    plan = Plan([[*job, *launcher] for job in jobs], space.composer, check=partial(check_metric, metric))
    if plan.bad:
        raise ValueError(plan.bad[0].reason)
    _check_used(space)
    return plan


def _corner_jobs(space: Space, choices: Sequence[str]) -> Iterator[list[str]]:
    """Yield the overrides with all ranges of some choices at their first corner, then with one range at another."""
    ranges = [range for range in space.settings if space.applies(range, choices)]
    first = [*space.fixed, *choices, *(f"{range.name}={range.corners[0]}" for range in ranges)]
    yield first
    for range in ranges:
        others = [word for word in first if not word.startswith(f"{range.name}=")]
        for corner in range.corners[1:]:
            yield [*others, f"{range.name}={corner}"]


def _check_used(space: Space) -> None:
    """Raise ValueError for a range of a setting or group that no choice of the search has."""
    combinations = list(space.choices())
    for range in space.ranges:
        if not any(space.applies(range, choices) for choices in combinations):
            space.composer([*space.fixed, *combinations[0], f"{range.name}={range.corners[0]}"])  # says what is wrong
            raise ValueError(f"{range.name} must be a setting of what is searched: see `ol2r list`")


def check_metric(metric: str, experiment: Experiment) -> None:
    """Raise ValueError, with the override to type, when the experiment's summary would not have the metric."""
    at_cutoff = f"ndcg@{main_cutoff([metric.removesuffix('_last_tenth')])}"
    name = "ndcg" if metric in METRICS else at_cutoff
    if "ndcg" in metric and not {name, at_cutoff} & experiment.measures.keys():
        raise ValueError(f"measures must have {name} for --metric {metric}: leave measures out, or add {name}")
    if metric.startswith("validation_"):
        if not experiment.roles["ranker"].generalises:
            name = experiment.choices["ranker"]
            raise ValueError(f"ranker={name} is not evaluated on queries that are new to it: type --metric online_ndcg")
        if "validation" not in experiment.settings["evaluate_on"]:
            raise ValueError(f"evaluate_on must have validation for --metric {metric}: leave evaluate_on out")
        if not len(experiment.dataset.splits.get("validation", ())):
            raise ValueError(f"dataset must have a validation split for --metric {metric}, got none")
    if metric == "regret" and "regret" not in experiment.measures:
        raise ValueError("measures must have regret for --metric regret: type 'measures=[ndcg,regret]'")
    if metric == "unfairness" and experiment.dataset.group is None:
        raise ValueError("dataset must have two groups for --metric unfairness: type 'dataset.group={..}'")
